"""What the interactive page draws, as the plain dictionaries that plotly calls traces.

Called by `interactive`, which owns the page. Every name is escaped here; plotly itself is not needed.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalerl import numbers
from scalerl.curves.results import Forecast
from scalerl.report import palette
from scalerl.report.picture import MOST_BANDS, Frame, Picture, Points, law_of
from scalerl.series import FloatArray

Trace = dict[str, Any]
_MEDIAN = "forecast (median)"


def traces_of(pictures: Sequence[Picture], frame: Frame) -> list[Trace]:
    """Lines are traces too, not shapes: a trace stays in place when the axis changes from log to linear."""
    alone = len(pictures) == 1
    names = numbers.names([picture.fit.name for picture in pictures])
    traces: list[Trace] = []
    for index, (picture, name) in enumerate(zip(pictures, names, strict=True)):
        traces += _curve(picture, name, index, alone=alone, band=len(pictures) <= MOST_BANDS)
        if alone:
            traces += _ceiling(picture, frame)
    for budget in pictures[0].budgets:
        traces.append(_line([budget.compute] * 2, [frame.bottom, frame.top], palette.VERMILLION, "dashdot"))
    traces += _end_of_fit(pictures, frame)
    if pictures[0].target is not None:
        at = pictures[0].target.target
        words = f"target {numbers.number(at)}"
        traces.append(
            _line([frame.left, frame.right], [at, at], palette.PURPLE, "dash", words, _target_words(pictures))
        )
    return traces


def _curve(picture: Picture, name: str, index: int, *, alone: bool, band: bool) -> list[Trace]:
    """Everything of one curve as one legend group; alone, each part has an entry of its own."""
    colour = palette.colour(index)
    symbol = palette.SYMBOLS[palette.round_of(index) % len(palette.SYMBOLS)]
    faint = {"symbol": symbol, "size": 7, "color": palette.rgba(colour, 0.3)}
    solid = {"symbol": symbol, "size": 7, "color": colour}
    hollow = {"symbol": "diamond-open", "size": 8, "color": colour, "line": {"width": 1.5}}
    traces = [] if not band else _band(picture, colour)
    traces += _points(picture.before, "before the window, not used", faint, picture)
    traces += _points(picture.fitted, "used in the fit", solid, picture)
    traces += _points(picture.held_out, "held out", hollow, picture)
    traces += [_fitted_law(picture, colour), _median(picture, colour)]
    if alone and not np.isnan(picture.extended[1]).all():
        label = f"the {law_of(picture.fit)} extended"
        traces.append(_line(*picture.extended, palette.BLACK, "dot", label, label))
    traces += [_budget(budget, palette.VERMILLION if alone else colour, bar=alone) for budget in picture.budgets]
    for trace in traces:
        _group(trace, name, index, alone=alone)
    return traces


def _group(trace: Trace, name: str, index: int, *, alone: bool) -> None:
    """Put the curve's name into the hover text, and one legend entry for the whole curve when there are several."""
    if alone:
        return
    trace["legendgroup"] = str(index)
    trace["showlegend"] = trace.get("name") == _MEDIAN
    trace["name"] = escape(name)
    if "customdata" in trace:
        trace["customdata"] = [f"<b>{escape(name)}</b><br>{words}" for words in trace["customdata"]]


def _points(points: Points, label: str, marker: dict[str, Any], picture: Picture) -> list[Trace]:
    if not points.total:
        return []
    value_name, compute_name = escape(picture.fit.value_name), escape(picture.fit.compute_name)
    words = [
        f"{label}<br>{compute_name} {numbers.amount(c, 4)}<br>{value_name} {numbers.number(v, 4)}"
        for c, v in zip(points.compute.tolist(), points.value.tolist(), strict=True)
    ]
    count = (
        f"{points.total:,}" if points.total == points.compute.size else f"{points.compute.size:,} of {points.total:,}"
    )
    return [_trace(points.compute, points.value, f"{label} ({count})", words, mode="markers", marker=marker)]


def _fitted_law(picture: Picture, colour: str) -> Trace:
    unit, label = escape(picture.fit.compute_name), f"fitted {law_of(picture.fit)}"
    pairs = zip(picture.past.tolist(), picture.fitted_law.tolist(), strict=True)
    words = [f"{label}<br>{unit} {numbers.amount(c)}<br>{numbers.number(v)}" for c, v in pairs]
    return _trace(picture.past, picture.fitted_law, label, words, mode="lines", line={"color": colour, "width": 2.5})


