"""The watch page over HTTP: `/` the page, `/document.json` what it shows, `/events` what has changed since.

Started by `scalerl watch`. The standard library's server and no framework: three addresses, only GET, a hundred
listeners at most, one thread each; a framework would bring an event loop and a dozen packages for that. It knows a
`Board` and the bytes of a page, and nothing about runs or fits.

Who may look is decided in `access`. Nothing that a client sends is ever executed, stored or echoed.
"""

from __future__ import annotations

import gzip
import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.cookies import CookieError, Morsel, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from scalerl.report.access import Access, bind_address, family
from scalerl.report.board import Board
from scalerl.report.policy import policy_of

MOST_LISTENERS = 100
MOST_CONNECTIONS = 2 * MOST_LISTENERS
HEARTBEAT_S = 10.0
"""A sign of life on a quiet stream; it is also how a listener that went away is noticed."""
PATIENCE_S = 30.0
"""How long a client may take to say what it wants, and to take what it gets."""
_SAFE = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Connection": "close",
}
_CLOSED_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# A redirect would belong to the site the link was clicked on, and a strict cookie would not be sent with it; a page of
# our own that goes on by itself is ours.
_ENTRANCE = (
    b'<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=./"><title>scalerl</title>'
)


class PageServer:
    """A running server. `start` returns at once; `stop` lets every listener go."""

    def __init__(self, board: Board, page: str, access: Access, port: int) -> None:
        self.access = access
        self._board = board
        self._http = _Http(bind_address(access.host, port), board, page, access)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """Where to look, with the token if there is one. Listening on every address, this machine's name is shown."""
        host = socket.gethostname() if self.access.host in {"0.0.0.0", "::"} else self.access.host  # noqa: S104
        shown = f"[{host}]" if ":" in host else host
        token = "" if self.access.token is None else f"?token={quote(self.access.token, safe='')}"
        return f"http://{shown}:{self.port}/{token}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._board.close()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], board: Board, page: str, access: Access) -> None:
        self.address_family = family(address[0])
        super().__init__(address, _Handler)
        self.board, self.access = board, access
        self.page = page.encode()
        self.packed_page = gzip.compress(self.page, 6)
        self.policy = policy_of(page)
        self.cookie = f"scalerl-{self.server_address[1]}"  # cookies are shared by all ports of a machine
        self.listeners = threading.BoundedSemaphore(MOST_LISTENERS)
        self._connections = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for each connection, up to a number; beyond it a short no, without reading anything."""
        if self._connections.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.settimeout(1.0)
        with suppress(OSError):  # it may have given up already
            request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is one line, and the server goes on."""
        del request, client_address
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"scalerl: note: a request failed ({error!r})", file=sys.stderr)  # noqa: T201


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "scalerl", ""
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        try:
            address = urlsplit(self.path)
        except ValueError:  # brackets that do not close
            self._answer(HTTPStatus.BAD_REQUEST, b"not an address\n")
            return
        refusal = self._refusal(address.path, address.query)
        if refusal is not None:
            self._answer(*refusal)
        elif address.path == "/":
            self._page(entered="token" in parse_qs(address.query))
        elif address.path == "/document.json":
            self._document()
        elif address.path == "/events":
            self._listen()
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"no such page\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def parse_request(self) -> bool:
        """Whether there is a request to answer; anything but looking is refused before it is looked at."""
        if not super().parse_request():
            return False
        if self.command not in {"GET", "HEAD"}:
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", extra={"Allow": "GET, HEAD"})
            return False
        return True

    def _refusal(self, path: str, query: str) -> tuple[HTTPStatus, bytes] | None:
        """Why this request gets nothing, if so."""
        if not self.server.access.welcomes(self.headers.get("Host")):
            return HTTPStatus.MISDIRECTED_REQUEST, b"this server does not go by that name\n"
        if path != "/" and self.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
            return HTTPStatus.FORBIDDEN, b"not for other sites\n"
        given = [*parse_qs(query).get("token", []), self._cookie()]
        if not any(self.server.access.knows(one) for one in given):
            return HTTPStatus.FORBIDDEN, b"a token is needed: open the address that scalerl watch has printed\n"
        return None

    def _cookie(self) -> str | None:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return None
        return None if found is None else found.value

    def _document(self) -> None:
        packs = self._packs()
        body = self.server.board.whole(packed=packs)
        extra = {"Content-Encoding": "gzip"} if packs else {}
        self._answer(HTTPStatus.OK, body, "application/json", extra=extra)

    def _packs(self) -> bool:
        return "gzip" in self.headers.get("Accept-Encoding", "")

    def _page(self, *, entered: bool) -> None:
        token = self.server.access.token
        if not entered or token is None:
            policy = {"Content-Security-Policy": self.server.policy}
            self._answer(HTTPStatus.OK, self.server.page, "text/html", packed=self.server.packed_page, extra=policy)
            return
        morsel: Morsel[str] = SimpleCookie({self.server.cookie: token})[self.server.cookie]
        cookie = {"Set-Cookie": f"{morsel.OutputString()}; Path=/; HttpOnly; SameSite=Strict"}
        self._answer(HTTPStatus.OK, _ENTRANCE, "text/html", extra=cookie)

    def _listen(self) -> None:
        if not self.server.listeners.acquire(blocking=False):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"too many listeners\n", extra={"Retry-After": "10"})
            return
        try:
            seen = self.server.board.number  # before the answer: what comes after it is not lost
            self._head(HTTPStatus.OK, "text/event-stream", {})
            if self.command == "GET":
                self._stream(seen)
        finally:
            self.server.listeners.release()

    def _stream(self, seen: int) -> None:
        self.wfile.write(b"retry: 1000\n\n")
        while not self.server.board.closed:
            news = self.server.board.news(seen, HEARTBEAT_S)
            seen = seen if news is None else news.number
            self.wfile.write(b": still here\n\n" if news is None else b"data: " + news.data + b"\n\n")
            time.sleep(self.server.board.pause_s)  # what comes meanwhile is one message

    def _answer(
        self, status: HTTPStatus, body: bytes, kind: str = "text/plain", *,
        packed: bytes | None = None, extra: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """`packed` is the body as gzip, for a client that takes it."""
        headers = dict(extra or {})
        if packed is not None and self._packs():
            body, headers["Content-Encoding"] = packed, "gzip"
        self._head(status, kind, headers | {"Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.close_connection = True
        kinds = {"Content-Type": f"{kind}; charset=utf-8", "Content-Security-Policy": _CLOSED_POLICY}
        for name, value in (_SAFE | kinds | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself (a broken request): the same plain answer, nothing echoed."""
        del message, explain
        self.command, self.request_version = getattr(self, "command", None) or "GET", self.protocol_version
        self.headers = getattr(self, "headers", None) or self.MessageClass()
        self._answer(HTTPStatus(code), b"not a request that is answered here\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Requests are not worth a line: standard error is for decisions."""
