"""Sparse CSV logs: what they say, what makes them logs, and what damage costs."""

import csv
from pathlib import Path

import pytest

from scalerl.readers.logs.csv_log import CsvLog, head_rows, is_csv_log
from scalerl.readers.logs.records import Record, Tally

LIGHTNING = [
    {"epoch": 0, "step": 9, "train/loss": 0.5, "lr": 1e-6},
    {"epoch": 0, "step": 19, "train/loss": 0.4, "lr": 1e-6},
    {"epoch": 0, "step": 19, "val/acc": 0.31},
    {"epoch": 1, "step": 29, "train/loss": 0.3, "lr": 1e-6},
]
"""As Lightning's CSVLogger writes it (lightning/fabric/loggers/csv_logs.py): a dict a row, with csv.DictWriter."""


def write(path: Path, rows: list[dict[str, float]] = LIGHTNING, delimiter: str = ",") -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def read(path: Path, data: bytes | None = None) -> tuple[list[Record], Tally]:
    if data is not None:
        path.write_bytes(data)
    tally = Tally()
    return list(CsvLog(path, str(path)).records(tally)), tally


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_sparse_rows(tmp_path: Path, delimiter: str) -> None:
    path = write(tmp_path / "metrics.csv", delimiter=delimiter)
    records, tally = read(path)
    assert [record.step for record in records] == [9, 19, 19, 29]
    assert [dict(record.values) for record in records] == [
        {name: value for name, value in row.items() if name != "step"} for row in LIGHTNING
    ]
    assert tally.skipped == {}
    assert is_csv_log(*head_rows(path.read_bytes()))


def test_times_and_columns_of_text(tmp_path: Path) -> None:
    data = b"step,timestamp,phase,a,b\n1,2026-03-01 10:00:00,train,1,\n2,2026-03-01 10:00:30,eval,,nan\n"
    records, tally = read(tmp_path / "log", data)
    assert [record.time_s for record in records if record.time_s] == [1772359200, 1772359230]
    assert str([dict(record.values) for record in records]) == "[{'a': 1.0}, {'b': nan}]"
    assert tally.skipped == {}


HEAD = b"step,a,b,c\n1,1,,\n2,2,,\n"


@pytest.mark.parametrize(
    ("rest", "steps", "skipped"),
    [
        (b"3,3\n4,4,,,,\n5,5,,\n", [1, 2, 5], {"rows with a wrong number of cells": 2}),
        (b"3,oops,1,\n4,4,,\n", [1, 2, 3, 4], {"cells that are not numbers": 1}),
        (b'3,"3,,\n4,4,,\n', [1, 2, 4], {"broken rows": 1}),
        (b"3,3,,\n4,4", [1, 2, 3], {"torn last rows": 1}),
        (b"3,3,0.5,0.", [1, 2, 3], {"last cells that may be cut off (no line end)": 1}),
        (b"\xff\xfe\x00\n4,4,,\n", [1, 2, 4],
         {"lines with NUL bytes (which were ignored)": 1, "rows with a wrong number of cells": 1}),
        (b",7,8,9\n4,4,,\n", [1, 2, 2, 4], {}),  # no step: it belongs to the row before
        (b"", [1, 2], {}),
    ],
)  # fmt: skip
def test_damage_costs_the_damaged_row(tmp_path: Path, rest: bytes, steps: list[int], skipped: dict[str, int]) -> None:
    records, tally = read(tmp_path / "log", HEAD + rest)
    assert [record.step for record in records] == steps
    assert tally.skipped == skipped


def test_a_restart_that_writes_its_header_again(tmp_path: Path) -> None:
    records, tally = read(tmp_path / "log", HEAD + b"step,a,b,d\n1,10,,40\n")
    assert [(record.step, record.session) for record in records] == [(1, 0), (2, 0), (1, 1)]
    assert records[-1].values == {"a": 10, "d": 40}
    assert tally.skipped == {}


def test_an_empty_file(tmp_path: Path) -> None:
    assert read(tmp_path / "log", b"")[0] == []
    assert read(tmp_path / "log", b"step,a,b,c\n")[0] == []


@pytest.mark.parametrize(
    "text",
    [
        "step,pass_rate\n1,0.1\n2,\n",  # the strict reader says what is wrong with it
        "compute,value,n\n1,0.1,100\n2,0.2,\n",
        "step,pass_rate,n,seed,lr\n1,0.1,,1,1e-6\n2,0.2,100,1,1e-6\n",  # n may be empty in a table
        "step,seed,a,b\n1,1,0.1,0.1\n2,1,0.2,0.2\n1,2,0.1,0.1\n",  # several curves, told apart by --by
        "flops,tokens,val_acc,loss\n1,1,,1\n2,2,0.1,1\n",
        "",
    ],
)
def test_a_table_stays_a_table(text: str) -> None:
    assert not is_csv_log(*head_rows(text.encode()))


@pytest.mark.parametrize(
    "text",
    [
        "step,val_acc,loss,lr\n1,,0.5,1\n2,0.1,,\n",
        "step,loss,kl,entropy\n1,0.5,0.1,2\n2,0.4,0.1,2\n",  # nothing there looks like the value
        "step,val_acc,test_acc,loss\n1,0.1,0.1,\n1,0.2,0.2,\n2,,,1\n",
    ],
)
def test_a_log_is_a_log(text: str) -> None:
    assert is_csv_log(*head_rows(text.encode()))
