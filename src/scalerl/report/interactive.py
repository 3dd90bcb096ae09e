"""The same picture as one web page that works offline: hover for values, switch the axis, click curves away.

Called by `figures.plot_fits` for `.html`, by the command line and by users. plotly is imported here only, inside a
function, and its script is written into the page: nothing is loaded from anywhere, and a policy in the page forbids it.
Names come from files that others wrote, so every text is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scalerl import numbers
from scalerl.curves import Fit
from scalerl.report import output, palette
from scalerl.report.picture import Frame, Picture, pictures_of, title_of, value_name_of
from scalerl.report.traces import Trace, escape, traces_of

# Inline script and style are the page itself; everything else, the network above all, is closed.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
_LOG = {"type": "log", "dtick": "D2"}  # ticks at 1, 2 and 5
_CONFIG: dict[str, Any] = {
    "responsive": True,
    "displaylogo": False,
    "showSendToCloud": False,  # somebody's unpublished runs get no upload button
    "plotlyServerURL": "",
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "sendDataToCloud"],
    "toImageButtonOptions": {"format": "svg"},
}
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 0 auto; max-width: 1200px; padding: 1em; font-family: sans-serif; }}</style>
</head>
<body>
{figure}
</body>
</html>
"""


def write_html(
    fits: Sequence[Fit],
    path: Path,
    *,
    budgets: Sequence[float] = (),
    target: float | None = None,
    title: str | None = None,
) -> Path:
    """Write one self-contained page."""
    path = Path(path)
    output.format_of(path, ("html",))
    output.check_target(path)
    pictures, frame = pictures_of(fits, budgets, target)
    words = title or title_of(fits)
    figure = _figure(traces_of(pictures, frame), _layout(pictures, frame, words))
    page = _PAGE.format(policy=_POLICY, title=html.escape(numbers.name(words, 200)), figure=figure)
    return output.write(path, page.encode())


def _figure(traces: list[Trace], layout: dict[str, Any]) -> str:
    from plotly.graph_objects import Figure

    text: str = Figure(data=traces, layout=layout).to_html(
        full_html=False,
        include_plotlyjs=True,
        include_mathjax=False,
        div_id="scalerl",  # fixed, so that the same input gives the same page
        default_height="680px",
        config=_CONFIG,
    )
    return text


def _layout(pictures: Sequence[Picture], frame: Frame, title: str) -> dict[str, Any]:
    fit = pictures[0].fit
    values = value_name_of([picture.fit for picture in pictures])
    log_range = [float(np.log10(frame.left)), float(np.log10(frame.right))]
    words = "~s" if frame.left >= 1e-3 and frame.right < 1e9 else "~e"
    axis = {"showgrid": True, "gridcolor": "#ECECEC", "zeroline": False, "showline": True, "linecolor": palette.BLACK}
    return {
        "title": {"text": escape(title, 90), "x": 0.01},
        "font": {"family": "DejaVu Sans, Verdana, sans-serif", "size": 13},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hovermode": "closest",
        "xaxis": {
            **axis,
            **_LOG,
            "range": log_range,
            "title": {"text": escape(fit.compute_name)},
            "tickformat": words,
        },
        "yaxis": {**axis, "range": [frame.bottom, frame.top], "title": {"text": escape(values)}},
        "legend": {"groupclick": "toggleitem" if len(pictures) == 1 else "togglegroup"},
        "updatemenus": [_switch(log_range, frame)],
        "annotations": _annotations(pictures),
    }


def _switch(log_range: list[float], frame: Frame) -> dict[str, Any]:
    """Two buttons for the compute axis."""
    log = {"xaxis.type": "log", "xaxis.dtick": _LOG["dtick"], "xaxis.range": log_range}
    linear = {"xaxis.type": "linear", "xaxis.dtick": None, "xaxis.range": [0, frame.right]}
    return {
        "type": "buttons",
        "direction": "right",
        "x": 1.0,
        "xanchor": "right",
        "y": 1.02,
        "yanchor": "bottom",
        "showactive": True,
        "buttons": [
            {"label": "log compute", "method": "relayout", "args": [log]},
            {"label": "linear compute", "method": "relayout", "args": [linear]},
        ],
    }


def _annotations(pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    if len(pictures) > 1 or pictures[0].fit.ceiling is None or pictures[0].ceiling is not None:
        return []
    place = {"xref": "paper", "yref": "paper", "x": 0.01, "y": 0.99, "xanchor": "left", "yanchor": "top"}
    return [{"text": "ceiling not identified yet", "showarrow": False, "font": {"color": palette.GREY}, **place}]
