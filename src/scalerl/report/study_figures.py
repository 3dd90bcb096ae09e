"""The figure of a study through matplotlib: forests of ceiling and exponent differences, and every cell's curve.

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
from scalerl.report.study_words import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {
    "raises the ceiling": palette.GREEN, "faster": palette.GREEN,
    "lowers the ceiling": palette.VERMILLION, "slower": palette.VERMILLION,
}  # fmt: skip
COLUMNS = 4


def write_study_figure(results: Document, path: Path, title: str | None = None) -> Path:
    """png, svg or pdf, by the suffix."""
    return save(study_figure(results, title), path)


def study_figure(results: Document, title: str | None = None) -> Figure:
    """Forests above, curves below; a study without anything to compare has only curves."""
    from matplotlib.figure import Figure

    choices, cells = list(results["choices"]), _others(results)
    lines = -(-len(cells) // COLUMNS)
    forest_height = 1.2 + 0.32 * len(choices) if choices else 0.0
    figure = Figure(figsize=(12, 0.7 + forest_height + 2.3 * lines), dpi=150, layout="constrained", facecolor="white")
    figure.suptitle(numbers.name(title or f"Study {results['study']}", 90), x=0.01, ha="left", parse_math=False)
    heights = [*([forest_height] if choices else []), *([2.3 * lines] if lines else [])]
    parts = figure.subfigures(len(heights) or 1, 1, height_ratios=heights or [1.0], squeeze=False)[:, 0].tolist()
    if choices:
        left, right = parts.pop(0).subplots(1, 2, sharey=True)
        _forest(left, choices, "ceiling", results["margin"], f"ceiling, {numbers.percent(results['level'])} interval")
        _forest(right, choices, "exponent", 0.0, f"exponent, {numbers.percent(results['level'])} interval")
    if lines:
        grid = parts.pop(0).subplots(lines, COLUMNS, sharex=True, sharey=True, squeeze=False)
        _draw_curves(results, cells, [axes for row in grid for axes in row])
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
    grid[0].set_ylabel(numbers.name(results["value_name"], 40), fontsize=8, parse_math=False)
    grid[0].set_xlabel(
        f"{numbers.name(results['compute_name'], 40)}; grey: {base['name']}", fontsize=8, parse_math=False
    )


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
