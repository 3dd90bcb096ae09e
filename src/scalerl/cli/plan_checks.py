"""From the options of `scalerl plan` to a question: every number read, every impossible combination refused.

Used by `plan`. Runs before anything is simulated. Errors name the option, the value and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

from scalerl.cli.budget import parse_budget
from scalerl.cli.checks import finite, positive
from scalerl.cli.places import number
from scalerl.cli.plan_options import Mode
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.config.recipe import Asynchrony
    from scalerl.plan import Lengths, Question
    from scalerl.plan.likeness import Likeness
    from scalerl.plan.money import Unit

DEFAULT_K = 8
BUDGETS = '"100k gpu-hours", "5000 steps" (or just 5000), "30 days", "2e6 usd", "1e12 tokens" or "1e24 flops"'
_DEVICE_KEYS = ("flops", "bandwidth", "memory", "link", "parameter_bytes")
_MODEL_KEYS = ("kv_bytes", "attention_width")


@dataclass(frozen=True)
class Pipe:
    """Batch and pipeline, as given; None where nothing was."""

    batch: str | None
    mode: Mode | None
    k: str | None
    rows: str | None


@dataclass(frozen=True)
class Responses:
    """Lengths, as given."""

    length: str | None
    longest: str | None
    spread: str
    interrupt: str | None
    prompt: str


@dataclass(frozen=True)
class Spending:
    """Time and money, as asked."""

    budget: tuple[Unit, float] | None
    price: float | None
    start: datetime
    target: float | None
    curve_hours: float | None


def spending_of(
    budget: tuple[str | None, str | None], price: str | None, start: str | None, target: str | None, hours: str | None
) -> Spending:
    """`budget` is (--budget, --steps), `hours` is --curve-gpu-hours-per-step."""
    return Spending(
        budget_of(*budget),
        None if price is None else positive("--price", price),
        start_of(start),
        None if target is None else finite("--target", target, (0.0, 1.0)),
        None if hours is None else positive("--curve-gpu-hours-per-step", hours),
    )


def split_of(text: str | None, gpus: str | None) -> tuple[int | None, tuple[int, int] | None]:
    """GPUs in all, and how they are split; None: the best is to be found."""
    total = None if gpus is None else whole("--gpus", gpus)
    if text is None or text == "best":
        return total, None
    parts = text.split(":")
    if len(parts) != 2:
        raise InputError("--split", text, "best, or GPUs that generate and that train, such as 64:16")
    split = (whole("--split", parts[0]), whole("--split", parts[1]))
    if total is not None and sum(split) != total:
        raise InputError("--split does not add up", f"{text} = {sum(split)}", f"{total} GPUs in all (--gpus)")
    return sum(split), split


def question_of(
    params: str | None,
    active: str | None,
    hardware: str | None,
    per_generator: str | None,
    pipe: Pipe,
    responses: Responses,
    sets: Sequence[str],
) -> Question:
    """From datasheets and assumptions; the split is filled in later."""
    from scalerl.plan.hardware import device_named
    from scalerl.plan.question import Assumptions, Question, model_of

    if params is None:
        raise InputError("nothing to plan", allowed="--params, the size of the policy; or --like RUN")
    device = device_named(hardware or "h100")
    parameters = positive("--params", params)
    used = None if active is None else positive("--active-params", active)
    if used is not None and used > parameters:
        raise InputError("--active-params", active, f"at most --params, {params}")
    given = _settings(sets, [item.name for item in fields(Assumptions)])
    prompts, rollouts = _batch(pipe.batch or "48x16")
    return Question(
        model=model_of(parameters, used, **{key: given[key] for key in _MODEL_KEYS if key in given}),
        device=replace(device, **_chosen(given, _DEVICE_KEYS)),
        generating=0,
        training=0,
        prompts=prompts,
        rollouts=rollouts,
        lengths=lengths_of(responses),
        prompt_length=whole("--prompt-length", responses.prompt),
        asynchrony=asynchrony_of(pipe.mode or "pipeline", pipe.k),
        rows=256 if pipe.rows is None else whole("--rows", pipe.rows),
        gpus_per_generator=None if per_generator is None else whole("--gpus-per-generator", per_generator),
        assumptions=Assumptions(**_chosen(given, [item.name for item in fields(Assumptions)])),
    )


def like_run(path: str, pipe: Pipe) -> tuple[Likeness, Question]:
    """A measured run, and what is asked about it."""
    from scalerl.plan.likeness import like

    likeness = like(path)
    return likeness, _changed(likeness, pipe)


def devices_like(
    likeness: Likeness, total: int | None, text: str | None, split: tuple[int, int] | None
) -> tuple[int, tuple[int, int] | None]:
    """Those that were asked for; otherwise as many as the run had, split as they were there unless the best is asked
    for (`text`)."""
    if total is not None:
        return total, split
    run = likeness.question
    return run.devices, (run.generating, run.training) if text is None else None


def _changed(likeness: Likeness, pipe: Pipe) -> Question:
    """A measured run, with another batch or pipeline where one was given."""
    question = likeness.question
    if pipe.batch is not None:
        prompts, rollouts = _batch(pipe.batch)
        question = replace(question, prompts=prompts, rollouts=rollouts)
    if pipe.mode is not None or pipe.k is not None:
        mode = pipe.mode or question.asynchrony.kind
        question = replace(question, asynchrony=asynchrony_of(mode, pipe.k))
    return question if pipe.rows is None else replace(question, rows=whole("--rows", pipe.rows))


def refuse_with_like(given: Mapping[str, object]) -> None:
    """What a measured run says itself."""
    names = ", ".join(name for name, value in given.items() if value)
    if names:
        raise InputError(f"--like does not go with {names}", allowed="one or the other: the run says it")


def asynchrony_of(mode: Mode, k: str | None) -> Asynchrony:
    from scalerl.config.recipe import Pipeline, PpoOffPolicy, Sync

    if mode == "sync":
        if k is not None:
            raise InputError("--k with --mode sync", k, "none: sync has no k")
        return Sync(kind="sync")
    ahead = DEFAULT_K if k is None else whole("--k", k, lowest=0 if mode == "pipeline" else 1)
    return Pipeline(kind="pipeline", k=ahead) if mode == "pipeline" else PpoOffPolicy(kind="ppo_off_policy", k=ahead)


def all_modes(asynchrony: Asynchrony) -> list[Asynchrony]:
    """For `--compare`: the three kinds, with the same k where there is one."""
    k = getattr(asynchrony, "k", DEFAULT_K)
    return [asynchrony_of(mode, None if mode == "sync" else str(max(k, 1))) for mode in get_args(Mode)]


def lengths_of(responses: Responses) -> Lengths:
    from scalerl.plan.lengths import Lengths, lengths_with_mean

    if responses.length is None:
        raise InputError("no length", allowed="--length, the mean tokens of a response")
    mean = positive("--length", responses.length)
    longest = whole("--max-length", responses.longest) if responses.longest else round(2 * mean)
    if mean > longest:
        raise InputError("--length is above --max-length", f"{mean:g} and {longest}", "a mean below the maximum")
    spread = number("--spread", responses.spread)
    if not 0 <= spread <= 3:
        raise InputError("--spread", responses.spread, "0 (all of one length) to 3")
    window = None if responses.interrupt is None else _window(responses.interrupt, longest)
    answer = 0 if window is None else max(1, min(500, longest - window[1]))
    shape = Lengths(mean, spread, longest, window, answer)
    if spread == 0 and window is None:
        return shape
    return lengths_with_mean(mean, shape)


def budget_of(text: str | None, steps: str | None) -> tuple[Unit, float] | None:
    """Unit and amount; None: nothing was asked."""
    if text is not None and steps is not None:
        raise InputError("--budget and --steps together", allowed="one of them")
    if steps is not None:
        return "steps", float(whole("--steps", steps))
    if text is None:
        return None
    units: dict[str, Unit] = {"day": "days", "days": "days", "usd": "money", "eur": "money", "$": "money"}
    units |= {"gpu-hour": "gpu_hours", "gpu-hours": "gpu_hours", "device-hours": "gpu_hours", "gpu_hours": "gpu_hours"}
    amount, _, unit = text.strip().rpartition(" ")
    if unit.lower() in units:
        return units[unit.lower()], positive("--budget", amount.strip())
    try:
        given = parse_budget(text)
    except InputError as error:
        raise InputError("--budget", text, BUDGETS) from error
    return "gpu_hours" if given.unit == "device_hours" else given.unit, given.amount


def start_of(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise InputError("--start", text, "a date such as 2027-01-31") from None


def whole(option: str, text: str, lowest: int = 1) -> int:
    value = number(option, text.strip())
    if not (value >= lowest and value < 1e15 and value == int(value)):
        raise InputError(option, text, f"a whole number, {lowest} or more")
    return int(value)


def _batch(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"\s*([^x]+)x([^x]+)", text.lower())
    if found is None:
        raise InputError("--batch", text, "PROMPTSxROLLOUTS, such as 48x16")
    return whole("--batch", found[1]), whole("--batch", found[2], lowest=2)


def _window(text: str, longest: int) -> tuple[int, int]:
    parts = text.split(":")
    if len(parts) != 2:
        raise InputError("--interrupt", text, "LOW:HIGH in tokens, such as 10000:12000")
    low, high = (whole("--interrupt", part) for part in parts)
    if not low <= high < longest:
        raise InputError("--interrupt", text, f"LOW up to HIGH, below --max-length, {longest}")
    return low, high


def _settings(sets: Sequence[str], assumptions: Sequence[str]) -> dict[str, float]:
    allowed = [*assumptions, *_DEVICE_KEYS, *_MODEL_KEYS]
    found = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or key.strip() not in allowed:
            raise InputError("--set", text, f"KEY=VALUE with one of {', '.join(allowed)}")
        found[key.strip()] = positive(f"--set {key.strip()}", value) if value.strip() != "0" else 0.0
    return found


def _chosen(given: Mapping[str, float], keys: Sequence[str]) -> dict[str, Any]:
    return {key: given[key] for key in keys if key in given}
