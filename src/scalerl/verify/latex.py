r"""The answer of a text as LaTeX, and what can be said about it without a computer algebra system.

Called by `symbolic`. Knows wordings and notation, and no mathematics.
"""

from __future__ import annotations

import re
from typing import Literal

from scalerl.verify.quantity import DOLLAR, Quantity, plain_text, quantities, unit_name, with_money
from scalerl.verify.statement import TAIL, Statement, stated

_MATH = re.compile(
    r"\$\$(?P<a>[^$]+)\$\$|\\\[(?P<b>.+?)\\\]|\\\((?P<c>.+?)\\\)|(?<![\\0-9])\$(?P<d>(?:\\\$|[^$\n])+)(?<!\\)\$",
    re.DOTALL,
)
_JOINED = re.compile(r"(?i)\s*(?:,|;|,?\s*\band\b|,?\s*\bor\b)\s*")
_ASIDE = re.compile(r"(?i)(?<!\\text\{)\s\b(?:when|where|because|since|if|for|so)\b")
_OR = re.compile(
    r"(?i)\\(?:text|mathrm|mbox)\s{0,3}\{\s*(?:or|and)\s*\}|(?<![a-z\\])(?:or|and)(?![a-z])|\\(?:lor|vee|quad)(?![a-z])"
)
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|operatorname)\s{0,3}\{([^{}]*)\}")
_NOISE = re.compile(
    r"\\(?:displaystyle|left|right|big|Big|bigg|Bigg|limits|!|,|;|:|\s)(?![a-zA-Z])|\\(?:left|right)(?=[a-zA-Z])"
)
_BEFORE = re.compile(r"^(?:[ ,;*]|\.{2,}|\.(?!\s?[0-9]|\s?\\(?:overline|bar)))+")
"""Punctuation that belongs to no number: `.5` is a half."""
_COMMAND = re.compile(r"\\(?:begin|end)\s{0,3}\{[^{}]*\}|\\[a-zA-Z]+")
_LETTER = re.compile(rf"{_TEXT.pattern}|{_COMMAND.pattern}|(?P<letter>[A-Za-z])")
_FREE = tuple(rf"\{name} " for name in ("xi", "zeta", "eta", "kappa", "iota", "upsilon", "psi", "tau"))
"""Letters that are seldom used, in the place of others."""
_NAME = re.compile(r"\s*(\\?[A-Za-z]+(?:_\{?\w+\}?)?(?:\([a-z]\))?)\s*=(?!=)")
_BASE = re.compile(r"[0-9A-F]\s?_\s?\{?\s?([0-9]+)\s?\}?\s*$")
_UNIT = re.compile(r"\\(?:text|mathrm|textrm|mbox)\s{0,3}\{\s*([A-Za-z/]+)\s*\}((?:\^\{?[23]\}?)?)\s*$")
_WORD = re.compile(r"[A-Za-z]{3,}")
_FUNCTIONS = frozenset(
    ("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "exp",
     "sqrt", "max", "min", "mod", "gcd", "lcm", "det", "inf")
)  # fmt: skip


def latex_answer(text: str) -> str:
    """What the text gives as its answer, without delimiters, in one line; empty: nothing."""
    statement = stated(text)
    found = statement.usable if statement.how == "boxed" else _unboxed(statement, text[-TAIL:])
    found = with_money(found).replace("$", "").replace(DOLLAR, r"\$")
    found = _OR.sub(", ", found.replace(r"\%", "%"))
    found = re.sub(r"(?:,\s*){2,}", ", ", " ".join(found.split()))
    return _BEFORE.sub("", found.rstrip(" .,;*")).replace("%", r"\%")


def without_spaces(latex: str) -> str:
    """But for those between digits: 1 1/2 is not 11/2."""
    return re.sub(r"(?<![0-9])\s+|\s+(?![0-9])", "", latex)


def single_number(latex: str) -> Quantity | None:
    """The number, if there is one and otherwise nothing but a unit or a word."""
    plain = plain_text(_name_removed(latex))
    found = quantities(plain)
    if len(found) != 1:
        return None
    rest = plain[: found[0].begin] + " " + plain[found[0].end :]
    alone = re.fullmatch(r"[A-Za-z\u20ac\u00a3$\uff04 ]*", rest)
    return found[0] if alone and not _is_product(plain, found[0]) else None


def words(latex: str) -> str:
    """The letters and digits of an answer that is made of words; empty for mathematics."""
    text = _TEXT.sub(r" \1 ", latex)
    found = [word for word in _WORD.findall(_COMMAND.sub(" ", text)) if word.casefold() not in _FUNCTIONS]
    plain = re.sub(r"[^\w+\-./=]", "", _COMMAND.sub("", text)).casefold()
    return plain.rstrip(".") if found else ""


