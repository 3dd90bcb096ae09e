"""How much of a large pipeline is simulated: a part of the generators with the same part of the batch.

Generators that are alike do alike things, so a hundredth of them with a hundredth of the prompts has the same idle
shares, and one core simulates ten thousand GPUs in seconds. The trainer is never thinned out: its step is that of the
whole batch. What is lost are the very rarest lengths; docs/plan.md shows how little that is.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_ROLLOUTS = 800
"""In a batch; more are thinned out to about this."""
_MOST_CHOICES = 1000
"""Numbers of generators that are tried: among so many one is near enough."""


@dataclass(frozen=True)
class Sample:
    """What is simulated."""

    prompts: int
    generators: int

    def whole_groups(self, ahead: int) -> bool:
        """Does a group go to one generator? Yes while there are two groups for each; or some would have nothing."""
        return ahead * self.prompts >= 2 * self.generators


def sample_of(prompts: int, rollouts: int, generators: int, most: int = MOST_ROLLOUTS) -> Sample:
    """The part of about `most` rollouts whose prompts for each generator are nearest to the real number."""
    if prompts * rollouts <= most:
        return Sample(prompts, generators)
    wanted = generators * most / (prompts * rollouts)
    choices = range(max(1, round(0.6 * wanted)), max(1, min(generators, round(1.4 * wanted))) + 1)
    tried = choices[:: 1 + len(choices) // _MOST_CHOICES]
    samples = [Sample(max(1, round(prompts * num / generators)), num) for num in tried]
    real = prompts / generators
    return min(
        samples, key=lambda one: (round(abs(one.prompts / one.generators / real - 1), 3), abs(one.generators - wanted))
    )
