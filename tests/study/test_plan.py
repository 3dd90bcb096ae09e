"""From a study to its jobs: cells resolved against the base, in a fixed order, and refused before anything starts."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scalerl import presets
from scalerl.config import from_json, load_run, patch, to_dict
from scalerl.config.study import StudyConfig, changed, load_study, study_from
from scalerl.errors import InputError
from scalerl.runs.directory import identity
from scalerl.study import plan as plan_module
from scalerl.study.plan import plan

SAMPLE = {"name": "sample", "set": {"recipe.aggregation": "sample"}}
COMMAND = {"kind": "command", "command": "train --lr {lr} --seed {seed} --out {out}"}


def study(**values: Any) -> StudyConfig:
    return study_from({"name": "s", "cells": [SAMPLE]} | values, "study.toml")


def refused(**values: Any) -> str:
    with pytest.raises(InputError) as caught:
        plan(study(**values))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_base_comes_first_and_jobs_go_seed_by_seed() -> None:
    found = plan(study(seeds=[4, 2]))
    assert [cell.name for cell in found.cells] == ["base", "sample"]
    assert found.base is found.cells[0]
    assert [(job.seed, job.cell) for job in found.jobs] == [(4, "base"), (4, "sample"), (2, "base"), (2, "sample")]
    assert found.jobs_of("sample") == (found.jobs[1], found.jobs[3])


def test_a_job_carries_the_whole_run() -> None:
    found = plan(study(base={"set": {"scale.batch.prompts": 8}}))
    expected = load_run("scalerl", "study", overrides=["scale.batch.prompts=8", "recipe.aggregation=sample", "seed=1"])
    (job,) = [job for job in found.jobs if (job.cell, job.seed) == ("sample", 1)]
    assert job.settings["config"] == to_dict(expected.config)


def test_diffs_are_against_the_base() -> None:
    found = plan(
        study(base={"set": {"scale.batch.prompts": 8}}, sweeps=[{"key": "scale.batch.prompts", "values": [4]}])
    )
    assert found.diffs["base"] == {}
    assert found.diffs["sample"] == {"recipe.aggregation": ("prompt", "sample")}
    assert found.diffs["scale.batch.prompts=4"] == {"scale.batch.prompts": (8, 4)}


def test_identities_tell_jobs_apart_and_do_not_depend_on_the_budget() -> None:
    short, long = (plan(changed(study(), base={"scale.budget.amount": steps})) for steps in (10, 20))
    assert len({job.identity for job in short.jobs}) == len(short.jobs)
    assert [job.name for job in short.jobs] == [job.name for job in long.jobs]
    assert short.digest != long.digest


def test_any_other_seed_of_a_cell_can_be_made() -> None:
    found = plan(study(seeds=[0]))
    assert found.job("sample", 7) == plan(study(seeds=[7])).jobs[1]
    assert found.job("sample", 0) == found.jobs[1]
    command = plan(study(runner=COMMAND, base={"set": {"lr": 1}}, cells=[{"name": "two", "set": {"lr": 2}}], seeds=[0]))
    assert command.job("two", 0) == command.jobs[1]


def test_a_cell_with_another_recipe_keeps_the_scale_but_not_the_changes_of_the_recipe() -> None:
    base = {"set": {"recipe.loss.cap": 8.0, "scale.batch.prompts": 8}}
    found = plan(
        study(base=base, cells=[{"name": "dapo", "recipe": "qwen_dapo", "set": {"recipe.loss.clip_high": 0.3}}])
    )
    expected = load_run("qwen_dapo", "study", overrides=["scale.batch.prompts=8", "recipe.loss.clip_high=0.3"])
    assert found.configs["dapo"] == expected.config
    assert found.configs["base"].recipe.loss.model_dump() == {"surrogate": "cispo", "cap": 8.0}
    assert found.cells[1].recipe == "qwen_dapo"


def test_values_of_every_kind_reach_the_base() -> None:
    values = {"scale.optimiser.betas": [0.8, 0.9], "scale.task.kind": "chained_sums", "scale.model.tied": True}
    run = plan(study(base={"set": values})).configs["base"]
    assert (run.scale.optimiser.betas, run.scale.model.model_dump()["tied"]) == ((0.8, 0.9), True)


def test_hundreds_of_cells_read_the_presets_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        return load_run(*arguments, **named)

    monkeypatch.setattr(plan_module, "load_run", counted)
    rates = [1.1e-6 * (number + 1) for number in range(500)]
    found = plan(study(cells=[], sweeps=[{"key": "scale.optimiser.learning_rate", "values": rates}]))
    assert len(found.jobs) == 3 * 501
    assert calls == [("scalerl", "study")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"sweeps": [{"key": "scale.batch.promts", "values": [4]}]},
            "study s, cell scale.batch.promts=4: unknown key scale.batch.promts, did you mean scale.batch.prompts?",
        ),
        (
            {"sweeps": [{"key": "scale.batch.prompts", "values": [4, 0]}]},
            "study s, cell scale.batch.prompts=0: scale.batch.prompts: got 0; allowed: a whole number at least 1",
        ),
        (
            {"cells": [{"name": "a", "set": {"recipe.loss.clip_high": 0.3}}]},
            "study s, cell a: unknown key recipe.loss.clip_high (it belongs to surrogate = ppo_clip, gspo)",
        ),
        (
            {"cells": [{"name": "a", "set": {"scale.model.heads": 5}}]},
            "study s, cell a: scale.model.heads: got 5; allowed: a number for which width / heads is even",
        ),
        ({"cells": [{"name": "a", "recipe": "dapo"}]}, "study s, cell a: unknown recipe preset"),
        ({"cells": [{"name": "a", "set": {"seed": 3}}]}, "study s, cell a: seed: got 3; allowed: the study's own list"),
        ({"base": {"set": {"seed": 3}}}, "study s, the base: seed: got 3"),
        ({"base": {"set": {"scale.batch.prompts": -1}}}, "study s, the base: scale.batch.prompts: got -1"),
        ({"base": {"scale": "no.toml"}}, "study s, the base, no.toml: the file cannot be read"),
        (
            {"cells": [SAMPLE, SAMPLE | {"name": "again"}]},
            "study s: two cells resolve to one config: got 'sample and again'",
        ),
        (
            {"sweeps": [{"key": "scale.batch.prompts", "values": [16]}]},
            "two cells resolve to one config: got 'base and scale.batch.prompts=16'",
        ),
        ({"cells": [{"name": "a", "set": {"scale.budget.amount": 10}}]}, "got 'base and a'"),
    ],
)
def test_what_cannot_run_is_refused_with_cell_and_key(values: dict[str, Any], expected: str) -> None:
    assert expected in refused(**values)


def test_a_command_gets_all_its_parameters() -> None:
    cells = [{"name": "high", "set": {"lr": 0.1}}]
    found = plan(study(runner=COMMAND, base={"set": {"lr": 0.01}}, cells=cells, seeds=[3]))
    assert [job.settings for job in found.jobs] == [{"parameters": {"lr": 0.01}}, {"parameters": {"lr": 0.1}}]
    assert found.diffs == {"base": {}, "high": {"lr": (0.01, 0.1)}}
    assert len({job.identity for job in found.jobs}) == 2
    assert found.configs == {}


@pytest.mark.parametrize(
    ("base", "cell", "expected"),
    [
        ({}, {"name": "a"}, "study s: runner.command: no value for {lr}; allowed: base.set.lr"),
        ({"lr": 1, "wd": 2}, {"name": "a"}, "study s: base.set: unknown parameter: got 'wd'; allowed: parameters of"),
        ({"lr": 1, "seed": 2}, {"name": "a"}, "base.set: unknown parameter: got 'seed'"),
        ({"lr": 1}, {"name": "a", "set": {"lrr": 2}}, "study s, cell a: unknown parameter: got 'lrr'; allowed: lr"),
        ({"lr": 1}, {"name": "a", "set": {"lr": 1}}, "two cells resolve to one config: got 'base and a'"),
        ({"lr": 1}, {"name": "a", "recipe": "gspo"}, "study s, cell a: recipe: got 'gspo'; allowed: nothing"),
    ],
)
def test_a_command_with_wrong_parameters(base: dict[str, Any], cell: dict[str, Any], expected: str) -> None:
    assert expected in refused(runner=COMMAND, base={"set": base}, cells=[cell])


@pytest.mark.parametrize("name", presets.names("study"))
def test_every_built_in_study_can_be_planned(name: str) -> None:
    found = plan(load_study(name))
    assert len(found.jobs) == 3 * len(found.cells)
    assert all(found.diffs[cell.name] for cell in found.cells[1:])
    for job in found.jobs:
        run = from_json(json.dumps(job.settings["config"]))
        assert run.seed == job.seed


def test_leave_one_out_has_the_papers_eight() -> None:
    found = plan(load_study("leave_one_out"))
    reverted = {
        cell: {key: new for key, (_, new) in diff.items() if new is not None} for cell, diff in found.diffs.items()
    }
    head = ("recipe.precision.fp32_head_trainer", "recipe.precision.fp32_head_generator")
    clip = {"recipe.loss.clip_low": 0.2, "recipe.loss.clip_high": 0.26}
    penalty = {"recipe.length.max_share": 1.0, "recipe.length.cache_share": 0.142857}
    assert reverted == {
        "base": {},
        "prompt_normalisation": {"recipe.advantage.normalisation": "prompt"},
        "length_penalty": {"recipe.length.kind": "penalty"} | penalty,
        "no_zero_variance_filter": {"recipe.zero_variance": "keep"},
        "ppo_off_policy_8": {"recipe.asynchrony.kind": "ppo_off_policy"},
        "bfloat16": {"scale.model.dtype": "bfloat16"},
        "no_fp32_head": {"scale.model.dtype": "bfloat16"} | dict.fromkeys(head, False),
        "sample_average": {"recipe.aggregation": "sample"},
        "dapo_loss": {"recipe.loss.surrogate": "ppo_clip"} | clip,
        "uniform_sampling": {"recipe.curriculum.kind": "uniform"},
    }
    assert all(cell.paper for cell in found.cells[1:] if cell.name != "bfloat16")


def test_recipes_are_the_presets_at_the_study_scale() -> None:
    found = plan(load_study("recipes"))
    names = ["deepseek_grpo", "qwen_dapo", "magistral", "minimax_m1", "gspo", "dr_grpo"]
    assert [cell.name for cell in found.cells[1:]] == names
    assert all(found.configs[name] == load_run(name, "study").config for name in names)


def test_model_size_is_a_ladder_and_a_mixture_of_experts() -> None:
    found = plan(load_study("model_size"))
    widths = [run.scale.model.model_dump()["width"] for name, run in found.configs.items() if name.startswith("dense")]
    assert widths == sorted(widths)
    assert found.configs["experts=4"].scale.model.source == "moe"


def test_the_studies_of_the_docs_can_be_planned() -> None:
    page = Path(__file__).parents[2] / "docs" / "study.md"
    studies = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    cells = [[cell.name for cell in plan(study_from(tomllib.loads(text), "docs")).cells] for text in studies]
    assert cells == [["base", "dapo_loss", "qwen_dapo", "lr=0.0001", "lr=0.0004", "model=small"], ["base", "high"]]


def test_a_scale_file_of_ones_own(tmp_path: Path) -> None:
    scale = tmp_path / "own.toml"
    scale.write_text(presets.read("scale", "laptop").replace("batch.prompts = 16", "batch.prompts = 6"))
    found = plan(study(base={"scale": str(scale)}))
    assert identity(found.configs["base"]) == identity(patch(load_run().config, {"scale.batch.prompts": 6}))
