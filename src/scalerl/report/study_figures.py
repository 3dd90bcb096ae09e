"""The figure of a study through matplotlib: forests of ceiling and exponent differences, every cell's curve, and
downstream sets against held-out.

Called by the study report command for png, svg and pdf. The same results give the same bytes; canvas and file are those
of `figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scalerl import numbers
from scalerl.curves.laws import sigmoid
from scalerl.report import palette
from scalerl.report.figures import save
from scalerl.report.own_run import unit_name
from scalerl.report.study_downstream import downstream_sets, ends_of, labelled
from scalerl.report.study_words import FASTER, HIGHER, LOWER, LOWERS, RAISES, SLOWER, Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {
    **dict.fromkeys((RAISES, FASTER, HIGHER), palette.GREEN),
    **dict.fromkeys((LOWERS, SLOWER, LOWER), palette.VERMILLION),
}  # fmt: skip
COLUMNS = 4
_SCATTER_HEIGHT = 3.0


def write_study_figure(results: Document, path: Path, title: str | None = None) -> Path:
    """png, svg or pdf, by the suffix."""
    return save(study_figure(results, title), path)


def study_figure(results: Document, title: str | None = None) -> Figure:
    """Forests above, curves below, then downstream sets; a part without content is left out."""
    from matplotlib.figure import Figure

    choices, cells = list(results["choices"]), _others(results)
    sets = [one for one in downstream_sets(results) if one["cells"]]
    lines, set_lines = -(-len(cells) // COLUMNS), -(-len(sets) // COLUMNS)
    forest_height = 1.2 + 0.32 * len(choices) if choices else 0.0
    heights = [height for height in (forest_height, 2.3 * lines, _SCATTER_HEIGHT * set_lines) if height]
    figure = Figure(figsize=(12, 0.7 + sum(heights)), dpi=150, layout="constrained", facecolor="white")
    figure.suptitle(numbers.name(title or f"Study {results['study']}", 90), x=0.01, ha="left", parse_math=False)
    parts = figure.subfigures(len(heights) or 1, 1, height_ratios=heights or [1.0], squeeze=False)[:, 0].tolist()
    if choices:
        left, right = parts.pop(0).subplots(1, 2, sharey=True)
        _forest(left, choices, "ceiling", results["margin"], f"ceiling, {numbers.percent(results['level'])} interval")
        _forest(right, choices, "exponent", 0.0, f"exponent, {numbers.percent(results['level'])} interval")
    if lines:
        grid = parts.pop(0).subplots(lines, COLUMNS, sharex=True, sharey=True, squeeze=False)
        _draw_curves(results, cells, [axes for row in grid for axes in row])
    if sets:
        grid = parts.pop(0).subplots(set_lines, COLUMNS, squeeze=False)
        _draw_sets(results["base"], sets, [axes for row in grid for axes in row])
    return figure


def _others(results: Document) -> list[Document]:
    """The cells with a curve; the base is in every panel and has none of its own."""
    return [cell for cell in results["cells"] if cell["seeds"] and cell["name"] != results["base"]]


def _forest(axes: Axes, choices: Sequence[Document], quantity: str, margin: float, words: str) -> None:
    if margin:
        axes.axvspan(-margin, margin, color=palette.FAINT, alpha=0.5, lw=0)
    axes.axvline(0.0, color=palette.GREY, linestyle="--", linewidth=1)
    for row, choice in enumerate(choices):
        one, colour = choice[quantity], _COLOURS.get(choice["verdict"], palette.GREY)
        if one["low"] is not None and one["high"] is not None:
            axes.plot([one["low"], one["high"]], [row, row], color=colour, linewidth=2.5)
        axes.plot([one["value"]], [row], "o", color=colour)
    labels = [f"{numbers.name(choice['cell'], 28)}\n{choice['verdict']}" for choice in choices]
    axes.set_yticks(range(len(choices)), labels, fontsize=8, parse_math=False)
    axes.set_ylim(len(choices) - 0.5, -0.5)
    axes.set_xlabel(f"difference of the {words}", parse_math=False)
    axes.grid(True, axis="x", color="#ECECEC", lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_curves(results: Document, cells: Sequence[Document], grid: Sequence[Axes]) -> None:
    base = next(cell for cell in results["cells"] if cell["name"] == results["base"])
    for axes, cell in zip(grid, cells, strict=False):
        _draw_cell(axes, base, palette.GREY, "--")
        _draw_cell(axes, cell, palette.BLUE, "-")
        axes.set_xscale("log")
        axes.set_title(numbers.name(cell["name"], 34), loc="left", fontsize=9, parse_math=False)
        axes.grid(True, color="#ECECEC", lw=0.8)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[len(cells) :]:
        axes.set_visible(False)
    for axes in grid[: len(cells) : COLUMNS]:
        axes.set_ylabel(numbers.name(results["value_name"], 40), fontsize=8, parse_math=False)
    words = f"{numbers.name(unit_name(results['compute_name']), 40)}; grey: {base['name']}"
    for axes in grid[max(0, len(cells) - COLUMNS) : len(cells)]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(words, fontsize=8, parse_math=False)


def _draw_cell(axes: Axes, cell: Document, colour: str, style: str) -> None:
    if not cell["seeds"]:
        return
    compute = np.concatenate([one["curve"]["compute"] for one in cell["seeds"]])
    value = np.concatenate([one["curve"]["value"] for one in cell["seeds"]])
    axes.plot(compute, value, ls="none", marker="o", ms=2, mfc=colour, mec="none", alpha=0.45)
    if cell["joint"] is not None and compute.size:
        law = [cell["joint"][name]["value"] for name in ("floor", "ceiling", "exponent", "midpoint")]
        there = np.geomspace(compute.min(), compute.max(), 80)
        axes.plot(there, sigmoid(there, *law), color=colour, lw=1.5, ls=style)


def _draw_sets(base: str, sets: Sequence[Document], grid: Sequence[Axes]) -> None:
    """One panel for each set, one point with its intervals over seeds for each cell."""
    for axes, one in zip(grid, sets, strict=False):
        ends = ends_of(one)
        named = labelled(ends)
        for cell, x, y in ends:
            colour = palette.GREY if cell == base else palette.BLUE
            if x.low is not None and x.high is not None:
                axes.plot([x.low, x.high], [y.value, y.value], color=colour, lw=1, alpha=0.5)
            if y.low is not None and y.high is not None:
                axes.plot([x.value, x.value], [y.low, y.high], color=colour, lw=1, alpha=0.5)
            axes.plot([x.value], [y.value], "o", ms=4, color=colour)
            name, spot = numbers.name(cell, 22) if cell in named else "", (x.value, y.value)
            axes.annotate(name, spot, (3, 3), textcoords="offset points", fontsize=6, parse_math=False)
        rho = (
            "" if one["correlation"] is None else f", rank correlation {numbers.number(one['correlation']['value'], 2)}"
        )
        axes.set_title(f"{numbers.name(one['name'], 24)}{rho}", loc="left", fontsize=9, parse_math=False)
        axes.grid(True, color="#ECECEC", lw=0.8)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("held-out, at the end", fontsize=8)
        axes.set_ylabel("downstream, at the end", fontsize=8)
    for axes in grid[len(sets) :]:
        axes.set_visible(False)
