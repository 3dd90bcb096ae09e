"""Texts from strangers on the pages: always text, whatever they hold; and the policy behind the escaping."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import curve
from tests.study.simulated import curves_of_study, folder_of

from scalerl.cli import main
from scalerl.report.notebook import html_of
from scalerl.report.page import live_page
from scalerl.report.study_page import study_page
from scalerl.series import Series
from scalerl.study.gather import gather
from scalerl.study.results import results_document

EVIL = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>",
    "' onmouseover='alert(1)' x='",
    '" autofocus onfocus="alert(1)',
    "<!--<script>",
    "javascript:alert(1)",
    "<a href='javascript:alert(1)'>x</a>",
    "{{script}}{{document}}",
    "&lt;b&gt; &#x3c;script&#x3e;",
    "\u2028\u2029</style><b>",
    "]]><b>",
]


class Structure(HTMLParser):
    """Elements and the names of their attributes, as a browser would find them, and the values that could be code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.code: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.code += [(name, value or "") for name, value in attrs if name.startswith("on") or name in {"href", "src"}]


def table(path: Path, name: str) -> Path:
    """Two curves, the second with this name."""
    rows = ["run,gpu_hours,pass_rate"]
    for who, ceiling in (("plain", 0.7), (name, 0.5)):
        quoted = '"' + who.replace('"', '""') + '"'
        rows += [f"{quoted},{c},{v}" for c, v in zip(*curve(ceiling, 600, 1, points=12), strict=True)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def report(folder: Path, name: str) -> str:
    out = folder / "page.html"
    assert main(["report", str(table(folder / "runs.csv", name)), "--by", "run", "-o", str(out), "--title", name]) == 0
    return out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def evil_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return report(tmp_path_factory.mktemp("evil"), "".join(EVIL))


def test_every_name_is_text_on_the_page_of_a_report(tmp_path: Path, evil_page: str) -> None:
    plain, found = Structure(report(tmp_path, "harmless")), Structure(evil_page)
    assert found.tags == plain.tags
    assert found.code == plain.code == [("href", "data:,"), ("href", "#main")]


def test_the_data_of_a_page_ends_where_it_should(evil_page: str) -> None:
    (data,) = re.findall(r'<script type="application/json" id="document">(.*?)</script>', evil_page, re.DOTALL)
    assert "<" not in data
    assert any(run["name"].startswith("<script>") for run in json.loads(data)["runs"])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = folder_of(tmp_path_factory.mktemp("study") / "one", curves_of_study(("base", "worse"), (0, 1)))
    return results_document(gather(folder))


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


@pytest.mark.parametrize("evil", EVIL)
def test_every_text_of_a_published_study_is_text(results: Any, evil: str) -> None:
    """All of them at once: a results.json may come from anybody."""
    plain = Structure(study_page(mapped(results, lambda text: f"{text} {'h' * len(evil)}")))
    found = Structure(study_page(mapped(results, lambda text: f"{text} {evil}")))
    assert found.tags == plain.tags
    assert found.code == plain.code


@pytest.mark.parametrize("evil", EVIL)
def test_a_notebook_shows_names_as_text(evil: str) -> None:
    compute, value = curve(0.7, 600, 1, points=12)
    shown = [
        Structure(html_of(Series.of(compute, value, name=name, compute_name=name, value_name=name, source=name)))
        for name in ("harmless", evil)
    ]
    assert shown[0].tags == shown[1].tags


@pytest.mark.parametrize("live", [False, True])
def test_scripts_run_by_their_hash_alone(evil_page: str, live: bool) -> None:
    page = live_page("x") if live else evil_page
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert found is not None
    rules = dict(rule.strip().partition(" ")[::2] for rule in found[1].split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert re.fullmatch(r"('sha256-[\w+/=]+' ?){2}", rules["script-src"])
    assert "unsafe-eval" not in found[1]
    assert rules.get("connect-src") == ("'self'" if live else None)
