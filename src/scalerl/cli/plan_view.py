"""What `scalerl plan` shows a person: splits, where the time goes, ages, cost, the curve, and what was assumed.

Used by `plan`. Everything is a pure function of its answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.report.plain import Printable

if TYPE_CHECKING:
    from scalerl.cli.plan import Answer
    from scalerl.plan import Outcome
    from scalerl.plan.likeness import Likeness
    from scalerl.plan.money import Bill

NOT_MEASURED = (
    "the times follow from datasheets and assumed efficiencies: no GPU was measured; --like RUN uses a measured run"
)
BAR, _SHORT_BAR = 20, 5
_WIDEST = 400
MODES = {"pipeline": "PipelineRL", "ppo_off_policy": "PPO-off-policy", "sync": "sync"}
GENERATOR_WORDS = {
    "writing": "write tokens",
    "reading": "read prompts",
    "loading": "load new weights",
    "tail": "idle: others still write",
    "waiting": "idle: no slot, the trainer is behind",
}
TRAINER_WORDS = {
    "training": "train",
    "sending": "send weights",
    "evaluating": "evaluate",
    "waiting": "idle: no complete batch",
}


def parts_of(answer: Answer) -> list[RenderableType]:
    """The whole output, part by part."""
    parts: list[RenderableType] = [Text(title(answer), style="bold"), Text(_summary(answer.best)), Text("")]
    best = answer.best
    if answer.likeness is not None:
        parts += _headed("The run that the rates are from, and this plan", _measured(answer))
    if answer.splits is not None:
        parts += _headed("Splits", _splits(answer.splits.tried, answer.splits.best))
    if answer.modes:
        parts += _headed(
            "Modes" + (", each at its best split" if answer.splits else ""), _modes([m for m, _ in answer.modes])
        )
    parts += _headed("Where the time goes", _times(best))
    parts += _headed(
        f"Age of the trained tokens, in steps: {best.mean_age:.1f} on average, at most {best.max_age}", _ages(best)
    )
    if answer.bill is not None:
        parts += [Text(f"Budget: {bill_words(answer.bill)}"), Text("")]
    if answer.milestones:
        assert answer.fit is not None
        level = numbers.percent(answer.fit.level)
        parts += _headed(
            f"What the curve {numbers.name(answer.fit.name)} promises, with {level} interval", _curve(answer)
        )
    if answer.reached is not None:
        needed, message = answer.reached
        parts += [Text(f"Target: {message}" + ("" if needed is None else f": {bill_words(needed)}")), Text("")]
    parts.append(Text("\n".join(_assumptions(answer)), style="dim"))
    return [Printable(part) for part in parts]


def _headed(heading: str, table: Table) -> list[RenderableType]:
    return [Text(heading, style="bold"), Uncut(table), Text("")]


def title(answer: Answer) -> str:
    question, best = answer.question, answer.best
    what = f"{numbers.amount(question.model.parameters)} parameters on {best.devices:,} x {question.device.name}"
    if answer.likeness is not None:
        what = f"like a measured run, on {_devices(answer.likeness, best)}"
    batch = f"{question.prompts:,} x {question.rollouts} rollouts of {best.mean_length:,.0f} tokens"
    return f"Plan: {what}, {batch}, {mode_of(best)}"


def _devices(likeness: Likeness, best: Outcome) -> str:
    """Whether they are those of the run."""
    run = likeness.question
    if (best.generating, best.training) == (run.generating, run.training):
        return f"its own {best.devices:,} devices"
    return f"{best.devices:,} devices (the run had {run.generating:,}:{run.training:,})"


def mode_of(outcome: Outcome) -> str:
    name = MODES[outcome.kind]
    return name if outcome.k is None else f"{name}-{outcome.k}"


def bill_words(bill: Bill) -> str:
    cost = "" if bill.cost is None else f", cost {numbers.amount(bill.cost)}"
    return f"{bill.steps:,.0f} steps, {days(bill.days)}, {numbers.amount(bill.gpu_hours)} GPU-hours{cost}"


def days(amount: float) -> str:
    return f"{amount:,.1f} days" if amount >= 2 else f"{24 * amount:,.1f} hours"


def _summary(best: Outcome) -> str:
    size = f" of {best.gpus_per_generator} GPUs" if best.gpus_per_generator > 1 else ""
    return (
        f"{best.generating:,} generate ({best.generators:,} generators{size}, room for {best.rows} rows each), "
        f"{best.training:,} train: {seconds(best.step_s)} a step, {numbers.number(best.steps_per_hour)} steps an hour, "
        f"{numbers.number(best.gpu_hours_per_step)} GPU-hours a step, "
        f"{numbers.amount(best.tokens_per_s)} tokens a second, "
        f"{best.mean_rows:.0f} rows in flight in each generator"
    )


def seconds(amount: float) -> str:
    return f"{numbers.number(amount)} s"


class Uncut:
    """A table that runs beyond the edge of a narrow terminal: a number without its last digits is a wrong number."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = self.table.__rich_measure__(console, options.update(max_width=_WIDEST)).maximum
        yield from console.render(self.table, options.update(width=max(options.max_width, needed)))


