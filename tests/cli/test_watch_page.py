"""`scalerl watch`: ends, exit codes, news, the page it serves, and bad options."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from scalerl.report import webhook

from .conftest import Run, curve, write
from .test_runs import train

ONCE = ("--until-decided", "--no-page", "--every", "0.05")
"""Ends by itself where the curve can be decided."""


def rising(path: Path) -> Path:
    """Still far below its midpoint: worth scaling."""
    compute, value = curve(0.9, 4000, 4)
    return write(path, compute[:18], value[:18])


def falling(path: Path) -> Path:
    compute, value = curve(0.7, 600, 1)
    drop = [max(0.05, v - 0.05 * max(0, i - 11)) for i, v in enumerate(value)]
    return write(path, compute, drop)


def test_the_code_tells_the_decision(run: Run, one: Path, tmp_path: Path) -> None:
    ran = run("watch", one, *ONCE)
    assert ran.code == 10
    assert re.fullmatch(r"one: STOP: a gain of 0\.03 or more by .* is unlikely, P \S+\n", ran.out)
    assert ran.err == f"scalerl: {ran.out}"
    assert run("watch", rising(tmp_path / "rising.csv"), *ONCE).code == 0
    assert run("watch", falling(tmp_path / "falling.csv"), *ONCE).code == 12


def test_of_several_runs_the_highest_code(run: Run, one: Path, tmp_path: Path) -> None:
    ran = run("watch", one, rising(tmp_path / "rising.csv"), *ONCE)
    assert ran.code == 10
    assert [line.split(":")[1].strip() for line in ran.out.splitlines()] == ["STOP", "SCALE"]


def test_the_budget_and_the_gain_are_the_users(run: Run, tmp_path: Path) -> None:
    ran = run("watch", rising(tmp_path / "rising.csv"), *ONCE, "--budget", "200%", "--delta", "0.5")
    assert ran.code == 10
    assert "a gain of 0.5 or more by 3.44k gpu_hours is unlikely" in ran.out


def test_the_time_is_over(run: Run, tmp_path: Path) -> None:
    compute, value = curve(0.7, 600, 1)
    path = write(tmp_path / "short.csv", compute[:3], value[:3])
    ran = run("watch", path, *ONCE, "--timeout", "0.5")
    assert ran.code == 11
    assert ran.out == "short: NEED MORE DATA: 3 points so far; a fit needs at least 5 beside step 0\n"
    assert run("watch", path, "--no-page", "--timeout", "0.3").code == 0


def test_a_finished_run_that_is_still_open_ends_it(run: Run, tmp_path: Path) -> None:
    train(tmp_path / "run")
    ran = run("watch", tmp_path / "run", *ONCE, "--until", "3%", "--timeout", "60")
    assert (ran.code, ran.out.split(":")[1].strip()) == (11, "NEED MORE DATA")


def test_a_target_that_is_not_there_is_waited_for(run: Run, tmp_path: Path) -> None:
    ran = run("watch", tmp_path / "no.csv", *ONCE, "--timeout", "0.3")
    assert ran.code == 11
    assert "no.csv: nothing there yet; it is read as soon as there is" in ran.err
    assert ran.out.endswith("no.csv: nothing to read\n")


def test_a_webhook_hears_of_it(run: Run, one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []

    def post(_: webhook.Webhook, body: bytes) -> str:
        told.append(json.loads(body))
        return ""

    monkeypatch.setattr(webhook.Webhook, "_post", post)
    assert run("watch", one, *ONCE, "--webhook", "https://chat.example/hook").code == 10
    (message,) = told
    assert {key: message[key] for key in ("run", "action", "previous")} == {
        "run": "one", "action": "STOP", "previous": None,
    }  # fmt: skip
    assert message["low"] < message["value"] < message["high"]
    assert message["budget"] == pytest.approx(2 * message["compute"])
    assert set(message) == {
        "run", "action", "previous", "probability", "reason", "value", "low", "high", "budget", "compute", "time",
    }  # fmt: skip


def test_a_name_that_a_table_does_not_have_is_refused_at_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("gpu_hours,pass_rate\n1,0.2\n2,0.3\n")
    ran = run("watch", "there.csv", "--no-page", "--x", "nope")
    assert (ran.code, ran.out) == (2, "")
    assert "unknown column for --x: got 'nope'; allowed: one of gpu_hours, pass_rate" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to read"),
        (("-", "--no-page"), "standard input cannot be watched"),
        (("a.csv", "--port", "70000"), "--port: got '70000'; allowed: 0 to 65535"),
        (("a.csv", "--port", "x"), "--port: got 'x'"),
        (("a.csv", "--every", "0"), "--every: got '0'"),
        (("a.csv", "--timeout", "-1"), "--timeout: got '-1'"),
        (("a.csv", "--token", "short"), "--token: got '*****'; allowed: 8 or more"),
        (("a.csv", "--host", "192.0.2.1"), "cannot listen on 192.0.2.1"),
        (("a.csv", "--webhook", "file:///etc/passwd"), "--webhook"),
        (("a.csv", "--budget", "0"), "--budget"),
        (("a.csv", "a.csv"), "the same target twice"),
    ],
)
def test_bad_options_are_one_line(run: Run, arguments: tuple[str, ...], words: str) -> None:
    ran = run("watch", *arguments, "--timeout", "5") if "--timeout" not in arguments else run("watch", *arguments)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    assert words in line


@contextmanager
def watching(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as users start it, and the address that it prints."""
    command = [sys.executable, "-m", "scalerl", "watch", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            found = re.search(r"watching at (http://\S+) ", first)
            assert found is not None, first + process.stderr.read()
            yield process, found[1]
        finally:
            process.kill()


def get(url: str, headers: dict[str, str] | None = None) -> tuple[http.client.HTTPResponse, bytes]:
    parts = urlsplit(url)
    assert parts.port is not None
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=20)
    connection.request("GET", f"{parts.path}?{parts.query}", headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_page_is_served_and_ctrl_c_ends_it(one: Path) -> None:
    with watching(one, "--port", 0, "--level", "0.9") as (process, url):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        page = get(url)[1].decode()
        assert '<body data-live="events"' in page
        document = json.loads(get(f"{url}document.json")[1])
        assert (document["level"], document["command"]) == (0.9, f"scalerl watch {one} --level 0.9")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


def test_an_open_address_gets_a_token(one: Path) -> None:
    with watching(one, "--port", 0, "--host", "0.0.0.0") as (_, url):
        token = re.search(r"/\?token=([\w-]{20,})$", url)
        assert token is not None
        assert get(url.split("?")[0])[0].status == 403
        assert get(url)[0].headers["Set-Cookie"].startswith(f"scalerl-{urlsplit(url).port}={token[1]};")


def test_a_port_in_use_is_one_line(run: Run, one: Path) -> None:
    with watching(one, "--port", 0) as (_, url):
        ran = run("watch", one, "--port", urlsplit(url).port)
    assert (ran.code, ran.out) == (2, "")
    assert re.search(r"--port: the port is in use: got \d+; allowed: a free one, such as --port \d+\n$", ran.err)
