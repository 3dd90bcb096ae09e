"""Runs on a server: once with a fake client, once with wandb's real client and a small local server.

The local server answers the queries that the client makes with what its documentation says of a run. The real service
was never asked.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalerl.errors import InputError, MissingDependencyError
from scalerl.readers.logs.records import Tally
from scalerl.readers.logs.wandb_online import WandbOnlineLog, is_wandb_address

wandb = pytest.importorskip("wandb")

ROWS = [
    {"_step": 0, "_timestamp": 10.0, "_runtime": 1.0, "val/accuracy": 0.25, "perf": {"tokens": 5}},
    {"_step": 1, "_timestamp": 20.0, "_runtime": 11.0},
    {"_step": 2, "_timestamp": 30.0, "_runtime": 21.0, "val/accuracy": 0.5, "text": "no"},
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that the fake client was asked for."""
    paths: list[str] = []

    class Api:
        def run(self, path: str) -> Any:
            paths.append(path)
            return SimpleNamespace(name="my run", scan_history=lambda: iter(ROWS))

    monkeypatch.setattr(wandb, "Api", Api)
    return paths


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("wandb:team/project/abc123", "team/project/abc123"),
        ("wandb:project/abc123", "project/abc123"),
        ("https://wandb.ai/team/project/runs/abc123", "team/project/abc123"),
        ("https://wandb.ai/team/project/runs/abc123/overview?nw=x", "team/project/abc123"),
        ("https://wandb.ai/team/project/runs/abc123?nw=x#top", "team/project/abc123"),
    ],
)
def test_addresses(asked: list[str], address: str, path: str) -> None:
    log = WandbOnlineLog(address)
    assert is_wandb_address(address)
    assert (log.label, log.name) == (address, "my run")
    assert asked == [path]


@pytest.mark.parametrize(
    "address",
    ["wandb:", "wandb:abc", "wandb:a/b/c/d", "wandb:a//b", "https://wandb.ai/team/project", "wandb:https://x.y/a"],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(InputError, match="not the address of a W&B run") as caught:
        WandbOnlineLog(address)
    assert "wandb:ENTITY/PROJECT/RUN_ID" in str(caught.value)


def test_files_are_no_addresses() -> None:
    assert not is_wandb_address("wandb/latest-run")
    assert not is_wandb_address("run-abc.wandb")


def test_rows_become_records(asked: list[str]) -> None:
    tally = Tally()
    records = list(WandbOnlineLog("wandb:team/project/abc").records(tally))
    assert [(record.step, record.time_s) for record in records] == [(0, 10), (2, 30)]
    assert records[0].values == {"val/accuracy": 0.25, "perf.tokens": 5, "_runtime": 1}
    assert not tally.skipped


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (wandb.errors.CommError("Could not find run <Run a/b/c (not found)>\nmore"), "Could not find run"),
        (wandb.errors.AuthenticationError("Failed to verify credentials"), "no access to W&B"),
        (ValueError("Could not find run a/b/c"), "cannot be read from W&B"),
        (ConnectionError("unreachable"), "unreachable"),
    ],
)
def test_failures_are_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, message: str) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(wandb, "Api", lambda: SimpleNamespace(run=fail))
    log = WandbOnlineLog("wandb:a/b/c")
    with pytest.raises(InputError, match=message) as caught:
        list(log.records(Tally()))
    assert str(caught.value).startswith("wandb:a/b/c: ")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=message):
        _ = log.name


class Server(BaseHTTPRequestHandler):
    """Knows one user and the run team/project/abc."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        asked: dict[str, Any] = json.loads(body) if self.path == "/graphql" else {"query": ""}
        answer = json.dumps({"data": self._data(asked["query"], asked.get("variables") or {})}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _data(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "viewer" in query:
            return {"viewer": {"id": "VXNlcjox", "entity": "team", "username": "me", "email": "", "flags": "{}"}}
        if "abc" not in variables.values():
            return {"project": {"run": None}}
        run: dict[str, Any] = {
            "id": "x",
            "name": "abc",
            "displayName": "my run",
            "state": "finished",
            "historyKeys": {"lastStep": 2},
        }
        run |= {"config": "{}", "summaryMetrics": "{}", "systemMetrics": "{}", "historyLineCount": len(ROWS)}
        history = {"history": [json.dumps(row) for row in ROWS], "parquetHistory": {"parquetUrls": []}}
        return {"project": {"run": run | history}}

    def log_message(self, *args: Any) -> None:
        """Not to the screen."""


@pytest.fixture
def real_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """wandb's own client, with everything that it keeps below a temporary folder, and a server that does not exist."""
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    wandb.teardown()  # settings are read from the environment once for each of its processes
    yield monkeypatch
    wandb.teardown()


@pytest.fixture
def server(real_client: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        real_client.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
        real_client.setenv("WANDB_API_KEY", "0" * 40)
        yield
        wandb.teardown()  # its process says goodbye to the server
        server.shutdown()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("address", ["wandb:team/project/abc", "wandb:project/abc"])
def test_the_real_client_and_a_local_server(address: str) -> None:
    log = WandbOnlineLog(address)
    assert log.name == "my run"
    records = list(log.records(Tally()))
    assert [(record.step, record.time_s) for record in records] == [(0, 10), (2, 30)]
    assert records[1].values == {"val/accuracy": 0.5, "_runtime": 21}


@pytest.mark.usefixtures("server")
def test_the_real_client_and_no_such_run() -> None:
    with pytest.raises(InputError, match="Could not find run") as caught:
        list(WandbOnlineLog("wandb:team/project/gone").records(Tally()))
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("real_client")
def test_the_real_client_without_a_login() -> None:
    with pytest.raises(InputError, match="wandb login"):
        list(WandbOnlineLog("wandb:a/b/c").records(Tally()))


def test_without_wandb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingDependencyError, match=r"scalerl\[wandb\]"):
        list(WandbOnlineLog("wandb:a/b/c").records(Tally()))
