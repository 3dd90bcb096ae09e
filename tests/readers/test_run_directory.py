"""Our own run directory as a curve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalerl.errors import InputError
from scalerl.readers import read_curves, read_table
from scalerl.series import StartValue


def line(step: int, pass_rate: float | None, **values: Any) -> dict[str, Any]:
    """At each step 1 TFLOP of generation, 2 of training; 100 and 50 tokens; 36 and 72 device-seconds."""
    ledger = {
        "generation": {"device_s": 36.0 * step, "flops": 1e12 * step, "tokens": 100 * step},
        "training": {"device_s": 72.0 * step, "flops": 2e12 * step, "tokens": 50 * step},
        "evaluation": {"device_s": 999.0, "flops": 9e15, "tokens": 9999},
    }
    record = {"step": step, "pass_rate": pass_rate, "num_problems": 50, "num_samples": 4, "num_judged": 200 - step}
    return {**record, "standard_error": 0.02, "mean_length": 30.0 + step, "ledger": ledger, "wall_s": 1.0, **values}


def run(path: Path, records: list[dict[str, Any]], end: str = "\n") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps({"format": 1, "identity": "abc", "config": {}}))
    (path / "evals.jsonl").write_text("\n".join(map(json.dumps, records)) + end)
    return path


POINTS = [line(0, 0.2), line(10, 0.4), line(20, 0.5)]


def test_flops_against_pass_rate(tmp_path: Path) -> None:
    (series,) = read_table(run(tmp_path / "my.run", POINTS))
    assert series.compute.tolist() == [3e13, 6e13]
    assert series.value.tolist() == [0.4, 0.5]
    assert series.n is not None
    assert series.n.tolist() == [190.0, 180.0]
    assert series.start == StartValue(0.2, 200.0)
    assert (series.name, series.compute_name, series.value_name) == ("my.run", "flops", "pass_rate")
    assert series.source == str(tmp_path / "my.run" / "evals.jsonl")


@pytest.mark.parametrize(
    ("x", "compute"),
    [("flops", [3e13, 6e13]), ("tokens", [1500, 3000]), ("device_hours", [0.3, 0.6]), ("steps", [10, 20])],
)
def test_every_axis(tmp_path: Path, x: str, compute: list[float]) -> None:
    (series,) = read_table(run(tmp_path, POINTS), x=x)
    np.testing.assert_allclose(series.compute, compute)
    assert series.compute_name == x
    assert series.start == StartValue(0.2, 200.0)


def test_step_0_is_at_compute_0_whatever_it_cost_to_get_there(tmp_path: Path) -> None:
    early = line(0, 0.2) | {"ledger": line(1, 0.2)["ledger"]}
    (series,) = read_table(run(tmp_path, [early, *POINTS[1:]]))
    assert (len(series), series.start) == (2, StartValue(0.2, 200.0))


def test_other_values_and_counts(tmp_path: Path) -> None:
    run(tmp_path, POINTS)
    (series,) = read_table(tmp_path, y="mean_length", bounds=None)
    assert (series.value.tolist(), series.n) == ([40.0, 50.0], None)
    (series,) = read_table(tmp_path, n="none")
    assert series.n is None
    (series,) = read_table(tmp_path, n="num_problems")
    assert series.n is not None
    assert series.n.tolist() == [50, 50]


def test_a_torn_end_and_points_that_could_not_be_judged_are_left_out(tmp_path: Path) -> None:
    run(tmp_path, [line(0, None), *POINTS[1:], line(30, None), line(40, 0.6)], end='\n{"step": 50, "pass_')
    (series,) = read_table(tmp_path)
    assert (series.value.tolist(), series.start) == ([0.4, 0.5, 0.6], None)


def test_several_runs_are_named_by_their_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [run(tmp_path / name, POINTS) for name in ("a/lr-0.1", "a/lr-0.2", "b/lr-0.1")]
    assert list(read_curves(paths)) == ["a/lr-0.1", "a/lr-0.2", "b/lr-0.1"]
    assert list(read_curves(paths[:2])) == ["lr-0.1", "lr-0.2"]
    monkeypatch.chdir(paths[0])
    assert list(read_curves(["."])) == ["lr-0.1"]
    (tmp_path / "a" / "lr-0.1" / "evals").mkdir()
    monkeypatch.chdir(paths[0] / "evals")
    assert list(read_curves([".."])) == ["lr-0.1"]


def test_a_run_beside_a_table(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("flops,pass_rate\n3e13,.3\n6e13,.4\n")
    curves = read_curves([run(tmp_path / "run", POINTS), tmp_path / "table.csv"])
    assert list(curves) == ["run", "table"]


def refuse(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, **options)
    return str(caught.value)


def test_no_evaluations_yet(tmp_path: Path) -> None:
    run(tmp_path / "run", [], end="")
    message = "the run has no evaluations yet; allowed: a run with evaluations"
    assert refuse(tmp_path / "run") == f"{tmp_path / 'run'}: {message}"
    (tmp_path / "run" / "evals.jsonl").unlink()
    assert "no evaluations yet" in refuse(tmp_path / "run")
    assert "no evaluations yet" in refuse(run(tmp_path / "unjudged", [line(0, None), line(10, None)]))


def test_a_folder_that_is_no_run_is_still_a_folder(tmp_path: Path) -> None:
    message = "no log in this folder; allowed: a run directory, or a folder with a log of TensorBoard"
    assert message in refuse(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "evals.jsonl").write_text("{}\n")
    assert message in refuse(tmp_path)


def test_bad_options(tmp_path: Path) -> None:
    run(tmp_path, POINTS)
    assert "unknown column for --x: got 'gpu_hours'; allowed: one of flops, tokens, device_hours, steps" in refuse(
        tmp_path, x="gpu_hours"
    )
    assert "unknown column for --y: got 'reward'" in refuse(tmp_path, y="reward")
    assert "--by: got 'step'; allowed: nothing: a run directory is one curve" in refuse(tmp_path, by="step")


BAD_LINES = {
    "broken": ('{"step": 1,', "line 2: broken JSON"),
    "no object": ("3", "line 2: not a JSON object"),
    "no ledger": (json.dumps(line(10, 0.3) | {"ledger": None}), "line 2: no ledger in this object"),
    "no step": ('{"pass_rate": 0.3}', "line 2: no 'step' in this object"),
    "no value": (json.dumps({"step": 10, "ledger": line(10, 0.3)["ledger"]}), "line 2: no 'pass_rate' in this object"),
    "text": (json.dumps(line(10, 0.3) | {"pass_rate": "high"}), "line 2: not a number in column 'pass_rate'"),
    "range": (json.dumps(line(10, 40.0)), "line 2: unusable 'pass_rate': got 40.0"),
    "twice": (json.dumps(line(20, 0.3)), "lines 2 and 3: duplicate 'flops'"),
}


@pytest.mark.parametrize(("text", "message"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_bad_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    run(tmp_path, POINTS)
    first, _, last = (json.dumps(record) for record in POINTS)
    (tmp_path / "evals.jsonl").write_text(f"{first}\n{text}\n{last}\n")
    assert f"{tmp_path / 'evals.jsonl'}, {message}" in refuse(tmp_path)
