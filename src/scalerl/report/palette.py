"""Colours and markers that stay apart for colour-blind readers, on paper and on screen.

Okabe and Ito's palette without its yellow, which vanishes on white. The order is the order curves are drawn in; beyond
it, colours repeat with another marker and dash. Nothing here knows what is drawn.
"""

from __future__ import annotations

BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
BLACK = "#222222"
GREY = "#6E6E6E"
FAINT = "#D0D0D0"

CURVES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
CURVES_ON_DARK = ("#3D9BE0", "#F08545", "#2CC295", "#E39AC3", "#F2B632", "#9AD8FA", "#E8E8E8")
"""The same hues, light enough for a dark page."""
MARKERS = ("o", "s", "^", "v", "P", "X")
"""matplotlib names; the same order as SYMBOLS."""
SYMBOLS = ("circle", "square", "triangle-up", "triangle-down", "cross", "x")
"""plotly names."""


def colour(index: int) -> str:
    return CURVES[index % len(CURVES)]


def round_of(index: int) -> int:
    """How often the palette has been used up before curve `index`: picks its marker."""
    return index // len(CURVES)


def rgba(hex_colour: str, alpha: float) -> str:
    """`#0072B2` at some opacity, as CSS."""
    red, green, blue = (int(hex_colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def rgba_tuple(hex_colour: str, alpha: float) -> tuple[float, float, float, float]:
    """The same for matplotlib."""
    red, green, blue = (int(hex_colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue, alpha