def _table(columns: Sequence[str], left: int = 1) -> Table:
    """Narrow enough for 80 columns with all figures that occur."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left or not name else "right", no_wrap=True)
    return table


def _splits(tried: Sequence[Outcome], best: Outcome) -> Table:
    table = _table(
        [
            "gene-\nrate",
            "\ntrain",
            "\nstep",
            "steps\nan hour",
            "GPU-h\na step",
            "gen.\nidle",
            "",
            "train.\nidle",
            "",
            "",
        ],
        left=0,
    )
    for one in tried:
        is_best = one is best
        table.add_row(
            f"{one.generating:,}", f"{one.training:,}", seconds(one.step_s), numbers.number(one.steps_per_hour),
            numbers.number(one.gpu_hours_per_step), percent(one.generator_idle), bar(one.generator_idle, _SHORT_BAR),
            percent(one.trainer_idle), bar(one.trainer_idle, _SHORT_BAR), "best" if is_best else "",
            style="bold" if is_best else "",
        )  # fmt: skip
    return table


def _modes(outcomes: Sequence[Outcome]) -> Table:
    columns = [
        "\nmode",
        "\nsplit",
        "\nstep",
        "GPU-h\na step",
        "gen.\ntail",
        "gen.\nwaits",
        "train.\nwaits",
        "all\nidle",
        "mean\nage",
    ]
    table = _table(columns)
    for one in outcomes:
        table.add_row(
            mode_of(one), f"{one.generating:,}:{one.training:,}", seconds(one.step_s),
            numbers.number(one.gpu_hours_per_step), percent(one.generator["tail"]), percent(one.generator["waiting"]),
            percent(one.trainer_idle), percent(one.idle), f"{one.mean_age:.1f}",
        )  # fmt: skip
    return table


def _times(best: Outcome) -> Table:
    table = _table(["", "share", ""])
    for who, words, shares in (
        ("generators", GENERATOR_WORDS, best.generator),
        ("trainer", TRAINER_WORDS, best.trainer),
    ):
        for name, share in _present(shares):
            style = "yellow" if words[name].startswith("idle") else "cyan"
            table.add_row(f"{who} {words[name]}", percent(share), Text(bar(share), style=style))
    return table


def _present(shares: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """What happened at all; writing, training and waiting always."""
    always = {"writing", "training", "waiting"}
    return ((name, max(0.0, share)) for name, share in shares.items() if share > 0.0005 or name in always)


def _ages(best: Outcome) -> Table:
    table = _table(["age", "share", ""], left=0)
    for age, share in enumerate(best.ages):
        table.add_row(str(age), percent(share), Text(bar(share), style="cyan"))
    return table


def _measured(answer: Answer) -> Table:
    assert answer.likeness is not None
    measured, best = answer.likeness.measured, answer.best
    table = _table(["", "measured", "simulated"])
    pairs = {
        "seconds of a step": (numbers.number(measured.step_s), numbers.number(best.step_s)),
        "generator idle": (percent(measured.generator_idle), percent(best.generator_idle)),
        "trainer idle": (percent(measured.trainer_idle), percent(best.trainer_idle)),
        "mean age": (f"{measured.mean_age:.1f}", f"{best.mean_age:.1f}"),
    }
    for name, (was, now) in pairs.items():
        table.add_row(name, was, now)
    return table


def _curve(answer: Answer) -> Table:
    fit = answer.fit
    assert fit is not None
    unit, value_name = numbers.name(fit.compute_name, 12), numbers.name(fit.value_name, 12)
    table = _table(["\ndate", "\nsteps", "\nGPU-hours", "\ncost", f"curve's\n{unit}", f"\n{value_name}", "\ninterval"])
    for point in answer.milestones:
        value, interval = numbers.ranged(point.value, point.low, point.high)
        cost = "-" if point.bill.cost is None else numbers.amount(point.bill.cost)
        table.add_row(
            point.date.date().isoformat(), f"{point.bill.steps:,.0f}", numbers.amount(point.bill.gpu_hours), cost,
            numbers.amount(point.compute), value, interval,
        )  # fmt: skip
    return table


def _assumptions(answer: Answer) -> Iterator[str]:
    question, best = answer.question, answer.best
    if answer.likeness is not None:
        yield "Assumed: times, lengths and shares are those of the run; several devices divide the work evenly."
    else:
        yield f"Assumed (change with --set): {NOT_MEASURED}."
        yield f"  {question.device.name}: {question.device.source}."
        values = [f"{item.name} {getattr(question.assumptions, item.name):g}" for item in fields(question.assumptions)]
        values += [f"kv_bytes {question.model.kv_bytes:.6g}", f"attention_width {question.model.attention_width:.6g}"]
        yield f"  {', '.join(values)}."
    lengths = question.lengths
    cut = f"{percent(lengths.cut_share())} cut off or interrupted"
    yield (
        f"  Lengths: lognormal, spread {lengths.spread:.2g}, half of the variance between prompts, at most "
        f"{lengths.longest:,}, {cut}; prompts of {question.prompt_length:,}."
    )
    thinned = f", one rollout for {best.stands_for:.3g}" if best.stands_for > 1 else ""
    yield f"  Simulated: {best.steps} steps after a run-in{thinned}. Slots and ages by the rules of training."


def percent(share: float) -> str:
    return f"{abs(100 * share):.0f} %"


def bar(share: float, width: int = BAR) -> str:
    return "=" * round(width * min(1.0, share))
