"""Which problems come again in a later epoch. No torch and no I/O: the state is plain JSON for the checkpoint.

The stream of problems skips what is in `left_out`, the batcher tells `record` what became of a group.
"""

from __future__ import annotations

from collections.abc import Container, Set
from typing import Any, Literal, Protocol

from scalerl.config import recipe as axes
from scalerl.errors import InputError


class Curriculum(Protocol):
    """What the pipeline knows of any curriculum."""

    @property
    def left_out(self) -> Container[str]:
        """The ids of problems that are never handed out again; it changes as groups are recorded."""

    def record(self, problem: str, correct: int, scored: int) -> None:
        """One group of the problem: `correct` of `scored` rollouts. Unscored rollouts are in neither."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs, as plain JSON."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""


class UniformResampling:
    """Every problem comes again, for ever."""

    @property
    def left_out(self) -> Container[str]:
        return frozenset()

    def record(self, problem: str, correct: int, scored: int) -> None:
        """Nothing is remembered."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            raise InputError("curriculum state", sorted(state), "an empty state, because the curriculum is uniform")


class NoPositiveResampling:
    """No-Positive-Resampling: a problem whose pass rate has reached the threshold is removed for good.

    Removal is decided when a group is recorded and never taken back, as in the paper. Groups that are already under way
    are still trained on: only later epochs are concerned.
    """

    def __init__(self, threshold: float, min_history: int = 1, history: Literal["latest", "mean"] = "latest") -> None:
        self.threshold = threshold
        self.min_history = min_history
        self.history = history
        self._seen: dict[str, tuple[int, int]] = {}
        self._removed: set[str] = set()

    @property
    def left_out(self) -> Set[str]:
        return self._removed

    def record(self, problem: str, correct: int, scored: int) -> None:
        if not 0 <= correct <= scored:
            raise InputError(f"correct rollouts of {problem}", correct, f"0 to {scored}, the scored ones")
        past_correct, past_scored = self._seen.get(problem, (0, 0))
        total_correct, total_scored = past_correct + correct, past_scored + scored
        self._seen[problem] = total_correct, total_scored
        if self.history == "mean":
            correct, scored = total_correct, total_scored
        # The quotient, not the product: 9 / 10 is exactly the number that 0.9 is read as.
        if scored and total_scored >= self.min_history and correct / scored >= self.threshold:
            self._removed.add(problem)

    def state_dict(self) -> dict[str, Any]:
        seen = {problem: list(counts) for problem, counts in self._seen.items()}
        return {"seen": seen, "removed": sorted(self._removed)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state.keys() != {"seen", "removed"}:
            raise InputError("curriculum state", sorted(state), "the keys seen and removed")
        self._seen = {problem: (int(correct), int(scored)) for problem, (correct, scored) in state["seen"].items()}
        self._removed = set(state["removed"])


def build_curriculum(config: axes.Curriculum) -> Curriculum:
    """A fresh curriculum of a recipe."""
    if isinstance(config, axes.NoPositiveCurriculum):
        return NoPositiveResampling(config.threshold, config.min_history, config.history)
    return UniformResampling()
