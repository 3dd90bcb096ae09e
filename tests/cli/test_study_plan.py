"""`scalerl study plan`: cells, differences, jobs and cost on the screen and as JSON; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl.cli.estimate import size_of
from scalerl.cli.study_cost import RATE, USED
from scalerl.config import load_run
from scalerl.config.study import load_study
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Outcome
from scalerl.study.reached import Reached, write_reached

from .conftest import Run

MINI = """\
name = "mini"
question = "Is it faster?"
seeds = [0, 1]
[[cells]]
name = "dapo"
set = { "recipe.loss.surrogate" = "ppo_clip", "recipe.loss.clip_high" = 0.26 }
[[sweeps]]
name = "prompts"
key = "scale.batch.prompts"
values = [8]
"""
COMMAND = """\
name = "other"
runner = { kind = "command", command = "train {lr} {seed} {budget}", budget = 200 }
base.set = { lr = 0.1 }
cells = [{ name = "low", set = { lr = 0.01 } }]
"""


@pytest.fixture
def mini(tmp_path: Path) -> Path:
    file = tmp_path / "mini.toml"
    file.write_text(MINI)
    return file


def finish(folder: StudyFolder, names: list[str], wall_s: float) -> None:
    """As if these jobs had been run, each in so many seconds."""
    for job in folder.plan.jobs:
        if job.name in names:
            folder.write_job(job)
            write_reached(folder.job_path(job), Reached(1.0, wall_s))
            folder.write_outcome(job, Outcome("finished", 1.0))


def test_what_a_person_sees(run: Run, mini: Path, tmp_path: Path) -> None:
    ran = run("study", "plan", mini, "--budget", "400 steps")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0] == "Study mini: Is it faster?"
    assert any(line.split()[:7] == ["base", "recipe", "scalerl,", "scale", "study,", "400", "steps"] for line in lines)
    assert any(line.startswith("dapo") and 'recipe.loss.surrogate: "cispo" -> "ppo_clip"' in line for line in lines)
    assert any(line.strip() == "recipe.loss.clip_high = 0.26" for line in lines)
    assert "recipe.loss.cap" not in ran.out
    assert any(line.startswith("prompts=8") and "scale.batch.prompts: 16 -> 8" in line for line in lines)
    assert "Jobs     3 cells x 2 seeds (0, 1) = 6" in lines
    assert any(line.startswith("Compute  at most ") and line.endswith(" FLOPs") for line in lines)
    assert "rough" in ran.out
    assert lines[-1] == "Nothing was started."
    assert [file.name for file in tmp_path.iterdir()] == ["mini.toml"]


def test_the_document(run: Run, mini: Path) -> None:
    document = run("study", "plan", mini, "--json").document
    assert (document["study"], document["seeds"], document["num_ended"]) == ("mini", [0, 1], 0)
    base, dapo, prompts = document["cells"]
    assert base["changes"] == []
    assert {"key": "recipe.loss.cap", "old": 5.0, "new": None} in dapo["changes"]
    assert prompts["changes"] == [{"key": "scale.batch.prompts", "old": 16, "new": 8}]
    assert [(job["cell"], job["seed"]) for job in document["jobs"]][:4] == [
        ("base", 0), ("dapo", 0), ("prompts=8", 0), ("base", 1),
    ]  # fmt: skip
    assert document["flops_left"] == pytest.approx(2 * (base["flops"] + dapo["flops"] + prompts["flops"]))
    assert document["seconds_left"] == pytest.approx(2 * (base["seconds"] + dapo["seconds"] + prompts["seconds"]))


def test_compute_is_that_of_the_runs(run: Run, mini: Path) -> None:
    step = size_of(load_run("scalerl", "study").config).flops
    assert step is not None
    base = run("study", "plan", mini, "--json", "--budget", "50 steps").document["cells"][0]
    assert base["flops"] == pytest.approx(50 * step)
    assert base["seconds"] == pytest.approx(50 * step / RATE, rel=0.2)
    given = run("study", "plan", mini, "--json", "--budget", "1e12 flops").document["cells"]
    assert [cell["flops"] for cell in given] == [1e12] * 3
    assert given[0]["seconds"] == pytest.approx(1e12 / USED / RATE, rel=0.2)
    hours = run("study", "plan", mini, "--json", "--budget", "0.5 device-hours").document
    assert (hours["flops_left"], hours["seconds_left"]) == (None, 6 * 1800)


def test_a_budget_in_tokens_is_about_as_many_steps(run: Run, mini: Path) -> None:
    steps = run("study", "plan", mini, "--json", "--budget", "10 steps").document["cells"][0]
    tokens = 10 * (16 * 14 + 256 * 42 + 256 * 56)
    same = run("study", "plan", mini, "--json", "--budget", f"{tokens} tokens").document["cells"][0]
    assert same["flops"] == pytest.approx(steps["flops"])


def test_options_change_the_study(run: Run, mini: Path) -> None:
    document = run("study", "plan", mini, "--json", "--seeds", "7", "--set", "scale.batch.rollouts=4").document
    assert document["seeds"] == [7]
    assert document["base"]["set"] == {"scale.batch.rollouts": 4}
    assert len(document["jobs"]) == 3


def test_time_goes_by_finished_jobs(run: Run, mini: Path, tmp_path: Path) -> None:
    rough = run("study", "plan", mini, "--json").document
    folder = StudyFolder.create_or_open(tmp_path / "out", load_study(mini))
    finish(folder, [folder.plan.jobs[0].name], 3 * rough["cells"][0]["seconds"])
    document = run("study", "plan", mini, "--json", "--out", "out").document
    assert (document["num_ended"], document["num_measured"]) == (1, 1)
    left = 3 * (rough["seconds_left"] - rough["cells"][0]["seconds"])
    assert document["seconds_left"] == pytest.approx(left)
    assert document["flops_left"] == pytest.approx(rough["flops_left"] - rough["cells"][0]["flops"])
    shown = run("study", "plan", mini, "--out", "out").out
    assert "= 6, 1 of them ended in out" in shown
    assert "going by 1 finished job\n" in shown


def test_the_study_in_a_folder_keeps_its_seeds(run: Run, mini: Path, tmp_path: Path) -> None:
    StudyFolder.create_or_open(tmp_path / "out", load_study(mini))
    document = run("study", "plan", mini, "--json", "--out", "out", "--seeds", "9").document
    assert document["seeds"] == [0, 1, 9]
    assert run("study", "plan", mini, "--json", "--out", "new").document["seeds"] == [0, 1]
    assert not (tmp_path / "new").exists()


def test_a_command_costs_what_its_finished_jobs_took(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text(COMMAND)
    assert "unknown until a job has finished" in run("study", "plan", file).out
    folder = StudyFolder.create_or_open(tmp_path / "out", load_study(file))
    finish(folder, [folder.plan.jobs[0].name, folder.plan.jobs[1].name], 10.0)
    document = run("study", "plan", file, "--json", "--out", "out").document
    assert (document["flops_left"], document["seconds_left"]) == (None, 40.0)
    assert document["cells"][1]["changes"] == [{"key": "lr", "old": 0.1, "new": 0.01}]


def test_the_budget_of_a_command_is_a_free_number(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text(COMMAND)
    assert run("study", "plan", file, "--budget", "30").code == 0
    assert "--budget: got '-3'" in run("study", "plan", file, "--budget", "-3").err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--seeds", "1,x"], "--seeds: got '1,x'; allowed: distinct whole numbers"),
        (["--seeds", "1,1"], "--seeds: got '1,1'"),
        (["--budget", "5x"], "--budget: got '5x'"),
        (["--budget", "5", "--set", "scale.budget.amount=3"], "scale.budget.amount is given twice"),
        (["--set", "scale.batch.promts=3"], "study mini, the base: unknown key scale.batch.promts, did you mean"),
        (["--set", "scale.batch.prompts=8"], "two cells resolve to one config: got 'base and prompts=8'"),
        (["--out", "."], "the folder holds other things"),
    ],
)
def test_bad_options_are_one_line(run: Run, mini: Path, options: list[str], expected: str) -> None:
    ran = run("study", "plan", mini, *options)
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err
    assert ran.err.count("\n") == 1


def test_another_study_in_the_folder_is_refused(run: Run, mini: Path, tmp_path: Path) -> None:
    StudyFolder.create_or_open(tmp_path / "out", load_study("k"))
    ran = run("study", "plan", mini, "--out", "out")
    assert ran.code == 2
    assert "belongs to another study (it is called k there, mini here)" in ran.err


def test_without_a_command_there_is_help(run: Run) -> None:
    ran = run("study")
    assert ran.code == 0
    assert "plan" in ran.out
