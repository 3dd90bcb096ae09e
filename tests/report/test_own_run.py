"""What stands beside a curve: panels of any number of steps in little memory, the same however they were read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalerl.readers.json_lines import Record
from scalerl.report import training_panels
from scalerl.report.own_run import OwnReader, read_own_run
from scalerl.report.thinning import Thinned, in_bins, rounded
from scalerl.report.training_panels import MOST_PLACES, MOST_STRETCHES, TrainingPanels
from scalerl.runs import RunDirectory

from .runs import begin, evaluate


def steps(count: int) -> list[Record]:
    rng = np.random.default_rng(count)
    records: list[Record] = [
        {"step": i, "entropy": float(rng.random()), "grad_norm": None if i % 3 else float(i), "age_max": i % 5}
        for i in range(1, count + 1)
    ]
    records[0] |= {"mean_length": "long", "step": True}  # neither is a number
    return records


def drawn(records: list[Record], key: str) -> dict[str, Any]:
    """All values in memory, then means over stretches of equal length."""
    known = [(r["step"], r[key]) for r in records if type(r["step"]) is int and type(r.get(key)) in {int, float}]
    steps_, values = np.array(known, dtype=np.float64).T
    x, y = in_bins(steps_, values, MOST_PLACES)
    return {"x": rounded(x), "y": rounded(y, 4)}


def line_of(panels: Any, name: str) -> Any:
    (found,) = [line for panel in panels for line in panel["lines"] if line["name"] == name]
    return {"x": found["x"], "y": found["y"]}


@pytest.mark.parametrize("count", [2, MOST_PLACES, MOST_PLACES + 1, MOST_STRETCHES])
def test_panels_are_exact_while_there_are_not_too_many_steps(count: int) -> None:
    records = steps(count)
    panels = TrainingPanels()
    panels.add(records)
    documents = panels.documents()
    assert [panel["title"] for panel in documents][:2] == ["Entropy", "Age of the rollouts"]
    assert line_of(documents, "entropy") == drawn(records, "entropy")
    assert line_of(documents, "largest") == drawn(records, "age_max")
    assert "Length" not in {panel["title"] for panel in documents}


@pytest.mark.parametrize("piece", [1, 7, 1000, 10**6])
def test_panels_of_many_steps_keep_the_level(piece: int) -> None:
    records = steps(3 * MOST_STRETCHES + 5)
    panels = TrainingPanels()
    for start in range(0, len(records), piece):
        panels.add(records[start : start + piece])
    found, wanted = line_of(panels.documents(), "entropy"), drawn(records, "entropy")
    assert len(found["x"]) == MOST_PLACES
    # each place is the mean of the same steps but for a stretch at both ends
    assert np.allclose(found["x"], wanted["x"], atol=8)
    assert np.allclose(found["y"], wanted["y"], atol=0.1)


def test_a_number_that_no_float_can_hold_is_left_out() -> None:
    panels = TrainingPanels()
    panels.add([{"step": 1, "entropy": 0.5}, {"step": 2, "entropy": 10**400}, {"step": 10**400, "entropy": 0.5}])
    assert line_of(panels.documents(), "entropy") == {"x": [1.0], "y": [0.5]}


@pytest.mark.parametrize("pieces", [[1] * 1000, [999, 1], [3, 500, 1, 496], [1000]])
def test_stretches_are_few_and_lose_no_row(pieces: list[int]) -> None:
    most = 16
    rows = np.stack([np.arange(1000.0), np.sin(np.arange(1000.0)), np.full(1000, np.nan)])
    line, start = Thinned(3, most, samples=1000), 0
    for piece in pieces:
        line.add(rows[:, start : start + piece])
        start += piece
    found = line.points()
    assert (found.shape[1], line.every) == (16, 1)
    length = 64  # 1000 rows in at most 16 stretches
    assert np.allclose(found[:2, :15], rows[:2, : 15 * length].reshape(2, 15, length).mean(axis=2))
    assert np.allclose(found[:2, 15], rows[:2, 15 * length :].mean(axis=1))
    assert np.isnan(found[2]).all()


def test_of_long_stretches_not_every_row_is_wanted() -> None:
    line, start, given = Thinned(2, most=16, samples=4), 0, 0
    while start < 100_000:
        line.add(np.array([[start], [start % 2 if line.every == 1 else 0.5]], dtype=float))
        start, given = start + line.every, given + 1
    found = line.points()
    assert given < 1000
    assert 8 <= found.shape[1] <= 17
    assert np.allclose(np.diff(found[0])[:-1], np.diff(found[0])[0], rtol=0.05)  # of equal length
    assert found[0, -1] == pytest.approx(100_000, rel=0.1)


def test_what_is_missing_is_no_part_of_a_mean() -> None:
    line = Thinned(1, most=2)
    line.add(np.array([[1.0, np.nan, np.nan, np.nan, 3.0]]))
    assert np.array_equal(line.points(), [[1.0, np.nan, 3.0]], equal_nan=True)


def write_steps(run: RunDirectory, records: list[Record]) -> None:
    run.metrics.path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_run_is_read_to_its_end_however_long(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", range(0, 100, 20))
    records = [record | {"text": "x" * 2000} for record in steps(1500)]  # some pieces
    records.append((run.metrics.last() or {}) | {"step": 1501})
    write_steps(run, records)
    assert line_of(read_own_run(run.path).panels, "entropy") == drawn(records, "entropy")
    reader = OwnReader(run.path)
    own = reader.read(100_000)
    pieces = 1
    while reader.behind:
        own, pieces = reader.read_on(own, 100_000), pieces + 1
    assert pieces > 10
    assert own.panels == read_own_run(run.path).panels


def test_of_very_many_steps_not_all_are_parsed(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", range(0, 100, 20))
    last = json.dumps((run.metrics.last() or {}) | {"step": 200_000})
    with run.metrics.path.open("w") as stream:
        stream.writelines(f'{{"step": {step}, "entropy": {step % 10}}}\n' for step in range(1, 200_000))
        stream.write(last + "\n")
    reader = OwnReader(run.path)
    own = reader.read_all()
    assert reader._panels.every > 1
    line = line_of(own.panels, "entropy")
    assert np.allclose(np.diff(line["x"]), 1000, atol=250)
    assert abs(np.mean(line["y"]) - 4.5) < 0.1
    assert line["x"][-1] > 199_000


def test_of_a_run_that_grows_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(tmp_path / "run", range(0, 400, 20))
    reader = OwnReader(run.path)
    first = reader.read()
    counts: list[int] = []
    add = TrainingPanels.add

    def counted(self: TrainingPanels, records: list[Record]) -> None:
        counts.append(len(records))
        add(self, records)

    monkeypatch.setattr(training_panels.TrainingPanels, "add", counted)
    evaluate(run, 400)
    second = reader.read()
    third = reader.read()
    assert counts == [1, 0]
    assert second.summary.step == 400
    assert line_of(second.panels, "entropy")["x"] == [*line_of(first.panels, "entropy")["x"], 400.0]
    assert third.panels == second.panels


def test_a_run_that_went_back_to_a_checkpoint_is_read_anew(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", range(0, 400, 20))
    reader = OwnReader(run.path)
    reader.read()
    lines = run.metrics.read()
    write_steps(run, [*lines[:10], *(line | {"entropy": 0.25} for line in lines[10:]), lines[-1] | {"step": 400}])
    assert line_of(reader.read().panels, "entropy")["y"][10:-1] == [0.25] * 10


def test_events_are_the_last_ones(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", range(0, 100, 20))
    for step in range(60):
        run.events.append({"time": "", "step": step, "event": "alarm", "message": f"number {step}"})
    assert [event["step"] for event in read_own_run(run.path).events] == list(range(10, 60))
