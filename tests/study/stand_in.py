"""A trainer that takes milliseconds, as a command of a study, and the study around it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from scalerl.config.study import StudyConfig, study_from
from scalerl.study.folder import StudyFolder

TRAINER = """
import math, os, signal, sys, time
from pathlib import Path

ceiling, mode, seed, steps, out = float(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])
with (out / "starts.txt").open("a") as stream:
    stream.write(f"{steps}\\n")
if mode == "fails" and not (out.parents[2] / "mended").exists():
    print("loading the policy", flush=True)
    print("Traceback (most recent call last):\\n  ...\\nRuntimeError:  the loss is\\tnot finite", file=sys.stderr)
    sys.exit(3)
if mode == "mute":
    sys.exit(4)
if mode == "leaves nothing":
    sys.exit(0)
if mode == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
log = out / "log.csv"
if not log.exists():
    log.write_text("step,pass_rate\\n")
for step in range(len(log.read_text().splitlines()), steps + 1):
    time.sleep({"slow": 0.05, "steady": 0.02}.get(mode, 0))
    value = 0.2 + (ceiling - 0.2) / (1 + (8 / step) ** 1.3) + 0.003 * math.sin(7 * step + seed)
    with log.open("a") as stream:
        stream.write(f"{step},{value:.6f}\\n")
"""
"""Goes on with its log when it is called again; `mode` says what goes wrong."""


def study(folder: Path, cells: dict[str, dict[str, Any]], *, steps: int = 40, **others: Any) -> StudyConfig:
    """`cells`: parameters (`ceiling`, `mode`) that differ from the base."""
    trainer = folder / "trainer.py"
    trainer.write_text(TRAINER)
    values = {
        "name": "stand_in",
        "seeds": [0, 1],
        "base": {"set": {"ceiling": 0.8, "mode": "works"}},
        "cells": [{"name": name, "set": changes} for name, changes in cells.items()],
        "runner": {
            "kind": "command",
            "command": f"{sys.executable} -S {trainer} {{ceiling}} '{{mode}}' {{seed}} {{budget}} {{out}}",
            "log": "{out}/log.csv",
            "budget": float(steps),
            "resumes": True,
        },
    }
    return study_from({**values, **others}, "stand_in")


def opened(folder: Path, cells: dict[str, dict[str, Any]], **others: Any) -> StudyFolder:
    return StudyFolder.create_or_open(folder / "study", study(folder, cells, **others))


class Silent:
    """A `Watch` that remembers what was said, and presses Ctrl-C when it is told to."""

    def __init__(self) -> None:
        self.stops = 0
        self.lines: list[str] = []

    def said(self, line: str) -> None:
        self.lines.append(line)

    def tick(self) -> None:
        """Nothing to show."""


def starts(folder: StudyFolder) -> dict[str, list[str]]:
    """How often each job was started, with which budget."""
    found = {job.name: folder.run_path(job) / "starts.txt" for job in folder.plan.jobs}
    return {name: file.read_text().split() for name, file in found.items() if file.exists()}
