"""Which column is the compute, which the value, which the number of answers: named by the user, or guessed.

Called by `table`. Knows names only, never rows: whether a column starts with a number is asked through a function.

Guessing goes down the ranks below and takes the best one found, first among the columns that start with a number (an
empty or textual one is only taken when nothing else fits, and then the reader says what is wrong with it). Two
candidates of one rank are an error that lists them, never a coin toss. A file with only two columns (beside the `by`
columns) needs no known names: the first is the compute.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalerl.errors import InputError

_TOTAL = r"(?:(?:cum|cumulative|total|train|training|num|n)_)*"
_DEVICE = r"(?:gpu|tpu|cpu|device|chip|accelerator|core|[abhv]\d{2,3})"
_TIME = r"(?:days?|hours?|hrs?|h|minutes?|min|seconds?|secs?|s)"

COMPUTE_RANKS = (
    rf"{_TOTAL}(?:compute|compute_used)",
    rf"{_TOTAL}(?:{_DEVICE}_?{_TIME}|(?:p|e|z)?flops?)(?:_.*)?",
    rf"{_TOTAL}(?:tokens|tokens_seen|tokens_processed)",
    rf"{_TOTAL}(?:{_TIME}|(?:wall|wall_clock|wallclock|elapsed|run)_?(?:time|{_TIME})?|time|time_{_TIME}|runtime)",
    r"(?:(?:cum|cumulative|total|train|training|consumed)_)*(?:samples|rollouts|episodes|prompts)(?:_seen)?",
    r"(?:train_|trainer_|training_|global_)*_?(?:steps?|iterations?|iters?|updates?)|x",
    r"(?:train_|training_)?epochs?",
)
"""Best first: compute itself, device time and FLOPs, tokens, wall-clock time, samples, steps, epochs."""

_HELD_OUT = r"(?:val|valid|validation|eval|evaluation|test|held_out|heldout|holdout)"

VALUE_RANKS = (
    rf"(?:{_HELD_OUT}_)?(?:pass_?rate|pass_?(?:at_)?\d+|mean_at_\d+|mean_?\d+|y|value)(?:_mean)?",
    rf"{_HELD_OUT}_(?:mean_)?(?:accuracy|acc|success_?rate|solve_?rate)(?:_mean)?",
    r"(?:mean_)?(?:accuracy|acc|success_?rate|solve_?rate)(?:_mean)?",
    rf"{_HELD_OUT}_(?:mean_|avg_)?(?:reward|score|return)s?(?:_mean)?",
    r"(?:mean_|avg_|average_)?(?:reward|score|return)s?(?:_mean)?",
    rf"{_HELD_OUT}_(?!.*(?:loss|std|var|stderr|min|max|time|length|tokens|entropy|step|epoch|size|count|n$)).+",
)
"""Best first: pass rate, accuracy, reward (held-out before unmarked), then any one metric with a held-out prefix."""

COUNT_RANKS = (
    r"n",
    rf"(?:n|num|count)_(?:{_HELD_OUT}|answers?|questions?|problems?|samples?|trials?)",
    rf"{_HELD_OUT}_(?:n|size|count|samples|questions|problems)",
)
"""Answers behind each value. Plain "samples" is not here: in training logs it mostly counts what was trained on."""


@dataclass(frozen=True)
class Picked:
    """The columns to read."""

    x: str
    y: str
    n: str | None = None
    by: tuple[str, ...] = ()
    num_answers: float | None = None
    """Behind every value, when the user gave a number instead of a column."""


def pick(
    columns: Sequence[str],
    is_number: Callable[[str], bool],
    *,
    x: str | None = None,
    y: str | None = None,
    n: str | None = None,
    by: str | None = None,
    where: str = "",
) -> Picked:
    """Resolve the names given and guess the others. `n="none"` reads no n even if a column looks like one.

    A number for `n` that is no column's name is the number of answers itself.
    """
    groups = _by_columns(columns, by, where)
    x_given = None if x is None else find(columns, x, "--x", where)
    y_given = None if y is None else find(columns, y, "--y", where)
    num_answers, count = count_of(columns, n, where)
    taken = {x_given, y_given, count, *groups}
    free = [c for c in columns if c not in taken and columns.count(c) == 1]
    numeric = [c for c in free if is_number(c)]
    x_picked = x_given or guess(numeric, free, COMPUTE_RANKS, "compute", "--x", where)
    y_picked = y_given or guess(numeric, free, VALUE_RANKS, "value", "--y", where)
    data = [c for c in columns if c not in {count, *groups}]
    x_final = x_picked or _left_over(data, y_picked, 0)
    y_final = y_picked or _left_over(data, x_final, 1)
    if x_final is None or y_final is None:
        what, option = ("compute", "--x") if x_final is None else ("value", "--y")
        allowed = f"{option} with one of {_listed(columns)}"
        raise InputError(f"no column looks like the {what}", allowed=allowed, where=where)
    if x_final == y_final:
        raise InputError("compute and value are the same column", x_final, "two columns", where)
    if n is None:
        others = [c for c in free if c not in {x_final, y_final}]
        count = guess(others, others, COUNT_RANKS, "number of answers", "--n", where)
    return Picked(x_final, y_final, count, groups, num_answers)


def count_of(columns: Sequence[str], n: str | None, where: str) -> tuple[float | None, str | None]:
    """What `--n` says: the number of answers, or the column that has it; neither when it is "none" or not given."""
    if n is None or (n.lower() == "none" and n not in columns):
        return None, None
    number = None if n in columns else _positive(n)
    return (number, None) if number is not None else (None, find(columns, n, "--n", where))


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def find(
    columns: Sequence[str], name: str, option: str, where: str, what: str = "column", also: Sequence[str] = ()
) -> str:
    """The column called `name`: exactly, or else in another case or spelling if only one fits.

    `what` and `also` are for the message: columns may be metrics, and other words may be allowed too.
    """
    matches = [c for c in columns if c == name] or [c for c in columns if plain(c) == plain(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(f"{what} of {option} is there more than once", name, f"unique {what} names", where)
    close = difflib.get_close_matches(name.lower(), [c.lower() for c in columns], n=1)
    hint = "".join(f" (closest: {c})" for c in columns if close and c.lower() == close[0])
    raise InputError(f"unknown {what} for {option}", name, f"one of {_listed([*also, *columns])}{hint}", where)


def _by_columns(columns: Sequence[str], by: str | None, where: str) -> tuple[str, ...]:
    if by is None:
        return ()
    if by in columns:  # a name with a comma in it
        return (find(columns, by, "--by", where),)
    return tuple(find(columns, name.strip(), "--by", where) for name in by.split(","))


def guess(
    numeric: Sequence[str], free: Sequence[str], ranks: Sequence[str], what: str, option: str, where: str,
    things: str = "columns",
) -> str | None:  # fmt: skip
    """The column of the best rank; several of one rank are an error that lists them."""
    for rank, candidates in [(r, numeric) for r in ranks] + [(r, free) for r in ranks]:
        matches = [c for c in candidates if re.fullmatch(rank, plain(c))]
        if len(matches) > 1:
            allowed = f"{option} with one of {_listed(matches)}"
            raise InputError(f"several {things} look like the {what}", allowed=allowed, where=where)
        if matches:
            return matches[0]
    return None


def _left_over(data: Sequence[str], other: str | None, position: int) -> str | None:
    """In a file of two columns, the one that is not the other."""
    if len(data) != 2:
        return None
    return data[position] if other is None else next((c for c in data if c != other), None)


def plain(name: str) -> str:
    """`Val/Pass-Rate`, `val pass rate` and `val_pass_rate` are one name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _listed(columns: Sequence[str], most: int = 30) -> str:
    shown = ", ".join(columns[:most])
    return shown if len(columns) <= most else f"{shown}, ... ({len(columns)} columns)"
