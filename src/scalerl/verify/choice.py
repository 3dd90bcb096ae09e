r"""The same letters of a multiple choice: `B`, `(B)`, `**B.** Paris`, `the answer is option B`, `\boxed{\text{B}}`.

Made by `build`. Runs in the process that asks. Knows the letters A to J and not the options behind them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scalerl.verify.statement import Statement, stated
from scalerl.verify.verdict import Verdict, Verifier, judged

_DECORATION = re.compile(r"\\(?:text|textbf|mathrm|mathbf|boldsymbol|mathsf)\s{0,3}\{([^{}]*)\}|[*_`$]|\\[()\[\],;! ]")
_MARK = r"\(?\[?([A-Ja-j])\]?\)?"
_ARTICLE = r"[Aa]\s(?!are\b|is\b|or\b|and\b)[a-z]{2}"
_AGAIN = rf"(?:\s*(?:,|;|&|/|\bor\b|\band\b)\s*(?:or |and )?(?!{_ARTICLE}){_MARK}(?![A-Za-z'\u2019]))"
_START = re.compile(
    r"(?:(?:the|is|most|likely|correct|best|right|option|options|choice|choices|letter|letters|answer|be|definitely)\s+){0,6}"
    rf"{_MARK}(?![A-Za-z'\u2019]){_AGAIN}{{0,9}}\s*(?P<rest>.*)", re.IGNORECASE | re.DOTALL,
)  # fmt: skip
_INSIDE = re.compile(r"(?:\(([A-Ja-j])\)|\b(?:option|choice|letter|choose|pick|select)\s+\(?([A-J])\b)")
_LETTER = re.compile(r"(?<![A-Za-z\\])[A-Ja-j](?![A-Za-z'\u2019])")
_CONFIRMED = re.compile(r"(?i)(?:are|is) (?:both |all |the )?(?:correct|right|true|best)\b")
_WORD_AFTER = re.compile(r"[A-Za-z]")


@dataclass(frozen=True)
class ChoiceVerifier(Verifier):
    """Letters against letters, in any order."""

    def verify(self, text: str, reference: str) -> Verdict:
        wanted = _letters(stated(reference))
        if not wanted:
            return Verdict("error", "the reference has no letter")
        found = _letters(stated(text))
        return judged(found == wanted) if found else Verdict("unparsable", "no letter")

    def objection(self, reference: str) -> str | None:
        return None if _letters(stated(reference)) else "no letter"


def _letters(statement: Statement) -> frozenset[str]:
    """The letters that the answer begins with; else the only one that it marks as a letter."""
    text = " ".join(_DECORATION.sub(r"\1", statement.usable).split()).strip(" .:")
    if re.fullmatch(r"[A-J]{2,6}", text) and list(text) == sorted(set(text)):  # ACD
        return frozenset(text)
    start = _START.fullmatch(text)
    if start and _is_choice(start, statement):
        return frozenset(_capitals(_LETTER.findall(text[: start.start("rest")])))
    marked = {one or other for one, other in _INSIDE.findall(text)}
    negated = re.search(r"(?i)\bnot\b|n't\b|\bneither\b", text)
    return frozenset(_capitals(marked)) if len(_capitals(marked)) == 1 and not negated else frozenset()


def _is_choice(start: re.Match[str], statement: Statement) -> bool:
    """`A dog` and `I think` begin with a word, `A. dog` and `(A) dog` with a letter; a lone `a` is one too."""
    rest = start["rest"]
    if not rest or not _WORD_AFTER.match(rest):
        return True
    before = start.string[: start.start("rest")].rstrip()
    if before.endswith((")", "]")) or _CONFIRMED.match(rest):
        return True
    return statement.how == "marked" and before[-1:] in "BCDEFGHJ" and before[-1:] != ""


def _capitals(letters: set[str] | list[str]) -> set[str]:
    return {letter.upper() for letter in letters}
