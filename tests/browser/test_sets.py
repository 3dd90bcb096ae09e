"""Downstream sets and parts on the page of a run: a table, panels, and nothing where there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from scalerl.report.answers import Document
from scalerl.report.document import report_document, run_document
from scalerl.report.page import write_page

from .conftest import Open
from .pages import EVIL, fitted, rising, run_of


def a_set(name: str, kind: str, *, measured: bool = True) -> Document:
    estimate = {"value": 0.5, "low": 0.4, "high": 0.6}
    point = {"step": 0, "value": 0.1, "error": 0.03}
    steps = [0, 20, 40, 60]
    against = {
        "step": steps, "value": [0.1, 0.2, 0.3, 0.35], "error": [0.03, None, 0.03, 0.03],
        "held_out": [0.3, 0.4, 0.5, 0.6], "held_out_error": [0.02] * 4,
    }  # fmt: skip
    curve = {
        "unit": "FLOPs", "compute": [1e9, 2e9, 4e9], "value": [0.2, 0.3, 0.35], "law_compute": [1e9, 2e9, 4e9],
        "law": [0.2, 0.3, 0.36],
    }  # fmt: skip
    return {
        "metric": f"{kind}/{name}", "name": name, "kind": kind, "k": 8, "first": point, "last": point | {"step": 60},
        "pass_at_k": {"value": 0.7, "error": None} if measured else None, "evaluations": 4, "against": against,
        "correlation": estimate if measured and kind == "downstream" else None,
        "curve": curve if measured else None,
        "law": {"ceiling": estimate, "identified": True, "law": "sigmoid", "points": 3} if measured else None,
        "words": [], "missing": [] if measured else ["no law of its own: too few points"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sets = (a_set("math", "part"), a_set(EVIL, "downstream"), a_set("rare", "downstream", measured=False))
    run = replace(run_of("alone", [fitted(rising("alone"))]), sets=sets)
    document = report_document([run_document(run)], None, title="Sets", command="", level=0.8)
    return write_page(document, tmp_path_factory.mktemp("pages") / "sets.html")


def test_sets_and_parts_have_a_row_and_panels(page: Path, open_page: Open) -> None:
    opened = open_page(page)
    rows = opened.page.locator("#sets-table tbody tr")
    assert rows.count() == 3
    assert "part math" in rows.nth(0).inner_text()
    assert "mean@8" in rows.nth(0).inner_text()
    assert EVIL in rows.nth(1).inner_text()
    assert "4 evaluations" in rows.nth(1).inner_text()
    assert "no law" in rows.nth(2).inner_text()
    assert opened.text("#sets-notes") == "rare: no law of its own: too few points"
    opened.page.locator("#sets-panels").scroll_into_view_if_needed()
    expect(opened.page.locator("#sets-panels .js-plotly-plot")).to_have_count(4)
    titles = opened.page.locator("#sets-panels h3").all_inner_texts()
    assert titles == [
        f"{EVIL} against held-out",
        "rare against held-out",
        "math against compute",
        f"{EVIL} against compute",
    ]
    assert (opened.console, opened.dialogs) == ([], [])


def test_a_run_without_them_has_no_such_section(tmp_path: Path, open_page: Open) -> None:
    run = run_document(run_of("alone", [fitted(rising("alone"))]))
    document = report_document([run], None, title="None", command="", level=0.8)
    opened = open_page(write_page(document, tmp_path / "none.html"))
    assert opened.page.locator("#sets-section").is_hidden()


def test_it_fits_a_phone(page: Path, open_page: Open) -> None:
    opened = open_page(page, viewport={"width": 375, "height": 800})
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
