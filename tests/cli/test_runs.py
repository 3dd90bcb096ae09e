"""`scalerl runs`, and run directories where the other commands take a curve."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalerl.config import RunConfig, load_run, patch
from scalerl.runs import RunDirectory

from .conftest import Run, curve

CONFIG = patch(load_run("scalerl", "laptop").config, {"scale.budget.unit": "steps", "scale.budget.amount": 6000.0})


def train(
    path: Path, ceiling: float = 0.7, seed: int = 1, *, reason: str | None = "budget", config: RunConfig = CONFIG
) -> Path:
    """A finished run with the curve of the other tests, 1 GFLOP a step for each role."""
    with RunDirectory.hold(path, patch(config, {"seed": seed})) as run:
        for step, rate in [(0, 0.2), *zip(*curve(ceiling, 600, seed), strict=True)]:
            used = {"device_s": step, "flops": 1e9 * step, "tokens": round(10 * step)}
            ledger = {"generation": used, "training": used, "evaluation": used}
            record = {"step": round(step), "pass_rate": rate, "num_problems": 50, "num_samples": 4, "num_judged": 200}
            measured = {"standard_error": 0.02, "truncation_rate": 0.1, "mean_length": 30.5}
            run.evals.append({**record, **measured, "ledger": ledger, "wall_s": step})
            run.metrics.append({"step": round(step), "ledger": ledger, "wall_s": step})
        if reason is not None:
            run.finish(reason, 6000)
    folder = run.checkpoints / "step-006000"
    folder.mkdir(parents=True)
    (folder / "complete.json").write_text("{}")
    return path


def test_list(run: Run, tmp_path: Path) -> None:
    train(tmp_path / "runs" / "first")
    train(tmp_path / "runs" / "second", 0.5, 2, reason=None)
    ran = run("runs", "list")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    (first,) = [line for line in lines if line.startswith("first")]
    (second,) = [line for line in lines if line.startswith("second")]
    assert first.split()[1:3] == ["finished", "6,000"]
    assert second.split()[1:3] == ["crashed", "6,000"]
    assert any(line.split()[:4] == ["scalerl,", "1", "100", "%"] for line in lines)
    assert max(map(len, lines)) <= 80


def test_list_as_json(run: Run, tmp_path: Path) -> None:
    train(tmp_path / "runs" / "first")
    document = run("runs", "list", tmp_path / "runs", "--json").document
    (found,) = document["runs"]
    assert (found["name"], found["state"], found["step"], found["recipe"]) == ("first", "finished", 6000, "scalerl")
    assert found["compute"]["flops"] == 1.2e13
    assert found["checkpoints"] == [6000]


def test_an_empty_list_is_not_an_error(run: Run) -> None:
    assert run("runs", "list").out == "No runs in or below ..\n"
    assert run("runs", "list", "--json").document["runs"] == []


def test_a_broken_run_does_not_hide_the_others(run: Run, tmp_path: Path) -> None:
    train(tmp_path / "good")
    train(tmp_path / "worse")
    (tmp_path / "worse" / "evals.jsonl").write_text("nonsense\n")
    ran = run("runs", "list")
    assert ran.code == 0
    assert "finished" in ran.out
    assert "broken" in ran.out
    assert "worse/evals.jsonl, line 1: broken JSON" in ran.err
    shown = run("runs", "show", "worse")
    assert shown.code == 2
    assert "worse/evals.jsonl, line 1" in shown.err


def test_show(run: Run, tmp_path: Path) -> None:
    train(tmp_path / "my run")
    ran = run("runs", "show", "my run")
    assert (ran.code, ran.err) == (0, "")
    words = (
        "finished (the budget is used up)", "cispo", "seed", "100 % of 6,000 steps", "Held-out pass rate, 16 of 25",
        "====", "generation + training", "1.2e13", "Checkpoints: step 6,000.",
        "To go on: scalerl train --out 'my run' --resume --budget '12000 steps'", "scalerl fit 'my run'",
    )  # fmt: skip
    for part in words:
        assert part in ran.out
    rows = [line.split() for line in ran.out.splitlines() if "===" in line]
    assert len(rows) == 16
    assert (rows[0][0], rows[-1][0]) == ("0", "6,000")
    assert max(map(len, ran.out.splitlines())) <= 80


def test_show_the_gain_over_step_0(run: Run, tmp_path: Path) -> None:
    train(tmp_path / "first")
    assert run("runs", "show", "first", "--json").document["gain"] is None  # no results by problem
    folder = tmp_path / "first" / "evals"
    folder.mkdir()
    for step, correct in ((0, [0, 1, 0, 1]), (6000, [2, 2, 1, 1])):
        problems = {f"p{i}": {"correct": one, "judged": 2} for i, one in enumerate(correct)}
        saved = {"step": step, "num_samples": 2, "problems": problems}
        (folder / f"step-{step:06}.json").write_text(json.dumps(saved))
    words = "Step 6,000 against step 0: +0.500 +- 0.204, paired over 4 problems (p = 0.092)"
    assert words in " ".join(run("runs", "show", "first").out.split())
    gain = run("runs", "show", "first", "--json").document["gain"]
    assert (gain["step"], gain["num_problems"]) == (6000, 4)
    assert gain["p_value"] == pytest.approx(0.0917, abs=1e-4)


def test_a_run_of_a_cluster_does_not_know_where_the_cluster_is(run: Run, tmp_path: Path) -> None:
    config = load_run("scalerl", "laptop", overrides=['scale.launcher.kind="ray"']).config
    train(tmp_path / "there", config=config)
    train(tmp_path / "here")
    assert "with --address for a cluster that runs already" in run("runs", "show", "there").out
    assert "--address" not in run("runs", "show", "here").out


def test_show_as_json(run: Run, tmp_path: Path) -> None:
    train(tmp_path / "first", reason="interrupted")
    document = run("runs", "show", "first", "--json").document
    assert (document["state"], document["resume"]) == ("interrupted", "scalerl train --out first --resume")
    train(tmp_path / "done", reason="exhausted")
    assert run("runs", "show", "done", "--json").document["resume"] is None
    assert document["config"]["scale"]["budget"] == {"unit": "steps", "amount": 6000.0}
    assert len(document["evaluations"]) == document["num_evals"] == 25
    assert document["sessions"][0]["packages"]["numpy"]


def test_show_while_it_runs_and_before_it_has_begun(run: Run, tmp_path: Path) -> None:
    with RunDirectory.hold(tmp_path / "first", CONFIG):
        ran = run("runs", "show", "first")
        assert "running (process " in ran.out
        assert "--resume" not in ran.out
    ran = run("runs", "show", "first")
    assert "No evaluations yet." in ran.out
    assert "scalerl fit" not in ran.out
    assert "new" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "nowhere"], "nowhere: no such run directory"),
        (["show", "."], ".: the folder is no run directory"),
        (["list", "nowhere"], "nowhere: no such folder"),
        (["show"], "RUN"),
        (["walk"], "walk"),
    ],
)
def test_bad_input(run: Run, arguments: list[str], words: str) -> None:
    ran = run("runs", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("scalerl: error: ")
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_help_without_a_command(run: Run) -> None:
    ran = run("runs")
    assert ran.code == 0
    assert "list" in ran.out
    assert "show" in ran.out


def test_every_command_takes_a_run(run: Run, tmp_path: Path) -> None:
    first, second = train(tmp_path / "first"), train(tmp_path / "second", 0.5, 2)
    fitted = run("fit", first, "--json").document
    assert (fitted["name"], fitted["x"], fitted["y"], fitted["points"]) == ("first", "flops", "pass_rate", 24)
    assert abs(fitted["ceiling"]["value"] - 0.7) < 0.03
    assert fitted["files"] == [str(first / "evals.jsonl")]
    steps = run("fit", first, "--json", "--x", "steps").document
    assert fitted["midpoint"]["value"] / steps["midpoint"]["value"] == pytest.approx(2e9, rel=0.01)
    compared = run("compare", first, second, "--json").document
    assert [one["name"] for one in compared["curves"]] == ["first", "second"]
    assert run("decide", first, "--json").document["name"] == "first"
    assert run("backtest", first, "--json").document["scores"]


def test_a_run_without_evaluations_cannot_be_fitted(run: Run, tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "first", CONFIG)
    ran = run("fit", "first")
    assert (ran.code, ran.err) == (
        2,
        "scalerl: error: first: the run has no evaluations yet; allowed: a run with evaluations\n",
    )


def test_a_full_disk_has_an_exit_code_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from scalerl import runs
    from scalerl.errors import StorageError

    def fail(_: str) -> None:
        raise StorageError(28, "No space left on device", "runs/a/metrics.jsonl")

    monkeypatch.setattr(runs, "list_runs", fail)
    ran = run("runs", "list")
    assert (ran.code, ran.out) == (1, "")
    assert "runs/a/metrics.jsonl: cannot be written (No space left on device)" in ran.err


def test_a_document_is_json(run: Run, tmp_path: Path) -> None:
    train(tmp_path / "first")
    assert json.loads(run("runs", "list", "--json").out)["schema"] == 1
