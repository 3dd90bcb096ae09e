"""Fifty runs on one page: what a message or a move of the slider touches is counted, not timed. And what is drawn by
hand there instead of by plotly answers to the reader all the same: hover, zoom, switching off, printing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from .conftest import Open, Opened
from .pages import many_report
from .test_report import RANGE, zoom
from .test_watch import wait_until

RUNS = 50
COUNT = """() => {
    const seen = { react: 0, groups: new Set(), rows: new Set(), columns: new Set(), places: new Set() };
    const main = document.getElementById("main"), react = Plotly.react;
    Plotly.react = (...given) => { seen.react += 1; return react(...given); };
    new MutationObserver((list) => list.forEach(({ target, addedNodes }) => {
        const place = target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement;
        const group = place.closest(".layer g");
        const row = place.closest("#runs tbody tr");
        if (group) seen.groups.add(group.dataset.run);
        else if (row) {
            seen.rows.add(row.querySelector(".toggle").dataset.run);
            for (const node of addedNodes) seen.columns.add([...row.children].indexOf(node.closest("td, th")));
        } else if (place.isConnected) seen.places.add(place.closest("[id]").id);
    })).observe(main, { subtree: true, childList: true, characterData: true, attributes: true });
    window.touched = () => Object.fromEntries(
        Object.entries(seen).map(([name, what]) => [name, name === "react" ? what : [...what]])
    );
}"""
DRAWN = "new Promise((done) => Frames.soon([done]))"
"""Everything that was asked for before is on the page."""
ONE_POINT = """async (id) => {
    const run = structuredClone(Page.document().runs.find((one) => one.id === id));
    const [unit] = run.units;
    for (const values of Object.values(unit.points)) values.push(values.at(-1));
    unit.points.compute[unit.points.compute.length - 1] *= 1.001;
    unit.fit.window.last = unit.points.compute.at(-1);
    unit.fit.decision.now += 0.01;
    const units = [{ key: unit.key, points: unit.points, fit: unit.fit }, { key: run.units[1].key }];
    Page.update({ runs: [{ id, units }] });
    await new Promise((done) => Frames.soon([done]));
}"""


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many_report(tmp_path_factory.mktemp("many"), RUNS)


@pytest.fixture
def opened(many: Path, open_page: Open) -> Opened:
    found = open_page(many)
    found.page.evaluate(COUNT)
    return found


def touched(opened: Opened) -> Any:
    return opened.page.evaluate("touched()")


def test_a_message_touches_the_run_that_changed_and_no_other(opened: Opened) -> None:
    opened.page.evaluate(ONE_POINT, "run-07")
    found = touched(opened)
    assert found["react"] == 0
    assert found["groups"] == ["run-07"]
    assert found["rows"] == ["run-07"]
    assert set(found["places"]) <= {"marker", "budget"}
    assert opened.page.evaluate("Page.document().runs[7].units[0].points.compute.length") == 76
    assert opened.console == []


def test_a_message_without_news_for_the_page_touches_nothing(opened: Opened) -> None:
    opened.page.evaluate(
        "async () => { Page.update({ runs: [{ id: 'run-03', units: [{ key: 'flops' }, { key: 'steps' }] }] });"
        f" await {DRAWN}; }}"
    )
    assert {name: list(what) for name, what in touched(opened).items() if name != "react" and what} == {}
    assert touched(opened)["react"] == 0


def test_the_slider_moves_the_marker_and_the_forecasts_only(opened: Opened) -> None:
    before = opened.text("#runs")
    opened.page.get_by_role("slider", name="Budget").fill("800")
    expect(opened.page.locator("#runs")).not_to_have_text(before)
    found = touched(opened)
    assert (found["react"], found["groups"]) == (0, [])
    assert set(found["places"]) <= {"marker", "budget", "budget-amount", "forecast", "runs"}
    assert len(found["rows"]) == RUNS
    assert set(found["columns"]) <= {2, 5}  # forecast and decision


def test_what_nobody_looks_at_waits(opened: Opened) -> None:
    opened.page.evaluate(ONE_POINT, "run-00")
    assert opened.page.evaluate("document.getElementById('straight').data === undefined")
    opened.page.locator("#straight").scroll_into_view_if_needed()
    wait_until(lambda: opened.page.evaluate("document.querySelectorAll('#straight ~ .layer g').length === 50"))
    before = touched(opened)["react"]
    opened.page.evaluate("window.scrollTo({ top: 0, behavior: 'instant' })")
    wait_until(lambda: opened.page.evaluate("document.getElementById('straight').isNear === false"))
    opened.page.evaluate("""() => {
        const { log_f, key } = structuredClone(Page.document().runs[4].units[0]);
        Page.update({ runs: [{ id: "run-04", units: [{ key, log_f }, { key: "steps" }] }] });
    }""")
    opened.page.evaluate(DRAWN)
    assert opened.page.evaluate("document.getElementById('straight').isStale")
    assert touched(opened)["react"] == before


def test_a_run_is_a_few_paths_and_every_run_is_there(opened: Opened) -> None:
    assert opened.page.locator("#chart ~ .layer g").count() == RUNS
    assert opened.page.locator("#chart ~ .layer path").count() <= 5 * RUNS
    opened.page.get_by_role("button", name="run-11").click()
    assert opened.page.locator("#chart ~ .layer g").count() == RUNS - 1
    assert opened.page.locator("#chart ~ .layer g[data-run=run-11]").count() == 0


def test_hover_says_whose_point_it_is(opened: Opened) -> None:
    place: Any = opened.page.evaluate("""() => {
        const chart = document.getElementById("chart"), box = chart.getBoundingClientRect();
        const { xaxis: x, yaxis: y } = chart._fullLayout;
        const { compute, value } = Page.document().runs[49].units[0].points;
        return [box.left + x._offset + x.d2p(compute.at(-1)), box.top + y._offset + y.d2p(value.at(-1))];
    }""")
    opened.page.mouse.move(place[0] - 40, place[1] + 3)
    opened.page.mouse.move(*place)
    expect(opened.page.locator(".hover").first).to_contain_text("run-49")
    expect(opened.page.locator(".hover").first).to_contain_text("pass rate 0.")
    opened.page.mouse.move(5, 5)
    expect(opened.page.locator(".hover").first).to_be_hidden()


def test_zoom_moves_the_curves_and_stays(opened: Opened) -> None:
    path = "document.querySelector('#chart ~ .layer g path').getAttribute('d')"
    before = opened.page.evaluate(path)
    zoom(opened)
    wait_until(lambda: opened.page.evaluate(f"{path} !== {before!r}"))
    zoomed = opened.page.evaluate(RANGE)
    opened.page.evaluate(ONE_POINT, "run-07")
    assert opened.page.evaluate(RANGE) == zoomed


def test_fewer_runs_are_plotlys_again(opened: Opened) -> None:
    opened.page.evaluate(
        "async () => { const ids = Page.document().runs.slice(3).map((run) => run.id); Page.update({ removed: ids });"
        f" await {DRAWN}; }}"
    )
    assert opened.page.locator("#chart ~ .layer g").count() == 0
    assert opened.page.locator("#chart .points path").count() > 100
    assert opened.page.locator("#runs tbody tr").count() == 3


def test_dark_and_on_paper(opened: Opened) -> None:
    colour = "document.querySelector('#chart ~ .layer g path').getAttribute('fill')"
    light = opened.page.evaluate(colour)
    opened.page.locator("#theme").click()
    assert opened.page.evaluate(colour) != light
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert opened.page.evaluate(colour) == light
    width = "Math.max(...[...document.querySelectorAll('#chart ~ .layer > svg')].map((one) => one.width.baseVal.value))"
    wait_until(lambda: opened.page.evaluate(f"{width} < 660"))
    assert opened.page.locator("#straight ~ .layer g").count() == RUNS  # drawn, although nobody has scrolled there
    assert opened.console == []
