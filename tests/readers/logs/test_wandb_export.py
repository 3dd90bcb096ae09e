"""Histories as people save them, and the CSV of a chart.

The CSV cannot be written by a library. Its shape (the axis, then `RUN - METRIC` with `__MIN` and `__MAX`, quotes around
every name, empty cells) is that of exports quoted in public scripts that read them.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalerl.errors import InputError
from scalerl.readers.logs.records import Log, Record, Tally
from scalerl.readers.logs.wandb_export import (
    HistoryLinesLog,
    HistoryTableLog,
    is_history_line,
    is_web_export,
    web_export_logs,
)

ROWS: list[dict[str, Any]] = [
    {"_step": 0, "_timestamp": 1000.0, "_runtime": 5.0, "val/accuracy": 0.25, "note": "start"},
    {"_step": 1, "_timestamp": 1060.0, "_runtime": 65.0, "loss": "NaN", "lengths": {"_type": "histogram", "bins": [1]}},
    {"_step": 2, "_timestamp": 1120.0, "_runtime": 125.0, "val/accuracy": 0.5, "perf": {"tokens": 2048}},
    {"_step": 3, "_timestamp": 1180.0, "_runtime": 185.0},
]
CHART = """"Step","base - run - val/accuracy","base - run - val/accuracy__MIN","base - run - val/accuracy__MAX",\
"large - val/accuracy","large - val/accuracy__MIN","large - val/accuracy__MAX"
"0","0.25","0.2","0.3","","",""
"10","0.5","0.5","0.5","0.375","0.375","0.375"
"20","","","","0.75","0.7","0.8"
"""


def read(log: Log) -> tuple[list[Record], Tally]:
    tally = Tally()
    return list(log.records(tally)), tally


def chart(tmp_path: Path, text: str = CHART) -> Path:
    path = tmp_path / "wandb_export.csv"
    path.write_text(text)
    return path


def test_history_lines(tmp_path: Path) -> None:
    path = tmp_path / "wandb-history.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    records, tally = read(HistoryLinesLog(path, "log"))
    assert [(record.step, record.time_s) for record in records] == [(0, 1000), (1, 1060), (2, 1120)]
    assert records[0].values == {"val/accuracy": 0.25, "_runtime": 5}
    assert math.isnan(records[1].values["loss"])
    assert records[2].values == {"val/accuracy": 0.5, "perf.tokens": 2048, "_runtime": 125}
    assert not tally.skipped


def test_damaged_history_lines(tmp_path: Path) -> None:
    path = tmp_path / "wandb-history.jsonl"
    lines = [json.dumps(row).encode() for row in ROWS[:3]]
    path.write_bytes(b"\n".join([lines[0], b'{"_step": 1, "va', b"\xff\xfe", b"[1]", lines[2], lines[1][:-9]]))
    records, tally = read(HistoryLinesLog(path, "log"))
    assert [record.step for record in records] == [0, 2]
    assert tally.skipped == {"broken lines": 3, "unfinished last lines": 1}
    assert tally.first["broken lines"] == "line 2"


def test_without_a_time_the_runtime_is_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"_step": 4, "_runtime": 12.5, "reward": 1}\n')
    (record,), _ = read(HistoryLinesLog(path, "log"))
    assert record.time_s == 12.5


def test_history_table(tmp_path: Path) -> None:
    path = tmp_path / "0000.parquet"
    rows = [{name: cell for name, cell in row.items() if name not in {"lengths", "loss"}} for row in ROWS]
    pq.write_table(pa.Table.from_pylist(rows, schema=_schema()), path, row_group_size=2)
    records, tally = read(HistoryTableLog(path, "log"))
    assert [(record.step, record.time_s) for record in records] == [(0, 1000), (2, 1120)]
    assert records[1].values == {"val/accuracy": 0.5, "perf.tokens": 2048, "_runtime": 125}
    assert not tally.skipped


def _schema() -> Any:
    numbers = [(name, pa.float64()) for name in ("_timestamp", "_runtime", "val/accuracy")]
    nested = [("perf", pa.struct([("tokens", pa.int64())]))]
    return pa.schema([("_step", pa.int64()), *numbers, ("note", pa.string()), *nested])


def test_a_cut_parquet_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "0000.parquet"
    pq.write_table(pa.table({"_step": [1], "_runtime": [1.0], "a": [0.5]}), path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="broken Parquet") as caught:
        read(HistoryTableLog(path, "log"))
    assert "\n" not in str(caught.value)


def test_history_is_recognised() -> None:
    assert all(is_history_line(row) for row in ROWS)
    assert is_history_line(dict.fromkeys(["_step", "_runtime", "loss"]))
    assert not is_history_line({"step": 1, "_timestamp": 2, "loss": 3})
    assert not is_history_line({"_step": 1, "loss": 3})


def test_each_run_of_a_chart_is_a_log(tmp_path: Path) -> None:
    base, large = web_export_logs(chart(tmp_path), "chart.csv")
    assert (base.name, large.name, base.label) == ("base - run", "large", "chart.csv")
    records, tally = read(base)
    assert [(record.step, record.values) for record in records] == [
        (0, {"val/accuracy": 0.25}),
        (10, {"val/accuracy": 0.5}),
    ]
    assert [record.step for record in read(large)[0]] == [10, 20]
    assert not tally.skipped


@pytest.mark.parametrize("axis", ["Relative Time (Wall)", "Relative Time (Process)", "Wall Time"])
def test_a_chart_over_time(tmp_path: Path, axis: str) -> None:
    text = (
        f'"{axis}","base - _step","base - _step__MIN","base - _step__MAX","base - loss"\n"3600.5","7","7","7","0.5"\n'
    )
    (log,) = web_export_logs(chart(tmp_path, text), "chart.csv")
    (record,), _ = read(log)
    assert (record.step, record.time_s, record.values) == (7, 3600.5, {"loss": 0.5})


def test_a_chart_over_a_metric(tmp_path: Path) -> None:
    text = '"train/tokens","base - loss","base - loss__MIN","base - loss__MAX"\n2048,0.5,0.5,0.5\n'
    (log,) = web_export_logs(chart(tmp_path, text), "chart.csv")
    (record,), _ = read(log)
    assert (record.step, record.values) == (None, {"train/tokens": 2048, "loss": 0.5})


@pytest.mark.parametrize("extra", ["", ",7"])
def test_a_chart_over_the_trainers_own_step(tmp_path: Path, extra: str) -> None:
    text = f"train/global_step,base - loss,base - loss__MIN{',base - _step' if extra else ''}\n16,0.5,0.5{extra}\n"
    (log,) = web_export_logs(chart(tmp_path, text), "chart.csv")
    (record,), _ = read(log)
    assert (record.step, record.values) == (16, {"train/global_step": 16, "loss": 0.5})


def test_damaged_charts(tmp_path: Path) -> None:
    path = chart(tmp_path, CHART + '"30","wide","","","","",""\n"40","0.5"\n"50","0.5","0.5","0.5","0.6","0')
    records, tally = read(web_export_logs(path, "chart.csv")[0])
    assert [record.step for record in records] == [0, 10]
    assert tally.skipped == {
        "cells that are not numbers": 1,
        "lines with a wrong number of cells": 1,
        "unfinished last lines": 1,
    }
    assert tally.first["lines with a wrong number of cells"] == "line 6"


def test_charts_are_recognised() -> None:
    assert is_web_export(["Step", "base - loss", "base - loss__MIN", "base - loss__MAX"])
    assert is_web_export(["Step", "base - loss"])
    assert is_web_export(["epoch", "base - loss", "base - loss__MIN", "base - loss__MAX"])
    assert not is_web_export(["epoch", "base - loss"])
    assert not is_web_export(["step", "loss", "loss__MIN"])
    assert not is_web_export(["Step"])
    assert not is_web_export([])


def test_another_file_is_no_chart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a chart's export"):
        web_export_logs(chart(tmp_path, "step,loss\n1,2\n"), "chart.csv")
    with pytest.raises(InputError, match="not a chart's export"):
        web_export_logs(chart(tmp_path, ""), "chart.csv")
