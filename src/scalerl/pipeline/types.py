"""What moves through the pipeline: requests, rollouts, groups, snapshots, and the protocols of engine and observer.

Plain data: numpy arrays and JSON values, so that everything can cross a process boundary and enter a checkpoint.

The walk: a `GroupRequest` is admitted and charged a slot -> the engine writes its rollouts, token by token -> the
verifier judges them -> a `Group` waits in the buffer -> a batch of groups is one step of the trainer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from scalerl.compute import Ledger
from scalerl.pipeline.wire import End
from scalerl.policy.mark import Mark
from scalerl.runs.events import Event
from scalerl.tasks import Split, Verdict


@dataclass(frozen=True)
class Exam:
    """What is different about a request that an evaluation has generators answer, beside those that are trained on."""

    set: str | None
    """The downstream set that asks; None: the held-out problems of the run's own task."""
    temperature: float


@dataclass(frozen=True)
class GroupRequest:
    """One prompt, to be answered once for each seed."""

    index: int
    """Number of the admission, from 0 without gaps. It decides the step: batch `index // prompts`. Below 0 for an
    exam, which is admitted to no batch."""
    split: Split
    problem: int
    """With `split`, where the task finds the problem again: `task.problems(split)[problem]`."""
    problem_id: str
    prompt_ids: tuple[int, ...]
    seeds: tuple[int, ...]
    """One for each rollout; everything random about a rollout is a function of its seed."""
    interruptions: tuple[int | None, ...]
    """For each rollout, the thinking tokens after which the phrase is injected; None: never."""
    max_response: int | None = None
    """Tokens of the longest rollout; None: as many as the engine has room for."""
    exam: Exam | None = None
    """None: it is trained on."""


