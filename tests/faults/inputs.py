"""What the commands of `commands` read: made once, in a folder that is copied for each call."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.policy.test_catalogue import write_gguf
from tests.supervised.small import chats, new_folder, write

from . import books
from .nursery import Nursery
from .small import Small

PLAN = ("--params", "8e9", "--split", "8:8", "--length", "100", "--batch", "8x8")
STUDY = ("study", "run", "study.toml", "--out", "study", "--workers", "1", "--no-live")

_TRAINER = """
import sys
from pathlib import Path

ceiling, seed, steps, out = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
lines = ["step,pass_rate"]
for step in range(1, steps + 1):
    value = 0.2 + (ceiling - 0.2) / (1 + (8 / step) ** 1.3) + 0.003 * ((7 * step + seed) % 5 - 2)
    lines.append(f"{step},{value:.6f}")
(out / "log.csv").write_text("\\n".join([*lines, ""]))
"""
"""Takes milliseconds."""
_STUDY = """
name = "small"
seeds = [0]
base = {{set = {{ceiling = 0.8}}}}
cells = [{{name = "low", set = {{ceiling = 0.3}}}}]
prune = {{rungs = [0.5]}}

[runner]
kind = "command"
command = "{python} -S trainer.py {{ceiling}} {{seed}} {{budget}} {{out}}"
log = "{{out}}/log.csv"
budget = 40
"""


def nothing(_: Nursery, __: Path) -> None:
    """For a command that needs no file."""


def model_and_traces(_: Nursery, folder: Path) -> None:
    new_folder(folder / "model")
    write(folder / "traces.jsonl", chats(20))


def study(_: Nursery, folder: Path) -> None:
    """Two cells and a race, by a trainer that is none."""
    (folder / "trainer.py").write_text(_TRAINER)
    (folder / "study.toml").write_text(_STUDY.format(python=sys.executable))


def finished_study(nursery: Nursery, folder: Path) -> None:
    study(nursery, folder)
    ran = nursery.run(STUDY, folder)
    assert ran.code == 0, ran.err


def curve(_: Nursery, folder: Path) -> None:
    rows = [f"{x},{0.2 + 0.6 / (1 + (600 / x) ** 1.3):.4f}" for x in range(100, 3100, 200)]
    (folder / "curve.csv").write_text("\n".join(["compute,value", *rows, ""]))


def gguf(_: Nursery, folder: Path) -> None:
    write_gguf(folder / "tiny.gguf")


def torn_run(nursery: Nursery, folder: Path) -> None:
    """A run with everything that can be repaired: a torn line, half of a checkpoint, a damaged one, a replacement."""
    run = Small(steps=4, evaluate_every=3, save_every=2)
    ran = nursery.run(run.begin("run"), folder)
    assert ran.code == 0, ran.err
    with (folder / "run" / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 5, "wall')
    first, second = books.checkpoints(folder / "run")
    shutil.copytree(first, first.with_name("step-000003.abcdefgh.partial"))
    second.rename(second.with_name(f"{second.name}.next"))
    weights = first / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
