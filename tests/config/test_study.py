"""study.toml: what it may say, what becomes of it, and one line for whatever is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalerl import presets
from scalerl.config.study import CommandTrainer, StudyConfig, changed, load_study, study_from, study_values
from scalerl.errors import InputError

CELL = {"name": "a", "set": {"recipe.aggregation": "sample"}}
COMMAND = {"kind": "command", "command": "train --lr {lr} --seed {seed}"}


def study(**values: Any) -> StudyConfig:
    return study_from({"name": "s", "cells": [CELL]} | values, "study.toml")


def refused(**values: Any) -> str:
    with pytest.raises(InputError) as caught:
        study(**values)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("study.toml")
    return text


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_what_is_not_said_has_a_default() -> None:
    config = study()
    assert (config.seeds, config.base.recipe, config.base.scale) == ((0, 1, 2), "scalerl", "study")
    assert (config.fit.x, config.fit.share, config.fit.level, config.fit.margin) == ("flops", 0.5, 0.8, 0.02)
    assert (config.prune.rungs, config.prune.delta, config.prune.threshold) == ((0.3, 0.5, 0.7), 0.02, 0.05)
    assert config.runner.kind == "scalerl"


def test_nested_tables_and_dotted_keys_are_the_same() -> None:
    dotted = study(base={"set": {"scale.batch.prompts": 8, "scale.batch.rollouts": 4}})
    nested = study(base={"set": {"scale": {"batch": {"prompts": 8, "rollouts": 4}}}})
    assert dotted == nested
    assert dotted.base.set == {"scale.batch.prompts": 8, "scale.batch.rollouts": 4}


def test_a_sweep_is_one_cell_for_each_value() -> None:
    config = study(sweeps=[{"key": "scale.batch.prompts", "values": [4, 8], "paper": "slower"}])
    assert [cell.name for cell in config.all_cells] == ["a", "scale.batch.prompts=4", "scale.batch.prompts=8"]
    assert config.all_cells[2].set == {"scale.batch.prompts": 8}
    assert config.all_cells[2].paper == "slower"


def test_a_sweep_of_tables_changes_several_keys_at_once() -> None:
    values = [
        {"scale.model.width": 32, "scale": {"model": {"layers": 2}}},
        {"name": "big", "paper": "higher", "scale.model.width": 128},
    ]
    config = study(sweeps=[{"name": "model", "values": values, "paper": "none"}])
    small, big = config.all_cells[1:]
    assert (small.name, small.set, small.paper) == (
        "model=width=32,layers=2", {"scale.model.width": 32, "scale.model.layers": 2}, "none",
    )  # fmt: skip
    assert (big.name, big.set, big.paper) == ("model=big", {"scale.model.width": 128}, "higher")


def test_a_sweep_of_one_key_can_have_a_short_name() -> None:
    config = study(sweeps=[{"name": "lr", "key": "scale.optimiser.learning_rate", "values": [1e-4]}])
    assert config.all_cells[1].name == "lr=0.0001"


def test_plain_values_bring_the_study_back() -> None:
    config = study(sweeps=[{"key": "k", "values": [1, [2, 3], "x"]}], runner=COMMAND | {"gpus": 2})
    values = json.loads(json.dumps(study_values(config)))
    assert study_from(values, "study.json") == config


def test_a_command_says_how_its_log_is_read() -> None:
    runner = study(runner=COMMAND | {"metric": "eval/acc", "gpus": 8, "bounded": False}).runner
    assert isinstance(runner, CommandTrainer)
    assert runner.reading == {"y": "eval/acc", "gpus": 8.0, "restarts": "replace", "bounds": None}


@pytest.mark.parametrize(
    ("budget", "share", "expected"), [(200, 0.3, 60), (200, 1.0, 200), (3, 0.1, 1), (0.5, 0.5, 0.25)]
)
def test_a_share_of_a_whole_budget_is_a_whole_number(budget: float, share: float, expected: float) -> None:
    runner = study(runner=COMMAND | {"budget": budget}).runner
    assert isinstance(runner, CommandTrainer)
    found = runner.budget_at(share)
    assert found == expected
    assert isinstance(found, int) == float(budget).is_integer()


def test_seeds_base_and_budget_can_be_changed() -> None:
    config = changed(study(base={"set": {"scale.batch.prompts": 8}}), seeds=[5], base={"recipe.loss.cap": 4})
    assert config.seeds == (5,)
    assert config.base.set == {"scale.batch.prompts": 8, "recipe.loss.cap": 4}
    runner = changed(study(runner=COMMAND), command_budget=7.0).runner
    assert isinstance(runner, CommandTrainer)
    assert runner.budget == 7


def test_a_file_is_read_and_the_files_it_names_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'name = "own"\nbase.scale = "small.toml"\n[[cells]]\nname = "a"\nrecipe = "mine.toml"\n'
    write(tmp_path / "study.toml", text)
    monkeypatch.chdir(tmp_path.parent)
    config = load_study(f"{tmp_path.name}/study.toml")
    assert config.base.scale == str(tmp_path / "small.toml")
    assert config.cells[0].recipe == str(tmp_path / "mine.toml")
    assert config.base.recipe == "scalerl"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"sed": [1]}, "study.toml: unknown key sed, did you mean seeds?"),
        ({"seeds": [0, 0]}, "seeds: got [0, 0]; allowed: a list of distinct whole numbers"),
        ({"seeds": 3}, "seeds: got 3; allowed: a list"),
        ({"seeds": []}, "seeds: got []; allowed: a list"),
        ({"seeds": [True]}, "seeds: got [True]; allowed: a list"),
        ({"cells": []}, "at least one [[cells]] or [[sweeps]]"),
        ({"cells": 3}, "a list of tables, each under [[cells]]"),
        ({"cells": [{"nmae": "a"}]}, "study.toml, cell 1: unknown key cells.nmae, did you mean cells.name?"),
        ({"cells": [{"name": "a", "set": 3}]}, "study.toml, cell a: cells.set: got 3; allowed: a table"),
        ({"cells": [{"name": "a", "set": {"x": float("nan")}}]}, "study.toml, cell a: cells.set: got {'x': nan}"),
        ({"cells": [CELL, CELL]}, "cells: got 'a'; allowed: each name once"),
        ({"cells": [{"name": "base"}]}, "cells: got 'base'; allowed: another name"),
        ({"sweeps": [{"key": "k", "values": 3}]}, "study.toml, sweep k: sweeps.values: got 3; allowed: a list"),
        ({"sweeps": [{"key": "k", "values": []}]}, "sweeps.values: got []; allowed: a list of at least one value"),
        ({"sweeps": [{"key": "k", "values": [float("inf")]}]}, "sweeps.values: got 'inf'; allowed: numbers"),
        ({"sweeps": [{"values": [3]}]}, "study.toml, sweep 1: sweeps.key: got ''; allowed: a dotted key, or a name"),
        ({"sweeps": [{"name": "n", "values": [3]}]}, "sweeps.values: got 3; allowed: plain values with a key"),
        ({"sweeps": [{"key": "k", "values": [{"x": 1}]}]}, "sweeps.values: got {'x': 1}; allowed: plain values"),
        (
            {"prune": {"rungs": [0.5, 0.3]}},
            "prune.rungs: got [0.5, 0.3]; allowed: a list of shares of the budget, rising",
        ),
        ({"prune": {"rungs": [0.5, 1.0]}}, "prune.rungs: got [0.5, 1.0]; allowed"),
        ({"prune": {"delta": -1}}, "prune.delta: got -1; allowed: a number above 0"),
        ({"fit": {"x": "gpu"}}, "fit.x: got 'gpu'; allowed: flops, tokens, device_hours, steps"),
        ({"fit": {"shar": 0.1}}, "unknown key fit.shar, did you mean fit.share?"),
        ({"runner": {"kind": "comand"}}, "runner.kind: got 'comand'; allowed: scalerl, command"),
        ({"runner": {"kind": "command"}}, "missing key runner.command"),
        ({"runner": COMMAND | {"gpus": -1}}, "study.toml: runner.gpus: got -1; allowed: a number at least 0"),
        (
            {"runner": COMMAND | {"command": "t {lr"}},
            "runner.command: got 't {lr'; allowed: a text with names in braces",
        ),
        ({"runner": COMMAND | {"log": "{}/log"}}, "runner.log: got '{}/log'; allowed: a name in each pair of braces"),
    ],
)
def test_bad_studies(values: dict[str, Any], expected: str) -> None:
    assert expected in refused(**values)


def test_a_name_that_is_no_study() -> None:
    with pytest.raises(InputError, match="unknown study preset, did you mean leave_one_out"):
        load_study("leave_one_ou")


def test_a_file_that_is_not_there_or_not_toml(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_study(tmp_path / "no.toml")
    with pytest.raises(InputError, match="not TOML"):
        load_study(write(tmp_path / "bad.toml", "name ="))


@pytest.mark.parametrize("name", presets.names("study"))
def test_every_built_in_study_is_called_like_its_file_and_asks_something(name: str) -> None:
    config = load_study(name)
    assert config.name == name
    assert config.question.endswith("?")
    assert presets.read("study", name).startswith("# ")
