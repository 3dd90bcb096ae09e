"""The tables of a `study.toml` as frozen models: base, cells, sweeps, fit, race, trainer.

Put together by `study`, read by `scalerl.study`. Here only the form is checked: whether the dotted keys of a cell exist
is decided against the base, by `scalerl.study.plan`.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, Strict, model_validator

from scalerl.config.base import Frozen, Name, NonNegative, Positive, impossible
from scalerl.config.layers import leaves

BASE = "base"
"""The cell that all others are compared with; no other may be called so."""
OpenShare = Annotated[float, Field(gt=0, lt=1)]


def _dotted(values: object) -> object:
    """Nested tables as dotted keys, so that `set.scale.batch.prompts = 8` and `"scale.batch.prompts" = 8` are one."""
    if not isinstance(values, Mapping):
        return values
    flat = {".".join(path): value for path, value in leaves(values)}
    if not all(map(_is_plain, flat.values())):
        raise ValueError("dates, infinity and NaN have no place in a config")
    return flat


def _is_plain(value: object) -> bool:
    """What JSON can hold; of tables only an empty one is a value."""
    if isinstance(value, Mapping):
        return not value
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


Values = Annotated[dict[str, Any], BeforeValidator(_dotted)]
"""Dotted key -> value; for a command the names of its parameters."""


class Base(Frozen):
    """What every cell is compared with."""

    recipe: Name = "scalerl"
    """Recipe preset, or a .toml file."""
    scale: Name = "study"
    """Scale preset, or a .toml file."""
    set: Values = Field(default={})
    """Changes of the two presets; all parameters of a command."""


class CellConfig(Frozen):
    """One choice: the base with a patch."""

    name: Name
    """Unique in the study."""
    recipe: str = ""
    """Recipe preset or .toml file that replaces the base's, with its changes under `recipe`; empty keeps it."""
    set: Values = Field(default={})
    """What differs from the base."""
    paper: str = ""
    """What the paper found for this choice; empty if it says nothing."""


class Sweep(Frozen):
    """Several cells that differ in the value of one key, or in tables of several values."""

    name: str = ""
    """What the cells are called, followed by the value; empty: the key."""
    key: str = ""
    """The dotted key that takes each of the values; empty: the values are tables."""
    values: Annotated[tuple[Any, ...], Strict(False)]
    """Values of the key, or tables of dotted keys, in which `name` and `paper` may stand too."""
    paper: str = ""
    """What the paper found for these choices."""

    @model_validator(mode="before")
    @classmethod
    def _has_values(cls, data: Any) -> Any:
        values = data.get("values") if isinstance(data, Mapping) else (0,)
        if not isinstance(values, list | tuple) or not values:
            raise impossible("values", "nothing" if values is None else values, "a list of at least one value")
        for value in values:
            flat = [leaf for _, leaf in leaves(value)] if isinstance(value, Mapping) else [value]
            if not all(map(_is_plain, flat)):
                raise impossible("values", str(value), "numbers, texts, true and false, and lists or tables of them")
        return data

    @model_validator(mode="after")
    def _has_a_name(self) -> Self:
        if not self.key and not self.name:
            raise impossible("key", "", "a dotted key, or a name for values that are tables", "name")
        for value in self.values:
            if isinstance(value, Mapping) == bool(self.key):
                allowed = "plain values with a key, or tables with a name and without a key"
                raise impossible("values", value, allowed, "key")
        return self

    def cells(self) -> list[CellConfig]:
        """One cell for each value, in their order."""
        return [self._joint(value) if isinstance(value, Mapping) else self._single(value) for value in self.values]

    def _single(self, value: Any) -> CellConfig:
        return CellConfig(name=f"{self.name or self.key}={_shown(value)}", set={self.key: value}, paper=self.paper)

    def _joint(self, table: Mapping[str, Any]) -> CellConfig:
        changes = dict(leaves({key: value for key, value in table.items() if key not in {"name", "paper"}}))
        words = [f"{'.'.join(path).rpartition('.')[2]}={_shown(value)}" for path, value in changes.items()]
        return CellConfig(
            name=f"{self.name}={table.get('name') or ','.join(words)}",
            set={".".join(path): value for path, value in changes.items()},
            paper=table.get("paper", self.paper),
        )


