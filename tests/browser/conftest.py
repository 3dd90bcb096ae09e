"""A real headless Chromium for the pages, and what a reader of a page could notice: errors, requests, dialogs.

Playwright drives Debian's chromium (scripts/install_chromium.sh). Without one the tests fail and say so, unless
SCALERL_NO_BROWSER=1 leaves them out on purpose.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

PATIENCE_MS = 180_000
"""For a machine that has much else to do; what is slow by itself is the benchmarks' business."""


@dataclass
class Opened:
    """A page in the browser, and everything that happened to it."""

    page: Page
    console: list[str] = field(default_factory=list)
    """Errors and warnings."""
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)


Open = Callable[..., Opened]


def _chromium() -> str:
    named = os.environ.get("SCALERL_CHROMIUM")
    found = named or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.fail(
            "no chromium: run scripts/install_chromium.sh, or set SCALERL_NO_BROWSER=1 to leave these tests out"
        )
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if os.environ.get("SCALERL_NO_BROWSER"):
        pytest.skip("SCALERL_NO_BROWSER is set")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=_chromium(), args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a file or an address; the keywords are those of a Playwright context (viewport, color_scheme, ...)."""
    contexts = []

    def call(where: Path | str, **options: Any) -> Opened:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        opened = Opened(context.new_page())
        _listen(opened)
        opened.page.goto(where.as_uri() if isinstance(where, Path) else where)
        opened.page.wait_for_selector("body[data-ready]", state="attached", timeout=PATIENCE_MS)
        return opened

    yield call
    for context in contexts:
        context.close()


def _listen(opened: Opened) -> None:
    def console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            opened.console.append(message.text)

    def dialog(shown: Any) -> None:
        opened.dialogs.append(shown.message)
        shown.dismiss()

    opened.page.on("console", console)
    opened.page.on("pageerror", lambda error: opened.console.append(str(error)))
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.on("dialog", dialog)
