"""A task from its name or its settings: the door for the command line, the config and the run directory.

    build_task("chained_sums")
    build_task({"kind": "countdown", "numbers": 4, "largest": 10})
    build_task("reasoning_gym:chain_sum")
    build_task("problems.jsonl")
    build_task({"kind": "file", "path": "problems.jsonl", "whole": True})       every problem held out
    build_task({"kind": "mixture", "parts": {"sums": {"task": {"kind": "chained_sums"}}, ...}})

Unknown kinds, unknown options and impossible values are errors that list what there is.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, cast

from scalerl.errors import InputError
from scalerl.tasks.chained_sums import ChainedSums
from scalerl.tasks.countdown import Countdown
from scalerl.tasks.data.hub import PREFIX
from scalerl.tasks.files import FileTask
from scalerl.tasks.gym import GymTask
from scalerl.tasks.mixture import MixtureTask
from scalerl.tasks.problem import SPLITS, Settings, Task, TracedTask

KINDS = {task.kind: task for task in (ChainedSums, Countdown, GymTask, FileTask, MixtureTask)}

_FILE_ENDINGS = (".jsonl", ".ndjson", ".parquet", ".arrow")
_IN_ONE_TEXT = f"reasoning_gym:DATASET, file:PATH, hub:NAME, or *{', *'.join(_FILE_ENDINGS)}"
_ALLOWED = f"{', '.join(KINDS)} (in one text: {_IN_ONE_TEXT})"


def build_task(spec: str | Settings, *, seed: int | None = None) -> Task:
    """The task that `spec` describes: its name, or a mapping with `kind` and the options of that kind.

    `seed` is used where the kind draws its problems and the spec does not say otherwise.
    """
    settings = _from_text(spec) if isinstance(spec, str) else dict(spec)
    kind = settings.pop("kind", None)
    if kind not in KINDS:
        raise InputError("unknown task", kind, _ALLOWED)
    options = {option.name: option for option in fields(KINDS[kind])}
    for name in settings:
        if name not in options:
            raise InputError(f"unknown option of task {kind}", name, ", ".join(options))
    for name, option in options.items():
        required = option.default is MISSING and option.default_factory is MISSING
        if required and name not in settings:
            raise InputError(f"task.{name} is missing", allowed=f"the task {kind} needs it")
    if seed is not None and "seed" in options:
        settings.setdefault("seed", seed)
    task = cast("Task", KINDS[kind](**settings))
    for split in SPLITS:  # drawn now: a task with too few problems fails before anything starts
        task.problems(split)
    return task


def traced(task: Task) -> TracedTask:
    """The task, if it can write solution traces."""
    for one in task.tasks.values() if isinstance(task, MixtureTask) else [task]:
        if not isinstance(one, ChainedSums | Countdown):
            raise InputError("the task has no solution traces", one.name, "chained_sums or countdown")
    return cast("TracedTask", task)


def _from_text(text: str) -> dict[str, Any]:
    kind, colon, rest = text.partition(":")
    if colon and kind == GymTask.kind:
        return {"kind": kind, "dataset": rest}
    if colon and kind == FileTask.kind:
        return {"kind": kind, "path": rest}
    if text.lower().endswith(_FILE_ENDINGS) or text.startswith(PREFIX):
        return {"kind": FileTask.kind, "path": text}
    return {"kind": text}
