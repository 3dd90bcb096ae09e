r"""Where the answer stands in a text: the last \boxed{...}, what follows "the answer is", or the last line.

Called by the verifiers. A model can write anything here, so everything takes time in proportion to the text, and
nothing raises.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TAIL = 4000
"""Characters at the end in which wordings are looked for; a box is found anywhere."""

LONGEST = 1000
"""Characters of an answer."""

_TOKEN = re.compile(r"\\f?boxed\s{0,3}\{|\\.|[{}]", re.DOTALL)
_MARKER = re.compile(
    r"(?i)####|\banswer\b[^.\n:=]{0,60}?(?:\b(?:is|are)\b(?![ \t]{1,3}not\b)|:|=)(?:[ \t]*[:=])?"
    r"|\banswer[*_]{1,3}[ \t]*:?"
)
_BETWEEN_BOXES = re.compile(r"(?:[\s,;.$*]|\\[()\[\],;]|\b(?:and|or)\b)*")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")


@dataclass(frozen=True)
class Statement:
    """The part of a text that is meant as the answer."""

    text: str
    how: str
    """boxed, marked (by a wording) or last (line)."""

    @property
    def usable(self) -> str:
        """The text, unless nobody would write so long an answer: reading it could take long."""
        return self.text if len(self.text) <= LONGEST else ""


def stated(text: str) -> Statement:
    """The answer as far as the wording tells."""
    inside = boxes(text)
    if inside:
        return Statement(", ".join(inside), "boxed")
    tail = text[-TAIL:]
    for found in reversed(list(_MARKER.finditer(tail))):
        rest = _sentence(tail[found.end() :])
        if rest:
            return Statement(rest, "marked")
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return Statement(lines[-1] if lines else "", "last")


def boxed(text: str) -> str:
    r"""What stands in the last \boxed{...}, or else the whole text."""
    inside = boxes(text)
    return inside[-1] if inside else text


def boxes(text: str) -> list[str]:
    r"""The last \boxed{...}, with those before it that only "and", "or" or a comma separates from it."""
    kept: list[str] = []
    next_start: int | None = None
    for begin, end, inside in reversed(_innermost(text)):
        if next_start is not None and not _BETWEEN_BOXES.fullmatch(text, end, next_start):
            break
        kept.append(inside)
        next_start = begin
    return kept[::-1]


def _innermost(text: str) -> list[tuple[int, int, str]]:
    """Boxes that hold no other box: where each begins and ends, and what is in it. One pass, whatever the nesting."""
    found: list[tuple[int, int, str]] = []
    opened: list[re.Match[str]] = []
    for token in _TOKEN.finditer(text):
        if token[0].endswith("{") and token[0] != r"\{":
            opened.append(token)
        elif token[0] == "}" and opened:
            begin = opened.pop()
            holds_another = bool(found) and found[-1][0] > begin.start()
            if begin[0] != "{" and not holds_another:
                found.append((begin.start(), token.end(), text[begin.end() : token.start()].strip()))
    return found


def _sentence(text: str) -> str:
    """Up to the end of the sentence or of the first line that has anything."""
    line = next((line for line in text.splitlines() if line.strip(" \t*_:")), "")
    line = line.strip().lstrip("*_: \t")
    end = _SENTENCE_END.search(line)
    return line[: end.start()].strip() if end and end.start() else line
