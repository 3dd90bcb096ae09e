"""Every unusable file is one `InputError` of one line that names what, the value, what is allowed, and where."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalerl.errors import InputError
from scalerl.readers import read_curves, read_table

HEADER = "gpu_hours,pass_rate\n"


def refuse(path: Path | str, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, **options)  # type: ignore[arg-type]  # options of every kind, wrong ones too
    message = str(caught.value)
    assert "\n" not in message
    return message


TEXTS = {
    "empty": ("", ["the file is empty"]),
    "blank": (" \n\n", ["the file is empty"]),
    "header only": (HEADER, ["no rows below the header"]),
    "text": (HEADER + "1,.1\n2,oops\n", ["line 3", "'pass_rate'", "'oops'", "a number"]),
    "text in compute": (HEADER + "1k,.1\n", ["line 2", "'gpu_hours'", "'1k'"]),
    "fat text": (HEADER + "1," + "z" * 200_000 + "\n", ["line 2", "zzz..."]),
    "percent sign": (HEADER + "1,45%\n", ["line 2", "'45%'", "--bounds 0,100"]),
    "decimal comma": ("gpu_hours;pass_rate\n1;0,45\n", ["line 2", "'0,45'", "decimal point"]),
    "nan": (HEADER + "1,.1\n2,nan\n", ["line 3", "'pass_rate'", "got nan", "finite"]),
    "inf": (HEADER + "inf,.1\n", ["line 2", "'gpu_hours'", "got inf"]),
    "negative compute": (HEADER + "1,.1\n-5,.1\n", ["line 3", "'gpu_hours'", "got -5.0", "zero or more"]),
    "outside bounds": (HEADER + "1,.1\n2,45\n", ["line 3", "got 45.0", "0 to 1", "--bounds 0,100", "--bounds none"]),
    "below bounds": (HEADER + "1,-.1\n", ["line 2", "got -0.1", "0 to 1"]),
    "empty cell": (HEADER + "1,.1\n2,\n", ["line 3", "empty cell", "'pass_rate'"]),
    "bad n": ("step,y,n\n1,.1,0\n", ["line 2", "'n'", "got 0.0", "positive"]),
    "text in n": ("step,y,n\n1,.1,5\n2,.1,many\n", ["line 3", "'n'", "'many'"]),
    "ragged": (HEADER + "1,.1\n2,.2,.3\n", ["line 3", "got 3", "2, as in the first row"]),
    "short row": ("step,y,n\n1,.1,2\n2,.2\n", ["line 3", "got 2"]),
    "duplicate": (HEADER + "5,.1\n3,.2\n5,.3\n3,.4\n", ["lines 2 and 4", "got 5.0", "--by", "mean|last|seeds"]),
    "unclosed quote": ('step,y,note\n1,.1,a\n2,.2,b\n3,.3,"c\n4,.4,d\n', ["line 4", "broken CSV"]),
    "line after a multi-line cell": ('a,step,y\n"1\n2\r\n3",1,.1\n\n\nx,2,oops\n', ["line 7", "'oops'"]),
    "one column": ("pass_rate\n.1\n", ["no column looks like the compute", "pass_rate"]),
    "json": ('{"step": 1, "y": 0.1}\n{"step": 2, "y": \n', ["line 2", "broken JSON"]),
    "json extra": ('{"step": 1, "y": 0.1} x\n', ["line 1", "broken JSON (Extra data)"]),
    "json deep": ('{"step": 1, "y": ' + "[" * 100_000 + "\n", ["line 1", "broken JSON (RecursionError)"]),
    "json no object": ('{"step": 1, "y": 0.1}\n[1, 2]\n', ["line 2", "not a JSON object", "'[1, 2]'"]),
    "json list": ('[{"step": 1, "y": 0.1}]\n', ["JSON list", "JSONL"]),
    "json text": ('{"step": 1, "y": 0.1}\n\n{"step": 2, "y": "0.2"}\n', ["line 3", "'y'", "'0.2'"]),
    "json bool": ('{"step": 1, "y": 0.1}\n{"step": 2, "y": true}\n', ["line 2", "'y'", "True"]),
    "json null": ('{"step": 1, "y": 0.1}\n{"step": 2, "y": null}\n', ["line 2", "empty cell", "'y'"]),
    "json absent": ('{"step": 1, "y": 0.1}\n{"step": 2}\n', ["line 2", "no 'y'"]),
    "json nan": ('{"step": 1, "y": NaN}\n', ["line 1", "got nan"]),
    "json huge": ('{"step": 1' + "0" * 400 + ', "y": 0.1}\n', ["line 1", "got inf"]),
    "json n": ('{"step": 1, "y": 0.1, "n": -2}\n', ["line 1", "'n'", "got -2.0"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "parts"), TEXTS.values(), ids=TEXTS.keys())
def test_text(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = tmp_path / "run.dat"
    path.write_bytes(text.encode())
    message = refuse(path)
    assert message.startswith(str(path))
    for part in parts:
        assert part in message
    assert len(message) < len(str(path)) + 200


def test_broken_jsonl_is_not_taken_for_csv(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('oops\n{"step": 1}\n')
    assert "line 1: broken JSON" in refuse(path)


BYTES = {
    "binary": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ["a binary file", "CSV, JSONL or Parquet"]),
    "binary later": (HEADER.encode() + b"1,.1\n" * 300_000 + b"2,\0\n", ["a binary file"]),
    "latin-1": (HEADER.encode() + b"1,.1\ncaf\xe9,.2\n", ["line 3", "byte 29 of the file", "0xe9", "UTF-8"]),
    "latin-1 later": (HEADER.encode() + b"1,.1\n" * 300_000 + b"\xe9,.2\n", ["line 300002", "byte 1500021"]),
    "utf-16": (HEADER.encode("utf-16"), ["UTF-16", "UTF-8"]),
    "broken parquet": (b"PAR1" + b"x" * 100 + b"PAR1", ["broken Parquet"]),
}


@pytest.mark.parametrize(("content", "parts"), BYTES.values(), ids=BYTES.keys())
def test_bytes(tmp_path: Path, content: bytes, parts: list[str]) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(content)
    message = refuse(path)
    for part in parts:
        assert part in message


def test_missing_folder_and_odd_names(tmp_path: Path) -> None:
    assert "no such file" in refuse(tmp_path / "none.csv")
    assert "a folder" in refuse(tmp_path)
    assert "cannot be opened" in refuse(tmp_path / ("x" * 5000))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(HEADER + "1,.1\n")
    path.chmod(0)
    assert "denied" in refuse(path)


def test_permission_denied_by_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert "permission to read the file denied" in refuse(tmp_path / "run.csv")


def test_unknown_column_lists_and_suggests(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("GPU_hours,pass_rate,Loss\n1,.1,3\n")
    message = refuse(path, x="gpu_huors")
    assert "'gpu_huors'" in message
    assert "GPU_hours, pass_rate, Loss (closest: GPU_hours)" in message
    assert "unknown column for --by" in refuse(path, by="run")
    assert "unknown column for --n" in refuse(path, n="answers")


def test_empty_name_of_a_curve(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("run,step,y\na,1,.1\n ,2,.2\n")
    assert "line 3: empty cell in column 'run'" in refuse(path, by="run")
    path.write_text('{"run": "a", "step": 1, "y": 0.1}\n{"step": 1, "y": 0.1}\n')
    assert "line 2: empty cell in column 'run'" in refuse(path, by="run")


def test_duplicates_within_one_of_several_curves(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("run,step,y\na,1,.1\nb,1,.1\na,2,.1\nb,2,.1\nb,1,.5\n")
    message = refuse(path, by="run")
    assert "lines 3 and 6" in message
    assert "in curve 'b'" in message
    assert "--by" not in message


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"step": [1, 2], "y": [0.1, None]}, ["row 2", "empty cell", "'y'"]),
        ({"step": [1, 2], "y": [0.1, float("nan")]}, ["row 2", "got nan"]),
        ({"step": [3, 3], "y": [0.1, 0.2]}, ["rows 1 and 2", "duplicate"]),
        ({"step": pa.array([], pa.int64()), "y": pa.array([], pa.float64())}, ["no rows"]),
    ],
    ids=["null", "nan", "duplicate", "empty"],
)
def test_parquet(tmp_path: Path, columns: dict[str, object], parts: list[str]) -> None:
    path = tmp_path / "run.parquet"
    pq.write_table(pa.table(columns), path)
    message = refuse(path)
    for part in parts:
        assert part in message


def test_parquet_text_column(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    pq.write_table(pa.table({"step": [1, 2], "y": ["a", "b"]}), path)
    assert "row 1: column 'y' holds string: got 'a'" in refuse(path, y="y")


def test_parquet_from_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.parquet"
    pq.write_table(pa.table({"step": [1, 2], "y": [0.1, 0.2]}), path)
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as pipe:
        pipe.write(path.read_bytes())
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert "Parquet from a pipe" in refuse("-")


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(HEADER + "1,.1\n")
    assert "mean or last or seeds" in refuse(path, duplicates="first")
    assert "lower first" in refuse(path, bounds=(1.0, 0.0))
    assert "two columns" in refuse(path, x="pass_rate", y="pass_rate")


def test_one_file_twice(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(HEADER + "1,.1\n")
    with pytest.raises(InputError, match="two files with one name"):
        read_curves([path, path])