@dataclass(frozen=True)
class Rollout:
    """One answer, token by token. All arrays have the length of the response, the end-of-text token included."""

    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    """Log-prob of each token when it was sampled, at the sampling temperature; 0 for injected tokens."""
    versions: NDArray[np.int32]
    """Policy version that wrote each token; for injected tokens the version at that moment."""
    own: NDArray[np.bool_]
    """False for injected tokens: the policy did not choose them."""
    truncated: bool
    """Cut off by the token budget: there is no end-of-text token."""
    interrupted: bool
    """The phrase was injected."""

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Group:
    """A request with its rollouts, in the order of its seeds, and what the verifier says about them."""

    request: GroupRequest
    rollouts: tuple[Rollout, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def num_correct(self) -> int:
        return sum(verdict.correct for verdict in self.verdicts)

    @property
    def num_judged(self) -> int:
        """Rollouts whose verifier did not fail."""
        return sum(verdict.judged for verdict in self.verdicts)


@dataclass(frozen=True)
class Finished:
    """A rollout that the engine has just completed."""

    request: int
    """`GroupRequest.index`."""
    position: int
    """Its place in the group."""
    rollout: Rollout


@dataclass(frozen=True)
class EngineStep:
    """What one decode step did, for the ledger and for whoever waits for rollouts."""

    finished: tuple[Finished, ...]
    tokens: int
    """Tokens that went through the model: prefilled prompts (each once for its group), injected and sampled tokens."""
    attended: int
    """Positions those tokens looked at, summed (see `ForwardCost.flops`)."""
    sampled: int
    """Tokens that were sampled."""
    exam_tokens: int = 0
    """Of `tokens`, those of exams."""
    exam_attended: int = 0
    """Of `attended`, the same."""


@dataclass(frozen=True)
class Snapshot:
    """State of a part of the pipeline for a checkpoint: JSON values and tensors. No pickles."""

    values: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineSettings:
    """What an engine needs to know besides the model."""

    rows: int
    """Rollouts that are decoded together."""
    max_response: int
    """Tokens of the longest response of any request; the phrase counts."""
    max_prompt: int
    """Tokens of the longest prompt."""
    eos_id: int
    end_thinking: Mark
    """Thinking has ended once this is written."""
    phrase_ids: tuple[int, ...]
    """Injected at the interruption; empty where the recipe has none. It ends thinking."""
    temperature: float
    """Of everything but exams, which have their own."""
    fp32_head: bool

    def room_of(self, request: GroupRequest) -> int:
        """Tokens of its longest rollout."""
        return self.max_response if request.max_response is None else request.max_response

    def temperature_of(self, request: GroupRequest) -> float:
        """The temperature that its rollouts are sampled at."""
        return self.temperature if request.exam is None else request.exam.temperature


class Engine(Protocol):
    """Writes rollouts. One step is one token for every row in flight, or where tokens are written in other processes
    whatever has come back since the last one; weights may change between two steps."""

    @property
    def version(self) -> int:
        """Of the weights in use."""

    @property
    def num_pending(self) -> int:
        """Rollouts that were submitted and have not come back."""

    def submit(self, request: GroupRequest) -> None:
        """Queue the rollouts of a prompt; they start as rows become free, in the order of submission, exams first."""

    def step(self) -> EngineStep:
        """Fill free rows, decode, and return what is finished."""

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Copy new weights in, by parameter name. Rollouts in flight go on with their caches as they are."""

    def receive_weights(self, end: End) -> None:
        """The same with weights that come over a wire, if there are newer ones."""

    def snapshot(self) -> Snapshot:
        """Everything in flight and queued. With its caches, an engine restored from it goes on bit for bit; where they
        are out of reach, it writes again what had not come back. The weights are not in it."""

    def restore(self, snapshot: Snapshot) -> None:
        """Take over a snapshot of an engine with the same settings and model shape."""


@dataclass(frozen=True)
class EvalPoint:
    """One evaluation: a point of the curve."""

    step: int
    """Optimiser steps made so far; the policy version."""
    pass_rate: float
    """Mean over problems of the share of correct answers among the judged ones."""
    num_problems: int
    num_samples: int
    """Answers for each problem."""
    num_judged: int
    """Answers whose verifier did not fail."""
    standard_error: float | None
    """Over problems; None with fewer than two."""
    truncation_rate: float
    mean_length: float
    ledger: Ledger
    """When the policy version came into being; this evaluation's own cost is not in `total`."""
    per_problem: Mapping[str, tuple[int, int]]
    """Problem id -> correct, judged."""
    downstream: Mapping[str, Point | None] = field(default_factory=dict)
    """The same version on each downstream set of the run; None where the set was not due."""
    parts: Mapping[str, EvalPoint | None] = field(default_factory=dict)
    """The same answers, of each part of a mixture alone; None where none of a part's answers could be judged."""


@dataclass(frozen=True)
class Unjudged:
    """An evaluation whose every verdict is missing: it was made and paid for, and says nothing of the policy. A line of
    evals.jsonl without a value, and no point of the curve. The fields are those of `EvalPoint`."""

    step: int
    num_samples: int
    truncation_rate: float
    mean_length: float
    ledger: Ledger
    per_problem: Mapping[str, tuple[int, int]]
    downstream: Mapping[str, Point | None] = field(default_factory=dict)
    parts: Mapping[str, EvalPoint | None] = field(default_factory=dict)
    pass_rate: None = None
    num_problems: int = 0
    num_judged: int = 0
    standard_error: None = None


Point = EvalPoint | Unjudged


@dataclass(frozen=True)
class StepRecord:
    """One optimiser step, as metrics.jsonl holds it."""

    step: int
    """Steps made, this one included."""
    values: Mapping[str, Any]
    """Everything measured: plain numbers, None where there is nothing to say; and which groups were in the batch."""
    ledger: Ledger
    wall_s: float
    """Since the run began, sessions before a resume included."""


StopReason = Literal["budget", "exhausted", "interrupted", "guard"]
"""Budget used up; no problem left to train on (all solved too often); the user asked to stop; a guard did."""


class Observer(Protocol):
    """Who watches a run: the live view. Called from the trainer's thread; must not raise."""

    def started(self, step: int, ledger: Ledger, points: Sequence[EvalPoint]) -> None:
        """The run begins, or goes on at `step` with the points it has."""

    def generating(self, version: int, num_finished: int, num_wanted: int) -> None:
        """Problems of an evaluation under way are done."""

    def stepped(self, record: StepRecord) -> None: ...

    def evaluated(self, point: EvalPoint) -> None: ...

    def saved(self, step: int, folder: Path) -> None: ...

    def noticed(self, event: Event) -> None:
        """Something that is no step and no evaluation: an alarm, a skipped step, a damaged checkpoint."""

    def stopped(self, reason: StopReason, step: int, ledger: Ledger) -> None: ...
