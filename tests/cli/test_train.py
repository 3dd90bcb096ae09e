"""`scalerl train`: a whole run in seconds, going on with it, stopping it, and the dry run."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import scalerl.cli.train
from scalerl.cli.live import PlainLines
from scalerl.pipeline.types import StepRecord
from scalerl.runs import RunDirectory

from .conftest import Ran, Run
from .tiny import tiny_options


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SCALERL_CACHE", str(folder))
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _train(run: Run, *options: object) -> Ran:
    """Four steps, unless --budget is among the options."""
    return run("train", *tiny_options(*(() if "--budget" in options else ("scale.budget.amount=4",))), *options)


def _values(folder: Path, name: str) -> list[dict[str, Any]]:
    """The lines of a record without what a clock measured."""
    lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    for line in lines:
        line.pop("wall_s")
        for usage in line["ledger"].values():
            usage.pop("device_s")
    return [{key: value for key, value in line.items() if "idle" not in key} for line in lines]


def test_a_run_ends_with_a_summary_and_what_to_type_next(run: Run) -> None:
    ran = _train(run, "--out", "one")
    assert ran.code == 0, ran.err
    for words in ("The budget is used up. 4 of 4 steps.", "Pass rate ", "step 0 to 4", "generation", "training",
                  "evaluation", "scalerl train --out one --resume --budget '8 steps'"):  # fmt: skip
        assert words in ran.out
    assert "step 2 of 4, pass rate" in ran.err
    directory = RunDirectory.open("one")
    assert [line["step"] for line in directory.evals.read()] == [0, 2, 4]
    assert max(path.name for path in directory.checkpoints.iterdir()) == "step-000004"


def test_json_is_one_document(run: Run) -> None:
    document = _train(run, "--json", "--seed", 2, "--launcher", "inline").document
    assert document["folder"] == "runs/scalerl-laptop-seed2"
    assert (document["reason"], document["step"], document["points"]) == ("budget", 4, 3)
    assert set(document["pass_rate"]) == {"first", "last", "best", "best_step"}
    assert document["ledger"]["generation"]["tokens"] > 0
    assert document["budget"] == {"unit": "steps", "amount": 4, "used": 4}
    assert RunDirectory.open(document["folder"]).config.seed == 2


def test_a_run_that_exists_is_not_touched(run: Run) -> None:
    assert _train(run, "--out", "one", "--budget", "2").code == 0
    before = _files(Path("one"))
    ran = _train(run, "--out", "one", "--budget", "2")
    assert ran.code == 2
    assert ran.err.startswith("scalerl: error: one: the run exists already; allowed: --resume to go on with it")
    assert ran.err.count("\n") == 1
    other = _train(run, "--out", "one", "--seed", 5)
    assert other.code == 2
    assert "belongs to another config (seed is 0 there, 5 here)" in other.err
    assert _files(Path("one")) == before


def test_resume_takes_everything_from_the_run(run: Run) -> None:
    assert _train(run, "--out", "whole").code == 0
    assert _train(run, "--out", "parts", "--budget", "2").code == 0
    ran = run("train", "--out", "parts", "--resume", "--budget", "4 steps")
    assert ran.code == 0, ran.err
    assert "training from step 2, budget 4 steps" in ran.err
    for name in ("metrics.jsonl", "evals.jsonl"):
        assert _values(Path("parts"), name) == _values(Path("whole"), name)
    assert RunDirectory.open("parts").config.scale.budget.amount == 4


def test_resume_with_options_that_disagree(run: Run) -> None:
    assert _train(run, "--out", "one", "--budget", "2").code == 0
    before = _files(Path("one"))
    for options in (["--seed", 3], ["--set", "recipe.loss.cap=8"], ["--recipe", "gspo"], ["--scale", "laptop"]):
        ran = run("train", "--out", "one", "--resume", *options)
        assert ran.code == 2, options
        assert "belongs to another config" in ran.err
    assert _files(Path("one")) == before


def test_resume_with_the_same_presets_keeps_the_budget(run: Run) -> None:
    assert _train(run, "--out", "one", "--budget", "2").code == 0
    ran = run("train", "--out", "one", "--resume", "--recipe", "scalerl", *tiny_options())
    assert ran.code == 0, ran.err
    assert "2 of 2 steps" in ran.out


def test_resume_without_a_run(run: Run, tmp_path: Path) -> None:
    ran = run("train", "--out", "nowhere", "--resume")
    assert ran.code == 2
    assert "nowhere: no such run directory" in ran.err
    assert not (tmp_path / "nowhere").exists()


class _Impatient(PlainLines):
    """Presses Ctrl-C after the first step."""

    presses = 1

    def stepped(self, record: StepRecord) -> None:
        super().stepped(record)
        if record.step == 1:
            for _ in range(self.presses):
                signal.raise_signal(signal.SIGINT)


def test_the_first_interrupt_saves_and_says_how_to_go_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _train(run, "--out", "whole").code == 0
    with monkeypatch.context() as patched:
        patched.setattr("scalerl.cli.live.PlainLines", _Impatient)
        ran = _train(run, "--out", "one")
    assert ran.code == 130
    assert "Stopped as you asked; everything is saved. 1 of 4 steps." in ran.out
    assert "scalerl train --out one --resume\n" in ran.out
    assert "press Ctrl-C again to end at once" in ran.err
    assert (Path("one/checkpoints/step-000001/complete.json")).is_file()
    assert run("train", "--out", "one", "--resume").code == 0
    assert _values(Path("one"), "metrics.jsonl") == _values(Path("whole"), "metrics.jsonl")


def test_the_second_interrupt_ends_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.cli.live.PlainLines", _Impatient)
    monkeypatch.setattr(_Impatient, "presses", 2)
    before = signal.getsignal(signal.SIGINT)
    ran = _train(run, "--out", "one")
    assert ran.code == 130
    assert ran.out == ""
    assert signal.getsignal(signal.SIGINT) is before
    assert not list(Path("one/checkpoints").glob("step-000001"))


def test_an_interrupt_before_the_first_step_ends_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def warming_up(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("scalerl.pipeline.session.load_policy", warming_up)
    assert _train(run, "--out", "one").code == 130


def test_a_view_that_fails_is_a_note(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.cli.live.evaluation_line", lambda _: 1 / 0)
    ran = _train(run, "--out", "one", "--budget", "2")
    assert ran.code == 0
    assert "scalerl: note: the view of the run failed (ZeroDivisionError" in ran.err


def test_without_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for command in ("train", "sft"):
        ran = run(command)
        assert ran.code == 2
        assert ran.err == "scalerl: error: this needs the package 'torch': pip install 'scalerl[train]'\n"
    assert list(tmp_path.iterdir()) == []


def test_dry_run_for_people(run: Run, tmp_path: Path) -> None:
    ran = run("train", "--dry-run", "--set", "recipe.loss.cap=8", "--seed", 3, "--budget", "5M tokens")
    assert ran.code == 0, ran.err
    lines = " ".join(ran.out.split())
    for words in ('loss surrogate="cispo" cap=8.0', "recipe.loss.cap 5.0 -> 8.0 --set recipe.loss.cap=8",
                  'scale.budget.unit "steps" -> "tokens" --budget 5M tokens', "seed 0 -> 3 --seed 3",
                  "16 prompts x 16 rollouts = 256 rollouts", "163k parameters", "Nothing was started"):  # fmt: skip
        assert words in lines
    assert "runs/scalerl-laptop-seed3" in ran.out
    assert list(tmp_path.iterdir()) == []


def test_dry_run_as_json(run: Run, tmp_path: Path) -> None:
    Path("own.toml").write_text("seed = 7\n[recipe.loss]\ncap = 4.0\n")
    document = run("train", "--dry-run", "--json", "--recipe", "minimax_m1", "--config", "own.toml").document
    assert document["config"]["seed"] == 7
    assert document["config"]["recipe"]["loss"]["surrogate"] == "cispo"
    assert {(one["key"], one["new"], one["origin"]) for one in document["changes"]} >= {
        ("recipe.loss.cap", 4.0, "own.toml"), ("seed", 7, "own.toml"),
    }  # fmt: skip
    assert document["out"] == "runs/minimax_m1-laptop-seed7"
    assert document["size"]["steps"] == 700
    assert document["size"]["rollouts"] == 256
    assert [path.name for path in tmp_path.iterdir()] == ["own.toml"]


def test_dry_run_needs_no_torch_and_no_files(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalerl.cli.train, "check_installed", lambda: 1 / 0)
    ran = run("train", "--dry-run", "--scale", "paper_8b")
    assert ran.code == 0, ran.err
    assert "policy-8b-sft, not opened" in ran.out


def test_dry_run_of_a_run_that_goes_on(run: Run) -> None:
    assert _train(run, "--out", "one", "--budget", "2").code == 0
    before = _files(Path("one"))
    ran = run("train", "--out", "one", "--resume", "--budget", "8", "--dry-run")
    assert ran.code == 0, ran.err
    assert "Changed from the saved run" in ran.out
    assert "2.0 -> 8.0" in ran.out
    assert "scale.model.width" not in ran.out
    assert _files(Path("one")) == before


def test_help(run: Run) -> None:
    text = run("train", "--help").out
    for option in ("--recipe", "--scale", "--config", "--set", "--seed", "--out", "--budget", "--launcher", "--resume",
                   "--dry-run", "--live", "--no-live", "--json"):  # fmt: skip
        assert option in text
