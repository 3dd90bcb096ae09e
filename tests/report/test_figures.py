"""The matplotlib pictures: what is on them, and that they are good files."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from scalerl.curves import Fit, fit
from scalerl.curves.results import Backtest
from scalerl.errors import InputError
from scalerl.report import backtest_figure, comparison_figure, fits_figure, plot_backtest, plot_comparison, plot_fits
from scalerl.report.drawing import spread
from scalerl.series import Series


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def renamed(one: Fit, name: str) -> Fit:
    made = replace(one, name=name)
    made.__dict__["posterior"] = one.posterior  # spares drawing it again
    return made


def markers(axes: Axes, marker: str) -> int:
    return sum(np.size(line.get_xdata()) for line in axes.lines if line.get_marker() == marker)


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("html", b"<!DOC")]
)
def test_the_suffix_chooses_the_format(bent: Fit, tmp_path: Path, suffix: str, magic: bytes) -> None:
    path = plot_fits([bent], tmp_path / "new" / f"picture.{suffix}", budgets=[50_000.0], target=0.6)
    assert path.read_bytes().startswith(magic)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "html"])
def test_the_same_input_gives_the_same_bytes(bent: Fit, tmp_path: Path, suffix: str) -> None:
    first = plot_fits([bent], tmp_path / f"a.{suffix}", budgets=[50_000.0]).read_bytes()
    assert plot_fits([bent], tmp_path / f"b.{suffix}", budgets=[50_000.0]).read_bytes() == first


def test_one_curve_says_everything(bent: Fit) -> None:
    figure = fits_figure([bent], budgets=[50_000.0], target=0.9)
    text = words(figure)
    assert bent.ceiling is not None
    assert "bent: sigmoid on" in text
    assert "GPU-hours, log scale" in text
    assert "pass rate" in text
    assert "80 % interval" in text
    assert "ceiling 0.6" in text
    assert "not identified" not in text
    assert "50k: 0.6" in text
    assert "fit ends at 7.31k" in text
    assert "floor 0.300" in text
    assert "target 0.900: more likely never reached" in text
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert markers(axes, "o") == 30 - markers(axes, "D") + 1  # and one for the budget
    assert markers(axes, "D") == sum(len(series) for series in bent.held_out)


def test_held_out_points_are_hollow(bent: Fit) -> None:
    (axes,) = fits_figure([bent]).axes
    faces = {line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "D"}
    assert faces == {"white"}


def test_an_unidentified_ceiling_is_words(straight: Fit) -> None:
    text = words(fits_figure([straight]))
    assert "ceiling not identified yet" in text
    assert "ceiling and its" not in text


def test_a_law_without_a_ceiling_says_nothing_of_it() -> None:
    flat = fit(Series.of(np.arange(1, 12), np.linspace(0.1, 0.5, 11)), law="loglinear")
    assert "ceiling" not in words(fits_figure([flat]))


def test_the_linear_axis_starts_at_zero(bent: Fit) -> None:
    (axes,) = fits_figure([bent], scale="linear").axes
    assert axes.get_xscale() == "linear"
    assert axes.get_xlim()[0] == 0


def test_several_curves_are_named_directly(pair_of_fits: list[Fit]) -> None:
    figure = fits_figure(pair_of_fits, budgets=[50_000.0])
    text = words(figure)
    assert "\nbase\n0.6" in text
    assert "\nworse\n0.5" in text
    assert "budget 50k" in text
    (axes,) = figure.axes
    colours = {line.get_color() for line in axes.lines if line.get_linestyle() == "--"}
    assert len(colours) == 2


def test_past_eight_curves_bands_are_left_out_and_the_legend_says_so(bent: Fit) -> None:
    figure = fits_figure([renamed(bent, f"run {index}") for index in range(9)])
    assert "no intervals drawn for more than 8 curves" in words(figure)
    assert not figure.axes[0].collections
    assert len({label.get_position() for label in figure.axes[0].texts}) == 9


ODD_NAMES = ["$a_b$ $", "\\frac", "_hidden", "日本語", "a\nb\x1b[31m", "x" * 300, ""]


def test_any_name_is_just_a_name(bent: Fit, tmp_path: Path) -> None:
    odd = [renamed(bent, name) for name in ODD_NAMES]
    figure = fits_figure(odd)
    assert {"$a_b$ $", "\\frac", "_hidden", "日本語", "a b [31m", "(no name)"} <= set(words(figure).split("\n"))
    assert not any(text.get_parse_math() for text in figure.axes[0].texts)
    assert plot_fits(odd, tmp_path / "odd.svg", title="$\\frac").stat().st_size > 10_000
    assert plot_fits(odd[:1], tmp_path / "odd.png").stat().st_size > 10_000


def test_fifty_thousand_points_are_thinned_for_drawing(tmp_path: Path) -> None:
    compute = np.geomspace(10, 1e5, 50_000)
    many = fit(Series.of(compute, 0.5 + 0.01 * np.sin(compute)), law="flat")
    path = plot_fits([many], tmp_path / "many.svg")
    assert path.stat().st_size < 2_000_000
    assert "of 50,000 drawn" in words(fits_figure([many]))


def test_an_unknown_format_leaves_nothing(bent: Fit, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="png, svg, pdf, html"):
        plot_fits([bent], tmp_path / "new" / "picture.bmp")
    assert list(tmp_path.iterdir()) == []


def test_nothing_of_the_callers_matplotlib_changes(bent: Fit, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    plot_fits([bent], tmp_path / "picture.png")
    assert dict(mpl.rcParams) == before


def test_importing_the_report_loads_no_plotting_package() -> None:
    code = (
        "import sys, scalerl.report, scalerl.report.figures, scalerl.report.page, scalerl.report.terminal\n"
        "print([m for m in ('matplotlib', 'plotly') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_drawing_never_touches_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np; from pathlib import Path\n"
        "from scalerl import Series, fit; from scalerl.report import plot_fits\n"
        "one = fit(Series.of(np.arange(1, 12), np.linspace(.1, .5, 11)), law='flat')\n"
        f"plot_fits([one], Path({str(tmp_path)!r}) / 'a.png')\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_comparison_has_the_papers_panel(pair_of_fits: list[Fit], tmp_path: Path) -> None:
    figure = comparison_figure(pair_of_fits)
    curves, panel = figure.axes
    assert curves.get_yscale() == "linear"
    assert panel.get_xscale() == panel.get_yscale() == "log"
    assert "each with its own ceiling" in panel.get_title(loc="left")
    for one, line in zip(pair_of_fits, [line for line in panel.lines if line.get_linestyle() == "-"], strict=True):
        x, y = np.log(np.asarray(line.get_xdata())), np.log(np.asarray(line.get_ydata()))
        assert one.exponent is not None
        assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(one.exponent.value)
    assert plot_comparison(pair_of_fits, tmp_path / "c.pdf").read_bytes().startswith(b"%PDF")


def test_equal_ceilings_share_one_in_the_papers_panel(bent: Fit) -> None:
    assert "common ceiling 0.6" in comparison_figure([bent, renamed(bent, "twin")]).axes[1].get_title(loc="left")


def test_a_backtest_has_a_panel_for_each_method(backtest: Backtest, tmp_path: Path) -> None:
    figure = backtest_figure(backtest)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["good\nfrom 30 %: holds 100 %", "bad\nfrom 30 %: holds 0 %", "bare\nfrom 30 %: holds unknown"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_xlim()
    assert plot_backtest(backtest, tmp_path / "b.png").stat().st_size > 10_000
    with pytest.raises(InputError, match="allowed: png, svg, pdf"):
        plot_backtest(backtest, tmp_path / "b.html")
    with pytest.raises(InputError, match="nothing to plot"):
        backtest_figure(Backtest(0.8, ()))


def test_an_absurd_forecast_stays_at_the_edge(backtest: Backtest) -> None:
    wild = replace(backtest.scores[0], value=1e8, low=-1e8, high=2e8)
    (axes, *_) = backtest_figure(Backtest(0.8, (wild, *backtest.scores))).axes
    assert axes.get_ylim()[1] < 2
    assert markers(axes, "^") == 1


def test_labels_are_spread_without_changing_their_order() -> None:
    places = spread(np.array([0.5, 0.51, 0.1, 0.505]), 0.1, 0.0, 1.0)
    assert np.diff(np.sort(places)).min() >= 0.1 - 1e-12
    assert np.argsort(places).tolist() == [2, 0, 3, 1]
    crowded = spread(np.full(50, 0.99), 0.1, 0.0, 1.0)
    assert crowded.min() >= -1e-9
    assert crowded.max() <= 1.0
