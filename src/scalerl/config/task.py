"""The task of a scale: which problems are solved.

Part of `ScaleConfig`; `ScaleConfig.task_settings` is what `scalerl.tasks.build_task` takes, and the names here are the
names there. How many problems are held out is `scale.evaluation.problems`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from scalerl.config.base import Count, Frozen, Name, NonNegative, Positive, Share, impossible

NumProblems = Annotated[int, Field(ge=0)]
HeldOutShare = Annotated[float, Field(gt=0, lt=1)]

_SILENT = (
    "layout", "skip_unusable",
    "tolerance", "absolute_tolerance", "timeout_s", "workers", "memory_mb", "run_model_code_without_sandbox",
)  # fmt: skip
"""Of a file task, not written at their usual value: they came later, or say nothing about the other verifiers."""


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
    """Problems from a dataset: a file, a folder, or a name on the Hugging Face hub."""

    kind: Literal["file"]
    """Which problems are solved."""
    path: Name
    """JSONL, Parquet or Arrow; a folder of them; or hub:NAME[@REVISION][:CONFIG[:SPLIT]]."""
    held_out_path: str = ""
    """Held-out problems, with the same columns; empty: a share of `path` is held out."""
    layout: Literal["plain", "polaris", "dapo", "gsm8k", "math", "deepcoder", "taco", "verl", "trl", "auto"] = "plain"
    """What the columns mean. plain: `prompt_key` and `answer_key` say it. auto: recognised by columns and first row."""
    prompt_key: Name = "prompt"
    """Column of the prompt, or a dotted key; a layout has its own."""
    answer_key: Name = "answer"
    """Column of the answer (for `code`, of the unit tests), or a dotted key; a layout has its own."""
    skip_unusable: bool = False
    """Leave out rows that cannot be used, and second answers to one prompt, instead of refusing the file."""
    verifier: Literal["exact", "number", "choice", "math", "code", "auto"] = "auto"
    """How an answer is judged: as a text, a number, letters, mathematics, or a program by unit tests. auto: as the
    layout says; plain: exact."""
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

    @model_validator(mode="before")
    @classmethod
    def _plain_is_exact(cls, values: Any) -> Any:
        """A plain file was judged by `exact` before there were layouts, and its config goes on saying so."""
        if not isinstance(values, Mapping) or values.get("layout", "plain") != "plain":
            return values
        return {**values, "verifier": "exact"} if values.get("verifier", "auto") == "auto" else values

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what nobody changed."""
        values: dict[str, Any] = dump(self)
        usual = {name: FileTask.model_fields[name].default for name in _SILENT}
        return {key: value for key, value in values.items() if key not in usual or value != usual[key]}


SingleTask = ChainedSums | Countdown | ReasoningGym | FileTask


class Part(Frozen):
    """One of the tasks of a mixture."""

    weight: Positive = 1.0
    """How often its problems come, beside the weights of the other parts."""
    task: Annotated[SingleTask, Field(discriminator="kind")]
    """A whole task."""


class Mixture(_TaskConfig):
    """Several tasks together, each with a held-out curve of its own."""

    kind: Literal["mixture"]
    """Which problems are solved."""
    parts: dict[str, Part]
    """The tasks, by name."""

    @property
    def settings(self) -> dict[str, Any]:
        parts = {name: {"weight": part.weight, "task": part.task.settings} for name, part in self.parts.items()}
        return {"kind": self.kind, "parts": parts}

    @property
    def thinking(self) -> bool:
        """Whether the policy thinks in every part."""
        return all(getattr(part.task, "thinking", True) for part in self.parts.values())

    @model_validator(mode="after")
    def _parts_make_a_mixture(self) -> Self:
        if len(self.parts) < 2:
            raise impossible("parts", ", ".join(self.parts) or "none", "at least two parts")
        for name in self.parts:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise impossible("parts", name, "names of letters, digits, - and _")
        return self


Task = SingleTask | Mixture
