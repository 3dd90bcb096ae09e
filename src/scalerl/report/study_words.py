"""What a study found, as sentences: the answer first, what is missing, and the numbers behind a verdict.

Called by the formats of the study report with the document of `scalerl.study.results`. No layout and no escaping here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalerl import numbers
from scalerl.curves.results import Estimate
from scalerl.report.study_downstream import correlation_words, downstream_sets

Document = Mapping[str, Any]
RAISES, LOWERS, FASTER, SLOWER = "raises the ceiling", "lowers the ceiling", "faster", "slower"
HIGHER, LOWER, NONE_SHOWN = "higher at equal compute", "lower at equal compute", "no difference shown"
VERDICTS = (RAISES, LOWERS, FASTER, SLOWER, HIGHER, LOWER, NONE_SHOWN)


def answer(results: Document) -> list[str]:
    """What was found, one sentence for each kind of verdict; first what is missing."""
    return [*missing(results), *findings(results)]


def missing(results: Document) -> list[str]:
    """What the study does not have yet."""
    jobs, words = results["jobs"], []
    if jobs["missing"]:
        words.append(f"Unfinished: {jobs['missing']} of {jobs['planned']} jobs have not ended.")
    if jobs["failed"]:
        count = "1 job has" if jobs["failed"] == 1 else f"{jobs['failed']} jobs have"
        words.append(f"{count} failed and {'is' if jobs['failed'] == 1 else 'are'} left out.")
    if not results["choices"]:
        words.append("Nothing can be compared yet: that needs five evaluations of the base and of one cell.")
    return words


def findings(results: Document) -> list[str]:
    """The verdicts in sentences."""
    named = {verdict: names_with(results, verdict) for verdict in VERDICTS}
    words = []
    if named[RAISES] or named[LOWERS]:
        parts = [f"raised by {_listed(named[RAISES])}"] if named[RAISES] else []
        parts += [f"lowered by {_listed(named[LOWERS])}"] if named[LOWERS] else []
        words.append(f"The ceiling is {' and '.join(parts)}.")
    elif results["choices"]:
        words.append("No choice is shown to move the ceiling.")
    if named[FASTER] or named[SLOWER]:
        parts = [f"faster with {_listed(named[FASTER])}"] if named[FASTER] else []
        parts += [f"slower with {_listed(named[SLOWER])}"] if named[SLOWER] else []
        words.append(f"Only the speed moves: {'; '.join(parts)}.")
    if named[HIGHER] or named[LOWER]:
        parts = [f"higher with {_listed(named[HIGHER])}"] if named[HIGHER] else []
        parts += [f"lower with {_listed(named[LOWER])}"] if named[LOWER] else []
        words.append(f"At equal compute the value is {'; '.join(parts)}; by ceiling or by speed is not shown.")
    if named[NONE_SHOWN]:
        words.append(f"No difference shown: {_listed(named[NONE_SHOWN])}.")
    return words + [correlation_words(one) for one in downstream_sets(results) if one["correlation"] is not None]


def names_with(results: Document, verdict: str) -> list[str]:
    return [choice["cell"] for choice in results["choices"] if choice["verdict"] == verdict]


def about(results: Document) -> str:
    """One line under the title."""
    choices, seeds = len(results["cells"]) - 1, len(results["seeds"])
    return (
        f"{choices} {'choice' if choices == 1 else 'choices'} against {results['base']}, "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}, "
        f"{numbers.percent(results['level'])} intervals with the variation between seeds"
    )


def estimate_of(values: Mapping[str, float | None] | None) -> Estimate | None:
    """An estimate as the document holds it."""
    if values is None or values["value"] is None:
        return None
    return Estimate(values["value"], values["low"], values["high"])


def shown(values: Mapping[str, float | None] | None, *, compute: bool = False, signed: bool = False) -> str:
    found = estimate_of(values)
    return numbers.UNKNOWN if found is None else numbers.estimate(found, compute=compute, signed=signed)


def chances(choice: Document) -> str:
    """The probabilities behind a verdict."""
    chance = numbers.probability
    words = (
        f"ceiling higher {chance(choice['probability_ceiling_higher'])}, "
        f"equal {chance(choice['probability_ceiling_equal'])}, lower {chance(choice['probability_ceiling_lower'])}"
    )
    if choice["probability_more_efficient"] is None:
        return words
    return (
        f"{words}; at a common ceiling larger exponent {chance(choice['probability_more_efficient'])}, "
        f"earlier {chance(choice['probability_earlier'])}"
    )


def paper_of(results: Document, cell: str) -> str:
    return next((one["paper"] or "" for one in results["cells"] if one["name"] == cell), "")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
