"""Downstream sets through the command line: trained with, listed, fitted, studied and reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import load_run
from scalerl.runs import RunDirectory

from .conftest import Run
from .tiny import TINY, tiny_options

KEY = "scale.evaluation.downstream"
SET = f"{KEY}.three={{task={{numbers=3, held_out_share=0.9}}, problems=4, tokens={{prompt=9, thinking=7}}}}"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALERL_CACHE", str(tmp_path_factory.mktemp("cache")))


def _ledger(step: int) -> dict[str, Any]:
    used = {"device_s": 1.0 * step, "flops": 1e12 * step, "tokens": 100 * step}
    return dict.fromkeys(("generation", "training", "evaluation"), used)


def _recorded_run(folder: Path) -> None:
    """A run whose set rises to .5 while the held-out value rises to .9; the set is measured every second time."""
    RunDirectory.create(folder, load_run(overrides=[SET]).config)
    records = []
    for step in range(0, 410, 10):
        rise = step / (step + 60)
        rate = 0.1 + 0.4 * rise if step % 20 == 0 else None
        records.append({
            "step": step, "pass_rate": 0.2 + 0.7 * rise, "num_judged": 1000, "ledger": _ledger(step), "wall_s": 1.0,
            "downstream/three": rate, "downstream/three/num_judged": None if rate is None else 400,
        })  # fmt: skip
    (folder / "evals.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_set_has_a_sigmoid_of_its_own(run: Run) -> None:
    _recorded_run(Path("one"))
    own = run("fit", "one", "--metric", "downstream/three", "--json").document
    held_out = run("fit", "one", "--json").document
    assert own["points"] == 20
    assert held_out["points"] == 40
    assert own["parameters"]["ceiling"]["value"] == pytest.approx(0.5, abs=0.06)
    assert held_out["parameters"]["ceiling"]["value"] == pytest.approx(0.9, abs=0.06)
    assert run("read", "one", "--metric", "downstream/three", "--to", "-").out.splitlines()[1:3] == [
        "0.0,0.1,400.0", "40000000000000.0,0.2,400.0",
    ]  # fmt: skip
    assert run("report", "one", "--metric", "downstream/three", "-o", "one.html").code == 0
    assert "downstream/three" in Path("one.html").read_text()


def test_a_run_with_a_set_from_the_dry_run_to_the_listing(run: Run) -> None:
    options = tiny_options("scale.budget.amount=4", SET)
    dry = run("train", *options, "--dry-run").out
    assert "downstream three: numbers = 3, held_out_share = 0.9; 4 problems x 1, every evaluation" in dry
    assert run("train", *options, "--out", "one").code == 0
    listed = {one["name"]: one["count"] for one in run("read", "one", "--list", "--json").document["metrics"]}
    assert listed["downstream/three"] == listed["pass_rate"] == 3
    shown = run("runs", "show", "one")
    assert "numbers = 3" in shown.out
    again = run("train", "--out", "one", "--resume", "--set", f"{KEY}.three.problems=5")
    assert again.code == 2
    assert f"{KEY}.three.problems is 4 there, 5 here" in again.err


def test_a_wrong_set_is_one_line(run: Run) -> None:
    ran = run("train", *tiny_options(f"{KEY}.three={{task={{numbrs=3}}}}"), "--dry-run")
    assert ran.code == 2
    assert f"unknown key {KEY}.three.task.numbrs, did you mean {KEY}.three.task.numbers?" in ran.err


def test_a_study_compares_downstream_with_held_out(run: Run) -> None:
    values = (*TINY, "scale.budget.amount=2")
    sets = "\n".join(f'"{text.partition("=")[0]}" = {text.partition("=")[2]}' for text in values)
    Path("study.toml").write_text(
        f"""name = "tiny"
seeds = [0]
base.scale = "laptop"
cells = [{{ name = "kept", set = {{ "recipe.zero_variance" = "keep" }} }}]
[base.set]
{sets}
"{KEY}.three.task" = {{ numbers = 3, held_out_share = 0.9 }}
"{KEY}.three.tokens" = {{ prompt = 9, thinking = 7 }}
"{KEY}.three.problems" = 4
"""
    )
    ran = run("study", "run", "study.toml", "--out", "out", "--workers", "1")
    assert ran.code == 0, ran.err
    (found,) = json.loads(Path("out/results.json").read_text())["downstream"]
    assert found["name"] == "three"
    assert [cell["name"] for cell in found["cells"]] == ["base", "kept"]
    assert found["reason"] == "2 of the cells got to the full budget, and ranks need 3"
    text = run("study", "report", "out", "--format", "md").out
    assert "Downstream set three: no rank correlation, because 2 of the cells" in text
    assert "| Cell, set three |" in text
