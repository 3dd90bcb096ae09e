"""The page as a file: self-contained, deaf to markup in names, and without a way out. What it does: tests/browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from scalerl.curves import Fit
from scalerl.errors import InputError
from scalerl.report import write_html
from scalerl.report.page import SCRIPTS, live_page
from scalerl.report.plotly_script import core_only, eager, plotly_script

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script> {{script}} %{x}"


class Parts(HTMLParser):
    """The elements of a page as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        """Of each element with an id, and of the title."""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        self.text[self._inside] = self.text.get(self._inside, "") + data


def document_of(page: str) -> Any:
    return json.loads(Parts(page).text["document"])


def test_the_page_needs_nothing_else(bent: Fit, tmp_path: Path) -> None:
    page = write_html([bent], tmp_path / "a.html", budgets=[50_000.0], target=0.6).read_text()
    parts = Parts(page)
    assert not [attributes for _, attributes in parts.tags if attributes.get("src")]
    assert [attributes["href"] for _, attributes in parts.tags if "href" in attributes] == ["data:,", "#main"]
    (policy,) = (attributes["content"] for _, attributes in parts.tags if "http-equiv" in attributes)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "{{" not in page.replace("{{script}}", "")
    unpacked = gzip.decompress(base64.b64decode(parts.text["plotly"])).decode()
    assert "plotly.js v" in unpacked[:200]


def test_its_document_says_what_was_asked(bent: Fit, tmp_path: Path) -> None:
    page = write_html([bent], tmp_path / "a.html", budgets=[50_000.0], target=0.6).read_text()
    (run,) = document_of(page)["runs"]
    (unit,) = run["units"]
    assert unit["budget"] == 50_000.0 == unit["fit"]["decision"]["budget"]
    assert unit["fit"]["targets"][0]["target"] == 0.6
    assert unit["key"] == "gpu_hours"


def test_several_fits_are_compared(pair_of_fits: list[Fit], tmp_path: Path) -> None:
    found = document_of(write_html(pair_of_fits, tmp_path / "a.html").read_text())
    assert found["comparison"]["gpu_hours"]["ranking"] == ["runs/base", "runs/worse"]
    assert len({run["id"] for run in found["runs"]}) == 2


def test_a_name_is_never_markup(bent: Fit, tmp_path: Path) -> None:
    odd = replace(bent, name=EVIL)
    odd.__dict__["posterior"] = bent.posterior
    page = write_html([odd, bent], tmp_path / "a.html", title=EVIL, target=0.6).read_text()
    assert "<img" not in page
    assert "alert(2)</script>" not in page
    parts = Parts(page)
    assert parts.text["title"].startswith("<img src=x")  # as text, after the parser has undone the escaping
    document = json.loads(parts.text["document"])
    assert document["runs"][0]["name"] == EVIL
    assert document["title"] == EVIL
    assert [tag for tag, _ in parts.tags].count("script") == 4


def test_the_same_fits_give_the_same_page(bent: Fit, tmp_path: Path) -> None:
    pages = [write_html([bent], tmp_path / name).read_text() for name in ("a.html", "b.html")]
    assert len({re.sub(r'"created":"[^"]*"', "", page) for page in pages}) == 1


def test_the_live_page_asks_only_its_own_server() -> None:
    parts = Parts(live_page("watching"))
    (policy,) = (attributes["content"] for _, attributes in parts.tags if "http-equiv" in attributes)
    assert policy is not None
    assert policy.endswith("connect-src 'self'")
    assert ("body", {"data-live": "events"}) in parts.tags
    assert parts.text["document"].strip() == "null"
    assert parts.text["title"].strip() == "watching"


def test_every_script_is_in_the_page() -> None:
    folder = Path(__file__).parents[2] / "src" / "scalerl" / "report" / "templates"
    assert {file.stem for file in folder.glob("*.js")} >= {*SCRIPTS, "live"}
    for file in folder.glob("*.js"):
        assert "innerHTML" not in file.read_text()
        assert "</script" not in file.read_text()


def test_plotly_starts_only_what_is_drawn() -> None:
    """If this fails after an update of plotly, pages still work but open more slowly: look at the end of its bundle."""
    from importlib.resources import files

    whole = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    assert 100 < len(whole) - len(core_only(whole)) < 2_000
    assert len(eager(whole)) - len(whole) == 3
    assert plotly_script() == eager(core_only(whole))
    assert eager(core_only("something else")) == "something else"


def test_only_html(bent: Fit, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="html"):
        write_html([bent], tmp_path / "a.png")
