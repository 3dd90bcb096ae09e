"""The report's document as Markdown: headings, tables, the decision, what to know before trusting it. For pull requests
and notes.

Called by the report command with the dictionary of `document`. Text from strangers' files is escaped, so that a name
stays a name. Computes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from scalerl import numbers
from scalerl.report.answers import Document
from scalerl.report.set_documents import score_words

_SPECIAL = re.compile(r"([\\`*_\[\]|~])")


def report_markdown(document: Document) -> str:
    """The whole report, about the unit of compute that each run shows first."""
    lines = [f"# {text(document['title'])}", "", _about(document), ""]
    runs = document["runs"]
    if len(runs) > 1:
        lines += _overview(runs)
        lines += _comparison(document)
    for run in runs:
        lines += _run(run)
    if document["command"]:
        lines += ["## Make this report again", "", *_code(document["command"]), ""]
    return "\n".join(lines).rstrip() + "\n"


def text(words: object, limit: int = 400) -> str:
    """Words from anywhere, without a meaning in Markdown or HTML."""
    clean = numbers.name(str(words), limit).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", clean)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Cells are Markdown already."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def _about(document: Document) -> str:
    level = numbers.percent(document["level"])
    return f"{level} intervals, scalerl {document['version']}, {text(document['created'])}"


def _overview(runs: Sequence[Document]) -> list[str]:
    head = ("Run", "Decision", "Forecast", "Ceiling", "Exponent")
    return ["## All runs", "", *table(head, (_overview_row(run) for run in runs))]


def _overview_row(run: Document) -> list[str]:
    fit = _fit(run)
    if fit is None:
        return [text(run["name"]), "none", text(run["problem"] or "no fit"), "", ""]
    forecast, unit = fit["forecast"][0], run["units"][0]["name"]
    where = f"{numbers.amount(forecast['compute'])} {text(unit)}"
    exponent = "" if fit["exponent"] is None else _estimate(fit["exponent"])
    return [text(run["name"]), fit["decision"]["action"], f"{_estimate(forecast)} at {where}", _ceiling(fit), exponent]


def _comparison(document: Document) -> list[str]:
    lines: list[str] = []
    for key, found in (document["comparison"] or {}).items():
        lines += [
            f"## Comparison in {text(_unit_name(document, key))}",
            "",
            _ranking(document, key, found["ranking"]),
            "",
        ]
        rows = (
            [
                text(pair["challenger"]), text(words[0]), _estimate(pair["ceiling"], signed=True),
                text("; ".join(words[1:])),
            ]
            for pair, words in zip(found["pairs"], found["words"], strict=True)
        )  # fmt: skip
        lines += table((f"Against {text(found['reference'])}", "Verdict", "Ceiling difference", "To know"), rows)
        return lines  # the unit shown first; the others are in the page and in the JSON document
    return lines


def _ranking(document: Document, key: str, ranking: Sequence[str]) -> str:
    """Best first; a ceiling that is not identified yet is no reason to rank high."""
    fits = [unit["fit"] for run in document["runs"] for unit in run["units"] if unit["key"] == key and unit["fit"]]
    unknown = {fit["name"] for fit in fits if not fit["identified"]}
    known = [name for name in ranking if name not in unknown]
    rest = ", ".join(text(name) for name in ranking if name not in known)
    best = (
        f"Best first: {', '.join(map(text, known))}." if known else "No ceiling is identified yet: there is no ranking."
    )
    return f"{best} Ceiling not identified yet: {rest}." if rest and known else best


def _unit_name(document: Document, key: str) -> str:
    names = [unit["name"] for run in document["runs"] for unit in run["units"] if unit["key"] == key]
    return str(names[0]) if names else key


def _run(run: Document) -> list[str]:
    fit = _fit(run)
    lines = [f"## {text(run['name'])}", ""]
    if fit is None:
        return [*lines, f"No forecast yet: {text(run['problem'] or 'no fit')}", ""]
    unit = run["units"][0]["name"]
    lines += [*_decision(fit, unit), *_parameters(fit), *_forecasts(fit, unit), *_trust(fit), *_windows(fit, unit)]
    lines += [*_history(run["units"][0]), *set_lines(run["sets"]), *_events(run), *_origin(run)]
    return lines


def _decision(fit: Document, unit: str) -> list[str]:
    """The answer in one sentence, then the reason."""
    made, forecast = fit["decision"], fit["forecast"][0]
    times = f"{forecast['compute'] / fit['window']['last']:.3g}x the compute"
    answer = f"**{made['action']}**: at {times} expect {_estimate(forecast)}; ceiling {_ceiling(fit)}."
    chance = numbers.probability(made["probability"])
    where = f"{numbers.amount(made['budget'])} {text(unit)}"
    return [answer, "", f"{text(made['reason'])}. P(gain of {made['delta']:g} or more by {where}) = {chance}.", ""]


def _parameters(fit: Document) -> list[str]:
    rows = [[name, *_split(found, compute=name in ("midpoint", "scale"))] for name, found in fit["parameters"].items()]
    if not fit["identified"]:  # a number would be quoted; the interval is what is known
        rows = [[name, "not identified yet" if name == "ceiling" else value, ends] for name, value, ends in rows]
    quality = "" if fit["r_squared"] is None else f", R² {fit['r_squared']:.3f}"
    about = f"{fit['law']} law on {fit['points']:,} points{quality}"
    return ["### Parameters", "", f"{about}.", "", *table(("Parameter", "Value", "Interval"), rows)]


def _forecasts(fit: Document, unit: str) -> list[str]:
    rows = [[f"{numbers.amount(one['compute'])} {text(unit)}", *_split(one)] for one in fit["forecast"]]
    lines = ["### Forecasts", "", *table(("Compute", text(fit["y"]), "Interval"), rows)]
    return lines + [line for target in fit["targets"] for line in (text(target["message"]), "")]


def _trust(fit: Document) -> list[str]:
    found = [f"- {text(one['message'])}" for one in fit["diagnostics"]] or ["- Nothing speaks against this fit."]
    held = [point["inside"] for point in fit["held_out"] if point["inside"] is not None]
    if held:
        found.append(f"- {sum(held)} of {len(held)} held-out points lie inside their interval.")
    return ["### Before trusting it", "", *found, ""]


def _windows(fit: Document, unit: str) -> list[str]:
    if not fit["windows"]:
        return []
    rows = (
        [
            f"{numbers.amount(one['from'])} to {numbers.amount(one['until'])}", str(one["points"]),
            numbers.number(one["ceiling"]), numbers.number(one["exponent"]), numbers.amount(one["midpoint"]),
        ]
        for one in fit["windows"]
    )  # fmt: skip
    head = (text(unit), "Points", "Ceiling", "Exponent", "Midpoint")
    return ["### The same law on other windows", "", *table(head, rows)]


def _history(unit: Document) -> list[str]:
    if not unit["history"]:
        return []
    budget = f"{numbers.amount(unit['history'][-1]['budget'])} {text(unit['name'])}"
    rows = ([numbers.amount(one["compute"]), *_split(one), one["action"]] for one in unit["history"])
    head = ("Known up to", "Forecast", "Interval", "Decision")
    return [f"### How the forecast for {budget} has moved", "", *table(head, rows)]


def set_lines(sets: Sequence[Document]) -> list[str]:
    """Downstream sets and parts: what was measured, then what it says."""
    if not sets:
        return []
    rows = (
        [
            text(f"part {one['name']}" if one["kind"] == "part" else one["name"]), str(one["k"] or numbers.UNKNOWN),
            _score(one["first"]), _score(one["last"]), _score(one["pass_at_k"]),
        ]
        for one in sets
    )  # fmt: skip
    notes = [f"- {text(one['name'])}: {text(line)}" for one in sets for line in (*one["words"], *one["missing"])]
    head = ("Problems", "k", "First mean@k", "Last mean@k", "Last pass@k")
    return ["### Downstream and parts", "", *table(head, rows), *notes, ""]


def _score(found: Document | None) -> str:
    return numbers.UNKNOWN if found is None else score_words(found["value"], found["error"])


def _events(run: Document) -> list[str]:
    lines = [f"- {text(one['message'])} ({text(one['time'])})" for one in run["events"]]
    return ["### What happened", "", *lines, ""] if lines else []


def _origin(run: Document) -> list[str]:
    facts = {"source": run["source"]} | (run["provenance"] or {})
    lines = [f"- {text(name)}: {text(value)}" for name, value in facts.items() if value]
    lines += [f"- {text(note)}" for note in run["notes"]]
    return ["### Origin", "", *lines, ""] if lines else []


def _code(command: str) -> Iterator[str]:
    """Indented, so that no run of backticks inside can end it; without control characters of file names."""
    for line in command.splitlines():
        yield "    " + "".join(char if char.isprintable() else "?" for char in line)


def _fit(run: Document) -> Document | None:
    return None if run["problem"] or not run["units"] else run["units"][0]["fit"]


def _ceiling(fit: Document) -> str:
    if fit["ceiling"] is None:
        return "none in this law"
    return _estimate(fit["ceiling"]) if fit["identified"] else "not identified yet"


def _split(found: Document, *, compute: bool = False, signed: bool = False) -> tuple[str, str]:
    return numbers.ranged(found["value"], found["low"], found["high"], compute=compute, signed=signed)


def _estimate(found: Document, *, signed: bool = False) -> str:
    center, interval = _split(found, signed=signed)
    return center if interval == numbers.UNKNOWN else f"{center} {interval}"
