"""The task of a scale: which problems are solved.

Part of `ScaleConfig`; `ScaleConfig.task_settings` is what `scalerl.tasks.build_task` takes, and the names here are the
names there. How many problems are held out is `scale.evaluation.problems`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from scalerl.config.base import Count, Frozen, Name, NonNegative, Positive, Share, impossible

NumProblems = Annotated[int, Field(ge=0)]
HeldOutShare = Annotated[float, Field(gt=0, lt=1)]

_OF_VERIFIERS = (
    "tolerance", "absolute_tolerance", "timeout_s", "workers", "memory_mb", "run_model_code_without_sandbox"
)  # fmt: skip


class _TaskConfig(Frozen):
    """What every task has."""

    @property
    def settings(self) -> dict[str, Any]:
        """Plain values for the task itself; "no limit" (0) and "no file" (empty) are left to its own defaults."""
        optional = {"train_problems", "fewest_numbers", "held_out_path"}
        return {key: value for key, value in self.model_dump().items() if value or key not in optional}


class ChainedSums(_TaskConfig):
    """Add several numbers, with running totals as the thinking."""

    kind: Literal["chained_sums"]
    """Which problems are solved."""
    numbers: Annotated[int, Field(ge=2, le=100)]
    """Numbers in a sum."""
    fewest_numbers: Annotated[int, Field(ge=0)] = 0
    """Mix in shorter sums, down to this many numbers; 0: all have `numbers`."""
    largest: Annotated[int, Field(ge=1, le=10**9)]
    """Numbers are drawn from 1 to this."""
    train_problems: NumProblems
    """Distinct problems to train on; 0: no end. A few hundred are memorised, thousands are not."""
    held_out_share: HeldOutShare = 0.1
    """Share of all possible problems that is never trained on."""

    @model_validator(mode="after")
    def _fewest_fits(self) -> Self:
        if self.fewest_numbers and not 2 <= self.fewest_numbers <= self.numbers:
            allowed = f"0, or 2 to numbers, {self.numbers}"
            raise impossible("fewest_numbers", self.fewest_numbers, allowed, "numbers")
        return self


class Countdown(_TaskConfig):
    """Reach a target from given numbers with + - *."""

    kind: Literal["countdown"]
    """Which problems are solved."""
    numbers: Annotated[int, Field(ge=2, le=20)]
    """Numbers given."""
    largest: Annotated[int, Field(ge=2, le=10**6)]
    """Numbers are drawn from 1 to this."""
    largest_target: Annotated[int, Field(ge=2, le=10**9)] = 100
    """No value on the way to the target, nor the target, is above this."""
    train_problems: NumProblems
    """Distinct problems to train on; 0: no end."""
    held_out_share: HeldOutShare = 0.1
    """Share of all possible problems that is never trained on."""

    @model_validator(mode="after")
    def _target_fits(self) -> Self:
        if self.largest_target < self.largest:
            raise impossible("largest_target", self.largest_target, f"at least largest, {self.largest}", "largest")
        return self


class ReasoningGym(_TaskConfig):
    """A dataset of the package reasoning-gym."""

    kind: Literal["reasoning_gym"]
    """Which problems are solved."""
    dataset: Name
    """Its name in reasoning-gym."""
    options: dict[str, bool | int | float | str] = Field(default={})
    """Its own options, such as its dials for difficulty; reasoning-gym checks them."""
    threshold: Share = 1.0
    """An answer with at least this score is correct."""
    timeout_s: Positive = 5.0
    """Longest time to score one answer."""
    thinking: bool = True
    """The answer is what follows </think>. False: the policy does not think."""
    train_problems: Count
    """Distinct problems to train on."""
    held_out_share: HeldOutShare = 0.1
    """Share of all problems that is never trained on."""


class FileTask(_TaskConfig):
    """Problems from a JSONL or Parquet file."""

    kind: Literal["file"]
    """Which problems are solved."""
    path: Name
    """The file."""
    held_out_path: str = ""
    """A file of held-out problems, with the same columns; empty: a share of `path` is held out."""
    prompt_key: Name = "prompt"
    """Column or key of the prompt."""
    answer_key: Name = "answer"
    """Column or key of the answer; for `code`, of the unit tests."""
    verifier: Literal["exact", "number", "choice", "math", "code"] = "exact"
    """How an answer is judged: as a text, a number, letters, mathematics, or a program by unit tests."""
    tolerance: NonNegative = 0.0
    """`number`: largest difference, as a share of the reference. Decimals may be rounded anyway."""
    absolute_tolerance: NonNegative = 0.0
    """`number`: largest difference, whatever the reference."""
    timeout_s: Annotated[float, Field(ge=0.01)] = 5.0
    """`math`: processor time for one answer. `code`: for one test."""
    workers: Annotated[int, Field(ge=0)] = 0
    """`math`, `code`: processes at once; 0: one for each core, up to eight."""
    memory_mb: Annotated[int, Field(ge=32)] = 512
    """`code`: memory of a process."""
    run_model_code_without_sandbox: bool = False
    """`code`: run what a model wrote as you, able to read, send and delete whatever you can."""
    thinking: bool = True
    """The answer is what follows </think>. False: the policy does not think."""
    train_problems: NumProblems = 0
    """Use only the first so many; 0: all."""
    held_out_share: HeldOutShare = 0.1
    """Share of the problems that is held out, unless `held_out_path` names them."""

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Each verifier has options of its own; those that nobody changed say nothing about the others."""
        values: dict[str, Any] = dump(self)
        usual = {name: FileTask.model_fields[name].default for name in _OF_VERIFIERS}
        return {key: value for key, value in values.items() if key not in usual or value != usual[key]}


Task = ChainedSums | Countdown | ReasoningGym | FileTask
