"""What a verifier says, and what a verifier is.

Used by every verifier, by the tasks and by the pipeline. Knows nothing about rewards: what a status is worth is decided
by the recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Status = Literal["correct", "wrong", "unparsable", "timeout", "error"]
STATUSES: tuple[Status, ...] = ("correct", "wrong", "unparsable", "timeout", "error")


@dataclass(frozen=True)
class Verdict:
    """What the verifier says about one completion."""

    status: Status
    """unparsable: there is no answer. timeout, error: the verifier failed, not the answer."""
    detail: str = ""
    """Why, in a few words."""

    @property
    def correct(self) -> bool:
        return self.status == "correct"

    @property
    def judged(self) -> bool:
        """False when the verifier failed: such a completion has no reward, which is not a reward of zero."""
        return self.status not in {"timeout", "error"}


class Verifier(Protocol):
    """Compares what stands after the thinking part with a reference. Never raises for anything a model can write."""

    def verify(self, text: str, reference: str) -> Verdict: ...

    def verify_all(self, texts: Sequence[str], reference: str) -> list[Verdict]:
        """The same for several texts, in their order; verifiers that work in other processes use all of them."""
        return [self.verify(text, reference) for text in texts]

    def objection(self, reference: str) -> str | None:
        """Why nothing can be compared with this reference; None: it can be. Cheap: every row of a file is asked."""
        return None if reference.strip() else "empty"

    def close(self) -> None:
        """End the processes, if there are any; they also end with the verifier, and start again when needed."""
        return


def judged(same: bool, detail: str = "") -> Verdict:
    """The verdict on an answer that could be compared."""
    return Verdict("correct") if same else Verdict("wrong", detail)
