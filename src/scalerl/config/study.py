"""A study as it is written: a built-in name or a `study.toml` becomes a `StudyConfig`.

    config = load_study("leave_one_out")

Called by the command line and by `scalerl.study`, whose `plan` resolves each cell into a run. The tables are models of
`study_parts`. Everything wrong with the form is an `InputError` from here, with the dotted key and the cell.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, Field, Strict, ValidationError, model_validator

from scalerl import presets
from scalerl.config.base import Frozen, Name, impossible
from scalerl.config.layers import Table, file_layer
from scalerl.config.refusal import refusal
from scalerl.config.study_parts import (
    BASE,
    Base,
    CellConfig,
    CommandTrainer,
    FitSettings,
    OwnTrainer,
    PruneSettings,
    Sweep,
    Trainer,
)
from scalerl.errors import InputError

__all__ = ["BASE", "CellConfig", "CommandTrainer", "OwnTrainer", "StudyConfig", "Sweep", "changed", "load_study",
           "study_from", "study_values"]  # fmt: skip

_Model = TypeVar("_Model", bound=BaseModel)


class StudyConfig(Frozen):
    """A whole study."""

    name: Name
    """What the study is called."""
    question: str = ""
    """What it asks, in one sentence for the report."""
    seeds: Annotated[tuple[int, ...], Strict(False)] = (0, 1, 2)
    """Each cell is run once with each of them."""
    base: Base = Base()
    """What every cell is compared with."""
    cells: Annotated[tuple[CellConfig, ...], Strict(False)] = ()
    """The choices, one by one."""
    sweeps: Annotated[tuple[Sweep, ...], Strict(False)] = ()
    """The choices, as values of a key."""
    fit: FitSettings = FitSettings()
    """How curves are fitted and compared."""
    prune: PruneSettings = PruneSettings()
    """The race."""
    runner: Annotated[Trainer, Field(discriminator="kind")] = OwnTrainer(kind="scalerl")
    """Who trains."""

    @property
    def all_cells(self) -> tuple[CellConfig, ...]:
        """The cells and those of the sweeps, in the order of the file; the base is not among them."""
        return (*self.cells, *(cell for sweep in self.sweeps for cell in sweep.cells()))

    @model_validator(mode="before")
    @classmethod
    def _usable_seeds(cls, data: Any) -> Any:
        seeds = data.get("seeds", (0,)) if isinstance(data, Mapping) else (0,)
        allowed = "a list of distinct whole numbers of at least 0"
        if not isinstance(seeds, list | tuple) or not seeds:
            raise impossible("seeds", seeds, allowed)
        if any(type(seed) is not int or not 0 <= seed < 2**63 for seed in seeds) or len(set(seeds)) < len(seeds):
            raise impossible("seeds", list(seeds), allowed)
        return data

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names: set[str] = set()
        for cell in self.all_cells:
            if cell.name == BASE:
                raise impossible("cells", BASE, "another name: the base is always part of the study")
            if cell.name in names:
                raise impossible("cells", cell.name, "each name once, in cells and sweeps together")
            names.add(cell.name)
        if not names:
            raise impossible("cells", "none", "at least one [[cells]] or [[sweeps]]")
        return self


class _OneCell(Frozen):
    """A cell under the name of its list, so that messages say `cells.name`."""

    cells: CellConfig


class _OneSweep(Frozen):
    sweeps: Sweep


class _OneCommand(Frozen):
    """Apart from its siblings, because its tag and one of its keys are the same word."""

    runner: CommandTrainer


def load_study(study: str | Path) -> StudyConfig:
    """A built-in study by name, or a file that ends in .toml. Files that it names lie beside it."""
    if not str(study).endswith(".toml"):
        return study_from(tomllib.loads(presets.read("study", str(study))), f"study {study}")
    layer = file_layer(study)
    return study_from(_beside(layer.values, Path(study).absolute().parent), layer.label)


def study_from(values: Any, where: str) -> StudyConfig:
    """A study from plain values: a TOML file's, or those that `study_values` gave."""
    if not isinstance(values, Mapping):
        raise InputError("not a study", type(values).__name__, "a table", where)
    _refuse_unknown(values, where)
    for key, model in (("cells", _OneCell), ("sweeps", _OneSweep)):
        entries = values.get(key, [])
        if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries):
            raise InputError(key, str(entries)[:60], f"a list of tables, each under [[{key}]]", where)
        for number, entry in enumerate(entries, 1):
            name = entry.get("name") or entry.get("key") or number
            _validate(model, {key: entry}, f"{where}, {key.removesuffix('s')} {name}")
    runner = values.get("runner")
    if isinstance(runner, Mapping) and runner.get("kind") == "command":
        _validate(_OneCommand, {"runner": runner}, where)
    return _validate(StudyConfig, values, where)


def study_values(config: StudyConfig) -> Table:
    """Plain JSON types, defaults included; `study_from` brings them back exactly."""
    return config.model_dump(mode="json")


def changed(
    config: StudyConfig,
    *,
    seeds: Sequence[int] | None = None,
    base: Mapping[str, Any] | None = None,
    command_budget: float | None = None,
) -> StudyConfig:
    """The study with other seeds, more changes of its base, or another {budget} of its command."""
    values = study_values(config)
    if seeds is not None:
        values["seeds"] = list(seeds)
    if base:
        values["base"]["set"] |= base
    if command_budget is not None:
        values["runner"]["budget"] = command_budget
    return study_from(values, f"study {config.name}")


def _refuse_unknown(values: Mapping[str, Any], where: str) -> None:
    known = list(StudyConfig.model_fields)
    for key in values:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f", did you mean {close[0]}?" if close else ""
            raise InputError(f"unknown key {key}{hint}", allowed=f"{', '.join(known)} in a study", where=where)


def _validate(model: type[_Model], values: Any, where: str) -> _Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found = refusal(error, model, values, {})
        raise InputError(found.what, found.value, found.allowed, where) from None


def _beside(values: Table, folder: Path) -> Table:
    """Relative files of recipes and scales are looked for beside the study, wherever the command is started."""

    def absolute(table: Any) -> Any:
        if not isinstance(table, Mapping):
            return table
        files = {key: table.get(key) for key in ("recipe", "scale") if str(table.get(key)).endswith(".toml")}
        return {**table, **{key: str(folder / str(name)) for key, name in files.items()}}

    found = dict(values)
    if "base" in found:
        found["base"] = absolute(found["base"])
    if isinstance(found.get("cells"), list):
        found["cells"] = [absolute(cell) for cell in found["cells"]]
    return found
