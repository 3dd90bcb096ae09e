"""Asynchrony as arithmetic: how many batches may be admitted, when a step may begin, which weights the generator gets.

Read by the source (admission), the buffer (slots), and the launchers. All three kinds are one rule with different
numbers; docs/staleness.md has the proof of the bound.

    pipeline k        batch n is admitted once n - k steps are out; every version goes to the generator     age <= k
    ppo_off_policy k  k batches at once, all with the version at which they begin, then k steps             age <= k - 1
    sync              the same with k = 1, which is also the pipeline with k = 0                            age  = 0

Version v is the policy after v steps. Batches are trained in the order of admission, batch n by step n + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from scalerl.config.recipe import Asynchrony, Pipeline, PpoOffPolicy


@dataclass(frozen=True)
class Schedule:
    """`ahead`: batches that may be admitted beyond those trained. `stride`: versions between two releases."""

    ahead: int
    stride: int

    def admissible(self, version: int) -> int:
        """Batches that may have been admitted in all while the policy is at this version."""
        return self.released(version) + self.ahead

    def complete_before(self, version: int) -> int:
        """Batches that must be complete before the step from this version begins."""
        return self.released(version) + self.stride

    def released(self, version: int) -> int:
        """The newest version that the generator may use while the trainer is at `version`."""
        return version - version % self.stride

    @property
    def max_age(self) -> int:
        """The bound that docs/staleness.md proves."""
        return self.ahead - 1


def schedule_of(asynchrony: Asynchrony) -> Schedule:
    """The numbers of a recipe's asynchrony."""
    if isinstance(asynchrony, Pipeline):
        return Schedule(ahead=asynchrony.k + 1, stride=1)
    if isinstance(asynchrony, PpoOffPolicy):
        return Schedule(ahead=asynchrony.k, stride=asynchrony.k)
    return Schedule(ahead=1, stride=1)
