"""From option texts to values, with every check that needs no data. Runs before any file is read.

Used by the command modules. Errors are `InputError`s that name the option, the value and what is allowed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from scalerl.cli import places
from scalerl.cli.options import Duplicates, Law, Method, Restarts
from scalerl.cli.places import Place, number
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.readers.curves import Options

Range = tuple[float, float]
FloorChoice = float | Literal["measured", "free"]


@dataclass(frozen=True)
class LogOptions:
    """What only concerns other trainers' logs."""

    gpus: float | None = None
    params: float | None = None
    gpu_hours_per_step: float | None = None
    restarts: Restarts = "replace"


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
    log: LogOptions

    def options(self, progress: Callable[[int, int], None] | None = None) -> Options:
        """As the readers take them."""
        return {
            "x": self.x, "y": self.y, "n": self.n, "by": self.by, "duplicates": self.duplicates, "bounds": self.bounds,
            "gpus": self.log.gpus, "params": self.log.params, "gpu_hours_per_step": self.log.gpu_hours_per_step,
            "restarts": self.log.restarts, "progress": progress,
        }  # fmt: skip


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
    log: LogOptions,
) -> Reading:
    """`columns` is (x, y, n, by). Files or an example, never both, never neither."""
    if example is None and not files:
        raise InputError("nothing to read", allowed="FILE..., or --example NAME")
    x, y, n, by = columns
    if example is not None:
        reading_options: dict[str, object] = {
            "FILE": files,
            "--x": x,
            "--y": y,
            "--n": n,
            "--by": by,
            "--duplicates": duplicates,
        }
        reading_options |= {"--gpus": log.gpus, "--params": log.params, "--gpu-hours-per-step": log.gpu_hours_per_step}
        given = ", ".join(name for name, value in reading_options.items() if value)
        if given:
            raise InputError(f"--example does not go with {given}", allowed="one or the other")
    return Reading(tuple(files or ()), example, x, y, n, by, duplicates, bounds, log)


def log_options(gpus: str | None, params: str | None, gpu_hours_per_step: str | None, restarts: Restarts) -> LogOptions:
    given = {"--gpus": gpus, "--params": params, "--gpu-hours-per-step": gpu_hours_per_step}
    numbers = {option: None if text is None else positive(option, text) for option, text in given.items()}
    if sum(value is not None for value in numbers.values()) > 1:
        names = " and ".join(option for option, text in given.items() if text is not None)
        raise InputError(f"{names} together", allowed="one of them: each says what the compute is")
    return LogOptions(numbers["--gpus"], numbers["--params"], numbers["--gpu-hours-per-step"], restarts)


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
    """Where `--plot` goes."""
    if text is None:
        return None
    from scalerl.report.figures import STATIC
    from scalerl.report.output import FORMATS

    return output_path("--plot", text, FORMATS if interactive else STATIC)


def output_path(option: str, text: str, formats: Sequence[str], inputs: Sequence[str] = ()) -> Path:
    """A path that can be written: known format, not a folder, none of the inputs, permission in the nearest folder."""
    path = Path(text)
    if path.suffix.lower().removeprefix(".") not in formats:
        raise InputError(option, text, "a file name ending in " + ", ".join(f".{kind}" for kind in formats))
    try:
        if any(_is_same(path, Path(name)) for name in inputs):
            raise InputError(f"{option} is one of the files to read", text, "another file name")
        _check_place(option, path)
    except OSError as error:  # the name is too long, a folder cannot be entered, ...
        raise InputError(f"{option}: {error.strerror}", text, "a file name in a place that can be written") from error
    return path


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


def _check_place(option: str, path: Path) -> None:
    if path.exists() and not path.is_file():
        raise InputError(f"{option} is not a file", str(path), "a file name")
    nearest = next(place for place in (path, *path.absolute().parents) if place.exists())
    if nearest != path and not nearest.is_dir():
        raise InputError(f"{option}: not a folder", str(nearest), "a file name inside a folder")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"{option}: no permission to write", str(nearest), "a place that can be written")
