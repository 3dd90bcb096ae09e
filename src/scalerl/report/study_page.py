"""A study's results as one HTML page that opens offline, in the style of the report page.

Called by the study report command with the document of `scalerl.study.results`. Unlike the report of a run the page
stands still: tables and inline drawings, one small script for light and dark, whose hash is all that the policy allows.
Names come from configs and logs: everything is escaped here.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from importlib.resources import files

from scalerl import __version__, numbers
from scalerl.report.policy import written_policy
from scalerl.report.study_downstream import correlation_words, downstream_sets, scatter
from scalerl.report.study_sections import Section, Table, sections
from scalerl.report.study_svg import Drawn, Plane, Span, cell_chart, strip, strip_ticks
from scalerl.report.study_words import (
    FASTER,
    HIGHER,
    LOWER,
    LOWERS,
    RAISES,
    SLOWER,
    VERDICTS,
    Document,
    about,
    estimate_of,
    findings,
    missing,
    paper_of,
    shown,
)

_LONG = 40
"""A cell of more characters gets room to wrap."""
_RANGED = re.compile(r"([-+.\w]+) (\[[^\]]+\].*)")
"""A number with its interval, which then stands below it."""
_KINDS = {
    RAISES: "raises", LOWERS: "lowers", FASTER: "faster", SLOWER: "slower", HIGHER: "raises", LOWER: "lowers",
}  # fmt: skip


def study_page(results: Document, title: str | None = None) -> str:
    """The whole page."""
    script = _template("study.js")
    parts = {
        "policy": written_policy([script]),
        "title": _text(title or f"Study {results['study']}"),
        "style": _template("page.css") + _template("study.css"),
        "version": _text(__version__),
        "body": "\n".join(_body(results)),
        "script": script,
    }
    # one pass, so that nothing inside a part is taken for a place to fill
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _template("study.html"))


def _body(results: Document) -> Iterable[str]:
    yield from _answer(results)
    yield from _forests(results)
    yield from _curves(results)
    yield from _scatters(results)
    for section in sections(results):
        yield _section(section)


def _answer(results: Document) -> Iterable[str]:
    if results["question"]:
        yield f'<p class="question">{_text(results["question"], 400)}</p>'
    yield '<section class="answer" aria-label="The answer">'
    yield from (f'<p class="missing">{_text(words, 400)}</p>' for words in missing(results))
    yield from (f'<p class="sentence">{_text(words, 2000)}</p>' for words in findings(results))
    yield f'<p class="why">{_text(about(results), 400)}.</p></section>'


def _forests(results: Document) -> Iterable[str]:
    """Two tables whose middle column is a picture: what moves the ceiling, and what the exponent."""
    if not results["choices"]:
        return
    margin = results["margin"]
    yield _forest(results, "ceiling", "Which choices move the ceiling?", margin,
                  f"Difference of the ceiling to {results['base']}; the stripe is what counts as equal, "
                  f"{margin:g} either way.")  # fmt: skip
    yield _forest(results, "exponent", "Which move the exponent?", 0.0,
                  "Difference of the exponent, each curve with its own ceiling: larger is steeper.")  # fmt: skip


def _forest(results: Document, quantity: str, title: str, margin: float, words: str) -> str:
    choices = sorted(results["choices"], key=lambda choice: -choice[quantity]["value"])
    estimates = {choice["cell"]: estimate_of(choice[quantity]) for choice in choices}
    span = Span.over([one for one in estimates.values() if one is not None], margin)
    rows = []
    for choice in choices:
        found = estimates[choice["cell"]]
        assert found is not None  # a choice has all its differences
        kind = _KINDS.get(choice["verdict"], "none")
        value = shown(choice[quantity], signed=True)
        picture = strip(found, span, kind, f"{choice['cell']}: {value}")
        rows.append(
            f'<tr><th scope="row">{_text(choice["cell"])}</th>'
            f'<td class="strip-cell">{picture}</td>'
            f'<td class="figure">{_text(value)}</td><td>{_verdict(choice["verdict"])}</td></tr>'
        )
    rows.append(
        f'<tr class="axis" aria-hidden="true"><th></th><td class="strip-cell"><div class="strip-ticks">'
        f"{strip_ticks(span)}</div></td><td></td><td></td></tr>"
    )
    head = _head(("Choice", "Difference", f"[{numbers.percent(results['level'])} interval]", "Verdict"))
    return (
        f'<section class="study"><h2>{_text(title)}</h2><p class="muted">{_text(words, 400)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(title)}">'
        f'<table class="forest">{head}<tbody>{"".join(rows)}</tbody></table></div></section>'
    )


def _curves(results: Document) -> Iterable[str]:
    """Every cell against the base, all on the same axes."""
    drawn = {cell["name"]: _drawn(cell) for cell in results["cells"]}
    plane = Plane.over(list(drawn.values()))
    if plane is None:
        return
    verdicts = {choice["cell"]: choice["verdict"] for choice in results["choices"]}
    base = drawn[results["base"]]
    axes = f"{results['value_name']} against {results['compute_name']} (log scale)"
    yield '<section class="study"><h2>Curves</h2>'
    yield f'<p class="muted">{_text(axes, 200)}, all seeds, with the joint fit; grey and dashed is the base.</p>'
    yield '<div class="panels">'
    for name, one in drawn.items():
        if name == results["base"] and len(drawn) > 1:
            continue
        words = f"{name}: {axes}"
        paper = paper_of(results, name)
        said = f'<p class="paper">The paper: {_text(paper, 400)}</p>' if paper else ""
        badge = _verdict(verdicts[name]) if name in verdicts else ""
        yield (
            f'<figure class="panel"><h3>{_text(name)} {badge}</h3>{cell_chart(one, base, plane, words)}{said}</figure>'
        )
    yield "</div></section>"


def _scatters(results: Document) -> Iterable[str]:
    """Every downstream set against the held-out value."""
    measured = [one for one in downstream_sets(results) if one["cells"]]
    if not measured:
        return
    yield '<section class="study"><h2>Downstream</h2>'
    yield (
        '<p class="muted">Where each cell ends on the set, against where it ends on held-out problems; lines are '
        "intervals over seeds, grey is the base.</p>"
    )
    yield '<div class="panels">'
    for one in measured:
        picture = scatter(one, results["base"], f"{one['name']} against held-out, one point for each cell")
        said = _text(correlation_words(one), 400)
        yield f'<figure class="panel"><h3>{_text(one["name"])}</h3>{picture}<p class="paper">{said}</p></figure>'
    yield "</div></section>"


def _drawn(cell: Document) -> Drawn:
    points = [
        (compute, value)
        for one in cell["seeds"]
        for compute, value in zip(one["curve"]["compute"], one["curve"]["value"], strict=True)
    ]
    joint = cell["joint"]
    law = None
    if joint is not None:
        floor, ceiling, exponent, midpoint = (
            joint[name]["value"] for name in ("floor", "ceiling", "exponent", "midpoint")
        )
        law = (floor, ceiling, exponent, midpoint)
    return Drawn(tuple(points), law)


def _section(section: Section) -> str:
    lines = "".join(f'<p class="muted">{_text(words, 2000)}</p>' for words in section.lines)
    tables = "".join(_table(one, section.title) for one in section.tables)
    return f'<section class="study"><h2>{_text(section.title)}</h2>{lines}{tables}</section>'


def _table(table: Table, name: str) -> str:
    rows = "".join(f"<tr>{''.join(_cell(words, index) for index, words in enumerate(row))}</tr>" for row in table.rows)
    tall = " tall" if len(table.rows) > 30 else ""
    return (
        f'<div class="scroll{tall}" tabindex="0" role="region" aria-label="{_text(name)}">'
        f"<table>{_head(table.head)}<tbody>{rows}</tbody></table></div>"
    )


def _cell(words: str, index: int) -> str:
    if index == 0:
        return f'<th scope="row">{_text(words)}</th>'
    if words in VERDICTS:
        return f"<td>{_verdict(words)}</td>"
    if ranged := _RANGED.fullmatch(words):
        return f'<td class="figure">{_text(ranged[1])} <span class="interval">{_text(ranged[2])}</span></td>'
    name = "outside" if words in {"OUTSIDE", "COLLAPSED"} else "long" if len(words) > _LONG else ""
    return f'<td class="{name}">{_text(words, 600)}</td>' if name else f"<td>{_text(words)}</td>"


def _head(words: Iterable[str]) -> str:
    return "<thead><tr>" + "".join(f'<th scope="col">{_text(one)}</th>' for one in words) + "</tr></thead>"


def _verdict(verdict: str) -> str:
    return f'<span class="verdict" data-kind="{_KINDS.get(verdict, "none")}">{_text(verdict)}</span>'


def _text(words: object, limit: int = 120) -> str:
    """Words from anywhere, without a meaning in HTML; nothing stays nothing."""
    return html.escape(numbers.name(str(words), limit)) if str(words) else ""


def _template(name: str) -> str:
    return files("scalerl.report").joinpath("templates", name).read_text(encoding="utf-8")