def _median(picture: Picture, colour: str) -> Trace:
    """Each place on the line tells its interval."""
    words = [_forecast_words(picture, index) for index in range(picture.future.size)]
    line = {"color": colour, "width": 2.5, "dash": "dash"}
    return _trace(picture.future, picture.median, _MEDIAN, words, mode="lines", line=line)


def _forecast_words(picture: Picture, index: int) -> str:
    low = None if picture.low is None else float(picture.low[index])
    high = None if picture.high is None else float(picture.high[index])
    center, interval = numbers.ranged(float(picture.median[index]), low, high)
    where = f"{escape(picture.fit.compute_name)} {numbers.amount(float(picture.future[index]))}"
    return f"{where}<br>median {center}<br>{numbers.percent(picture.level)} interval {interval}"


def _band(picture: Picture, colour: str) -> list[Trace]:
    if picture.low is None or picture.high is None:
        return []
    known = ~np.isnan(picture.low + picture.high)
    x = np.concatenate([picture.future[known], picture.future[known][::-1]])
    y = np.concatenate([picture.low[known], picture.high[known][::-1]])
    return [_area(x, y, palette.rgba(colour, 0.18), f"{numbers.percent(picture.level)} interval")]


def _budget(budget: Forecast, colour: str, *, bar: bool) -> Trace:
    center, interval = numbers.ranged(budget.value, budget.low, budget.high)
    words = f"{numbers.amount(budget.compute)}: {center} {interval}"
    trace = _trace(
        np.array([budget.compute]), np.array([budget.value]), f"budget {words}", [f"budget {words}"],
        mode="markers", marker={"size": 11, "color": colour, "line": {"color": "white", "width": 1}},
    )  # fmt: skip
    if bar and budget.low is not None and budget.high is not None:
        above, below = budget.high - budget.value, budget.value - budget.low
        trace["error_y"] = {"type": "data", "array": [above], "arrayminus": [below], "color": colour}
    return trace


def _ceiling(picture: Picture, frame: Frame) -> list[Trace]:
    ceiling = picture.ceiling
    if ceiling is None:
        return []
    words = f"ceiling {numbers.estimate(ceiling)}"
    ends = [frame.left, frame.right]
    traces = [_line(ends, [ceiling.value] * 2, palette.GREEN, "dash", words, words)]
    if ceiling.low is not None and ceiling.high is not None:
        x = np.array([*ends, *ends[::-1]])
        y = np.array([ceiling.low, ceiling.low, ceiling.high, ceiling.high])
        label = f"ceiling, {numbers.percent(picture.level)} interval"
        traces.append(_area(x, y, palette.rgba(palette.GREEN, 0.12), label))
    return traces


def _end_of_fit(pictures: Sequence[Picture], frame: Frame) -> list[Trace]:
    if len(pictures) > 1:
        return []
    last = pictures[0].fit.last_compute
    words = f"fit ends at {numbers.amount(last)}"
    return [_line([last, last], [frame.bottom, frame.top], palette.GREY, "dot", words, words)]


def _target_words(pictures: Sequence[Picture]) -> str:
    lines = []
    for picture in pictures:
        found = picture.target
        if found is None:
            continue
        where = "more likely never reached"
        if found.compute is not None:
            where = "at " + " ".join(numbers.ranged(found.compute, found.low, found.high, compute=True))
        lines.append(f"{escape(picture.fit.name)}: target {numbers.number(found.target)} {where}")
    return "<br>".join(lines)


def _line(
    x: FloatArray | list[float], y: FloatArray | list[float], colour: str, dash: str, name: str = "", words: str = ""
) -> Trace:
    style = {"color": colour, "width": 1.5, "dash": dash}
    trace = _trace(np.asarray(x), np.asarray(y), name, [words] * len(x), mode="lines", line=style)
    return trace if name else trace | {"showlegend": False, "hoverinfo": "skip", "hovertemplate": None}


def _area(x: FloatArray, y: FloatArray, colour: str, name: str) -> Trace:
    trace = _trace(x, y, name, [], mode="lines", line={"width": 0})
    del trace["customdata"], trace["hovertemplate"]
    return trace | {"fill": "toself", "fillcolor": colour, "hoverinfo": "skip"}


def _trace(x: FloatArray, y: FloatArray, name: str, words: list[str], **style: Any) -> Trace:
    """`words` is what hovering shows; it travels as data, so that a `%{x}` in a name stays a name."""
    shown = {"customdata": words, "hovertemplate": "%{customdata}<extra></extra>"}
    return {"type": "scatter", "x": x.tolist(), "y": y.tolist(), "name": name, **shown, **style}


def escape(text: str, limit: int = 60) -> str:
    """Escaped, because plotly reads a little HTML in every label."""
    return html.escape(numbers.name(text, limit), quote=False)
