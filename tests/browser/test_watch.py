"""The watch page in a real browser, served by the command as users start it: points, restarts, names, lost servers."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.report.runs import begin, evaluate, table
from tests.report.set_runs import LAST, measure, mixed_run

from scalerl.runs.events import Event

from .conftest import Open, Opened
from .pages import EVIL

LIMIT_S = 2.0
MARKS = "document.querySelectorAll('#chart .scatterlayer .points path').length"
"""Points drawn in the main chart, the budget's marker included."""


@contextmanager
def watching(*arguments: object) -> Iterator[str]:
    """The address of a page that is served meanwhile."""
    command = [sys.executable, "-m", "scalerl", "watch", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            found = re.search(r"watching at (http://\S+) ", first)
            assert found is not None, first + process.stderr.read()
            yield found[1]
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()  # or it would be waited for without end
                raise
    assert process.returncode == 130


def wait_until(condition: Callable[[], Any], seconds: float = 120.0) -> float:
    """How long it took. The page's policy forbids what Playwright would do to wait inside it."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it did not happen"
        time.sleep(0.03)
    return time.monotonic() - began


def marks(opened: Opened) -> int:
    return int(opened.page.evaluate(MARKS))


def is_fitted(opened: Opened) -> bool:
    return "points" in opened.text("#run-detail") and bool(opened.text("#forecast"))


@pytest.fixture
def stay(open_page: Open) -> Callable[[str], Opened]:
    """Open an address, and leave a sign that a reload would wipe away."""

    def call(url: str) -> Opened:
        opened = open_page(url)
        opened.page.evaluate("window.stayed = true")
        return opened

    return call


def assert_quiet(opened: Opened) -> None:
    assert opened.page.evaluate("window.stayed"), "the page was loaded again"
    assert opened.dialogs == []
    assert [line for line in opened.console if "ERR_" not in line] == []


def test_an_alarm_is_on_the_page_as_text(tmp_path: Path, stay: Callable[[str], Opened]) -> None:
    runs = [begin(tmp_path / name, range(0, 400, 20)) for name in ("a", "b")]
    words = f"alarm truncation at step 380: {EVIL}"
    runs[0].events.append(Event.now(380, "alarm", words, alarm="truncation").to_line())
    with watching(tmp_path, "--port", 0) as url:
        opened = stay(url)
        wait_until(lambda: f"a: {words}." in opened.text("#answer"))
        wait_until(lambda: opened.page.evaluate("document.querySelectorAll('#runs .badge.alarm').length") == 1)
        wait_until(lambda: "What happened" in opened.text("#run-detail"))
        assert words in opened.text("#run-detail")
        assert_quiet(opened)


def test_a_point_appended_is_seen_within_two_seconds(tmp_path: Path, stay: Callable[[str], Opened]) -> None:
    run = begin(tmp_path / "run", range(0, 400, 20))
    with watching(tmp_path / "run", "--port", 0) as url:
        opened = stay(url)
        wait_until(lambda: is_fitted(opened))
        latencies = []
        for step in (400, 420, 440):
            before = marks(opened)
            evaluate(run, step)
            latencies.append(wait_until(lambda before=before: marks(opened) == before + 1))  # type: ignore[misc]
        wait_until(lambda: "on 22 points" in opened.text("#run-detail"))
        assert_quiet(opened)
    assert min(latencies) < LIMIT_S, latencies


def test_downstream_sets_follow_the_run(tmp_path: Path, stay: Callable[[str], Opened]) -> None:
    """As in the report, on the live page: a table with a row for each, its panels, and new figures with a new point."""
    run = mixed_run(tmp_path / "run")
    rows = "document.querySelectorAll('#sets-table tbody tr').length"
    with watching(tmp_path / "run", "--port", 0) as url:
        opened = stay(url)
        wait_until(lambda: opened.page.evaluate(rows) == 4)
        for name in ("part sums", "part goals", "aime24", "other", "31 evaluations"):
            assert name in opened.text("#sets-table")
        opened.page.locator("#sets-panels").scroll_into_view_if_needed()
        wait_until(lambda: opened.page.locator("#sets-panels .js-plotly-plot").count() >= 3)
        measure(run, LAST + 20)
        wait_until(lambda: "32 evaluations" in opened.text("#sets-table"))
        assert_quiet(opened)


def test_the_readers_choices_survive_a_new_point(tmp_path: Path, stay: Callable[[str], Opened]) -> None:
    run = begin(tmp_path / "run", range(0, 400, 20))
    with watching(tmp_path / "run", "--port", 0) as url:
        opened = stay(url)
        wait_until(lambda: is_fitted(opened))
        opened.page.check("input[value=tokens]", force=True)
        wait_until(lambda: "tokens" in opened.text("#budget-amount"))  # this unit's fit comes after the first one's
        opened.page.focus("#budget")
        for _ in range(30):
            opened.page.keyboard.press("ArrowLeft")
        amount = opened.text("#budget-amount")
        assert "tokens" in amount
        evaluate(run, 400)
        wait_until(lambda: "on 20 points" in opened.text("#run-detail"))
        assert opened.text("#budget-amount") == amount
        assert_quiet(opened)


def test_a_run_that_begins_anew(tmp_path: Path, stay: Callable[[str], Opened]) -> None:
    begin(tmp_path / "run", range(0, 400, 20))
    with watching(tmp_path / "run", "--port", 0, "--every", "0.2") as url:
        opened = stay(url)
        wait_until(lambda: is_fitted(opened))
        shutil.rmtree(tmp_path / "run")
        wait_until(lambda: "the file is gone" in opened.text("main"))
        begin(tmp_path / "run", range(0, 200, 20), seed=1)
        wait_until(lambda: "on 9 points" in opened.text("#run-detail"))
        assert_quiet(opened)


def test_a_name_is_a_name(tmp_path: Path, stay: Callable[[str], Opened]) -> None:
    begin(tmp_path / "runs" / EVIL, range(0, 300, 20))
    begin(tmp_path / "runs" / "other", range(0, 300, 20))
    with watching(tmp_path / "runs", "--port", 0) as url:
        opened = stay(url)
        wait_until(lambda: EVIL in opened.text("#runs") and is_fitted(opened))
        assert opened.page.query_selector("main img") is None
        assert_quiet(opened)
        assert all(request.startswith((url, "data:")) for request in opened.requests)


def test_runs_appear_by_themselves(tmp_path: Path, stay: Callable[[str], Opened]) -> None:
    (tmp_path / "runs").mkdir()
    with watching(tmp_path / "runs", "--port", 0, "--every", "0.2") as url:
        opened = stay(url)
        begin(tmp_path / "runs" / "first-run", range(0, 300, 20))
        wait_until(lambda: is_fitted(opened))
        begin(tmp_path / "runs" / "second-run", range(0, 300, 20), 0.6)
        wait_until(lambda: "second-run" in opened.text("#runs"))
        assert_quiet(opened)


def test_the_page_comes_back_when_the_server_does(tmp_path: Path, stay: Callable[[str], Opened]) -> None:
    path = table(tmp_path / "run.csv", 12)
    with watching(path, "--port", 0) as url:
        opened = stay(url)
        wait_until(lambda: is_fitted(opened))
    port = url.rstrip("/").rsplit(":", 1)[1]
    wait_until(lambda: opened.page.get_attribute("#live", "data-state") == "off")
    table(path, 15)
    with watching(path, "--port", port):
        wait_until(lambda: "on 15 points" in opened.text("#run-detail"))
        assert opened.page.get_attribute("#live", "data-state") == "on"
        assert_quiet(opened)


def test_a_token_in_the_address_becomes_a_cookie(tmp_path: Path, open_page: Open) -> None:
    path = table(tmp_path / "run.csv", 12)
    with watching(path, "--port", 0, "--token", "a-long-secret") as url:
        opened = open_page(url)
        wait_until(lambda: is_fitted(opened))
        assert opened.page.url == url.split("?")[0]
        assert opened.page.evaluate("document.cookie") == ""
        (cookie,) = opened.page.context.cookies()
        assert (cookie["value"], cookie["httpOnly"], cookie["sameSite"]) == ("a-long-secret", True, "Strict")
