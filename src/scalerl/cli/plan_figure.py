"""The picture of a plan: time of a step against the split, shares of time, and who did what when.

Called by `plan` for `--plot`: png, svg, pdf, or a page with the same picture and the numbers behind it. matplotlib is
imported inside functions; canvas and file are those of the reports.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scalerl.cli.plan_view import GENERATOR_WORDS, NOT_MEASURED, TRAINER_WORDS, mode_of, title
from scalerl.report import output, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scalerl.cli.plan import Answer
    from scalerl.plan import Outcome
    from scalerl.plan.splits import Splits

COLOURS = {
    "writing": palette.BLUE,
    "training": palette.BLUE,
    "reading": palette.SKY,
    "loading": palette.GREEN,
    "sending": palette.GREEN,
    "evaluating": palette.PURPLE,
    "tail": palette.ORANGE,
    "waiting": palette.VERMILLION,
}
_WORDS = {
    "writing": "writing tokens / training",
    "reading": "reading prompts",
    "loading": "moving weights",
    "evaluating": "evaluating",
    "tail": "idle: others still write",
    "waiting": "idle: waiting for the other side",
}


def plot_plan(answer: Answer, path: Path) -> Path:
    """By the suffix."""
    from scalerl.report.figures import save, svg_of

    if output.format_of(path) != "html":
        return save(plan_figure(answer), path)
    return output.write(path, _page(answer, svg_of(plan_figure(answer))).encode())


def plan_figure(answer: Answer) -> Figure:
    """Splits and shares above, a timeline for each mode below."""
    from matplotlib.figure import Figure

    shown = [one for one, _ in answer.modes] or [answer.best]
    searched = [splits for _, splits in answer.modes] or [answer.splits]
    known = [splits for splits in searched if splits is not None]
    figure = Figure(figsize=(11, 3.6 + 2.1 * len(shown)), dpi=150, layout="constrained", facecolor="white")
    figure.suptitle(title(answer), x=0.01, ha="left", fontsize=11, parse_math=False)
    above, below = figure.subfigures(2, 1, height_ratios=[3.4, 2.0 * len(shown)], squeeze=False)[:, 0].tolist()
    if known:
        left, right = above.subplots(1, 2, width_ratios=(1, 1.35))
        _draw_splits(left, known)
    else:
        right = above.subplots()
    _draw_shares(right, shown)
    for axes, one in zip(below.subplots(len(shown), 1, squeeze=False)[:, 0], shown, strict=True):
        _draw_timeline(axes, one)
    _legend(figure)
    return figure


def _draw_splits(axes: Axes, searched: Sequence[Splits]) -> None:
    for index, splits in enumerate(searched):
        x = [100 * one.training / one.devices for one in splits.tried]
        colour = palette.colour(index)
        label = mode_of(splits.best)
        axes.plot(x, [one.steps_per_hour for one in splits.tried], "o-", color=colour, markersize=4, label=label)
        best = splits.best
        axes.plot([100 * best.training / best.devices], [best.steps_per_hour], "*", color=colour, markersize=13)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("GPUs that train, %")
    axes.set_ylabel("steps an hour")
    axes.set_title("Throughput against the split (star: best)", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    _tidy(axes)


def _draw_shares(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    both = [(one, "generators", one.generator) for one in outcomes] + [
        (one, "trainer", one.trainer) for one in outcomes
    ]
    rows = [(f"{mode_of(one)}\n{who}", shares) for one, who, shares in both]
    for row, (_, shares) in enumerate(rows):
        left = 0.0
        for kind, share in shares.items():
            axes.barh(row, 100 * max(share, 0.0), left=left, color=COLOURS[kind], height=0.7)
            if share > 0.07:
                axes.text(
                    left + 50 * share, row, f"{100 * share:.0f}", ha="center", va="center", color="white", fontsize=8
                )
            left += 100 * max(share, 0.0)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=8)
    axes.set_xlim(0, 100)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("share of the time, %")
    axes.set_title("Where the time goes", loc="left", fontsize=10)
    _tidy(axes)


def _draw_timeline(axes: Axes, outcome: Outcome) -> None:
    intervals = outcome.intervals
    end = max(one.end_s for one in intervals)
    start = end - min(end - min(one.start_s for one in intervals), _span(outcome))
    shown = sorted({one.generator for one in intervals if one.generator is not None})
    rows = min(outcome.generators, max(len(shown), 1))
    for row in range(rows):
        axes.barh(row, end - start, left=0, color=COLOURS["writing"], height=0.8)
    for one in intervals:
        row = rows if one.generator is None else one.generator
        first, last = max(one.start_s, start), min(one.end_s, end)
        if last > first and row <= rows:
            axes.barh(row, last - first, left=first - start, color=COLOURS[one.kind], height=0.8)
    names = [f"generator {row + 1}" if row in (0, rows - 1) else "" for row in range(rows)]
    axes.set_yticks(range(rows + 1), [*names, "trainer"], fontsize=8)
    axes.set_ylim(rows + 0.6, -0.6)
    axes.set_xlim(0, end - start)
    axes.set_xlabel("seconds")
    some = f", {rows} of {outcome.generators:,} generators" if rows < outcome.generators else ""
    split = f"{outcome.generating:,} generate, {outcome.training:,} train"
    axes.set_title(f"{mode_of(outcome)}: {split}, {outcome.step_s:.3g} s a step{some}", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def _span(outcome: Outcome) -> float:
    """Two rounds and a bit."""
    stride = outcome.k if outcome.kind == "ppo_off_policy" and outcome.k else 1
    return max(4.0, 2.1 * stride) * outcome.step_s


def _legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=COLOURS[kind], label=words) for kind, words in _WORDS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)


def _tidy(axes: Axes) -> None:
    axes.grid(visible=True, color="#ECECEC", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def _page(answer: Answer, picture: str) -> str:
    """One file without scripts."""
    outcomes = [one for one, _ in answer.modes] or [answer.best]
    lines = "".join(f"<tr><td>{html.escape(name)}</td>{cells}</tr>" for name, cells in _cells(outcomes))
    heads = "".join(f"<th>{html.escape(mode_of(one))}</th>" for one in outcomes)
    words = html.escape(title(answer))
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#222}"
        "svg{max-width:100%;height:auto}table{border-collapse:collapse}"
        "td,th{padding:.2rem .9rem;border-bottom:1px solid #ddd;text-align:right}td:first-child{text-align:left}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{words}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{style}</style></head><body><h1>{words}</h1>'
        f"<table><tr><td></td>{heads}</tr>{lines}</table>{picture}"
        f"<p>{html.escape(NOT_MEASURED[0].upper() + NOT_MEASURED[1:])}.</p></body></html>\n"
    )


def _cells(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    figures: dict[str, list[str]] = {
        "split": [f"{one.generating:,}:{one.training:,}" for one in outcomes],
        "seconds of a step": [f"{one.step_s:.3g}" for one in outcomes],
        "GPU-hours of a step": [f"{one.gpu_hours_per_step:.3g}" for one in outcomes],
        **{f"generators: {words}": [f"{100 * one.generator[key]:.1f} %" for one in outcomes]
           for key, words in GENERATOR_WORDS.items()},
        **{f"trainer: {words}": [f"{100 * one.trainer[key]:.1f} %" for one in outcomes]
           for key, words in TRAINER_WORDS.items()},
        "mean age": [f"{one.mean_age:.1f}" for one in outcomes],
    }  # fmt: skip
    return [(name, "".join(f"<td>{html.escape(value)}</td>" for value in values)) for name, values in figures.items()]
