"""What people look at: the terminal, pictures, an interactive page.

The command line and notebooks call this. It shows results of `scalerl.curves` and computes nothing of its own. The
names below load on first use, and matplotlib and plotly only when a picture is made, so that `--help` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalerl.report.figures import (
        backtest_figure,
        comparison_figure,
        fits_figure,
        plot_backtest,
        plot_comparison,
        plot_fits,
    )
    from scalerl.report.page import write_html
    from scalerl.report.terminal import render_backtest, render_comparison, render_decision, render_fit

__all__ = [
    "backtest_figure",
    "comparison_figure",
    "fits_figure",
    "plot_backtest",
    "plot_comparison",
    "plot_fits",
    "render_backtest",
    "render_comparison",
    "render_decision",
    "render_fit",
    "write_html",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "terminal" if name.startswith("render_") else "page" if name == "write_html" else "figures"
    return getattr(import_module(f"{__name__}.{home}"), name)
