"""What the rows of a Weights & Biases history mean, wherever they come from: a transaction log, a file, or the server.

Called by the `wandb_*` readers. `_timestamp` (or else `_runtime`) is the wall clock; every other number is a metric,
`_runtime` too, because it goes on over restarts. Nested names are joined with a dot, as the web page of W&B shows them.

The step is `_step`, unless the trainer logs its own: Hugging Face, OpenRLHF and prime-rl leave `_step` to count the
calls of `wandb.log`, several for each step of training, and log `train/global_step` or `step` as a metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from scalerl.readers.logs.records import Record

STEP, TIME, RUNTIME = "_step", "_timestamp", "_runtime"
_OWN_STEPS = (
    "train/global_step", "trainer/global_step", "training/global_step", "eval/global_step",
    "global_step", "trainer/step", "train/step", "step",
)  # fmt: skip
_FIRST_ROWS = 100
_DEEPEST = 50
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Some exports write these as text, since JSON has no word for them."""


def to_records(rows: Iterable[Mapping[str, Any]], session: int = 0) -> Iterator[Record]:
    """A record for each row that has a metric.

    The trainer's own step counts when at least half of the first rows have one. Rows without it (an evaluation, say)
    then belong to the last one seen, which is also how W&B draws them.
    """
    numbers = (_numbers(row) for row in rows)
    first = list(islice(numbers, _FIRST_ROWS))
    own = 2 * sum(_own_step(values) is not None for values in first) >= max(len(first), 1)
    last: float | None = None
    for values in chain(first, numbers):
        step, time_s = values.pop(STEP, None), values.pop(TIME, None)
        if own:
            last = step = next((s for s in (_own_step(values), last, step) if s is not None), None)
        if values.keys() - {RUNTIME}:
            yield Record(values, step, values.get(RUNTIME) if time_s is None else time_s, session)


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: number for name, cell in _flat(row) if (number := _number(cell)) is not None}


def _own_step(values: Mapping[str, float]) -> float | None:
    return next((values[name] for name in _OWN_STEPS if name in values and math.isfinite(values[name])), None)


def _flat(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Cells by their dotted names. Histograms, images and tables are dicts with a `_type`, and left out; so is what is
    nested absurdly deep."""
    for name, cell in row.items():
        if not isinstance(cell, Mapping):
            yield prefix + name, cell
        elif "_type" not in cell and depth < _DEEPEST:
            yield from _flat(cell, f"{prefix}{name}.", depth + 1)


def _number(cell: object) -> float | None:
    """None for everything that is no number; true and false are none."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    if isinstance(cell, str):
        return _NOT_FINITE.get(cell)
    try:
        return float(cell)
    except OverflowError:  # an integer beyond the range of a float
        return math.inf if cell > 0 else -math.inf
