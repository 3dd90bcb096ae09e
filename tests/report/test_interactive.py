"""The page: self-contained, deaf to markup in names, and without a way out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalerl.curves import Fit
from scalerl.errors import InputError
from scalerl.report import write_html

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script> %{x}"


def drawn(page: str) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """Traces, layout and config, as the page's own script receives them."""
    start = page.index("Plotly.newPlot(") + len("Plotly.newPlot(")
    values, decoder = [], json.JSONDecoder()
    for _ in range(4):
        start += len(page[start:]) - len(page[start:].lstrip(" ,\n"))
        value, start = decoder.raw_decode(page, start)
        values.append(value)
    return values[1], values[2], values[3]


def test_the_page_needs_nothing_else(bent: Fit, tmp_path: Path) -> None:
    page = write_html([bent], tmp_path / "a.html", budgets=[50_000.0], target=0.6).read_text()
    assert len(page) > 1_000_000  # plotly itself is inside
    assert not re.search(r"<(script|link|img|iframe)[^>]*\s(src|href)=", page.split("Plotly.newPlot(")[1])
    assert not re.search(r"<script[^>]*\ssrc=", page)
    assert "default-src 'none'" in page


def test_it_shows_what_the_picture_shows(bent: Fit, tmp_path: Path) -> None:
    traces, layout, config = drawn(write_html([bent], tmp_path / "a.html", budgets=[50_000.0], target=0.6).read_text())
    names = [trace["name"] for trace in traces]
    held_out = sum(len(series) for series in bent.held_out)
    assert f"held out ({held_out})" in names
    assert {"80 % interval", "fitted sigmoid", "forecast (median)", "target 0.600"} <= set(names)
    assert any(name.startswith("budget 50k: 0.6") for name in names)
    assert any(name.startswith("ceiling 0.6") for name in names)
    median = traces[names.index("forecast (median)")]
    assert "80 % interval [0." in median["customdata"][0]
    assert [button["args"][0]["xaxis.type"] for button in layout["updatemenus"][0]["buttons"]] == ["log", "linear"]
    assert config["showSendToCloud"] is False


def test_an_unidentified_ceiling_is_words(straight: Fit, tmp_path: Path) -> None:
    traces, layout, _ = drawn(write_html([straight], tmp_path / "a.html").read_text())
    assert layout["annotations"][0]["text"] == "ceiling not identified yet"
    assert not any(trace["name"].startswith("ceiling") for trace in traces)


def test_a_name_is_never_markup(bent: Fit, tmp_path: Path) -> None:
    odd = replace(bent, name=EVIL)
    odd.__dict__["posterior"] = bent.posterior
    page = write_html([odd, bent], tmp_path / "a.html", title=EVIL, target=0.6).read_text()
    assert "<img src=x" not in page
    assert "<script>alert" not in page
    traces, layout, _ = drawn(page)
    shown = [
        layout["title"]["text"],
        *(t["name"] for t in traces),
        *(w for t in traces for w in t.get("customdata", [])),
    ]
    assert any("&lt;img" in text for text in shown)
    assert not any("<img" in text or "<script" in text for text in shown)


def test_one_click_hides_a_whole_curve(pair_of_fits: list[Fit], tmp_path: Path) -> None:
    traces, layout, _ = drawn(write_html(pair_of_fits, tmp_path / "a.html").read_text())
    assert [trace["name"] for trace in traces if trace.get("showlegend", True)] == ["base", "worse"]
    assert {trace["legendgroup"] for trace in traces if trace["name"] == "base"} == {"0"}
    assert layout["legend"]["groupclick"] == "togglegroup"


def test_only_html(bent: Fit, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="html"):
        write_html([bent], tmp_path / "a.png")
