"""The other matplotlib panels: the paper's log F - log C plot, and forecast against what came.

Called by `figures`, beside `drawing`. It knows axes and results, not files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalerl import numbers
from scalerl.curves import Fit, log_f, refit_with_ceiling
from scalerl.curves.results import Comparison, Score
from scalerl.report import palette
from scalerl.report.drawing import SMALL, Entries

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGIN = 0.02  # the paper's: ceilings closer than this count as equal


def common_ceiling(fits: Sequence[Fit], comparison: Comparison | None) -> float | None:
    """The mean ceiling when all of them are equal by the paper's rule, else None: each curve keeps its own."""
    ceilings = [fit.ceiling.value for fit in fits if fit.ceiling is not None]
    margin = _MARGIN if comparison is None else comparison.margin
    if len(ceilings) < 2 or max(ceilings) - min(ceilings) > margin:
        return None
    return float(np.mean(ceilings))


def draw_log_f(axes: Axes, fits: Sequence[Fit], ceiling: float | None) -> None:
    """The paper's log F(R) against log C: a straight line of slope B if the law holds. Sigmoids only."""
    from matplotlib.ticker import FuncFormatter

    drawn = [(index, fit) for index, fit in enumerate(fits) if fit.law == "sigmoid"]
    for index, fit in drawn:
        _one_log_f(axes, fit, ceiling, index)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(True, color="#ECECEC", lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: numbers.amount(x)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"1e{round(math.log10(x))}"))
    axes.set_xlabel(numbers.name(f"{fits[0].compute_name}, log scale", 80), parse_math=False)
    axes.set_ylabel("F = C_mid^B / ((A - R0) / (R - R0) - 1), log scale", parse_math=False)
    words = "each with its own ceiling" if ceiling is None else f"common ceiling {numbers.number(ceiling)}"
    axes.set_title(f"Slope = exponent ({words})", loc="left", fontsize=12, pad=18, parse_math=False)
    if drawn:
        axes.legend(frameon=False, fontsize=SMALL, loc="upper left")
    else:
        axes.text(0.5, 0.5, "no curve with an exponent", transform=axes.transAxes, ha="center", color=palette.GREY)


def _one_log_f(axes: Axes, fit: Fit, ceiling: float | None, index: int) -> None:
    """The points, and the line F = C^B of the law itself."""
    colour, marker = palette.colour(index), palette.MARKERS[palette.round_of(index) % len(palette.MARKERS)]
    shown = fit if ceiling is None else refit_with_ceiling(fit, ceiling)
    slope = shown.exponent
    compute, straightened = (np.concatenate(column) for column in zip(*log_f(shown), strict=True))
    axes.plot(compute, straightened, ls="none", marker=marker, ms=4, mfc=colour, mec="none", alpha=0.7)
    if slope is None or not compute.size:
        return
    ends = np.array([compute.min(), compute.max()])
    words = f"{numbers.name(fit.name, 24)}: {numbers.estimate(slope)}"
    axes.plot(ends, ends**slope.value, color=colour, lw=1.6, label=words)


def limits_of(scores: Sequence[Score]) -> tuple[float, float]:
    """Around what came, with room for ordinary errors: one absurd forecast must not flatten the picture."""
    low, high = min(score.actual for score in scores), max(score.actual for score in scores)
    margin = 0.2 * (high - low) or 0.1
    return low - margin, high + margin


def draw_forecast_against_actual(axes: Axes, scores: Sequence[Score], limits: tuple[float, float]) -> None:
    """One dot for each curve; hollow where the interval missed, a triangle at the edge where the forecast is off it."""
    for score in scores:
        colour = {True: palette.BLUE, False: palette.VERMILLION, None: palette.GREY}[score.inside]
        face = "white" if score.inside is False else colour
        if score.low is not None and score.high is not None:
            axes.plot([score.actual] * 2, [score.low, score.high], color=colour, lw=1, alpha=0.45)
        shown = min(max(score.value, limits[0]), limits[1])
        marker = (
            ("D" if score.inside is False else "o") if shown == score.value else "^" if shown < score.value else "v"
        )
        axes.plot([score.actual], [shown], ls="none", marker=marker, ms=4, mfc=face, mec=colour, clip_on=False)
    axes.axline((limits[0], limits[0]), slope=1, color=palette.BLACK, lw=0.8, ls=":")
    axes.set_xlim(limits)
    axes.set_ylim(limits)
    axes.grid(True, color="#ECECEC", lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL)
    known = [score.inside for score in scores if score.inside is not None]
    held = f"{100 * float(np.mean(known)):.0f} %" if known else numbers.UNKNOWN
    words = f"{numbers.name(scores[0].method, 28)}\nfrom {numbers.percent(scores[0].share)}: holds {held}"
    axes.set_title(words, fontsize=SMALL + 1, loc="left", parse_math=False)


def backtest_entries(level: float) -> Entries:
    from matplotlib.lines import Line2D

    words = numbers.percent(level)
    return [
        (Line2D([], [], marker="o", color=palette.BLUE, ms=4, lw=1), f"inside the {words} interval"),
        (
            Line2D([], [], marker="D", color=palette.VERMILLION, mfc="white", ms=4, lw=1),
            f"outside the {words} interval",
        ),
        (Line2D([], [], color=palette.BLACK, lw=0.8, ls=":"), "forecast = what came"),
        (Line2D([], [], marker="^", color=palette.GREY, ms=4, ls="none"), "forecast beyond the edge"),
    ]
