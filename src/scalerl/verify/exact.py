r"""The same text. Spaces do not count; a \boxed{...} is looked into, on both sides.

Made by `build`. Runs in the process that asks.
"""

from __future__ import annotations

from dataclasses import dataclass

from scalerl.verify.statement import boxed
from scalerl.verify.verdict import Verdict, Verifier, judged


@dataclass(frozen=True)
class ExactVerifier(Verifier):
    """Text against text."""

    def verify(self, text: str, reference: str) -> Verdict:
        found = _plain(text)
        return judged(found == _plain(reference)) if found else Verdict("unparsable", "no answer")


def _plain(text: str) -> str:
    return " ".join(boxed(text).split())
