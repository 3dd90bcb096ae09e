"""From the options of `scalerl train` to a resolved config: for a new run, or for one that goes on.

Called by `train` and `sft`. The options --seed, --budget, --launcher, --trainers and --generators are short names for
keys of the config; giving a key both ways is an error, not a matter of order. What the keys mean is `scalerl.config`'s
business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalerl.cli.budget import parse_budget
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.config import Resolved, RunConfig

DEFAULT_RECIPE, DEFAULT_SCALE = "scalerl", "laptop"
TRAINERS_KEY = "scale.launcher.trainers"
GENERATORS_KEY = "scale.launcher.generators"
BUDGET_KEYS = ("scale.budget.unit", "scale.budget.amount")


@dataclass(frozen=True)
class Asked:
    """What the command line says about the config; None where it says nothing."""

    recipe: str | None = None
    scale: str | None = None
    config: str | None = None
    sets: tuple[str, ...] = ()
    seed: str | None = None
    budget: str | None = None
    launcher: str | None = None
    trainers: str | None = None
    generators: str | None = None
    suites: tuple[str, ...] = ()

    @property
    def from_presets(self) -> bool:
        """Something was said that only makes sense on top of presets."""
        return any(value is not None for value in (self.recipe, self.scale, self.config))

    def short_forms(self) -> dict[str, str]:
        """`dotted.key=value` -> the option that stands for it."""
        forms: dict[str, str] = {}
        if self.seed is not None:
            forms[f"seed={_whole(self.seed)}"] = f"--seed {self.seed}"
        if self.launcher is not None:
            forms[f"scale.launcher.kind={self.launcher}"] = f"--launcher {self.launcher}"
        if self.trainers is not None:
            forms[f"{TRAINERS_KEY}={self.trainers}"] = f"--trainers {self.trainers}"
        if self.generators is not None:
            forms[f"{GENERATORS_KEY}={self.generators}"] = f"--generators {self.generators}"
        if self.budget is not None:
            given = parse_budget(self.budget)
            values = (f'"{given.unit}"', repr(given.amount))
            forms |= {
                f"{key}={value}": f"--budget {self.budget}" for key, value in zip(BUDGET_KEYS, values, strict=True)
            }
        return forms


def resolve(asked: Asked) -> Resolved:
    """The config of a new run: presets, file, options."""
    from scalerl.config import load_run

    short = asked.short_forms()
    _refuse_both(asked.sets, short)
    names = {f"--set {text}": option for text, option in short.items()}
    presets = (asked.recipe or DEFAULT_RECIPE, asked.scale or DEFAULT_SCALE)
    try:
        resolved = load_run(*presets, file=asked.config, suites=asked.suites, overrides=[*asked.sets, *short])
    except InputError as error:
        raise InputError(error.what, error.value, error.allowed, names.get(error.where or "", error.where)) from None
    return replace(resolved, origins={key: names.get(label, label) for key, label in resolved.origins.items()})


def resolve_again(asked: Asked, saved: RunConfig) -> Resolved:
    """The config of a run that goes on, with the saved one in the place of the presets.

    Options alone change what was saved; with presets or a file they are the whole config, except for the budget where
    nothing is said about it. Whether it is still the same run is not asked here.
    """
    from scalerl.config import Resolved, patch

    if not asked.from_presets:
        return _changed(asked, saved)
    resolved = resolve(asked)
    kept = {
        "scale.checkpoint_every": saved.scale.checkpoint_every,
        TRAINERS_KEY: saved.scale.launcher.trainers,
        GENERATORS_KEY: saved.scale.launcher.generators,
    } | dict(zip(BUDGET_KEYS, (saved.scale.budget.unit, saved.scale.budget.amount), strict=True))
    silent = {key: value for key, value in kept.items() if not _said(key, resolved.origins)}
    return Resolved(patch(resolved.config, silent), saved, resolved.origins)


def _changed(asked: Asked, saved: RunConfig) -> Resolved:
    from scalerl.config import Resolved, patch
    from scalerl.config.layers import parse_override

    short = asked.short_forms()
    _refuse_both(asked.sets, short)
    labels = {text: f"--set {text}" for text in asked.sets} | short
    changes = suite_changes(asked.suites) | {
        ".".join(path): (value, label) for text, label in labels.items() for path, value in [parse_override(text)]
    }
    config = patch(saved, {key: value for key, (value, _) in changes.items()}) if changes else saved
    return Resolved(config, saved, {key: label for key, (_, label) in changes.items()})


def suite_changes(suites: Sequence[str]) -> dict[str, tuple[Any, str]]:
    """Dotted key -> the set, and the option that brought it."""
    from scalerl.config.run import set_key
    from scalerl.config.suites import suite_layer

    layers = {f"--suite {text}": suite_layer(text).values["scale"]["evaluation"]["downstream"] for text in suites}
    return {set_key(name): (one, label) for label, sets in layers.items() for name, one in sets.items()}


def default_folder(asked: Asked, seed: int | None = None) -> Path:
    """`runs/scalerl-laptop-seed0`; without a seed that of the options."""
    if seed is None:
        seed = 0 if asked.seed is None else _whole(asked.seed)
    recipe, scale = (Path(name).stem for name in (asked.recipe or DEFAULT_RECIPE, asked.scale or DEFAULT_SCALE))
    return Path("runs") / f"{recipe}-{scale}-seed{seed}"


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError("--seed", text, "a whole number of at least 0") from None


def _said(key: str, origins: Mapping[str, str]) -> bool:
    """Whether a file or an option gave the key, and not a preset."""
    return not origins.get(key, "scale preset").startswith("scale preset")


def _refuse_both(sets: tuple[str, ...], short: Mapping[str, str]) -> None:
    keys = {text.partition("=")[0]: option for text, option in short.items()}
    for text in sets:
        key = text.partition("=")[0].strip()
        if key in keys:
            raise InputError(f"{key} is given twice", f"{keys[key]} and --set {text}", "one of the two")
