"""The watch server over real sockets: what it serves, to whom, and what it refuses."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import http.client
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.report import server as module
from scalerl.report.access import Access, bind_address, is_loopback
from scalerl.report.board import Board
from scalerl.report.policy import policy_of
from scalerl.report.server import PageServer

PAGE = "<!DOCTYPE html><title>page</title><body data-live='events'><script>let a = 1 < 2;</script>"
RUN: dict[str, Any] = {"id": "a", "name": "<b>a</b>", "units": []}
UNIT = {"key": "flops", "points": [1, 2], "fit": None}


@contextlib.contextmanager
def serving(access: Access | None = None) -> Iterator[tuple[Board, PageServer]]:
    board = Board({"schema": 1, "title": "t"})
    server = PageServer(board, PAGE, access or Access("127.0.0.1"), 0)
    server.start()
    try:
        yield board, server
    finally:
        server.stop()


@pytest.fixture
def served() -> Iterator[tuple[Board, PageServer]]:
    with serving() as pair:
        yield pair


def ask(
    server: PageServer, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


class Stream:
    """A listener that reads one message after the other."""

    def __init__(self, server: PageServer) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        self.connection.request("GET", "/events")
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        assert self.answer.readline() == b"retry: 1000\n"

    def message(self) -> Any:
        for line in self.answer:
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        raise AssertionError("the stream has ended")


def test_the_page_with_a_policy_that_allows_its_own_script_only(served: tuple[Board, PageServer]) -> None:
    answer, body = ask(served[1], "/")
    assert (answer.status, body.decode()) == (200, PAGE)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy.split("style-src")[0]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Frame-Options"] == "DENY"


def test_the_policy_hashes_scripts_as_browsers_do() -> None:
    text = "let a = '<b>' && 1;"
    policy = policy_of(f"<script>{text}</script><script type='application/json'>{{}}</script>")
    (digest,) = re.findall(r"'sha256-([^']+)'", policy)
    assert base64.b64decode(digest) == hashlib.sha256(text.encode()).digest()


def test_the_document_holds_what_was_put_last(served: tuple[Board, PageServer]) -> None:
    board, server = served
    board.put(RUN, {"id": "b", "name": "b"})
    board.put({**RUN, "units": [UNIT]})
    board.remove("b")
    board.compare({"flops": {"reference": "a"}})
    answer, body = ask(server, "/document.json", {"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert json.loads(gzip.decompress(body)) == {
        "schema": 1, "title": "t", "runs": [{**RUN, "units": [UNIT]}], "comparison": {"flops": {"reference": "a"}},
    }  # fmt: skip


def test_listeners_hear_what_changes_and_nothing_else(served: tuple[Board, PageServer]) -> None:
    board, server = served
    board.put(RUN)
    stream = Stream(server)
    board.put({"id": "b", "name": "b"})
    assert stream.message() == {"runs": [{"id": "b", "name": "b"}], "removed": []}
    board.remove("a")
    assert stream.message() == {"runs": [], "removed": ["a"]}
    board.compare({"flops": {}})
    assert stream.message() == {"runs": [], "removed": [], "comparison": {"flops": {}}}


def test_a_slow_listener_skips_what_was_replaced() -> None:
    board = Board({})
    for value in range(5):
        board.put({"id": "a", "value": value})
    news = board.news(0, 0.0)
    assert news is not None
    assert json.loads(news.data)["runs"] == [{"id": "a", "value": 4}]
    assert board.news(news.number, 0.0) is None


def heard(board: Board, seen: int) -> list[Any]:
    news = board.news(seen, 0.0)
    return [] if news is None else json.loads(news.data)["runs"]


def test_of_a_run_only_what_has_changed_is_sent() -> None:
    board, hours = Board({}), {"key": "hours", "points": [1], "fit": {"x": 1}}
    board.put({**RUN, "units": [UNIT, hours]}, {"id": "b", "name": "b", "units": [UNIT]})
    first = board.number
    board.put({**RUN, "units": [{**UNIT, "points": [1, 2, 3]}, hours]})
    assert heard(board, first) == [{"id": "a", "units": [{"key": "flops", "points": [1, 2, 3]}, {"key": "hours"}]}]
    second = board.number
    board.put({**RUN, "name": "other", "units": [{**UNIT, "points": [1, 2, 3]}, hours]})
    assert heard(board, second) == [{"id": "a", "name": "other"}]
    assert heard(board, first)[0].keys() == {"id", "name", "units"}  # whoever was away gets both
    assert [run["id"] for run in heard(board, 0)] == ["a", "b"]


def test_a_unit_that_is_gone_is_not_named_any_more() -> None:
    board = Board({})
    board.put({**RUN, "units": [UNIT, {**UNIT, "key": "hours"}]})
    seen = board.number
    board.put({**RUN, "units": [UNIT]})
    assert heard(board, seen) == [{"id": "a", "units": [{"key": "flops"}]}]


def test_nothing_new_is_no_news() -> None:
    board = Board({})
    board.put({**RUN, "units": [UNIT]})
    seen = board.number
    board.put({**RUN, "units": [dict(UNIT)]})
    assert board.number == seen
    assert board.news(seen, 0.0) is None


def test_a_run_that_comes_back_is_sent_whole() -> None:
    board = Board({})
    board.put({**RUN, "units": [UNIT]})
    seen = board.number
    board.remove("a")
    board.put({**RUN, "units": [UNIT]})
    assert heard(board, seen) == [{**RUN, "units": [UNIT]}]


def test_whoever_asks_at_the_same_time_gets_one_document() -> None:
    board = Board({"schema": 1})
    board.put(RUN)
    first = board.whole(packed=False)
    assert board.whole(packed=False) is first
    assert board.whole(packed=True) is board.whole(packed=True)
    assert gzip.decompress(board.whole(packed=True)) == first == board.document()
    board.put({**RUN, "name": "other"})
    assert json.loads(board.whole(packed=False))["runs"][0]["name"] == "other"


def test_many_runs_mean_fewer_messages() -> None:
    board = Board({})
    assert board.pause_s == 0.0
    board.put(*({"id": str(index)} for index in range(20)))
    assert board.pause_s == pytest.approx(0.2)
    board.put(*({"id": str(index)} for index in range(1000)))
    assert board.pause_s == 0.5


def test_a_number_that_is_not_json_never_leaves() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Board({}).put({"id": "a", "value": float("nan")})


def test_stopping_lets_listeners_go(served: tuple[Board, PageServer]) -> None:
    stream = Stream(served[1])
    served[1].stop()
    assert not [line for line in stream.answer if line.startswith(b"data")]


@pytest.mark.parametrize("path", ["/etc/passwd", "/../server.py", "/static/", "//x", "/document.json/", "/%2e%2e/"])
def test_nothing_else_is_served(served: tuple[Board, PageServer], path: str) -> None:
    answer, body = ask(served[1], path)
    assert (answer.status, body) == (404, b"no such page\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_only_looking_is_allowed(served: tuple[Board, PageServer], method: str) -> None:
    answer, _ = ask(served[1], "/", method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_head_has_no_body(served: tuple[Board, PageServer]) -> None:
    answer, body = ask(served[1], "/", method="HEAD")
    assert (answer.status, body, answer.headers["Content-Length"]) == (200, b"", str(len(PAGE)))
    assert ask(served[1], "/events", method="HEAD")[0].headers["Content-Type"].startswith("text/event-stream")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8265", "127.0.0.1.evil.example", "192.168.1.7", ""])
def test_a_name_that_was_made_to_point_here_gets_nothing(served: tuple[Board, PageServer], host: str) -> None:
    for path in ("/", "/document.json", "/events"):
        answer, body = ask(served[1], path, {"Host": host})
        assert answer.status == 421
        assert host == "" or host.encode() not in body


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1", "[::1]:80"])
def test_names_of_this_machine_are_welcome(served: tuple[Board, PageServer], host: str) -> None:
    assert ask(served[1], "/document.json", {"Host": host})[0].status == 200


def test_other_sites_get_neither_data_nor_a_place(served: tuple[Board, PageServer]) -> None:
    for site in ("cross-site", "same-site"):
        assert ask(served[1], "/events", {"Sec-Fetch-Site": site})[0].status == 403
    assert ask(served[1], "/", {"Sec-Fetch-Site": "cross-site"})[0].status == 200  # somebody clicked a link
    assert "Access-Control-Allow-Origin" not in ask(served[1], "/document.json")[0].headers


def test_a_broken_request_is_answered_plainly(served: tuple[Board, PageServer]) -> None:
    with socket.create_connection(("127.0.0.1", served[1].port), timeout=10) as raw:
        raw.sendall(b"<script>alert(1)</script>\r\n\r\n")
        answer = raw.recv(4096)
    assert b"400" in answer.split(b"\r\n")[0]
    assert b"alert" not in answer


def test_a_token_is_asked_for_once_and_kept_in_a_cookie() -> None:
    with serving(Access("127.0.0.1", "s3cret/+")) as (_, server):
        assert server.url == f"http://127.0.0.1:{server.port}/?token=s3cret%2F%2B"
        for headers in ({}, {"Cookie": f"scalerl-{server.port}=wrong"}, {"Cookie": "=;;broken"}):
            for path in ("/", "/document.json", "/events", "/?token=", "/?token=s3cret", "/nothing"):
                answer, body = ask(server, path, headers)
                assert answer.status == 403
                assert b"s3cret" not in body
        answer, body = ask(server, "/?token=s3cret%2F%2B", {"Sec-Fetch-Site": "cross-site"})
        cookie = answer.headers["Set-Cookie"]
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
        assert b"refresh" in body
        answer, body = ask(server, "/", {"Cookie": cookie.split("; ")[0]})
        assert (answer.status, body.decode()) == (200, PAGE)
        assert ask(server, "/document.json?token=s3cret%2F%2B")[0].status == 200


def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare_digest(given: bytes, right: bytes) -> bool:
        compared.append(given)
        return given == right

    monkeypatch.setattr("hmac.compare_digest", compare_digest)
    assert not Access("0.0.0.0", "right").knows("wrong")
    assert Access("0.0.0.0", "ri\u00dfht").knows("ri\u00dfht")
    assert len(compared) == 2


def test_which_names_an_open_address_goes_by() -> None:
    everywhere = Access("0.0.0.0", "t")
    assert everywhere.welcomes("10.0.0.7:8265")
    assert everywhere.welcomes(f"{socket.gethostname()}:8265")
    assert not everywhere.welcomes("evil.example")
    assert Access("box.lan", "t").welcomes("BOX.lan:8265")
    assert [is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "10.0.0.7", "")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


def test_too_many_listeners_are_told_to_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LISTENERS", 2)
    with serving() as (_, server):
        streams = [Stream(server), Stream(server)]
        answer, _ = ask(server, "/events")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
        assert ask(server, "/document.json")[0].status == 200
        assert len(streams) == 2


def test_too_many_connections_get_a_short_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 1)
    with serving() as (_, server):
        stream = Stream(server)
        assert ask(server, "/")[0].status == 503
        assert stream.answer.status == 200


def test_a_port_in_use_names_a_free_one() -> None:
    with serving() as (board, server):
        with pytest.raises(InputError, match=r"--port: the port is in use: got \d+; allowed: .*--port \d+") as caught:
            PageServer(board, PAGE, Access("127.0.0.1"), server.port)
        free = int(str(caught.value).split()[-1])
        assert bind_address("127.0.0.1", free) == ("127.0.0.1", free)


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(InputError, match=r"--host: cannot listen on 192\.0\.2\.1"):
        bind_address("192.0.2.1", 0)
    with pytest.raises(InputError, match=r"cannot listen on no\.such\.host\.invalid"):
        bind_address("no.such.host.invalid", 0)
