"""Reading good files: every format gives the same curve, and curves get the right names."""

import io
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalerl.readers import read_curves, read_table
from scalerl.series import Series, StartValue

COMPUTE = [100.0, 200.0, 400.0]
VALUE = [0.25, 0.5, 0.75]


def write(folder: Path, text: str | bytes, name: str = "run.csv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def check(series: Series) -> None:
    assert series.compute.tolist() == COMPUTE
    assert series.value.tolist() == VALUE


@pytest.mark.parametrize(
    "text",
    [
        "gpu_hours,pass_rate\n100,.25\n200,.5\n400,.75\n",
        "gpu_hours,pass_rate\r\n100,.25\r\n200,.5\r\n400,.75",
        "gpu_hours,pass_rate\r100,.25\r200,.5\r400,.75\r",
        "\ufeffgpu_hours,pass_rate\n100,.25\n200,.5\n400,.75\n",
        "gpu_hours\tpass_rate\n100\t.25\n200\t.5\n400\t.75\n",
        "GPU-Hours; Pass Rate \n100; .25\n\n200;.5\n  \n400;.75\n\n",
        'note,pass_rate,gpu_hours\n"a, b\n ""c""",0.25,100\nd,0.5,2e2\n,0.75,400\n',
        '"odd, name",pass_rate,gpu_hours\n1,.25,100\n2,.5,200\n3,.75,400\n',
        "gpu_hours,pass_rate\n400,.75\n100,.25\n200,.5\n",
        '{"step": 100, "acc": 0.25}\n\n{"acc": 0.5, "step": 200.0, "more": [1]}\n{"step": 4e2, "acc": 0.75}',
        '\ufeff {"step": 100, "acc": 0.25, "t": "x"}\r\n{"step": 200, "acc": 0.5}\r\n{"step": 400, "acc": 0.75}\r\n',
    ],
    ids=["plain", "crlf", "cr", "bom", "tabs", "semicolons", "quotes", "quoted header", "order", "jsonl", "jsonl bom"],
)
def test_text_formats(tmp_path: Path, text: str) -> None:
    (series,) = read_table(write(tmp_path, text, "run.dat"))
    check(series)
    assert series.name == "run"
    assert series.n is None
    assert series.start is None
    assert series.source == str(tmp_path / "run.dat")


def test_parquet_reads_any_numeric_type(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"  # recognised by content, not by extension
    values = pa.array(VALUE, pa.float32())
    pq.write_table(
        pa.table({"step": pa.array([100, 200, 400], pa.int32()), "text": ["a", "b", "c"], "acc": values}), path
    )
    (series,) = read_table(path)
    check(series)
    assert (series.compute_name, series.value_name) == ("step", "acc")


def test_parquet_with_n_and_curves(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    table = {"step": [1, 1, 2, 2], "y": [0.1, 0.2, 0.3, 0.4], "n": [10, None, 20, None], "run": [7, 8, 7, 8]}
    pq.write_table(pa.table(table), path)
    first, second = read_table(path, by="run")
    assert (first.name, first.value.tolist()) == ("7", [0.1, 0.3])
    assert first.n is not None
    assert first.n.tolist() == [10, 20]
    assert (second.name, second.n) == ("8", None)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"step,y\n100,.25\n200,.5\n400,.75\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    (series,) = read_table("-")
    check(series)
    assert (series.name, series.source) == ("stdin", "standard input")


def test_row_at_zero_compute_is_the_start(tmp_path: Path) -> None:
    (series,) = read_table(write(tmp_path, "step,y,n\n0,.1,64\n100,.25,128\n200,.5,128\n400,.75,128\n"))
    check(series)
    assert series.start == StartValue(0.1, 64)


def test_unknown_n_gets_the_median_of_the_known(tmp_path: Path) -> None:
    (series,) = read_table(write(tmp_path, "step,y,n_eval\n100,.25,10\n200,.5,\n400,.75,30\n"))
    assert series.n is not None
    assert series.n.tolist() == [10, 20, 30]


@pytest.mark.parametrize("option", [None, "none"])
def test_n_is_none_when_nowhere_known_or_not_wanted(tmp_path: Path, option: str | None) -> None:
    cell = "" if option is None else "5"
    (series,) = read_table(write(tmp_path, f"step,y,n\n1,.25,{cell}\n2,.5,{cell}\n"), n=option)
    assert series.n is None


def test_file_without_header(tmp_path: Path) -> None:
    (series,) = read_table(write(tmp_path, "100,.25\n200,.5\n400,.75\n"))
    check(series)
    assert (series.compute_name, series.value_name) == ("compute", "value")
    (series,) = read_table(write(tmp_path, "9,100,.25\n9,200,.5\n9,400,.75\n"), x="2", y="3")
    check(series)


def test_curves_in_order_of_appearance(tmp_path: Path) -> None:
    path = write(tmp_path, "run,seed,step,y\nb,1,1,.1\na,1,1,.2\nb,2,1,.3\nb,1,2,.4\n")
    assert [s.name for s in read_table(path, by="run", duplicates="last")] == ["b", "a"]
    series = read_table(path, by="run, seed")
    assert [(s.name, s.value.tolist()) for s in series] == [("b/1", [0.1, 0.4]), ("a/1", [0.2]), ("b/2", [0.3])]


def test_curve_names_that_would_clash_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path, "p,q,step,y\na/b,c,1,.1\na,b/c,1,.2\n")
    assert len({s.name for s in read_table(path, by="p,q")}) == 2


def test_bounds_are_an_option(tmp_path: Path) -> None:
    path = write(tmp_path, "step,reward\n1,-3\n2,55\n")
    assert read_table(path, bounds=None)[0].value.tolist() == [-3, 55]
    assert read_table(path, bounds=(-5, 100))[0].value.tolist() == [-3, 55]


def test_read_curves_names_files(tmp_path: Path) -> None:
    text = "step,y\n1,.1\n2,.2\n"
    paths = [write(tmp_path, text, name) for name in ("a/log.csv", "b/log.csv", "c.csv")]
    assert list(read_curves([paths[0], paths[2]])) == ["log", "c"]
    curves = read_curves(paths[:2])
    assert list(curves) == ["a/log", "b/log"]
    assert [s.name for seeds in curves.values() for s in seeds] == ["a/log", "b/log"]
    assert read_curves([]) == {}


def test_read_curves_groups_seeds(tmp_path: Path) -> None:
    path = write(tmp_path, "run,step,y\na,1,.1\na,1,.2\nb,1,.3\na,2,.4\na,2,.5\n")
    curves = read_curves([path], by="run", duplicates="seeds")
    assert {name: [s.name for s in seeds] for name, seeds in curves.items()} == {"a": ["a#1", "a#2"], "b": ["b"]}


def test_read_curves_tells_equal_names_in_two_files_apart(tmp_path: Path) -> None:
    one = write(tmp_path, "run,step,y\nx,1,.1\ny,1,.2\n", "one.csv")
    two = write(tmp_path, "run,step,y\nx,1,.3\n", "two.csv")
    curves = read_curves([one, two], by="run")
    assert list(curves) == ["one/x", "y", "two/x"]
    assert curves["two/x"][0].name == "two/x"
    assert curves["two/x"][0].value.tolist() == [0.3]


def test_many_blocks_give_every_row_once(tmp_path: Path) -> None:
    """More than one block, with quoted line ends, so that rows straddle block borders."""
    count = 30_000
    rows = "".join(f'{i},"say ""{i}""\n{"x" * (i % 97)}",{i / count}\n' for i in range(1, count + 1))
    assert len(rows) > 1 << 20
    (series,) = read_table(write(tmp_path, "step,note,y\n" + rows))
    np.testing.assert_array_equal(series.compute, np.arange(1, count + 1))
    np.testing.assert_allclose(series.value, np.arange(1, count + 1) / count)


CUT = "x,y\n100,0.25\n200,0.5\n400,0.7"


def test_a_last_number_that_may_be_cut_off_is_used_and_said(tmp_path: Path) -> None:
    """A file written just now that ends in the middle of a line; of an old one that is how it ends."""
    path = write(tmp_path, CUT)
    (series,) = read_table(path, x="x", y="y")
    assert series.value[-1] == 0.7
    assert series.notes == ("the last line has no line end, and the file was written just now: its y may be cut off",)
    os.utime(path, (time.time() - 3600,) * 2)
    assert read_table(path, x="x", y="y")[0].notes == ()


@pytest.mark.parametrize("text", [CUT + "\n", "y,x,z\n0.25,100,a\n0.5,200,b\n0.7,400,c"])
def test_a_last_number_that_is_whole_or_not_needed_is_not_doubted(tmp_path: Path, text: str) -> None:
    assert read_table(write(tmp_path, text), x="x", y="y")[0].notes == ()
