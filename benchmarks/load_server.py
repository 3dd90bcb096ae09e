"""`scalerl watch` and its clients, each in a process of its own, and the run directories they look at.

Used by `load_watch` and `load_metrics`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from load_rows import ONE_THREAD, processor_s, wants_processor
from scalerl.config import RunConfig, load_run, patch
from scalerl.runs import RunDirectory

CLIENTS = Path(__file__).with_name("load_clients.py")
PATIENCE_S = 5400.0
IDLE, GLANCES, GLANCE_S = 0.4, 60, 0.1
"""A server that works in less than this share of the glances has nothing left to do but look; on a machine that is busy
with other things a look takes its time too."""


class Server:
    """The command at work."""

    def __init__(self, *targets: Path) -> None:
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "scalerl", "watch", *map(str, targets), "--port", "0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD,
        )  # fmt: skip
        self.decided: dict[str, float] = {}
        """Run -> when its first decision was told, in seconds from the start."""
        self.port = self._read_port()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def document(self) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/document.json") as answer:
            return json.loads(answer.read())

    def wait_for_decisions(self, count: int) -> float:
        """Seconds from the start until so many runs were fitted for the first time."""
        end = time.monotonic() + PATIENCE_S
        while len(self.decided) < count:
            if time.monotonic() > end or self._process.poll() is not None:
                raise SystemExit(f"only {len(self.decided)} of {count} runs were fitted")
            time.sleep(0.05)
        return max(self.decided.values())

    def wait_for_rest(self) -> float:
        """Seconds from the start until it does nothing but look, for some seconds in a row."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            at, seen = time.monotonic(), 0
            for _ in range(GLANCES):
                seen += wants_processor(self.pid)
                time.sleep(GLANCE_S)
            if seen < IDLE * GLANCES:
                return at - self.began
        raise SystemExit("it never comes to rest")

    def busy(self, seconds: float) -> float:
        """Share of a core that it takes."""
        before = processor_s(self.pid)
        time.sleep(seconds)
        return (processor_s(self.pid) - before) / seconds

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)

    def _read_port(self) -> int:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := re.search(r"watching at http://127\.0\.0\.1:(\d+)/", line):
                return int(found[1])
        raise SystemExit("scalerl watch did not start")

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            name, found, _ = line.removeprefix("scalerl: ").partition(": ")
            if found and name != "note":
                self.decided.setdefault(name, time.monotonic() - self.began)


class Clients:
    """Some browsers."""

    def __init__(self, port: int, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CLIENTS), str(port), str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self._answer()

    def tell(self, command: str) -> None:
        """And wait until it is done."""
        self._say(command)
        self._answer()

    def latencies(self, run: RunDirectory, index: int, step: int) -> list[float]:
        """Seconds from a new evaluation of the run to each client."""
        point = evaluation(index, step)
        self.tell(f"mark {compute_of(point)!r}")
        run.evals.append(point)
        written = time.monotonic()
        return [moment - written for moment in self._answer()["seconds"]]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the clients are gone")
        return json.loads(line)


@contextmanager
def watched(*targets: Path) -> Iterator[Server]:
    server = Server(*targets)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def clients_of(server: Server, count: int) -> Iterator[Clients]:
    clients = Clients(server.port, count)
    try:
        yield clients
    finally:
        clients.stop()


def evaluation(index: int, step: int) -> dict[str, Any]:
    """A line of evals.jsonl; its compute occurs once in all runs, and tells run and step."""
    used = {"device_s": 0.1 * step, "flops": 1e9 * step + 16 * index + 5, "tokens": 100 * step}
    wave = 0.01 * ((37 * step + 11 * index) % 19 - 9) / 9
    rate = 0.2 + (0.4 + 0.3 * (index % 50) / 50) / (1 + (900 / max(step, 1e-9)) ** 1.2) + wave
    return {
        "step": step, "pass_rate": min(1.0, max(0.0, rate)), "num_problems": 250, "num_samples": 4,
        "num_judged": 1000, "standard_error": 0.015, "truncation_rate": 0.1, "mean_length": 30.5,
        "ledger": dict.fromkeys(("generation", "training", "evaluation"), used), "wall_s": float(step),
    }  # fmt: skip


def compute_of(point: dict[str, Any]) -> float:
    return float(2 * point["ledger"]["training"]["flops"])


def metrics_text(step: int, suffix: str) -> str:
    """A line of metrics.jsonl; everything but step and time is the suffix's."""
    return f'{{"step": {step}, "wall_s": {step}.25, {suffix}\n'


def suffixes(count: int, last_step: int) -> list[str]:
    """Different ends of lines: a random draw for each of millions would take longer than all that is measured."""
    used = {"device_s": 0.1 * last_step, "flops": 1e9 * last_step, "tokens": 100 * last_step}
    ledger = json.dumps(dict.fromkeys(("generation", "training", "evaluation"), used))
    return [
        f'"pass_rate": {0.5 + 0.3 * (i % 97) / 97:.5f}, "truncation_rate": {0.01 * (i % 7):.3f}, '
        f'"entropy": {0.4 + 0.001 * (i % 89):.5f}, "age_mean": {i % 5}.0, "grad_norm": {0.05 + 0.001 * (i % 83):.5f}, '
        f'"mean_length": {30 + i % 11}.5, "ledger": {ledger}}}'
        for i in range(count)
    ]


def write_run(folder: Path, index: int, evaluations: int, steps: int) -> RunDirectory:
    """A run that nobody works on, with evaluations evenly spread over its steps, and one line a step."""
    run = RunDirectory.create(folder, patch(config(), {"seed": index}), provenance=False)
    every = steps // evaluations
    run.evals.path.write_text("".join(json.dumps(evaluation(index, every * i)) + "\n" for i in range(evaluations + 1)))
    ends = suffixes(997, steps)
    with run.metrics.path.open("w") as stream:
        stream.writelines(metrics_text(step, ends[step % 997]) for step in range(1, steps + 1))
    return run


def config() -> RunConfig:
    return _CONFIG


_CONFIG = load_run("scalerl", "laptop").config
