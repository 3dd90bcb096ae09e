"""What stands on the x axis: compute if the log has it, otherwise built from what it has, and always said in words.

Called by `curve`. It knows names of metrics and columns against steps; formats and files are not known here. In order:
a running total of compute; GPU-hours from seconds and `--gpus`, or from `--gpu-hours-per-step`; FLOPs from tokens and
`--params`; tokens; steps. Whatever is not logged at the step of a point is interpolated between the steps next to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalerl.errors import InputError
from scalerl.readers.cells import FloatArray
from scalerl.readers.columns import COMPUTE_RANKS, find, plain
from scalerl.readers.logs.survey import Survey
from scalerl.readers.logs.tracks import CLOCK, Tracks

FLOPS_PER_TOKEN = 8
"""For each parameter: 2 to generate a token, 6 to train on it."""

SECONDS_PER_STEP = (
    r"timing_s_step",  # verl
    r"perf_time_per_step",  # verl, slime
    r"timing_train_total_step_time",  # NeMo-RL
    r"(?:train_)?timing_step_total",  # OpenRLHF
    r"time_total",  # open-instruct, tinker
    r"(?:.*_)?(?<!optimizer_)(?:step_time|time_per_step|time_step|timing_step|seconds_per_step)",  # TRL, SkyRL, ...
)
TOKENS_PER_STEP = (
    r"perf_total_num_tokens",  # verl
    r"train_total_num_tokens",  # NeMo-RL
    r"progress_tokens",  # prime-rl
    r"val_num_step_tokens",  # open-instruct
    r"(?:.*_)?(?:tokens_per_step|step_tokens|tokens_in_batch|num_tokens_in_batch)",
)
TOKENS_IN_ALL = (
    r"(?:.*_)?(?:total_tokens|tokens_seen|cumulative_tokens|num_input_tokens_seen)",  # prime-rl, Hugging Face
    r"(?:train_)?(?:num_tokens|tokens)",  # TRL
)
_STEPS = ("step", "steps")
_HOURS = ("hours", "wall_hours")


@dataclass(frozen=True)
class Devices:
    """What the user knows and the log does not."""

    gpus: float | None = None
    params: float | None = None
    gpu_hours_per_step: float | None = None

    def __post_init__(self) -> None:
        given = [name for name, value in self.options.items() if value is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} together", allowed="one of them")
        for name in given:
            value = self.options[name]
            assert value is not None
            if not (np.isfinite(value) and value > 0):
                raise InputError(name, value, "a finite number above zero")

    @property
    def options(self) -> dict[str, float | None]:
        return {"--gpus": self.gpus, "--params": self.params, "--gpu-hours-per-step": self.gpu_hours_per_step}

    @property
    def given(self) -> bool:
        return any(value is not None for value in self.options.values())


@dataclass(frozen=True)
class Axis:
    """How compute follows from the tracks."""

    name: str
    how: str
    """In words, for the output."""
    kind: Literal["steps", "total", "per step", "clock"]
    metric: str | None = None
    factor: float = 1.0

    @property
    def track(self) -> str | None:
        return CLOCK if self.kind == "clock" else self.metric

    def at(self, steps: FloatArray, tracks: Tracks, where: str) -> FloatArray:
        """Compute at each step."""
        if self.kind == "steps":
            with np.errstate(over="ignore"):
                return steps * self.factor
        assert self.track is not None
        known, values = tracks.columns(self.track)
        if not known.size:
            raise InputError(f"no usable value of {self.track!r} for the compute", allowed="another --x", where=where)
        with np.errstate(over="ignore", invalid="ignore"):  # a compute beyond floats is refused with the other points
            each = self.kind == "per step"
            totals = np.cumsum(values * np.diff(known, prepend=0.0)) if each else _without_falls(values)
            if self.kind == "clock":
                totals = totals + _before_first(known, totals)
            return self.factor * _between(steps, known, totals)


def choose(found: Survey, x: str | None, devices: Devices, taken: Collection[str], where: str) -> Axis:
    """The x axis of a log, as asked for or the best there is. `taken`: metrics that are the value or its n."""
    names = [name for name in found.names if name not in taken]
    if x is not None:
        return _asked(found, names, x, devices, where)
    if devices.gpu_hours_per_step is not None:
        words = f"{devices.gpu_hours_per_step:g} GPU-hours a step (--gpu-hours-per-step)"
        return Axis("gpu_hours", words, "steps", factor=devices.gpu_hours_per_step)
    if devices.gpus is not None:
        return _gpu_hours(found, names, devices.gpus, where)
    if devices.params is not None:
        return _flops(found, names, devices.params, where)
    return _total_compute(found, names, where) or _tokens(found, names) or _steps(found)


def _asked(found: Survey, names: list[str], x: str, devices: Devices, where: str) -> Axis:
    """`--x`: steps, tokens, hours, or a metric that is a running total."""
    if devices.given:
        option = next(name for name, value in devices.options.items() if value is not None)
        raise InputError(f"--x together with {option}", x, "one of them: both say what the compute is", where)
    if x not in names and x.lower() in _STEPS:
        return _steps(found)
    if x not in names and x.lower() == "tokens":
        axis = _tokens(found, names)
        if axis is None:
            raise InputError("--x tokens: no metric of this log looks like tokens", allowed="another --x", where=where)
        return axis
    if x not in names and x.lower() in _HOURS:
        return _scaled(_seconds(found, names, where), "hours", 1 / 3600, "/ 3600")
    metric = find(names, x, "--x", where, "metric", ("steps", "tokens", "hours"))
    return Axis(metric, f"{metric}, a running total in the log", "total", metric)


def _total_compute(found: Survey, names: list[str], where: str) -> Axis | None:
    """A metric that is compute by name and never falls."""
    for rank in COMPUTE_RANKS[:2]:
        matches = [name for name in names if re.fullmatch(rank, _last_part(name)) and _grows(found, name)]
        if len(matches) > 1:
            listed = ", ".join(matches)
            raise InputError("several metrics look like the compute", allowed=f"--x with one of {listed}", where=where)
        if matches:
            return Axis(_last_part(matches[0]), f"{matches[0]}, as logged", "total", matches[0])
    return None


def _tokens(found: Survey, names: list[str]) -> Axis | None:
    """A running total if there is one, otherwise the sum over the steps."""
    total = _first(names, TOKENS_IN_ALL, lambda name: _grows(found, name))
    if total is not None:
        return Axis("tokens", f"{total}, a running total in the log", "total", total)
    each = _first(names, (*TOKENS_PER_STEP, *TOKENS_IN_ALL))
    return None if each is None else Axis("tokens", f"{each}, summed over the steps", "per step", each)


def _seconds(found: Survey, names: list[str], where: str) -> Axis:
    each = _first(names, SECONDS_PER_STEP)
    if each is not None:
        return Axis("seconds", f"{each}, summed over the steps", "per step", each)
    if found.has_times and not found.restarts.interleaved:
        return Axis("seconds", "the log's clock without the gaps of restarts", "clock")
    raise InputError("the log has no times", allowed="--gpu-hours-per-step, or another x axis", where=where)


def _gpu_hours(found: Survey, names: list[str], gpus: float, where: str) -> Axis:
    return _scaled(_seconds(found, names, where), "gpu_hours", gpus / 3600, f"x {gpus:g} GPUs / 3600 (--gpus)")


def _flops(found: Survey, names: list[str], params: float, where: str) -> Axis:
    tokens = _tokens(found, names)
    if tokens is None:
        raise InputError("--params needs tokens, and the log has none", params, "--gpus or --gpu-hours-per-step", where)
    words = f"x {FLOPS_PER_TOKEN} x {params:g} parameters: 2 a token to generate, 6 to train (--params)"
    return _scaled(tokens, "flops", FLOPS_PER_TOKEN * params, words)


def _steps(found: Survey) -> Axis:
    return Axis(
        "step", "the trainer's step" if found.has_steps else "points are counted: the log has no steps", "steps"
    )


def _scaled(axis: Axis, name: str, factor: float, words: str) -> Axis:
    return Axis(name, f"{axis.how} {words}", axis.kind, axis.metric, axis.factor * factor)


def _first(names: list[str], patterns: Collection[str], fits: Callable[[str], bool] = lambda _: True) -> str | None:
    found = (n for pattern in patterns for n in names if re.fullmatch(pattern, plain(n)) and fits(n))
    return next(found, None)


def _grows(found: Survey, name: str) -> bool:
    """A running total: it never falls but at restarts, and does grow."""
    metric = found.metrics[name]
    return metric.high > metric.low and metric.num_falls <= len(found.restarts.found)


def _last_part(name: str) -> str:
    """`perf/gpu_hours` is read as `gpu_hours`."""
    return plain(re.split(r"[/.]", name)[-1])


def _without_falls(totals: FloatArray) -> FloatArray:
    """A running total that began anew at a restart goes on from where it stood."""
    fallen = np.append(False, totals[1:] < totals[:-1])
    lost: FloatArray = np.cumsum(np.where(fallen, np.append(0.0, totals[:-1]), 0.0))
    return totals + lost


def _before_first(steps: FloatArray, seconds: FloatArray) -> float:
    """A clock starts with the first record; what came before it went at the pace of the rest."""
    if steps.size < 2:
        return 0.0
    return float(steps[0] * (seconds[-1] - seconds[0]) / (steps[-1] - steps[0]))


def _between(steps: FloatArray, known: FloatArray, totals: FloatArray) -> FloatArray:
    """Totals at `steps`: nothing at step 0, straight lines between, and the last slope beyond the end."""
    if known[0] > 0:
        known, totals = np.append(0.0, known), np.append(0.0, totals)
    totals = totals - totals[0]
    inside: FloatArray = np.interp(steps, known, totals)
    if known.size > 1:
        slope = (totals[-1] - totals[-2]) / (known[-1] - known[-2])
        inside = np.where(steps > known[-1], totals[-1] + slope * (steps - known[-1]), inside)
    return inside
