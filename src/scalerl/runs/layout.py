"""The names inside a run directory, and what can be learned from names alone. Reads no content, writes nothing.

config.json            the resolved config and its identity
provenance.json        versions, machine and command line of each session
lock                   held by the process that runs
stopped.json           how the last session ended; missing while one runs and after a crash
metrics.jsonl          one line a step
evals.jsonl            one line an evaluation
events.jsonl           one line for whatever else happened: alarms, skipped steps, damage; never cut back
evals/step-000020.json its results by problem
inspect/step-000012.jsonl  the batch of a step that was skipped, one line a rollout
checkpoints/step-000100/   the policy and everything needed to go on; `complete.json` is written last
"""

from __future__ import annotations

import re
from pathlib import Path

from scalerl.readers.run_directory import CONFIG, EVALS

PROVENANCE, LOCK, STOPPED, METRICS = "provenance.json", "lock", "stopped.json", "metrics.jsonl"
EVENTS = "events.jsonl"
EVALUATIONS, CHECKPOINTS, INSPECTION = "evals", "checkpoints", "inspect"
COMPLETE, STATE, PARTS = "complete.json", "state.json", "parts"
FORMAT = 1
"""Of a checkpoint."""
NEXT = ".next"
"""Ending of a checkpoint that is complete and about to replace one of the same step."""
DAMAGED = ".damaged"
"""Ending of a checkpoint that was set aside because a digest was wrong."""

_CHECKPOINT = re.compile(rf"step-(\d{{6,}})({re.escape(NEXT)})?")

__all__ = [
    "CHECKPOINTS", "COMPLETE", "CONFIG", "DAMAGED", "EVALS", "EVALUATIONS", "EVENTS", "FORMAT", "INSPECTION", "LOCK",
    "METRICS", "NEXT", "PARTS", "PROVENANCE", "STATE", "STOPPED", "aside_of", "complete_checkpoints",
    "step_name", "step_of",
]  # fmt: skip


def step_name(step: int) -> str:
    """`step-000100`: names sort like steps up to a million of them."""
    return f"step-{step:06d}"


def step_of(folder: Path) -> int:
    """The step of a checkpoint's folder."""
    match = _CHECKPOINT.fullmatch(folder.name)
    if match is None:
        raise ValueError(f"{folder.name} is not the name of a checkpoint")
    return int(match[1])


def aside_of(folder: Path) -> Path:
    """A name for a damaged checkpoint that nothing has: what was set aside before is kept."""
    place, number = folder.with_name(folder.name + DAMAGED), 1
    while place.exists():
        number += 1
        place = folder.with_name(f"{folder.name}.{number}{DAMAGED}")
    return place


def complete_checkpoints(root: Path) -> list[Path]:
    """The checkpoints whose marker is there, oldest first; of two of one step the replacement comes last."""
    if not root.is_dir():
        return []
    found = [folder for folder in root.iterdir() if _CHECKPOINT.fullmatch(folder.name)]
    complete = [folder for folder in found if (folder / COMPLETE).is_file()]
    return sorted(complete, key=lambda folder: (step_of(folder), folder.name))
