"""The pages under their own Content-Security-Policy: what they do is allowed, what is put into them does nothing."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page
from tests.report.runs import begin
from tests.study.simulated import curves_of_study, folder_of

from scalerl.report.study_page import study_page
from scalerl.study.gather import gather
from scalerl.study.results import results_document

from .conftest import PATIENCE_MS
from .pages import several_report
from .test_watch import watching

LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => window.violations.push(e.effectiveDirective));
"""
ATTACKS = {
    "a script": "const s = document.createElement('script'); s.textContent = 'window.hurt = 1';"
    " document.body.append(s)",
    "a handler": "const d = document.createElement('div'); d.setAttribute('onclick', 'window.hurt = 1');"
    " document.body.append(d); d.click()",
    "an image from elsewhere": "const i = new Image(); i.src = 'ELSEWHERE/i.png'; document.body.append(i)",
    "a request": "fetch('ELSEWHERE/r').then(() => { window.hurt = 1 }, () => {})",
    "a script from elsewhere": "const s = document.createElement('script'); s.src = 'ELSEWHERE/s.js';"
    " document.body.append(s)",
    "a form": "const f = document.createElement('form'); f.action = 'ELSEWHERE/f'; document.body.append(f); f.submit()",
    "a frame": "const f = document.createElement('iframe'); f.src = 'ELSEWHERE/p'; document.body.append(f)",
    "a timer with text": "setTimeout('window.hurt = 1', 0)",
    "a link that is a script": "const a = document.createElement('a'); a.href = 'javascript:window.hurt = 1';"
    " document.body.append(a); a.click()",
}
"""What a script could do that got into the page; each must end in a violation and do nothing."""


@pytest.fixture
def listened(browser: Browser) -> Iterator[Callable[[str], Page]]:
    """Open an address with an ear for violations, from the first moment on."""
    contexts = []

    def call(address: str) -> Page:
        context = browser.new_context()
        context.add_init_script(LISTEN)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.goto(address)
        return page

    yield call
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """Another server, and what it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    return several_report(tmp_path_factory.mktemp("report")).as_uri()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("study")
    folder = folder_of(place / "one", curves_of_study(("base", "worse"), (0, 1)))
    file = place / "study.html"
    file.write_text(study_page(results_document(gather(folder))), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("live")
    begin(folder / "run", range(0, 400, 20))
    with watching(folder / "run", "--port", 0) as url:
        yield url


def ready(page: Page, which: str) -> None:
    if which != "study":
        page.wait_for_selector("body[data-ready]", state="attached")
        page.wait_for_selector("#chart .points path", state="attached")


@pytest.mark.parametrize("which", ["report", "study", "live"])
def test_a_page_needs_nothing_that_its_policy_forbids(
    which: str, request: pytest.FixtureRequest, listened: Callable[[str], Page]
) -> None:
    page = listened(request.getfixturevalue(which))
    ready(page, which)
    page.locator("#theme").click()
    page.mouse.wheel(0, 4000)
    page.wait_for_timeout(300)
    assert page.evaluate("window.violations") == []


@pytest.mark.parametrize("which", ["report", "study", "live"])
def test_what_is_put_into_a_page_does_nothing(
    which: str,
    request: pytest.FixtureRequest,
    listened: Callable[[str], Page],
    elsewhere: tuple[str, list[str]],
) -> None:
    there, asked = elsewhere
    page = listened(request.getfixturevalue(which))
    ready(page, which)
    for name, attack in ATTACKS.items():
        before = page.evaluate("window.violations.length")
        page.evaluate(f"() => {{ {attack.replace('ELSEWHERE', there)} }}")
        for _ in range(100):
            if page.evaluate("window.violations.length") > before:
                break
            page.wait_for_timeout(50)
        assert page.evaluate("window.violations.length") > before, name
        assert page.evaluate("window.hurt ?? null") is None, name
    assert asked == []


def test_the_live_page_is_in_nobodys_frame(live: str, browser: Browser, elsewhere: tuple[str, list[str]]) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{elsewhere[0]}/frame")
    page.set_content(f'<iframe src="{live}"></iframe>')
    page.wait_for_timeout(500)
    assert [frame for frame in page.frames if frame.url.startswith(live)] == []
    context.close()
    elsewhere[1].clear()
