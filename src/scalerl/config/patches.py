"""Many patches of one config: what `load.patch` and `load.diff` do, for studies of hundreds of cells.

Used by `scalerl.study.plan`. The base is taken apart once, and parts that two configs share are not looked into: a cell
costs little more than its validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from scalerl.config.layers import KeyPath, leaves, nested, overlay
from scalerl.config.load import Changes, to_dict
from scalerl.config.refusal import refusal
from scalerl.config.run import RunConfig
from scalerl.config.schema import table_rules
from scalerl.errors import InputError


class Patches:
    """Of one base."""

    def __init__(self, base: RunConfig) -> None:
        self._base = to_dict(base)
        self._tags = table_rules(RunConfig)

    def apply(self, changes: Mapping[str, Any], where: str) -> RunConfig:
        """The base with some dotted keys changed; a changed tag resets its table to the variant's defaults."""
        values = overlay(self._base, nested(changes), self._tags)
        try:
            return RunConfig.model_validate(values)
        except ValidationError as error:
            found = refusal(error, RunConfig, values, {})
            raise InputError(found.what, found.value, found.allowed, where) from None


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    """As `load.diff`, of two configs as plain values: changed keys in the order of `old`, then those it has not."""
    return dict(sorted(_differences(old, new, ()), key=lambda change: change[1][0] is None))


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
            removed = _leaves(before, (*path, key))
            added = _leaves(after, (*path, key))
            for name in [*removed, *(name for name in added if name not in removed)]:
                yield name, (removed.get(name), added.get(name))


def _leaves(value: Any, path: KeyPath) -> dict[str, Any]:
    """The values below a key that only one side has, or has as a table."""
    if value is None:
        return {}
    if isinstance(value, Mapping) and value:
        return {".".join(below): leaf for below, leaf in leaves(value, path)}
    return {".".join(path): value}
