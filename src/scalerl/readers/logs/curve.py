"""One log as one curve: choose the metric, choose the compute, read, merge restarts, and say everything that was done.

Called by `readers.curves` and by `scalerl read`. Formats are not known here; they are all `Log`s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scalerl.errors import InputError
from scalerl.readers.cells import Chunk
from scalerl.readers.columns import COUNT_RANKS, VALUE_RANKS, Picked, count_of, find, guess
from scalerl.readers.logs import restarts as going_back
from scalerl.readers.logs.axis import Axis, Devices, choose
from scalerl.readers.logs.records import Log, Tally, counted
from scalerl.readers.logs.survey import Survey, survey
from scalerl.readers.logs.tracks import Restarts, Tracks, collect
from scalerl.readers.points import Duplicates, Places, to_series
from scalerl.readers.points import collect as checked
from scalerl.series import Series

LOG_VALUE_RANKS = (
    r"val_core_.*_mean_\d+",  # verl: val-core/DATASET/acc/mean@8
    r"eval_all_avg_score",  # SkyRL
    r"eval_.*_avg_\d+",  # prime-rl: eval/ENV/avg@32
    r"eval_.*_pass_?1",  # OpenRLHF: eval/eval_DATASET_pass1
    *VALUE_RANKS,
)
"""As in tables, with the names that only trainers write in front."""


@dataclass(frozen=True)
class Wanted:
    """What to read of a log, and how."""

    x: str | None = None
    y: str | None = None
    n: str | None = None
    devices: Devices = field(default_factory=Devices)
    restarts: Restarts = "replace"
    duplicates: Duplicates | None = None
    bounds: tuple[float, float] | None = (0.0, 1.0)
    progress: Callable[[int, int], None] | None = None


def read_log(log: Log, wanted: Wanted, name: str) -> list[Series]:
    """The curve of a log: one series, or one for each seed when `duplicates` is "seeds"."""
    found = survey(log, Tally(_first_half(wanted.progress)))
    if not found.names:
        lost = "; ".join(found.tally.notes())
        allowed = "a log with at least one metric" + (f" ({lost})" if lost else "")
        raise InputError(f"no metric in this log ({log.kind})", allowed=allowed, where=log.label)
    value = _value(found.names, wanted.y, log.label)
    rest = [one for one in found.names if one != value]
    num_answers, count = count_of(rest, wanted.n, log.label)
    if wanted.n is None:
        count = guess(rest, rest, COUNT_RANKS, "number of answers", "--n", log.label, "metrics")
    axis = choose(found, wanted.x, wanted.devices, {value, count or value}, log.label)
    needed = {metric for metric in (value, count, axis.metric) if metric is not None}
    tally = Tally(_second_half(wanted.progress))
    tracks = collect(log, needed, tally, interleaved=found.restarts.interleaved, restarts=wanted.restarts)
    picked = Picked(axis.name, value, count, num_answers=num_answers)
    series = _series(log, tracks, axis, picked, wanted, name)
    notes = tuple(_notes(log, found, tracks, axis, picked, wanted, tally))
    return [replace(one, notes=notes) for one in series]


def _value(names: Sequence[str], y: str | None, where: str) -> str:
    if y is not None:
        return find(names, y, "--metric", where, "metric")
    found = guess(names, names, LOG_VALUE_RANKS, "value", "--metric", where, "metrics")
    if found is None:
        allowed = "--metric with one of those that `scalerl read LOG --list` shows"
        raise InputError("no metric looks like the value", allowed=allowed, where=where)
    return found


def _series(log: Log, tracks: Tracks, axis: Axis, picked: Picked, wanted: Wanted, name: str) -> list[Series]:
    """Through the same checks as the rows of a table."""
    steps, values = tracks.columns(picked.y)
    if not steps.size:
        raise InputError(f"no usable value of {picked.y!r}", allowed="finite numbers", where=log.label)
    compute = axis.at(steps, tracks, log.label)
    n = None
    if picked.n is not None:
        known, sizes = tracks.columns(picked.n)
        n = np.array([dict(zip(known, sizes, strict=True)).get(step, np.nan) for step in steps])
    places = Places(log.label, "point")
    chunk = Chunk(compute, values, n, None, 1)
    (points,) = checked([chunk], picked, places, wanted.bounds, name)
    return to_series(points, picked, places, wanted.duplicates, named=True)


def _notes(
    log: Log, found: Survey, tracks: Tracks, axis: Axis, picked: Picked, wanted: Wanted, tally: Tally
) -> list[str]:
    going_on = wanted.restarts == "continue"
    guessed = "" if wanted.y is not None else " (guessed; choose with --metric)"
    lines = [f"read as {log.kind}", f"value: {picked.y}{guessed}", f"compute: {axis.name} = {axis.how}"]
    if not _held_out(picked.y):
        lines.append(
            f"{picked.y} does not look like a held-out metric: rewards of training batches are not a pass rate"
        )
    if found.restarts.interleaved:
        times = len(found.restarts.found)
        lines.append(
            f"the step went back {times:,} times: several writers in one log; the last value of each step counts"
        )
    else:
        lines += going_back.notes(found.restarts.found, found.restarts.first_step or 0.0, going_on=going_on)
    if tracks.replaced[picked.y]:
        replaced = tracks.replaced[picked.y]
        ones = ("value", "was", "a later one") if replaced == 1 else ("values", "were", "later ones")
        lines.append(f"{replaced:,} earlier {ones[0]} of {picked.y} {ones[1]} replaced by {ones[2]}")
    if tracks.unusable[picked.y]:
        lines.append(f"skipped {counted(tracks.unusable[picked.y], f'values of {picked.y} that are NaN or infinite')}")
    if tracks.numbered and axis.kind != "steps":
        lines.append("some entries have no step; they were counted")
    return lines + tally.notes()


def _held_out(name: str) -> bool:
    lowered = name.lower()
    return any(word in lowered for word in ("val", "eval", "test", "held", "pass", "acc", "valid"))


def _first_half(progress: Callable[[int, int], None] | None) -> Callable[[int, int], None] | None:
    """A log is read twice: once to see what there is, once to take what is wanted."""
    return None if progress is None else lambda done, total: progress(done, 2 * total)


def _second_half(progress: Callable[[int, int], None] | None) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(total + done, 2 * total)
