"""A study's results as sections of plain text and tables: what Markdown and the page have in common.

Called by `study_markdown` and `study_page` with the document of `scalerl.study.results` (and the replay, if asked for).
Nothing is escaped here and nothing is computed: numbers become text. The sentences are those of `study_words`.
"""

from __future__ import annotations

from dataclasses import dataclass

from scalerl import numbers
from scalerl.curves.results import Estimate
from scalerl.report.study_downstream import HEAD, downstream_lines, downstream_rows, downstream_sets
from scalerl.report.study_words import NONE_SHOWN, Document, chances, paper_of, shown


@dataclass(frozen=True)
class Table:
    """Cells are plain text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """One part of the report."""

    key: str
    title: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


def sections(results: Document) -> list[Section]:
    """Everything there is to say, in the order of interest; parts without content are left out."""
    made = [
        _choices(results), _joint(results), _extrapolation(results), _downstream(results), _race(results),
        _replay(results), _stability(results), _cells(results),
    ]  # fmt: skip
    return [section for section in made if section is not None]


def _choices(results: Document) -> Section | None:
    rows = [
        (
            choice["cell"], choice["verdict"], shown(choice["ceiling"], signed=True),
            shown(choice["exponent"], signed=True), shown(choice["value"], signed=True), chances(choice),
            paper_of(results, choice["cell"]),
        )
        for choice in results["choices"]
    ]  # fmt: skip
    if not rows:
        return None
    at = f"{numbers.amount(results['at'])} {results['compute_name']}"
    head = ("Choice", "Verdict", "Ceiling", "Exponent", "Value at full budget", "Probability", "The paper")
    words = (
        f"Differences to {results['base']}. Ceilings within {results['margin']:g} count as equal; "
        f"values are compared at {at}, the base's full budget."
    )
    return Section("choices", "Choices", (words,), (Table(head, tuple(rows)),))


def _joint(results: Document) -> Section | None:
    by_name = {choice["cell"]: choice for choice in results["choices"]}
    fitted = {cell["name"]: cell["joint"] for cell in results["cells"] if cell["joint"] is not None}
    if not fitted:
        return None
    rows = []
    for name in results["ranking"]:
        joint, choice = fitted[name], by_name.get(name)
        ceiling = shown(joint["ceiling"]) + ("" if joint["identified"] else " (not identified)")
        rows.append((
            name, ceiling, shown(joint["exponent"]), shown(joint["midpoint"], compute=True),
            "" if choice is None else _paper_rule(choice), _overtaking(choice), _caution(choice, joint),
        ))  # fmt: skip
    head = ("Cell", "Ceiling", "Exponent", "Midpoint", "The paper's rule", "Overtaking", "To know")
    words = (
        "All seeds of a cell fitted as one curve, best first by the paper's rule: the higher ceiling, and among those "
        f"within {results['margin']:g} the larger exponent once both have the mean ceiling. "
        "Intervals here know nothing of seeds."
    )
    return Section("joint", "Joint fits and the paper's rule", (words,), (Table(head, tuple(rows)),))


def _paper_rule(choice: Document) -> str:
    exponents = choice["paper_exponents"]
    more = "" if exponents is None else f" ({exponents[1]:.2f} against {exponents[0]:.2f})"
    return f"{choice['paper_verdict']}{more}"


def _overtaking(choice: Document | None) -> str:
    if choice is None or choice["overtakes_at"] is None:
        return ""
    return f"at {shown(choice['overtakes_at'], compute=True)}"


def _caution(choice: Document | None, joint: Document) -> str:
    if choice is not None:
        return str(choice["caution"])
    return "; ".join(one["message"] for one in joint["diagnostics"])


def _extrapolation(results: Document) -> Section | None:
    found = results["extrapolation"]
    if not found["rows"]:
        return None
    rows = [
        (
            row["cell"], "all" if row["seed"] is None else str(row["seed"]),
            numbers.estimate(Estimate(row["value"], row["low"], row["high"])), numbers.number(row["actual"]),
            numbers.number(row["error"], 2, signed=True), "inside" if row["inside"] else "OUTSIDE",
        )
        for row in found["rows"]
    ]  # fmt: skip
    share = numbers.percent(found["share"])
    lines = [f"Fitted on the first {share} of the budget; what came is the mean of the last three evaluations."]
    for key, words in (("cells", "cells (all seeds together)"), ("seeds", "single runs")):
        one = found[key]
        if one["count"]:
            lines.append(
                f"{numbers.percent(one['coverage'])} of {one['count']} {words} lie inside their "
                f"{numbers.percent(results['level'])} interval; mean absolute error "
                f"{numbers.number(one['mean_absolute_error'], 2)}."
            )
    head = ("Cell", "Seed", "Forecast", "What came", "Error", "Interval")
    return Section("extrapolation", "Did the forecasts hold?", tuple(lines), (Table(head, tuple(rows)),))


def _downstream(results: Document) -> Section:
    tables = tuple(
        Table((f"{HEAD[0]}, set {one['name']}", *HEAD[1:]), downstream_rows(one)) for one in downstream_sets(results)
    )
    return Section("downstream", "Downstream against held-out", tuple(downstream_lines(results)), tables)


def _race(results: Document) -> Section | None:
    if not results["decisions"]:
        return None
    rows = [
        (
            numbers.percent(line["rung"]) if "rung" in line else "end", line.get("cell", _seeds(line)), line["action"],
            numbers.probability(line.get("probability")) if "cell" in line else "", line["reason"],
        )
        for line in results["decisions"]
    ]  # fmt: skip
    head = ("Rung", "Cell", "Decision", "Chance", "Reason")
    prune = results["prune"]
    words = (
        f"A cell is stopped when its chance of coming within {prune['delta']:g} of the best at the full budget falls "
        f"below {prune['threshold']:g}. The base is never stopped."
    )
    return Section("race", "The race", (words,), (Table(head, tuple(rows)),))


def _seeds(line: Document) -> str:
    return ", ".join(f"{cell}: seed {' and '.join(map(str, more))}" for cell, more in line.get("seeds", {}).items())


def _cell(name: str | None) -> str:
    return "no cell (no ceiling is known well enough)" if name is None else name


def _replay(results: Document) -> Section | None:
    found = results.get("replay")
    if found is None:
        return None
    changed = found["changed"]
    lost = sum(one["after"] == NONE_SHOWN for one in changed)
    before, after = _cell(found["best_before"]), _cell(found["best_after"])
    kept = f"{found['verdicts'] - len(changed)} of {found['verdicts']} verdicts stay as they are"
    lines = [
        f"The race would have saved {numbers.percent(found['saved'])} of the compute.",
        f"{kept}; {lost} could not be shown any more, {len(changed) - lost} would be another.",
        f"Best by the paper's rule: {before} with all curves, {after} after the race.",
    ]
    lines += [f"{one['cell']}: {one['before']} would have been {one['after']}." for one in changed]
    rows = tuple(
        (one["cell"], numbers.percent(one["rung"]), numbers.probability(one["probability"]), one["reason"])
        for one in found["stopped"]
    )
    tables = (Table(("Stopped", "At", "Chance", "Reason"), rows),) if rows else ()
    return Section("replay", "The race, replayed", tuple(lines), tables)


def _stability(results: Document) -> Section | None:
    if not results["stability"]:
        return None
    rows = tuple(
        (
            one["cell"], str(one["seed"]), _share(one["truncation_last"]), _share(one["truncation_max"]),
            numbers.number(one["entropy_last"], 2), numbers.number(one.get("prompts_last"), 2),
            numbers.number(one["best"]), numbers.number(one["last"]),
            {True: "COLLAPSED", False: "no", None: numbers.UNKNOWN}[one["collapsed"]],
        )
        for one in results["stability"]
    )  # fmt: skip
    fallen = [one for one in results["stability"] if one["collapsed"]]
    words = (
        f"{len(fallen)} of {len(rows)} runs collapsed: the value fell by more than a tenth of its range from its best "
        "and stayed there. Truncation, entropy and prompts that taught something are means over 20 steps; in the paper "
        "a truncation of 10-15 % went with instability."
    )
    head = ("Cell", "Seed", "Truncated, last", "Truncated, most", "Entropy, last", "Prompts, last", "Best", "Last",
            "Collapse")  # fmt: skip
    return Section("stability", "Stability", (words,), (Table(head, rows),))


def _cells(results: Document) -> Section:
    failures = {(one["cell"], one["seed"]): one["error"] for one in results["jobs"]["failures"]}
    rows = []
    for cell in results["cells"]:
        failed = [f"seed {seed}: {error}" for (name, seed), error in failures.items() if name == cell["name"]]
        rows.append((cell["name"], _changes(cell), str(len(cell["seeds"])), _used(cell), "; ".join(failed)))
    head = ("Cell", "Differs from the base", "Seeds", "Budget used", "Failed")
    return Section("cells", "Cells", (), (Table(head, tuple(rows)),))


def _changes(cell: Document) -> str:
    recipe = [f"recipe {cell['recipe']}"] if cell["recipe"] else []
    changed = [f"{key} = {_value(new)}" for key, (_, new) in cell["changes"].items() if new is not None]
    return "; ".join([*recipe, *changed]) or "nothing: the base"


def _value(value: object) -> str:
    return numbers.name(str(value), 40)


def _used(cell: Document) -> str:
    return "" if cell["share"] is None else numbers.percent(round(cell["share"], 2))


def _share(value: float | None) -> str:
    return numbers.UNKNOWN if value is None else numbers.percent(value)
