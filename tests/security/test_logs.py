"""Logs and data from strangers: no pickle among them is loaded, and no name in them gives orders to the terminal."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import curve
from tests.report.runs import begin

from scalerl.cli import main

from .evil import evil_pickle

ORDERS = "\x1b]0;owned\x07\x1b[2Jred\x9b31m\r"
"""Sets the title of a terminal, clears it, and goes back to the beginning of the line."""


def pickle_file(folder: Path, pickled: bytes) -> str:
    (folder / "log.pkl").write_bytes(pickled)
    return "log.pkl"


def pickle_called_a_table(folder: Path, pickled: bytes) -> str:
    (folder / "log.csv").write_bytes(pickled)
    return "log.csv"


def numpy_archive(folder: Path, pickled: bytes) -> str:
    """An array of objects, as numpy keeps them: a header, then a pickle."""
    described = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header = described.ljust(117) + b"\n"
    array = io.BytesIO(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + pickled)
    with zipfile.ZipFile(folder / "log.npz", "w") as archive:
        archive.writestr("compute.npy", array.getvalue())
    return "log.npz"


def torch_archive(folder: Path, pickled: bytes) -> str:
    with zipfile.ZipFile(folder / "log.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", b"3\n")
    return "log.pt"


def trainer_folder(folder: Path, pickled: bytes) -> str:
    """As the Hugging Face Trainer leaves it, with its pickles beside the log."""
    state = folder / "checkpoint-2"
    state.mkdir()
    history = [{"step": i, "eval_acc": v} for i, v in enumerate((0.1, 0.2, 0.3), 1)]
    (state / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    for name in ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (state / name).write_bytes(pickled)
    return "."


@pytest.mark.parametrize(
    ("make", "code"),
    [(pickle_file, 2), (pickle_called_a_table, 2), (numpy_archive, 2), (torch_archive, 2), (trainer_folder, 0)],
)
@pytest.mark.parametrize("command", ["read --list", "fit", "data inspect"])
def test_no_pickle_is_loaded(
    tmp_path: Path, make: Callable[[Path, bytes], str], code: int, command: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "run"
    name = make(tmp_path, evil_pickle(mark))
    words = command.split()
    ended = main([words[0], name, *words[1:]] if words[0] != "data" else [*words, name])
    assert ended == (code if command == "read --list" else 2)
    assert capsys.readouterr().err.count("\n") <= 1
    assert not mark.exists()


@pytest.mark.parametrize("command", ["fit", "read", "read --list", "decide", "compare", "report --format md"])
def test_names_give_no_orders_to_a_terminal(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"run,gpu_hours,{ORDERS.rstrip()}rate"]
    for name, ceiling in (("plain", 0.7), (ORDERS.strip(), 0.5)):
        rows += [f'"{name}",{c},{v}' for c, v in zip(*curve(ceiling, 600, 1, points=12), strict=True)]
    Path("log.csv").write_text("\n".join(rows) + "\n", encoding="utf-8", newline="")
    first, *rest = command.split()
    code = main(
        [first, "log.csv", *rest, *([] if "--list" in rest else ["--by", "run", "--y", f"{ORDERS.rstrip()}rate"])]
    )
    said = capsys.readouterr()
    assert code == 0
    assert "red 31m" in said.out
    assert not {char for char in said.out + said.err if not char.isprintable() and char not in "\n\t"}


def test_names_of_studies_and_runs_give_none_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    begin(tmp_path / "runs" / ORDERS, range(0, 300, 20), finished=True)
    text = json.dumps(f"owned {ORDERS}")
    Path("study.toml").write_text(
        f'name = {text}\nquestion = {text}\n[[cells]]\nname = {text}\nset = {{ "recipe.loss.cap" = 8.0 }}\n'
    )
    assert main(["runs", "list", "runs"]) == 0
    assert main(["runs", "show", f"runs/{ORDERS}"]) == 0
    assert main(["study", "plan", "study.toml"]) == 0
    said = capsys.readouterr()
    assert "owned" in said.out
    assert not {char for char in said.out + said.err if not char.isprintable() and char not in "\n\t"}
