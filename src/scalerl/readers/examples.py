"""Curves that come with the package, so that everything can be tried offline.

Called by `scalerl fit --example` and by users. Adding one: put the CSV and its licence note into `data/`, and an entry
into `_EXAMPLES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from scalerl.errors import InputError
from scalerl.readers.curves import read_table
from scalerl.series import Series


@dataclass(frozen=True)
class Example:
    """A published curve with the options recommended for it."""

    series: Series
    floor: float | None
    """The value to take as the one before training; for `scalerl-8b` our choice, not stated in the paper."""
    window: tuple[float | None, float | None]
    """The part of the curve to fit: (from, until)."""
    citation: str
    description: str


@dataclass(frozen=True)
class _Entry:
    file: str
    floor: float | None
    window: tuple[float | None, float | None]
    citation: str
    description: str


_EXAMPLES = {
    "scalerl-8b": _Entry(
        file="scalerl_8b.csv",
        floor=0.40,
        window=(1500.0, None),
        citation=(
            "Khatri, Madaan, Tiwari, Bansal et al., The Art of Scaling Reinforcement Learning Compute for LLMs, "
            "arXiv 2510.13786, Figure 1 (CC BY); points read off the figure"
        ),
        description="ScaleRL, 8B model: held-out pass rate against GPU-hours, up to 89k",
    ),
}


def example_names() -> tuple[str, ...]:
    """The names `load_example` knows."""
    return tuple(_EXAMPLES)


def load_example(name: str) -> Example:
    """One of the curves that come with the package."""
    if name not in _EXAMPLES:
        raise InputError("unknown example", name, f"one of {', '.join(_EXAMPLES)}")
    entry = _EXAMPLES[name]
    with resources.as_file(resources.files("scalerl.readers") / "data" / entry.file) as path:
        (read,) = read_table(path)
    series = Series.of(
        read.compute, read.value, name=name, compute_name="GPU-hours", value_name="pass rate",
        source=f"example {name}",
    )  # fmt: skip
    return Example(series, entry.floor, entry.window, entry.citation, entry.description)
