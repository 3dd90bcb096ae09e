"""From a study's config to its jobs: every cell resolved, checked and compared with the base, before anything starts.

Called by the folder of a study, the command line and whoever runs or analyses. It reads presets and writes nothing.
Cells come in the order of the study with the base first, jobs seed by seed: a study that is stopped early has whole
comparisons of the first seeds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scalerl.config import RunConfig, load_run, to_dict
from scalerl.config.load import Changes, differences
from scalerl.config.patches import Patches
from scalerl.config.study import BASE, CellConfig, CommandTrainer, StudyConfig
from scalerl.config.study_parts import placeholders
from scalerl.errors import InputError
from scalerl.runs.directory import identity
from scalerl.study.jobs import Cell, Job

GIVEN = ("seed", "out", "budget", "share")
"""What every command is told, beside its parameters."""


@dataclass(frozen=True)
class Plan:
    """A study, resolved."""

    config: StudyConfig
    cells: tuple[Cell, ...]
    """The base first."""
    jobs: tuple[Job, ...]
    """Seed by seed, the cells in their order."""
    diffs: Mapping[str, Changes]
    """Cell -> what differs from the base: dotted key -> (base, cell), None where one of them has no such key."""
    digests: Mapping[str, str]
    """Cell -> SHA-256 of everything it runs but the seed; its budget included."""
    configs: Mapping[str, RunConfig]
    """Cell -> the run, with seed 0; empty for a command."""
    parameters: Mapping[str, Mapping[str, Any]]
    """Cell -> all parameters of the command; empty for scalerl's own runs."""

    @property
    def base(self) -> Cell:
        """What every cell is compared with."""
        return self.cells[0]

    @property
    def digest(self) -> str:
        """Of what makes it this study: its name and its base. Cells and seeds may be added."""
        return _sha({"name": self.config.name, "base": self.digests[BASE]})

    def job(self, cell: str, seed: int) -> Job:
        """Any seed of a cell, also one that the study did not plan."""
        runner = self.config.runner
        if isinstance(runner, CommandTrainer):
            return _command_job(runner, cell, seed, self.parameters[cell])
        run = self.configs[cell]
        return _own_job(cell, seed, {cell: identity(run)}, {cell: to_dict(run)})

    def jobs_of(self, cell: str) -> tuple[Job, ...]:
        """One for each seed."""
        return tuple(self._by_cell.get(cell, ()))

    @cached_property
    def _by_cell(self) -> dict[str, list[Job]]:
        """Sorted once: every cell of thousands is asked for."""
        found: dict[str, list[Job]] = {}
        for job in self.jobs:
            found.setdefault(job.cell, []).append(job)
        return found


def plan(config: StudyConfig) -> Plan:
    """Every cell and job; `InputError` with cell and key for what cannot run."""
    cells = (Cell(BASE, {}), *map(_cell, config.all_cells))
    runner = config.runner
    if isinstance(runner, CommandTrainer):
        return _command_plan(config, runner, cells)
    configs = dict(_resolved(config))
    values = {name: to_dict(run) for name, run in configs.items()}
    identities = {name: identity(run) for name, run in configs.items()}
    _refuse_same(identities, config)
    return Plan(
        config=config,
        cells=cells,
        jobs=tuple(_own_job(cell.name, seed, identities, values) for seed in config.seeds for cell in cells),
        diffs={name: differences(configs[BASE], configs[name], values[BASE], found) for name, found in values.items()},
        digests={name: _sha({"run": identities[name], **found["scale"]["budget"]}) for name, found in values.items()},
        configs=configs,
        parameters={},
    )


def _cell(given: CellConfig) -> Cell:
    return Cell(given.name, given.set, given.recipe or None, given.paper or None)


def _resolved(config: StudyConfig) -> Iterator[tuple[str, RunConfig]]:
    """Each cell's run. Presets are read once for each recipe, however many cells use it."""
    recipes = {"": _loaded(config, "", f"study {config.name}, the base")}
    patches = {"": Patches(recipes[""])}
    yield BASE, recipes[""]
    for cell in config.all_cells:
        where = f"study {config.name}, cell {cell.name}"
        _refuse_seed(cell.set, where)
        if cell.recipe not in recipes:
            recipes[cell.recipe] = _loaded(config, cell.recipe, where)
            patches[cell.recipe] = Patches(recipes[cell.recipe])
        yield cell.name, patches[cell.recipe].apply(cell.set, where) if cell.set else recipes[cell.recipe]