def name_of(latex: str) -> str:
    """`x` of `x = 5`; empty: there is none."""
    found = _NAME.match(latex)
    return "".join(found[1].split()) if found else ""


def base_of(latex: str) -> str:
    """The base that is written below a number; empty: there is none."""
    found = _BASE.search(latex)
    return found[1] if found else ""


def unit_of(latex: str) -> str:
    """The unit in text behind a formula, or the dollar before it; empty: there is none."""
    found = _UNIT.search(latex)
    known = unit_name(found[1] + found[2]) if found else ""
    return known or ("dollar" if r"\$" in latex else "")


def without_unit(latex: str) -> str:
    """The formula alone; a unit that is all there is stays."""
    found = _UNIT.search(latex)
    bare = _UNIT.sub("", latex).strip() if found and unit_name(found[1] + found[2]) else latex
    return bare.replace(r"\$", "").strip() or latex


def both_cases_apart(answer: str, reference: str) -> tuple[str, str]:
    """Where one of them has `R` beside `r`, in both another letter for `R`: math-verify makes every letter small, and
    `R - r` would be 0. Where none has, the case does not count: `+ c` is `+ C`."""
    used = [{one["letter"] for one in _LETTER.finditer(text) if one["letter"]} for text in (answer, reference)]
    large = sorted({one for letters in used for one in letters if one.isupper() and one.lower() in letters})
    free = [letter for letter in _FREE if letter.strip() not in answer + reference]
    names = dict(zip(large, free, strict=False))
    found, wanted = (
        _LETTER.sub(lambda one: names.get(one["letter"] or "", one[0]), text) for text in (answer, reference)
    )
    return found, wanted


def shape(latex: str) -> Literal["set", "tuple", "other"]:
    """By its outer brackets."""
    plain = "".join(_NOISE.sub("", latex).split())
    if plain.startswith(r"\{") and plain.endswith(r"\}"):
        return "set"
    return "tuple" if re.fullmatch(r"\([^()]*,[^()]*\)", plain) else "other"


def _unboxed(statement: Statement, tail: str) -> str:
    """Formulas between dollars, if there are any; else a number with its unit, if words surround it; else all of it."""
    text = statement.usable
    if statement.how == "marked":
        text = _ASIDE.split(text)[0]
    elif not _MATH.search(text):
        display = list(_MATH.finditer(tail))
        if display and not tail[display[-1].end() :].strip(" .\n"):
            text = display[-1][0]
    formulas = _formulas(text, last=statement.how != "marked")
    if formulas:
        return formulas
    text = text.rpartition("=")[2] if words(text) and "=" in text else text
    found = quantities(plain_text(text))
    if words(text) and len(found) == 1:
        return plain_text(text)[found[0].begin : found[0].end].strip()
    prose = statement.how == "last" and len(text.split()) > 3 and "\\" not in text and words(text)
    return "" if prose else text


def _formulas(text: str, *, last: bool) -> str:
    """The first (or last) formula, with those that "and", "or" or a comma joins to it."""
    found = list(_MATH.finditer(text))
    groups: list[list[re.Match[str]]] = []
    for formula in found:
        if groups and _JOINED.fullmatch(text, groups[-1][-1].end(), formula.start()):
            groups[-1].append(formula)
        else:
            groups.append([formula])
    if not groups:
        return ""
    chosen = groups[-1 if last else 0]
    after = re.match(r"\s*(\\?%|[A-Za-z\u00b0]+(?:\^[23])?)", text[chosen[-1].end() :])
    unit = after[1] if after and (after[1].endswith("%") or unit_name(after[1])) else ""
    return ", ".join(one["a"] or one["b"] or one["c"] or one["d"] for one in chosen) + (f" {unit}" if unit else "")


def _name_removed(latex: str) -> str:
    """`x = 5` is 5."""
    return _NAME.sub("", latex)


def _is_product(plain: str, number: Quantity) -> bool:
    """`5x`, `5m` and `x 5` are no numbers; `5 apples`, `5 m`, `12cm` and `$5` are."""
    inside, around = plain[number.begin : number.end], plain[: number.begin] + " " + plain[number.end :]
    if re.search(r"[0-9.)}][A-Za-z]$", inside):
        return True
    letters = re.search(r"[A-Za-z]+$", inside)
    short = [word for word in (*around.split(), letters[0] if letters else "") if 0 < len(word) < 3]
    return any(word.isalpha() and not unit_name(word) for word in short)
