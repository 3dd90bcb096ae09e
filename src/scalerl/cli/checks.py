"""From option texts to values, with every check that needs no data. Runs before any file is read.

Used by the command modules. Errors are `InputError`s that name the option, the value and what is allowed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scalerl.cli import places
from scalerl.cli.options import Duplicates, Law, Method
from scalerl.cli.places import Place, number
from scalerl.errors import InputError

Range = tuple[float, float]
FloorChoice = float | Literal["measured", "free"]


@dataclass(frozen=True)
class Reading:
    """Which curves to read, and how."""

    files: tuple[str, ...]
    example: str | None
    x: str | None
    y: str | None
    n: str | None
    by: str | None
    duplicates: Duplicates | None
    bounds: Range | None


@dataclass(frozen=True)
class Fitting:
    """How to fit each curve."""

    start: Place | None
    """Points before this compute are left out; None leaves the choice to the example, or takes all."""
    until: Place | None
    """Points after this compute are held out; infinity says none, None as for `start`."""
    floor: FloorChoice | None
    ceiling: float | None
    law: Law
    method: Method
    level: float
    bounds: Range | None


def reading(
    files: Sequence[str] | None,
    example: str | None,
    columns: tuple[str | None, str | None, str | None, str | None],
    duplicates: Duplicates | None,
    bounds: Range | None,
) -> Reading:
    """`columns` is (x, y, n, by). Files or an example, never both, never neither."""
    if example is None and not files:
        raise InputError("nothing to read", allowed="FILE..., or --example NAME")
    x, y, n, by = columns
    if example is not None:
        reading_options = {"FILE": files, "--x": x, "--y": y, "--n": n, "--by": by, "--duplicates": duplicates}
        given = ", ".join(name for name, value in reading_options.items() if value)
        if given:
            raise InputError(f"--example does not go with {given}", allowed="one or the other")
    return Reading(tuple(files or ()), example, x, y, n, by, duplicates, bounds)


def fitting(
    window: tuple[str | None, str | None],
    floor: str | None,
    ceiling: str | None,
    law: Law,
    method: Method,
    level: str,
    bounds: Range | None,
) -> Fitting:
    """`window` is (--from, --until)."""
    start, until = places.window(*window)
    low = _floor(floor, bounds)
    top = None if ceiling is None else finite("--ceiling", ceiling, bounds)
    if top is not None and isinstance(low, float) and top <= low:
        raise InputError("--ceiling is not above --floor", f"{ceiling} and {floor}", "--ceiling above --floor")
    return Fitting(start, until, low, top, law, method, probability("--level", level), bounds)


def finite(option: str, text: str, bounds: Range | None = None) -> float:
    """A finite number, inside the bounds of the value where there are some."""
    value = number(option, text)
    if not math.isfinite(value):
        raise InputError(option, text, "a finite number")
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        raise InputError(option, text, f"{bounds[0]:g} to {bounds[1]:g} (the bounds of the value: see --bounds)")
    return value


def positive(option: str, text: str) -> float:
    value = number(option, text)
    if not 0 < value < math.inf:
        raise InputError(option, text, "a finite number above zero")
    return value


def probability(option: str, text: str) -> float:
    value = number(option, text)
    if not 0 < value < 1:
        raise InputError(option, text, "between 0 and 1, such as 0.8")
    return value


def shares(text: str) -> tuple[float, ...]:
    return tuple(_share(part.strip()) for part in text.split(","))


def _share(text: str) -> float:
    """`0.5` or `50%`."""
    value = places.place("--shares", text)
    share = value.share if isinstance(value, places.OfLast) else value
    if not 0 < share < 1:
        raise InputError("--shares", text, "between 0 and 1, such as 0.5 or 50%")
    return share


def bounds(text: str) -> Range | None:
    if text.strip().lower() == "none":
        return None
    parts = text.split(",")
    if len(parts) != 2:
        raise InputError("--bounds", text, "LOW,HIGH such as 0,1, or none")
    low, high = (finite("--bounds", part.strip()) for part in parts)
    if low >= high:
        raise InputError("--bounds", text, "LOW,HIGH with LOW below HIGH, or none")
    return low, high


def _floor(text: str | None, bounds: Range | None) -> FloorChoice | None:
    if text == "measured":
        return "measured"
    if text == "free":
        return "free"
    if text is None:
        return None
    try:
        return finite("--floor", text, bounds)
    except InputError as error:
        raise InputError("--floor", text, f"measured, free, or {error.allowed}") from error


def plot_path(text: str | None, *, interactive: bool = True) -> Path | None:
    """A path that can be written: known format, not a folder, permission in the nearest folder that exists."""
    if text is None:
        return None
    from scalerl.report.figures import STATIC
    from scalerl.report.output import FORMATS

    formats = FORMATS if interactive else STATIC
    path = Path(text)
    if path.suffix.lower().removeprefix(".") not in formats:
        raise InputError("--plot", text, "a file name ending in " + ", ".join(f".{kind}" for kind in formats))
    try:
        _check_place(path)
    except OSError as error:  # the name is too long, a folder cannot be entered, ...
        raise InputError(f"--plot: {error.strerror}", text, "a file name in a place that can be written") from error
    return path


def _check_place(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise InputError("--plot is not a file", str(path), "a file name")
    nearest = next(place for place in (path, *path.absolute().parents) if place.exists())
    if nearest != path and not nearest.is_dir():
        raise InputError("--plot: not a folder", str(nearest), "a file name inside a folder")
    if not os.access(nearest, os.W_OK):
        raise InputError("--plot: no permission to write", str(nearest), "a place that can be written")
