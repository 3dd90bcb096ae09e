"""A whole run of seconds, as `scalerl train` leaves it, for tests that damage one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.tiny import TINY

from scalerl.config import RunConfig, load_run

STEPS = 6
Edit = Callable[[list[dict[str, Any]]], object]


def tiny_config(*changes: str) -> RunConfig:
    """Evaluated and saved every second step."""
    steps = ("scale.budget.unit=steps", f"scale.budget.amount={STEPS}")
    return load_run("scalerl", "laptop", overrides=[*TINY, *steps, *changes]).config


def train_tiny(folder: Path) -> Path:
    """The run, trained; the checkpoints of steps 4 and 6 are kept."""
    from scalerl.pipeline.session import train

    train(tiny_config(), folder / "run", cache=folder / "cache")
    return folder / "run"


def copy(run: Path, folder: Path) -> Path:
    """One to damage."""
    return Path(shutil.copytree(run, folder / "run"))


def edit(file: Path, change: Edit) -> None:
    """Change the records of a log."""
    records = [json.loads(line) for line in file.read_bytes().splitlines()]
    change(records)
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
