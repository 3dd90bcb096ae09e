"""The report's document as one HTML file that opens offline, and the page that `scalerl watch` serves.

Called by the report command, by `figures` for `.html`, and by the watch server (`live_page`). The page is made of the
files in `templates/`; everything it needs is written into it, plotly.js included, and a policy forbids the rest. The
document travels as JSON data: names from strangers' files never become markup. What a curve is, is not known here.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from scalerl import numbers
from scalerl.curves import Fit
from scalerl.report import output, palette
from scalerl.report.answers import Document, source_document
from scalerl.report.document import RunResult, UnitResult, comparison_documents, report_document, run_document, unit_key
from scalerl.report.own_run import unit_name
from scalerl.report.picture import title_of
from scalerl.report.plotly_script import packed_script, plotly_script
from scalerl.report.policy import written_policy
from scalerl.report.words import MEANINGS

SCRIPTS = (
    "numbers", "dom", "changed", "model", "style", "marker", "layer", "chart", "more_charts", "sets", "sections",
    "run_table", "details", "load", "frames", "page",
)  # fmt: skip
"""In the order they need each other; all of them are inlined as one script."""


def report_page(document: Document) -> str:
    """One self-contained page with the document inside."""
    return _page(document, document["title"], live=False)


def live_page(title: str = "scalerl watch") -> str:
    """The same page without a document: it loads `document.json` and then listens to `events`."""
    return _page(None, title, live=True)


def write_page(document: Document, path: Path) -> Path:
    """Write the page, whole or not at all."""
    return output.write(path, report_page(document).encode(errors="backslashreplace"))  # as JSON writes half characters


def write_html(
    fits: Sequence[Fit],
    path: Path,
    *,
    budgets: Sequence[float] = (),
    target: float | None = None,
    title: str | None = None,
) -> Path:
    """The page of some fits, for `--plot page.html` and notebooks: curves, forecasts, comparison."""
    path = Path(path)
    output.format_of(path, ("html",))
    output.check_target(path)
    budget = max(budgets, default=None)
    runs = [run_document(_result(fit, index, budget, target)) for index, fit in enumerate(fits)]
    compared = comparison_documents({unit_key(fits[0].compute_name): fits}) if _comparable(fits) else {}
    words = title or title_of(fits)
    document = report_document(runs, compared, title=words, command="", level=fits[0].level, dated=False)
    return write_page(document, path)


def _result(fit: Fit, index: int, budget: float | None, target: float | None) -> RunResult:
    sources = [series.source for series in fit.series if series.source]
    ahead = None if budget is None or budget <= fit.last_compute else budget
    unit = UnitResult(
        key=unit_key(fit.compute_name), name=unit_name(fit.compute_name), series=fit.series, fit=fit, budget=ahead,
        targets=() if target is None else (target,), source=source_document(sources),
    )  # fmt: skip
    return RunResult(id=f"{index}:{fit.name}", name=fit.name, source=", ".join(dict.fromkeys(sources)), units=(unit,))


def _comparable(fits: Sequence[Fit]) -> bool:
    return len({fit.name for fit in fits}) == len(fits) and len({fit.compute_name for fit in fits}) == 1


def _page(document: Document | None, title: str, *, live: bool) -> str:
    """The template with its parts. One pass, so that nothing inside a part is taken for a place to fill."""
    plotly, names = plotly_script(), (*SCRIPTS, *(["live"] if live else []))
    script = "\n".join([*(_template(f"{name}.js") for name in names), "Page.start();"])
    parts = {
        "policy": written_policy([plotly, script], live=live),
        "title": html.escape(numbers.name(title, 200)),
        "style": _template("page.css"),
        "live": ' data-live="events"' if live else "",
        "palette": _json(_settings()),
        "document": _json(document),
        "plotly": f"<script>{plotly}</script>" if live else _packed(packed_script()),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _template("page.html"))


def _packed(data: str) -> str:
    """A block of data that no browser runs; `load.js` unpacks it."""
    return f'<script type="application/gzip;base64" id="plotly">{data}</script>'


def _settings() -> Document:
    """What the scripts must know that Python decides: colours, shapes, and what parameters mean."""
    return {
        "light": list(palette.CURVES),
        "dark": list(palette.CURVES_ON_DARK),
        "symbols": list(palette.SYMBOLS),
        "meanings": MEANINGS,
    }


def _json(value: object) -> str:
    """JSON that can stand inside a script element: no `<` is left that could end it."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _template(name: str) -> str:
    return files("scalerl.report").joinpath("templates", name).read_text(encoding="utf-8")
