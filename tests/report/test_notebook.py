"""What a notebook shows: tables, inline charts, figures; nothing that could run."""

from __future__ import annotations

import html.parser
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from scalerl.curves import Fit, fit
from scalerl.curves.results import Comparison
from scalerl.display import Displayed
from scalerl.errors import InputError
from scalerl.series import Series

from .conftest import rising

EVIL = "<img src=x onerror=alert(1)>"


class Tags(html.parser.HTMLParser):
    """Every tag, and every attribute name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(thing: Displayed) -> Tags:
    return Tags(thing._repr_html_())


def chart(thing: Displayed) -> ET.Element:
    text = thing._repr_html_()
    return ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])


def test_a_series_shows_its_points_and_ranges() -> None:
    page = shown(rising("curve one"))
    assert "curve one" in page.words
    assert {"points", "30", "100 to 12k", "before training"} <= set(page.words)
    assert len(list(chart(rising()).iter("circle"))) == 30


def test_a_fit_shows_its_parameters_its_ceiling_and_the_forecast(bent: Fit) -> None:
    page = shown(bent)
    assert {"ceiling", "exponent", "midpoint", "floor"} <= set(page.words)
    assert any(word.startswith("ceiling 0.6") for word in page.words)
    dashes = [line.get("stroke-dasharray") for line in chart(bent).iter("polyline")]
    assert None in dashes
    assert "5 4" in dashes
    assert len(list(chart(bent).iter("polygon"))) == 1


def test_a_ceiling_that_may_not_be_quoted_is_not_drawn(straight: Fit) -> None:
    assert not any(text.startswith("ceiling ") for text in chart(straight).itertext())
    assert "not identified yet: do not quote it" in shown(straight).words


def test_a_comparison_shows_verdicts_and_cautions(comparison: Comparison) -> None:
    page = shown(comparison)
    assert {"worse", "-0.070 [-0.090, -0.050]", "worse: one seed each"} <= set(page.words)
    assert any("moves the ceiling, in favour of base" in word for word in page.words)


def test_names_are_text_and_nothing_runs(pair_of_fits: list[Fit], comparison: Comparison) -> None:
    series = rising(EVIL)
    named = fit(series)
    for page in (shown(series), shown(named)):
        assert "img" not in page.tags
        assert "script" not in page.tags
        assert not {name for name in page.attributes if name.startswith("on")}
        assert any(EVIL in word for word in page.words)


def test_an_empty_series_shows_itself_too() -> None:
    page = shown(Series.of([], [], name="nothing yet"))
    assert "nothing yet" in page.words
    assert "svg" not in page.tags


def test_plot_gives_a_figure_and_writes_it(bent: Fit, comparison: Comparison, tmp_path: Path) -> None:
    for name, thing in (("series", rising()), ("fit", bent), ("comparison", comparison)):
        figure = thing.plot(tmp_path / f"{name}.png")
        assert isinstance(figure, Figure)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_plot_takes_the_options_of_the_figures(pair_of_fits: list[Fit], comparison: Comparison) -> None:
    titled = pair_of_fits[0].plot(budgets=[50_000.0], title="my title")
    assert titled.axes[0].get_title(loc="left") == "my title"
    assert len(comparison.plot(fits=pair_of_fits).axes) == 2
    with pytest.raises(InputError, match=r"unknown picture format: got '\.gif'"):
        rising().plot("x.gif")


def test_ipython_finds_it(bent: Fit) -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    assert "<svg" in formatters.HTMLFormatter()(bent)


def test_the_engine_alone_loads_no_report() -> None:
    """The report is looked up when somebody asks to see something."""
    code = (
        "import sys, scalerl.curves; print([m for m in sys.modules if m.startswith(('scalerl.report', 'matplotlib'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