def _loaded(config: StudyConfig, recipe: str, where: str) -> RunConfig:
    """The base; with another recipe the base's own changes of the recipe go with the old one."""
    values = {key: value for key, value in config.base.set.items() if not (recipe and key.startswith("recipe."))}
    _refuse_seed(values, where)
    texts = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    try:
        return load_run(recipe or config.base.recipe, config.base.scale, overrides=texts).config
    except InputError as error:
        typed = (error.where or "").startswith("--set")
        place = where if error.where is None or typed else f"{where}, {error.where}"
        raise InputError(error.what, error.value, error.allowed, place) from None


def _refuse_seed(values: Mapping[str, Any], where: str) -> None:
    if "seed" in values:
        raise InputError("seed", values["seed"], "the study's own list, seeds", where)


def _refuse_same(identities: Mapping[str, str], config: StudyConfig) -> None:
    seen: dict[str, str] = {}
    for name, found in identities.items():
        if found in seen:
            allowed = "cells that differ in what they run; budget and checkpoint_every do not count"
            both = f"{seen[found]} and {name}"
            raise InputError("two cells resolve to one config", both, allowed, f"study {config.name}")
        seen[found] = name


def _own_job(cell: str, seed: int, identities: Mapping[str, str], values: Mapping[str, Mapping[str, Any]]) -> Job:
    run = {**values[cell], "seed": seed}
    return Job(cell, seed, _sha({"run": identities[cell], "seed": seed}), {"config": run})


def _command_plan(config: StudyConfig, runner: CommandTrainer, cells: tuple[Cell, ...]) -> Plan:
    _check_parameters(config, runner)
    base = config.base.set
    parameters = {cell.name: {**base, **cell.values} for cell in cells}
    _refuse_same({name: _sha(values) for name, values in parameters.items()}, config)
    told = {"command": runner.command, "log": runner.log, "budget": runner.budget}
    return Plan(
        config=config,
        cells=cells,
        jobs=tuple(
            _command_job(runner, cell.name, seed, parameters[cell.name]) for seed in config.seeds for cell in cells
        ),
        diffs={name: _differences(base, values) for name, values in parameters.items()},
        digests={name: _sha({**told, "parameters": values}) for name, values in parameters.items()},
        configs={},
        parameters=parameters,
    )


def _command_job(runner: CommandTrainer, cell: str, seed: int, parameters: Mapping[str, Any]) -> Job:
    told = {"command": runner.command, "log": runner.log, "seed": seed, "parameters": parameters}
    return Job(cell, seed, _sha(told), {"parameters": parameters})


def _differences(base: Mapping[str, Any], values: Mapping[str, Any]) -> Changes:
    return {key: (base[key], value) for key, value in values.items() if value != base[key]}


def _check_parameters(config: StudyConfig, runner: CommandTrainer) -> None:
    """Every name in the template has a value, and every value a place in it."""
    where, own = f"study {config.name}", set(config.base.set)
    used = placeholders(runner.command) | placeholders(runner.log)
    for name in sorted(used - own - set(GIVEN)):
        raise InputError(f"runner.command: no value for {{{name}}}", allowed=f"base.set.{name}", where=where)
    for name in sorted(own):
        if name in GIVEN or name not in used:
            allowed = f"parameters of runner.command, {', '.join(sorted(used - set(GIVEN))) or 'which has none'}"
            raise InputError("base.set: unknown parameter", name, allowed, where)
    for cell in config.all_cells:
        if cell.recipe:
            raise InputError("recipe", cell.recipe, "nothing: a command knows no recipes", f"{where}, cell {cell.name}")
        for name in cell.set:
            if name not in own:
                allowed = f"{', '.join(sorted(own)) or 'none'}, the parameters in base.set"
                raise InputError("unknown parameter", name, allowed, f"{where}, cell {cell.name}")


def _sha(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
