"""`Series`: one curve of a measured value against compute, the only thing the readers produce and the engine eats.

It knows nothing about files, laws or plots. Points are sorted by compute; a measurement at zero compute is not a point
but the step-0 measurement, kept in `start`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from scalerl.display import Displayed
from scalerl.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class StartValue:
    """The measurement at zero compute: the pass rate before any training."""

    value: float
    n: float | None = None
    """Answers behind the value (questions x samples); None when not known."""


@dataclass(frozen=True, eq=False)
class Series(Displayed):
    """One curve. Build it with `Series.of`, which validates and sorts."""

    compute: FloatArray
    """Strictly increasing, strictly positive, in any one unit."""
    value: FloatArray
    n: FloatArray | None = None
    """Answers behind each value (questions x samples); None when not known."""
    start: StartValue | None = None
    name: str = "curve"
    compute_name: str = "compute"
    value_name: str = "value"
    source: str = ""
    """Where it came from, for messages and provenance; two series from different places may be equal."""
    notes: tuple[str, ...] = ()
    """What the reader has to say: how compute was made, what was merged or skipped. No part of equality either."""

    @classmethod
    def of(
        cls,
        compute: Iterable[float],
        value: Iterable[float],
        n: Iterable[float] | float | None = None,
        *,
        start: StartValue | float | None = None,
        name: str = "curve",
        compute_name: str = "compute",
        value_name: str = "value",
        source: str = "",
        notes: Iterable[str] = (),
    ) -> Self:
        """Validate, sort by compute, and move a row at zero compute into `start`."""
        x, y = _column(compute, "compute"), _column(value, "value")
        if x.shape != y.shape:
            raise InputError("compute and value differ in length", f"{x.size} and {y.size}", "equal lengths", name)
        size = _sizes(n, x.size, name)
        _refuse(~np.isfinite(x), x, "compute", "finite numbers", name)
        _refuse(~np.isfinite(y), y, "value", "finite numbers", name)
        _refuse(x < 0, x, "compute", "zero or more", name)
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
        size = None if size is None else size[order]
        repeated = np.flatnonzero(np.diff(x) == 0)
        if repeated.size:
            raise InputError("duplicate compute", float(x[repeated[0]]), "each compute once in a curve", name)
        if isinstance(start, int | float | np.number):
            start = StartValue(float(start))
        if start is not None and not np.isfinite(start.value):
            raise InputError("unusable step-0 value", start.value, "a finite number", name)
        if x.size and x[0] == 0:
            start = start or StartValue(float(y[0]), None if size is None else float(size[0]))
            x, y, size = x[1:], y[1:], None if size is None else size[1:]
        return cls(x, y, size, start, name, compute_name, value_name, source, tuple(notes))

    def __len__(self) -> int:
        return int(self.compute.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Series):
            return NotImplemented
        return self._compared() == other._compared()

    def _compared(self) -> dict[str, Any]:
        return self.to_dict() | {"source": "", "notes": []}

    def window(self, low: float | None = None, high: float | None = None) -> Series:
        """The points with low <= compute <= high; the step-0 measurement stays."""
        keep = np.ones(len(self), dtype=bool)
        if low is not None:
            keep &= self.compute >= low
        if high is not None:
            keep &= self.compute <= high
        return self._take(keep)

    def head(self, count: int) -> Series:
        """The first `count` points."""
        return self._take(slice(count))

    def _take(self, keep: Any) -> Series:
        n = None if self.n is None else self.n[keep]
        return replace(self, compute=self.compute[keep], value=self.value[keep], n=n)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` brings it back exactly."""
        return {
            "name": self.name,
            "compute_name": self.compute_name,
            "value_name": self.value_name,
            "source": self.source,
            "notes": list(self.notes),
            "start": None if self.start is None else {"value": self.start.value, "n": self.start.n},
            "compute": self.compute.tolist(),
            "value": self.value.tolist(),
            "n": None if self.n is None else self.n.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        start = data["start"]
        return cls.of(
            data["compute"], data["value"], data["n"],
            start=None if start is None else StartValue(start["value"], start["n"]),
            name=data["name"], compute_name=data["compute_name"],
            value_name=data["value_name"], source=data["source"], notes=data.get("notes", ()),
        )  # fmt: skip


def _column(values: Iterable[float], what: str) -> FloatArray:
    try:
        array = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} is not numeric ({error})", allowed="numbers") from error
    if array.ndim != 1:
        raise InputError(f"{what} has the wrong shape", array.shape, "one dimension")
    return array


def _sizes(n: Iterable[float] | float | None, count: int, name: str) -> FloatArray | None:
    if n is None:
        return None
    size = np.full(count, float(n)) if isinstance(n, int | float | np.number) else _column(n, "n")
    if size.size != count:
        raise InputError("n and value differ in length", f"{size.size} and {count}", "equal lengths", name)
    _refuse(~np.isfinite(size) | (size <= 0), size, "n", "positive numbers", name)
    return size


def _refuse(bad: BoolArray, values: FloatArray, what: str, allowed: str, name: str) -> None:
    if bad.any():
        index = int(np.argmax(bad))
        raise InputError(f"unusable {what} at point {index + 1}", float(values[index]), allowed, name)
