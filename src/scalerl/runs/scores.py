"""What the results by problem of an evaluation say: mean@k and pass@k, with standard errors over problems.

Used by the command line and by reports. A run keeps for every problem how many answers were correct and how many were
judged (`evals/step-*.json`); everything here is derived from that. An answer that could not be judged is missing, and a
problem with too few judged answers is left out, never counted as failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scalerl.errors import InputError
from scalerl.plain_file import read_plain

HELD_OUT, DOWNSTREAM, PART = "pass_rate", "downstream/", "part/"
"""Keys of a line of evals.jsonl: the held-out value, and how those of a downstream set or of a mixture's part begin;
`downstream/NAME` is the value, and the rest is below it."""

Result = tuple[int, int]
"""Correct answers to a problem, and judged ones."""


@dataclass(frozen=True)
class Score:
    """A mean over problems."""

    value: float
    standard_error: float | None
    """Over problems; None with fewer than two."""
    num_problems: int
    """Those with enough judged answers."""


@dataclass(frozen=True)
class Results:
    """The answers to one set of problems."""

    num_samples: int
    """Answers that were asked for, to each problem."""
    by_problem: Mapping[str, Result]

    def pass_at(self, k: int) -> Score | None:
        return pass_at_k(self.by_problem.values(), k)


def pass_at_k(results: Iterable[Result], k: int) -> Score | None:
    """The chance that at least one of k answers is correct; with k = 1 the mean over all answers, mean@n.

    For a problem with c of n answers correct it is 1 - C(n - c, k) / C(n, k), the share of all choices of k among the n
    that hold a correct one: without bias, for every k up to n (Chen et al. 2021, arXiv 2107.03374). None where no
    problem has k judged answers.
    """
    if k < 1:
        raise InputError("k of pass@k", k, "a whole number of at least 1")
    values = [1 - comb(judged - correct, k) / comb(judged, k) for correct, judged in results if judged >= k]
    if not values:
        return None
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return Score(fmean(values), error, len(values))


def usual_ks(num_samples: int) -> tuple[int, ...]:
    """1, 2, 4, ... and the number of answers itself."""
    powers = [2**i for i in range(num_samples.bit_length()) if 2**i <= num_samples]
    return tuple(dict.fromkeys([*powers, num_samples]))


def read_results(file: Path, parts: Sequence[str] = ()) -> dict[str, Results]:
    """The results of one evaluation, by their names in evals.jsonl; empty when the file is not there.

    `parts`: of a mixture, whose problems begin with the name of their part.
    """
    try:
        saved = json.loads(read_plain(file))
        held_out = _results(saved)
        found = {HELD_OUT: held_out} | {f"{PART}{name}": _of_part(held_out, name) for name in parts}
        return found | {f"{DOWNSTREAM}{name}": _results(one) for name, one in saved.get("downstream", {}).items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror})", where=str(file)) from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"broken results ({error})", allowed="what a run has written", where=str(file)) from None


def _results(saved: Mapping[str, Any]) -> Results:
    by_problem = {name: (int(one["correct"]), int(one["judged"])) for name, one in saved["problems"].items()}
    found = Results(int(saved["num_samples"]), by_problem)
    for correct, judged in by_problem.values():
        if not 0 <= correct <= judged <= found.num_samples:
            raise ValueError(f"impossible counts: {correct} correct of {judged} judged of {found.num_samples}")
    return found


def _of_part(results: Results, part: str) -> Results:
    own = {name: result for name, result in results.by_problem.items() if name.startswith(f"{part}/")}
    return Results(results.num_samples, own)


def paired_difference(before: Results, after: Results) -> Score | None:
    """How much higher the second pass rate is, problem by problem; None where the two share no judged problem."""
    shared = [
        name for name in before.by_problem if before.by_problem[name][1] and after.by_problem.get(name, (0, 0))[1]
    ]
    gains = [_rate(after.by_problem[name]) - _rate(before.by_problem[name]) for name in shared]
    if not gains:
        return None
    return Score(fmean(gains), stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else None, len(gains))


def p_value(difference: Score) -> float | None:
    """How often chance alone gives a difference so large, in either direction: a t-test over problems."""
    if not difference.standard_error:
        return None
    from scipy.special import stdtr

    t = abs(difference.value) / difference.standard_error
    return float(2 * stdtr(difference.num_problems - 1, -t))


def _rate(result: Result) -> float:
    return result[0] / result[1]
