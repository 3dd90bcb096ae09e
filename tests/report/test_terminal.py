"""What the terminal shows: piped, narrow, and in ASCII."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console, RenderableType

from scalerl.curves import Fit, fit, forecast, marginal_gains, reach
from scalerl.curves.results import Backtest, Comparison, Decision, Diagnostic, Estimate, WindowFit
from scalerl.report import render_backtest, render_comparison, render_decision, render_fit
from scalerl.report.chart import compute_ticks, value_ticks
from scalerl.report.plain import printable
from scalerl.series import Series

Show = Callable[..., str]


def everything(one: Fit, decision: Decision) -> RenderableType:
    return render_fit(
        one,
        forecasts=forecast(one, [20_000.0, 50_000.0]),
        decision=decision,
        targets=[reach(one, 0.5), reach(one, 0.99)],
        gains=marginal_gains(one, 2),
    )


def test_a_fit_says_everything(bent: Fit, decision: Decision, show: Show) -> None:
    text = show(everything(bent, decision))
    flat = " ".join(text.split())
    assert "sigmoid on 24 points, 164 to 7.31k GPU-hours, 3 held out" in flat
    for name in ("floor", "ceiling", "exponent", "midpoint"):
        assert re.search(rf"^ *{name} +\d", text, re.MULTILINE), name
    assert re.search(r"50k +6.84 +0\.6\d* +\[0\.", text)
    assert "What each further doubling adds" in text
    assert re.search(r"14\.6k +[+-]0\.0", text)
    assert re.search(r"0\.990 +more likely never", text)
    assert "NEED MORE DATA" in text
    assert "0.43" in text
    assert "Extra compute expected to settle it: 1.3k GPU-hours" in text
    assert "GPU-hours, log scale" in text
    assert "80 % interval" in text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_it_fits_the_width(bent: Fit, decision: Decision, show: Show, width: int) -> None:
    lines = show(everything(bent, decision), width).splitlines()
    assert max(len(line) for line in lines) <= width
    assert sum("●" in line for line in lines) > 5  # the chart is there


def test_a_pipe_gets_no_colour(bent: Fit, decision: Decision, show: Show) -> None:
    assert "\x1b" not in show(everything(bent, decision))


def test_a_terminal_gets_the_colour_of_the_action(decision: Decision) -> None:
    seen = {}
    for action in ("SCALE", "STOP", "NEED MORE DATA", "UNSTABLE"):
        stream = io.StringIO()
        Console(file=stream, force_terminal=True, color_system="standard", width=80).print(
            render_decision(replace(decision, action=action))
        )
        seen[action] = re.findall(r"\x1b\[([\d;]+)m", stream.getvalue())[0]
    assert len(set(seen.values())) == 4


def test_ascii_where_there_is_nothing_else(bent: Fit, decision: Decision, show: Show) -> None:
    text = show(everything(replaced(bent, name="größe"), decision), encoding="ascii")
    assert "gr??e" in text
    assert sum("*" in line for line in text.splitlines()) > 5
    assert "R2 0.99" in text


def replaced(one: Fit, **changes: object) -> Fit:
    made = replace(one, **changes)  # type: ignore[arg-type]
    made.__dict__["posterior"] = one.posterior
    return made


def test_characters_are_swapped_cell_for_cell() -> None:
    assert printable("a\u2013b²日", "ascii") == "a-b2??"
    assert printable("größe", "latin-1") == "größe"
    assert printable("é", "no-such-encoding") == "?"


def test_an_unidentified_ceiling_is_unknown(straight: Fit, show: Show) -> None:
    text = show(render_fit(straight))
    assert re.search(r"ceiling +unknown +\[", text)
    assert "not identified yet" in text
    assert "! " in text
    assert "╌" not in text


def test_the_papers_procedure_has_no_intervals(bent: Fit, show: Show) -> None:
    bare = {name: Estimate(estimate.value) for name, estimate in bent.parameters.items()}
    one = replaced(bent, method="paper", parameters=bare)
    text = show(render_fit(one, forecasts=forecast(one, [40_000.0]), gains=marginal_gains(one, 1)))
    assert re.search(r"ceiling +0\.\d+ +unknown", text)
    assert re.search(r"40k +5.47 +0\.\d+ +unknown", text)
    assert re.search(r"14\.6k +\+0\.\d+ +unknown", text)
    assert "░" not in text


def test_other_laws(show: Show) -> None:
    series = Series.of(np.arange(1, 12), np.linspace(0.1, 0.5, 11), value_name="reward")
    text = show(render_fit(fit(series, law="loglinear")))
    assert "slope" in text
    assert "intercept" in text
    assert "ceiling" not in text


def test_warnings_are_shown_in_words(bent: Fit, show: Show) -> None:
    told = replaced(
        bent,
        diagnostics=(Diagnostic("window_sensitive", "the ceiling moves with the window"),),
        windows=(WindowFit(150.0, 4_000.0, 20, 0.58, 1.9, 700.0),),
    )
    text = show(render_fit(told))
    assert "! the ceiling moves with the window" in text
    assert re.search(r"150 +4k +20 +0\.580 +1\.90 +700", text)
    assert "No warnings" in show(render_fit(replaced(bent, diagnostics=())))


def test_a_name_is_never_markup_or_an_escape_code(bent: Fit, decision: Decision, show: Show) -> None:
    text = show(render_decision(decision, replaced(bent, name="[red]run[/] \x1b[31m")))
    assert "[red]run[/]" in text
    assert "\x1b" not in text


def test_unknowns_of_a_decision(decision: Decision, show: Show) -> None:
    text = show(render_decision(replace(decision, probability=None, expected_gain=None, extra_compute=None)))
    assert "20k): unknown" in text
    assert "expected gain unknown" in text
    assert "settle it: none in sight" in text


def test_a_comparison(comparison: Comparison, pair_of_fits: list[Fit], show: Show) -> None:
    text = show(render_comparison(comparison, pair_of_fits))
    flat = " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "base (reference)" in flat
    assert "-0.070" in flat
    assert "[-0.090, -0.050]" in flat
    assert "x 2.0" in flat
    assert "[1.5, 2.5]" in flat
    assert "worse: moves the ceiling, in favour of runs/base" in flat
    assert "P(ceiling higher) <0.01, P(equal) 0.02, P(lower) 0.98" in flat
    assert "the paper's rule: base has the higher ceiling" in flat
    assert "runs/worse, now behind, gets ahead at 50k [40k, 60k] GPU-hours" in flat
    assert "caution: one seed each" in flat


def test_a_backtest(backtest: Backtest, show: Show) -> None:
    text = show(render_backtest(backtest))
    flat = " ".join(text.split())
    assert re.search(r"good +0\.010 +0\.010 +100 % +0\.100 +0\.010 +0\.100", text)
    assert re.search(r"bad +0\.100 +0\.100 +0 % +0\.040 +0\.090 +0\.840", text)
    assert re.search(r"bare +0\.040 +0\.040 +- +- +- +-", text)
    assert "Smallest mean error: good (0.0100)" in flat
    assert "too narrow: bad (0 %)" in flat
    assert "too wide: good (100 %)" in flat
    assert "unknown: bare (unknown)" in flat
    assert "no scores" in show(render_backtest(Backtest(0.8, ())))


def test_ticks_are_round_and_inside() -> None:
    assert [label for _, label in compute_ticks(1_300, 110_000)] == ["2k", "5k", "10k", "20k", "50k", "100k"]
    assert [label for _, label in compute_ticks(1e18, 1e23)] == ["1e18", "1e19", "1e20", "1e21", "1e22", "1e23"]
    assert len(compute_ticks(1_010, 1_090)) >= 3
    assert [label for _, label in value_ticks(0.38, 0.66, 5)] == ["0.40", "0.45", "0.50", "0.55", "0.60", "0.65"]
    assert [label for _, label in value_ticks(-0.12, 0.11, 4)] == ["-0.10", "-0.05", "0.00", "0.05", "0.10"]
