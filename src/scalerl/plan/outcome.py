"""What a simulation says: plain numbers, shares of time, ages. Built by `simulate`, shown by the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Kind = Literal["writing", "reading", "loading", "tail", "waiting", "training", "sending", "evaluating"]


@dataclass
class GeneratorTime:
    """Seconds of generators, all together."""

    writing: float = 0.0
    """Decode steps."""
    reading: float = 0.0
    """Prompts."""
    loading: float = 0.0
    """New weights."""
    tail: float = 0.0
    """Nothing to write while other generators still write: stragglers, and work that could not be shared out."""
    waiting: float = 0.0
    """Nobody has anything to write: no slot is free until the trainer is done."""


@dataclass
class TrainerTime:
    """Seconds of the trainer."""

    training: float = 0.0
    sending: float = 0.0
    """New weights."""
    evaluating: float = 0.0
    waiting: float = 0.0
    """For a batch."""


Time = GeneratorTime | TrainerTime


def shares(time: Time, before: Time) -> dict[str, float]:
    """Of what was spent since `before`; they add up to one."""
    spent = {item.name: getattr(time, item.name) - getattr(before, item.name) for item in fields(time)}
    total = sum(spent.values())
    return {name: seconds / total if total > 0 else 0.0 for name, seconds in spent.items()}


@dataclass(frozen=True)
class Interval:
    """For a picture of who did what when. Generators are numbered, the trainer is None."""

    generator: int | None
    start_s: float
    end_s: float
    kind: Kind


@dataclass(frozen=True)
class Outcome:
    """A pipeline in its steady state."""

    generating: int
    """Devices."""
    training: int
    generators: int
    gpus_per_generator: int
    rows: int
    """That a generator can decode together."""
    kind: str
    """Of the asynchrony."""
    k: int | None
    steps: int
    """That were measured, after a run-in."""
    stands_for: float
    """Real rollouts for each one that was simulated; 1: all of them were."""
    step_s: float
    tokens_per_step: float
    """Written: responses alone."""
    trained_tokens_per_step: float
    """Prompts and responses that are trained on."""
    flops_per_step: float | None
    """None where the shape of the policy is not known."""
    mean_rows: float
    """In a generator that writes."""
    mean_length: float
    generator: dict[str, float]
    """Shares of time, as in `GeneratorTime`."""
    trainer: dict[str, float]
    """Shares of time, as in `TrainerTime`."""
    ages: tuple[float, ...]
    """Share of the trained tokens by age in steps."""
    max_age: int
    """The bound."""
    intervals: tuple[Interval, ...] = ()
    """The last few steps, of a few generators and the trainer."""

    @property
    def devices(self) -> int:
        return self.generating + self.training

    @property
    def steps_per_hour(self) -> float:
        return 3600 / self.step_s

    @property
    def gpu_hours_per_step(self) -> float:
        return self.devices * self.step_s / 3600

    @property
    def tokens_per_s(self) -> float:
        return self.tokens_per_step / self.step_s

    @property
    def generator_idle(self) -> float:
        return self.generator["tail"] + self.generator["waiting"]

    @property
    def trainer_idle(self) -> float:
        return self.trainer["waiting"]

    @property
    def idle(self) -> float:
        """Share of all device time."""
        return (self.generating * self.generator_idle + self.training * self.trainer_idle) / self.devices

    @property
    def mean_age(self) -> float:
        return sum(age * share for age, share in enumerate(self.ages))

    def to_dict(self) -> dict[str, Any]:
        derived = ("steps_per_hour", "gpu_hours_per_step", "tokens_per_s", "generator_idle", "trainer_idle", "idle")
        values = asdict(self)
        del values["intervals"]
        return values | {name: getattr(self, name) for name in (*derived, "mean_age")}
