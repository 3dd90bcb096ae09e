"""Fuzz targets of `scalerl watch`: any bytes as a request, and any file behind the page.

The handler is the real one, over a socket made of two buffers. Whatever is sent, it answers or hangs up; without the
token it shows nothing; and nothing of a request comes back.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from scalerl.curves import fit
from scalerl.readers.curves import read_curves
from scalerl.report import server
from scalerl.report.access import Access
from scalerl.report.board import Board
from scalerl.report.follow import Follower
from scalerl.report.followed import Ways
from scalerl.report.targets import Targets

from . import samples
from .target import JSON_WORDS, Run, Target

TOKEN, SECRET, CANARY = "right-token", b"only for those who may look", b"canary7f3a"
_WORDS = (
    "GET ", "HEAD ", "POST ", " HTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/0.9\r\n", "\r\n\r\n", "Host: localhost\r\n",
    "Host: [", "Host: 127.0.0.1:80\r\n", "Cookie: scalerl-", "=right-token", "/?token=right-token", "/document.json",
    "/events", "//[", "%00", "%2e%2e%2f", "Sec-Fetch-Site: cross-site\r\n", "Accept-Encoding: gzip\r\n",
    "Content-Length: 99999999\r\n", "Transfer-Encoding: chunked\r\n", "Expect: 100-continue\r\n", "canary7f3a",
    "?token=", "&", ";", "\0", "http://[::1", "x" * 70000, "a: b\r\n" * 200, "Connection: keep-alive\r\n",
    'Cookie: a="\\', "PRI * HTTP/2.0\r\n",
)  # fmt: skip


class _Socket:
    """The two directions of a connection as buffers."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.sent = b""

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:
        return io.BytesIO(self._data)

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def settimeout(self, _: float | None) -> None:
        return

    def setsockopt(self, *_: Any) -> None:
        return


def _make_requests(_: Path) -> Run:
    board = Board({"title": SECRET.decode()})
    board.put({"id": "a", "name": "b"})
    board.close()  # listeners are let go at once
    open_one = server._Http(("127.0.0.1", 0), board, f"<!DOCTYPE html>{SECRET.decode()}", Access("127.0.0.1"))
    closed = server._Http(("127.0.0.1", 0), board, f"<!DOCTYPE html>{SECRET.decode()}", Access("0.0.0.0", TOKEN))
    for place in (open_one, closed):
        place.server_close()  # nobody else shall ask

    def run(data: bytes) -> None:
        sent = b""
        for place in (open_one, closed):
            sent = _ask(place, data)
            assert CANARY not in sent, "something of the request came back"
            assert (
                not sent or sent.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")) or b" HTTP/0.9" in data or _is_ancient(data)
            )
        if TOKEN.encode() not in data.replace(b"%", b""):
            assert SECRET not in sent, "shown without the token"

    return run


def _ask(place: Any, data: bytes) -> bytes:
    connection = _Socket(data)
    server._Handler(connection, ("127.0.0.1", 1), place)  # type: ignore[arg-type]  # as much of a socket as it takes
    return connection.sent


def _is_ancient(data: bytes) -> bool:
    """`GET /` without a version is HTTP/0.9: its answer has no head."""
    return any(len(line.decode("latin-1").split()) == 2 for line in data.split(b"\n"))


def _make_page(folder: Path) -> Run:
    """A file that somebody writes while it is watched; what the page gets must be JSON on one line."""
    path = folder / "watched.jsonl"
    ways = Ways(
        read=lambda name: read_curves([name]),
        units=lambda *_: {},
        fit=lambda name, seeds: fit(seeds, name=name),
        budget=lambda _: None,
    )

    def run(data: bytes) -> None:
        path.write_bytes(data)
        board = Board({"title": "t"})
        follower = Follower(Targets((str(path),)), ways, board, every_s=0.0)
        for _ in range(4):
            follower.step()
        document = board.document()
        assert b"\n" not in document
        json.loads(document)
        news = board.news(0, 0.0)
        assert news is None or json.loads(news.data)

    return run


def _requests() -> list[bytes]:
    def request(line: str, *headers: str) -> bytes:
        return "\r\n".join([line, "Host: localhost", *headers, "", ""]).encode()

    return [
        request("GET / HTTP/1.1"),
        request("GET /?token=right-token HTTP/1.1", "Accept-Encoding: gzip"),
        request("GET /document.json HTTP/1.1", "Cookie: scalerl-80=wrong; a=b", "Sec-Fetch-Site: same-origin"),
        request("GET /events HTTP/1.0", "Accept: text/event-stream"),
        request("HEAD /canary7f3a?a=b&token=c#d HTTP/1.1"),
        request("POST / HTTP/1.1", "Content-Length: 3", "Expect: 100-continue") + b"abc",
        b"GET /\r\n",
        request("GET http://[::1]:80/ HTTP/1.1"),
        request("GET / HTTP/1.1", "Connection: keep-alive") * 2,
    ]


TARGETS = (
    Target("watch-requests", _make_requests, _requests, _WORDS),
    Target("watch-page", _make_page, samples.lines, (*JSON_WORDS, '"step":', '"_step":', "}\n{"), cost=60),
)