class FitSettings(Frozen):
    """How curves are fitted and compared."""

    x: Literal["flops", "tokens", "device_hours", "steps"] = "flops"
    """Compute on the x axis (a command's is `runner.x`)."""
    share: OpenShare = 0.5
    """The part of each curve that is fitted for the extrapolation table; the rest is forecast."""
    level: OpenShare = 0.8
    """Probability that an interval holds."""
    margin: NonNegative = 0.02
    """Ceilings this close count as equal, as in the paper."""


class PruneSettings(Frozen):
    """The race, where it is asked for: at each rung all cells are judged together, and hopeless ones are stopped."""

    rungs: Annotated[tuple[OpenShare, ...], Strict(False)] = (0.3, 0.5, 0.7)
    """Shares of the budget at which cells are judged, rising."""
    delta: Positive = 0.02
    """A cell within this of the best at the full budget is as good as the best."""
    threshold: OpenShare = 0.05
    """A cell whose chance of that is below this is stopped."""

    @model_validator(mode="before")
    @classmethod
    def _rising(cls, data: Any) -> Any:
        rungs = data.get("rungs", (0.5,)) if isinstance(data, Mapping) else (0.5,)
        allowed = "a list of shares of the budget, rising, each above 0 and below 1"
        if not isinstance(rungs, list | tuple) or not rungs:
            raise impossible("rungs", rungs, allowed)
        usable = all(type(rung) in {int, float} and 0 < rung < 1 for rung in rungs)
        if not usable or list(rungs) != sorted(set(rungs)):
            raise impossible("rungs", list(rungs), allowed)
        return data


class OwnTrainer(Frozen):
    """`scalerl train`."""

    kind: Literal["scalerl"]
    """Who trains."""


class CommandTrainer(Frozen):
    """Any other trainer: a command that trains, and a log that scalerl reads."""

    kind: Literal["command"]
    """Who trains."""
    command: Name
    """The command, started without a shell. {seed}, {out}, {budget}, {share} and the parameters are filled in."""
    log: Name = "{out}"
    """The log it leaves: a file or folder, with the same names filled in."""
    budget: Positive = 1.0
    """A free number, such as steps, for {budget}; a race asks for shares of it first."""
    resumes: bool = False
    """Whether the command goes on in an {out} that holds an earlier start of it. Without, {out} is always empty: what a
    killed start left is moved to run.before, and each rung of a race trains from the beginning."""
    metric: str = ""
    """Metric of the value; empty: guessed from usual names."""
    x: str = ""
    """Metric of compute; empty: guessed from usual names."""
    n: str = ""
    """Metric with the number of answers behind a value, or that number; empty: unknown."""
    gpus: NonNegative = 0.0
    """Compute is GPU-hours: the log's seconds times this; 0: not so."""
    params: NonNegative = 0.0
    """Compute is FLOPs: the log's tokens x 8 x this; 0: not so."""
    gpu_hours_per_step: NonNegative = 0.0
    """Compute is GPU-hours: the log's steps times this; 0: not so."""
    restarts: Literal["replace", "continue"] = "replace"
    """When the steps of the log begin anew: the later part replaces the earlier, or counts on from it."""
    bounded: bool = True
    """Values are shares from 0 to 1; false for mean rewards."""
    downstream: dict[str, str] = Field(default={})
    """Metrics of downstream sets in the same log, by the name of the set."""

    @property
    def reading(self) -> dict[str, Any]:
        """What `scalerl.readers.curves.read_table` takes."""
        texts = {"x": self.x, "y": self.metric, "n": self.n}
        devices = {name: getattr(self, name) for name in ("gpus", "params", "gpu_hours_per_step")}
        said = {name: value for name, value in (texts | devices).items() if value}
        return said | {"restarts": self.restarts, "bounds": (0.0, 1.0) if self.bounded else None}

    def budget_at(self, share: float) -> float | int:
        """{budget} for a share of it; a whole number stays one."""
        amount = share * self.budget
        return max(1, round(amount)) if self.budget.is_integer() else amount

    @model_validator(mode="after")
    def _placeholders_can_be_read(self) -> Self:
        for key in ("command", "log"):
            try:
                names = placeholders(getattr(self, key))
            except ValueError as error:
                raise impossible(key, getattr(self, key), f"a text with names in braces ({error})") from None
            if "" in names:
                raise impossible(key, getattr(self, key), "a name in each pair of braces; {{ and }} stand for braces")
        return self


Trainer = OwnTrainer | CommandTrainer


def placeholders(template: str) -> set[str]:
    """The names in braces; ValueError where the braces do not pair."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def _shown(value: Any) -> str:
    """As it would be written in TOML, without quotes."""
    return value if isinstance(value, str) else json.dumps(value)
