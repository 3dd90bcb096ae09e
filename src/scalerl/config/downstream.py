"""Downstream sets: problems from another distribution, measured beside the held-out ones of the run's own task.

Part of `Evaluation`. A set is a change of the run's task (`changed_task`), so that it follows whatever a study does to
that task; or it is a whole file, which stands for itself: what a suite (`suites`) is made of. What a set says together
with the rest of a run is checked by `run`; nothing is drawn or measured here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError, create_model

from scalerl.config.base import Count, Frozen, NonNegative, impossible, refused
from scalerl.config.layers import overlay
from scalerl.config.refusal import refusal
from scalerl.config.task import ChainedSums, Countdown, Mixture, SingleTask, Task

Inherited = Annotated[int, Field(ge=0)]
"""A count for which 0 means: as in the held-out evaluation."""
_OF_PARTS = {"held_out_path", "held_out_share"}
"""Keys that say which part of a file is held out: of a whole file there is nothing to say."""


class SetTokens(Frozen):
    """Token budgets of a set; together they must fit into the policy's context."""

    prompt: Inherited = 0
    """0: as `scale.tokens.prompt`."""
    thinking: Inherited = 0
    """0: as `scale.tokens.thinking`. The recipe's length control is a share of it."""
    answer: Inherited = 0
    """0: as `scale.tokens.answer`."""


class DownstreamSet(Frozen):
    """One set of problems that the policy is measured on and never trained on."""

    silent: ClassVar = frozenset({"whole"})

    task: dict[str, Any]
    """What differs from `scale.task`, key by key; another `kind` begins anew."""
    problems: Inherited = 0
    """Problems of the set; 0: as `evaluation.problems`, or of a whole file all."""
    samples: Inherited = 0
    """Answers for each problem, the k of mean@k; 0: as `evaluation.samples`."""
    every: Count = 1
    """Measured at every so many evaluations, counted from step 0."""
    temperature: NonNegative = 0.0
    """Sampling temperature; 0: as `evaluation.temperature`."""
    tokens: SetTokens = SetTokens()
    """Token budgets."""
    whole: bool = False
    """Every problem of the file `task.path`; nothing of `scale.task` is taken over, except whether the policy
    thinks."""


def changed_task(task: Task, changes: Mapping[str, Any], key: str, *, whole: bool = False) -> SingleTask:
    """The task of a set. `key`: where the changes stand, for errors."""
    if not changes:
        raise impossible(key, "nothing", "a table with at least one key of scale.task")
    if "train_problems" in changes:
        allowed = "no such key: a downstream set is never trained on"
        raise impossible(f"{key}.train_problems", changes["train_problems"], allowed)
    values = _of_whole_file(task, changes, key) if whole else _of_changes(task, changes, key)
    values["train_problems"] = 1 if values["kind"] == "reasoning_gym" else 0  # as few as it can be asked for
    return _validated(values, tuple(key.split(".")))


def refuse_trained(task: Task, found: SingleTask, key: str) -> None:
    """Generated problems are held out by a hash of their content: a larger share would hold out trained ones too."""
    for own_key, own in _singles(task):
        _refuse_larger_share(own, found, own_key, key)


def refuse_trained_parts(task: Task) -> None:
    """No part of a mixture may hold out what another part trains on."""
    for (own_key, own), (key, found) in permutations(_singles(task), 2):
        _refuse_larger_share(own, found, own_key, key)


def _singles(task: Task) -> Iterator[tuple[str, SingleTask]]:
    """The tasks that a run trains on, with their keys."""
    if isinstance(task, Mixture):
        yield from ((f"scale.task.parts.{name}.task", part.task) for name, part in task.parts.items())
    else:
        yield "scale.task", task


def _refuse_larger_share(task: SingleTask, found: SingleTask, task_key: str, key: str) -> None:
    if isinstance(found, ChainedSums | Countdown) and not _apart(task, found):
        most: float = getattr(task, "held_out_share", 1.0)
        if found.held_out_share > most:
            allowed = f"at most {task_key}.held_out_share, {most:g}: the others may have been trained on"
            raise impossible(f"{key}.held_out_share", found.held_out_share, allowed, f"{task_key}.held_out_share")


def _of_changes(task: Task, changes: Mapping[str, Any], key: str) -> dict[str, Any]:
    kind = changes.get("kind", task.kind)
    if kind == "mixture":
        raise impossible(f"{key}.kind", kind, "the kind of one task; a mixture takes a set for each part")
    return overlay(task.model_dump(), changes, {(): "kind"})


def _of_whole_file(task: Task, changes: Mapping[str, Any], key: str) -> dict[str, Any]:
    kind = changes.get("kind", "file")
    if kind != "file":
        raise impossible(f"{key}.kind", kind, "file, because all of it is measured (whole = true)")
    for name in _OF_PARTS & changes.keys():
        raise impossible(f"{key}.{name}", changes[name], "no such key beside whole = true: nothing is trained on")
    return {"kind": "file", "thinking": getattr(task, "thinking", True), **changes}


def _apart(task: SingleTask, other: ChainedSums | Countdown) -> bool:
    """Whether no problem can belong to both, because the numbers in a problem are never as many."""
    if isinstance(task, ChainedSums) and isinstance(other, ChainedSums):
        return task.numbers < _fewest(other) or other.numbers < _fewest(task)
    if isinstance(task, Countdown) and isinstance(other, Countdown):
        return task.numbers != other.numbers
    return True


def _fewest(task: ChainedSums) -> int:
    return task.fewest_numbers or task.numbers


def _validated(values: Mapping[str, Any], path: tuple[str, ...]) -> SingleTask:
    """The whole task, or the error that its keys give when they stand in the set."""
    try:
        return _Whole.model_validate({"task": values}).task
    except ValidationError:
        root, data = _below(path, values)
    try:
        root.model_validate(data)
    except ValidationError as error:
        raise refused(refusal(error, root, data, {}), ".".join(path)) from None
    raise AssertionError("the same values are wrong in one place and right in another")


class _Whole(Frozen):
    task: Annotated[SingleTask, Field(discriminator="kind")]


def _below(path: tuple[str, ...], values: Mapping[str, Any]) -> tuple[type[Frozen], Mapping[str, Any]]:
    """A model in which the task stands at this path: so an error about it has its full dotted key."""
    *above, last = path
    fields: dict[str, Any] = {last: (Annotated[SingleTask, Field(discriminator="kind")], ...)}
    model, data = create_model("Table", __base__=Frozen, **fields), {last: values}
    for key in reversed(above):
        fields = {key: (model, ...)}
        model, data = create_model("Table", __base__=Frozen, **fields), {key: data}
    return model, data
