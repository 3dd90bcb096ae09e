"""Building a `RunConfig` from presets, a file and overrides, and comparing, patching and naming configs.

The door to `scalerl.config` for the command line (`load_run`), for studies (`patch`, `diff`) and for the run directory
(`to_json`, `from_json`, `digest`). Everything that is wrong with a config is an `InputError` from here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scalerl.config.base import EVERY_KEY
from scalerl.config.layers import (
    KeyPath,
    Layer,
    Table,
    check_plain,
    combine,
    file_layer,
    leaves,
    merge,
    nested,
    override_layers,
    preset_layer,
)
from scalerl.config.refusal import refusal
from scalerl.config.run import RunConfig
from scalerl.config.schema import table_rules
from scalerl.config.suites import suite_layer, with_suites
from scalerl.errors import InputError

Changes = dict[str, tuple[Any, Any]]
"""Dotted key -> (old, new); None stands for a key that does not exist on that side."""


@dataclass(frozen=True)
class Resolved:
    """A config, the presets it started from, and where each value came from."""

    config: RunConfig
    preset: RunConfig
    """The two presets alone, with the config's seed left at its default."""
    origins: Mapping[str, str]
    """Dotted key -> label of the layer that gave it; a key that is not here has its default."""

    @property
    def changes(self) -> Changes:
        """What the file and the overrides changed."""
        return diff(self.preset, self.config)


def load_run(
    recipe: str = "scalerl",
    scale: str = "laptop",
    *,
    file: str | Path | None = None,
    suites: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> Resolved:
    """Recipe preset, scale preset, the user's file, suites, then all `dotted.key=value` overrides together."""
    base = [preset_layer("recipe", recipe), preset_layer("scale", scale)]
    own = [] if file is None else [file_layer(file)]
    typed = override_layers(overrides)
    preset, _ = _build(base, [])
    config, origins = _build([*base, *own, *map(suite_layer, suites)], typed)
    return Resolved(config, preset, {".".join(path): label for path, label in origins.items()})


def patch(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """The config with some dotted keys changed; a changed tag resets its table to the variant's defaults."""
    layers = [Layer("the config", to_dict(config)), Layer("the patch", nested(changes))]
    return _build(layers, [])[0]


def diff(old: RunConfig, new: RunConfig) -> Changes:
    """Every dotted key whose value differs: those of `old` in the order of the config, then those it has not."""
    return differences(old, new, to_dict(old), to_dict(new))


def differences(
    old: RunConfig, new: RunConfig, old_values: Mapping[str, Any], new_values: Mapping[str, Any]
) -> Changes:
    """As `diff`, where `to_dict` of both is known already; parts that both share are not looked into."""
    changes = dict(sorted(_differences(old_values, new_values, ()), key=lambda change: change[1][0] is None))
    if not any(None in change for change in changes.values()):
        return changes
    before, after = _every_key(old), _every_key(new)  # a key that is not written at its default is there all the same
    return {
        key: (before.get(key) if was is None else was, after.get(key) if now is None else now)
        for key, (was, now) in changes.items()
    }


def _differences(
    old: Mapping[str, Any], new: Mapping[str, Any], path: KeyPath
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for key in [*old, *(key for key in new if key not in old)]:
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping) and before and after:
            yield from _differences(before, after, (*path, key))
        else:
            removed, added = _below(before, (*path, key)), _below(after, (*path, key))
            for name in [*removed, *(name for name in added if name not in removed)]:
                yield name, (removed.get(name), added.get(name))


def _below(value: Any, path: KeyPath) -> dict[str, Any]:
    """The values below a key that only one side has, or has as a table."""
    if isinstance(value, Mapping):
        return {".".join(below): leaf for below, leaf in leaves(value, path)}
    return {} if value is None else {".".join(path): value}


def _every_key(config: RunConfig) -> dict[str, Any]:
    """As `flatten`, with the keys too that are not written at their default."""
    return {".".join(path): value for path, value in leaves(config.model_dump(mode="json", context=EVERY_KEY))}


def flatten(config: RunConfig) -> dict[str, Any]:
    """Dotted key -> plain value, for every leaf."""
    return {".".join(path): value for path, value in leaves(to_dict(config))}


def to_dict(config: RunConfig) -> Table:
    """Plain JSON types, defaults included."""
    return config.model_dump(mode="json")


def to_json(config: RunConfig) -> str:
    """Readable JSON; `from_json` brings it back exactly."""
    return json.dumps(to_dict(config), indent=2, ensure_ascii=False) + "\n"


def from_json(text: str, where: str = "config.json") -> RunConfig:
    """A config that was saved with `to_json`."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})", allowed="a saved config", where=where) from None
    check_plain(values, where)
    return _validate(values, {}, where)


def digest(config: RunConfig) -> str:
    """SHA-256 of the config as canonical JSON: equal for equal configs, however they were written."""
    text = json.dumps(to_dict(config), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _build(layers: Sequence[Layer], overrides: Sequence[Layer]) -> tuple[RunConfig, dict[KeyPath, str]]:
    """Overrides act as one layer, so that their order does not matter to a changed tag."""
    tags = table_rules(RunConfig)
    together = [Layer("--set", combine(overrides))] if overrides else []
    values, origins = merge(list(map(with_suites, [*layers, *together])), tags)
    for layer in overrides:
        origins |= {path: layer.label for path, _ in leaves(layer.values)}
    return _validate(values, origins), origins


def _validate(values: Any, origins: Mapping[KeyPath, str], where: str | None = None) -> RunConfig:
    """`where` is named for values whose origin is not known one by one."""
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        found = refusal(error, RunConfig, values, origins)
        raise InputError(found.what, found.value, found.allowed, found.where or where) from None
