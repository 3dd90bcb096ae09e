"""From a folder to results.json: what is read, what is missing, and the same bytes for the same curves."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalerl import Series
from scalerl.study.analyse import curves_of
from scalerl.study.folder import StudyFolder
from scalerl.study.gather import gather
from scalerl.study.jobs import Outcome
from scalerl.study.replay import replay_results
from scalerl.study.results import rounded, to_text, write_results
from scalerl.study.stability import stability

from .simulated import LAST, curves_of_study, folder_of

CURVES = curves_of_study(("base", "twin", "worse"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    made = folder_of(tmp_path_factory.mktemp("study") / "one", CURVES)
    made.add_decision({"rung": 0.5, "cell": "worse", "action": "keep", "probability": 0.2, "reason": "r", "at": "now"})
    return made


@pytest.fixture(scope="module")
def results(folder: StudyFolder) -> dict[str, Any]:
    return write_results(folder)


def test_the_same_curves_give_the_same_bytes(folder: StudyFolder, results: dict[str, Any], tmp_path: Path) -> None:
    other = folder_of(tmp_path / "another place", CURVES)
    other.add_decision(
        {"rung": 0.5, "cell": "worse", "action": "keep", "probability": 0.2, "reason": "r", "at": "then"}
    )

    write_results(other)

    assert other.results_path.read_bytes() == folder.results_path.read_bytes() == to_text(results).encode()


def test_no_path_is_in_it(folder: StudyFolder, results: dict[str, Any]) -> None:
    assert str(folder.path.parent) not in to_text(results)
    assert "log.csv" not in to_text(results)


def test_what_it_says(results: dict[str, Any]) -> None:
    assert results["study"] == "simulated"
    assert results["jobs"] == {
        "planned": 9, "finished": 9, "pruned": 0, "failed": 0, "missing": 0, "failures": [],
    }  # fmt: skip
    assert [cell["name"] for cell in results["cells"]] == ["base", "twin", "worse"]
    assert [choice["cell"] for choice in results["choices"]] == ["twin", "worse"]
    assert results["cells"][1]["paper"] == "twin in the paper"
    assert results["cells"][1]["changes"] == {"choice": ["base", "twin"]}
    assert results["at"] == pytest.approx(LAST)
    assert results["value_name"] == "pass_rate"
    assert results["decisions"] == [
        {"rung": 0.5, "cell": "worse", "action": "keep", "probability": 0.2, "reason": "r"},
    ]  # fmt: skip
    assert [(one["cell"], one["seed"]) for one in results["stability"][:4]] == [
        ("base", 0), ("base", 1), ("base", 2), ("twin", 0),
    ]  # fmt: skip


def test_the_curves_come_back_and_can_be_raced_again(results: dict[str, Any]) -> None:
    read = json.loads(to_text(results))
    back = curves_of(read)

    assert back.keys() == CURVES.keys()
    np.testing.assert_allclose(back["worse"][2].value, CURVES["worse"][2].value, rtol=1e-9)
    assert back["worse"][2].start == CURVES["worse"][2].start
    played = replay_results(read)
    assert played.rungs == (0.3, 0.5, 0.7)
    assert [one.cell for one in played.stopped] == ["worse"]


def test_an_unfinished_study_says_what_is_missing_and_fails_nothing(tmp_path: Path) -> None:
    unfinished = [("twin", 0), ("twin", 1), ("twin", 2), ("worse", 2)]
    folder = folder_of(tmp_path / "study", CURVES, unfinished=unfinished)
    failed = next(job for job in folder.plan.jobs if (job.cell, job.seed) == ("worse", 1))
    folder.write_outcome(failed, Outcome("failed", 0.5, "exit code 3: out of memory"))

    found = write_results(folder)

    assert found["jobs"]["missing"] == 4
    assert found["jobs"]["failures"] == [{"cell": "worse", "seed": 1, "error": "exit code 3: out of memory"}]
    assert [choice["cell"] for choice in found["choices"]] == ["worse"]
    assert found["choices"][0]["verdict"] == "lowers the ceiling"
    assert [cell["joint"] is None for cell in found["cells"]] == [False, True, False]
    assert found["extrapolation"]["seeds"]["count"] == 4


def test_a_study_that_has_not_begun_has_results_too(tmp_path: Path) -> None:
    every = [(cell, seed) for cell in CURVES for seed in (0, 1, 2)]
    found = write_results(folder_of(tmp_path / "study", CURVES, unfinished=every))

    assert found["choices"] == []
    assert found["at"] is None
    assert found["extrapolation"]["cells"] == {"count": 0, "coverage": None, "mean_absolute_error": None}


def test_a_pruned_cell_keeps_its_full_budget(tmp_path: Path) -> None:
    cut = CURVES | {"worse": {seed: one.window(None, LAST / 2) for seed, one in CURVES["worse"].items()}}
    folder = folder_of(tmp_path / "study", cut)
    for job in folder.plan.jobs_of("worse"):
        folder.write_outcome(job, Outcome("pruned", 0.5))
    never_run = folder.plan.jobs_of("twin")[2]
    shutil.rmtree(folder.run_path(never_run))
    folder.write_outcome(never_run, Outcome("pruned", 0.0))

    gathered = gather(folder)

    assert set(gathered.curves["twin"]) == {0, 1}
    assert gathered.full["twin"] == pytest.approx(LAST)
    assert gathered.full["worse"] == pytest.approx(LAST)
    assert {job.state for job in gathered.jobs if job.cell == "worse"} == {"pruned"}


def test_numbers_have_ten_digits_and_the_unknown_is_null() -> None:
    assert rounded({"a": [1 / 3, math.inf, np.float64(2.0)], "b": (1, True, "x", None)}) == {
        "a": [0.3333333333, None, 2.0],
        "b": [1, True, "x", None],
    }


def test_a_fall_that_lasts_is_a_collapse_and_a_dip_is_not(tmp_path: Path) -> None:
    rise = np.linspace(0.3, 0.8, 12)
    fallen = Series.of(np.arange(1, 16), [*rise, 0.6, 0.5, 0.4])
    dipped = Series.of(np.arange(1, 16), [*rise, 0.4, 0.75, 0.78])

    assert stability("cell", 0, fallen, tmp_path).collapsed is True
    assert stability("cell", 0, dipped, tmp_path).collapsed is False
    assert stability("cell", 0, dipped, tmp_path).truncation_max is None
    assert (
        stability("cell", 0, replace(dipped, compute=dipped.compute[:2], value=dipped.value[:2]), tmp_path).best is None
    )


def test_truncation_and_entropy_come_from_our_own_metrics(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"identity": "x", "config": {}}')
    steps = [
        {"step": i, "truncation_rate": 0.5 if i < 30 else 0.1, "entropy": 1.0 / (i + 1), "effective_prompts": 60 - i}
        for i in range(60)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))

    found = stability("cell", 0, CURVES["base"][0], tmp_path)

    assert found.truncation_max == pytest.approx(0.5)
    assert found.truncation_last == pytest.approx(0.1)
    assert found.entropy_last == pytest.approx(np.mean([1 / (i + 1) for i in range(40, 60)]))
    assert found.prompts_last == pytest.approx(10.5)
