"""The webhook against a real little server: what it receives, how often it is tried, and that failures stay quiet."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.report.webhook import Webhook, checked


class Ear(HTTPServer):
    """Answers with one status after the other; the last one for ever."""

    def __init__(self, statuses: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Heard)
        self.statuses = statuses
        self.heard: list[tuple[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Heard(BaseHTTPRequestHandler):
    server: Ear

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.heard.append((self.headers["Content-Type"], body))
        status = self.server.statuses.pop(0) if len(self.server.statuses) > 1 else self.server.statuses[0]
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Quiet."""


@contextmanager
def listening(*statuses: int) -> Iterator[Ear]:
    with Ear(list(statuses)) as ear:
        thread = threading.Thread(target=ear.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield ear
        finally:
            ear.shutdown()
            thread.join()


def tell(url: str) -> list[str]:
    notes: list[str] = []
    hook = Webhook(url, notes.append, pause_s=0.0)
    hook.tell({"run": "a", "action": "STOP"})
    hook.close()
    return notes


def test_one_post_of_json() -> None:
    with listening(204) as ear:
        assert tell(ear.url) == []
        assert ear.heard == [("application/json", {"run": "a", "action": "STOP"})]


def test_a_failure_is_tried_again() -> None:
    with listening(500, 429, 200) as ear:
        assert tell(ear.url) == []
        assert len(ear.heard) == 3


def test_three_failures_are_one_note() -> None:
    with listening(500) as ear:
        assert tell(ear.url) == ["the webhook was not told, 3 tries: the server answered 500"]
        assert len(ear.heard) == 3


def test_a_redirect_is_not_followed() -> None:
    with listening(302) as ear:
        assert tell(ear.url) == ["the webhook was not told, 3 tries: the server answered 302"]


def test_nobody_there() -> None:
    with listening(200) as ear:
        url = ear.url
    (note,) = tell(url)
    assert note.startswith("the webhook was not told, 3 tries: ")
    assert "refused" in note


@pytest.mark.parametrize("url", ["ftp://x/y", "file:///etc/passwd", "x", "http://", "http://x:y/", "https:// x", ""])
def test_only_web_addresses(url: str) -> None:
    with pytest.raises(InputError, match=r"--webhook: got .*; allowed: an http or https address"):
        checked(url)
