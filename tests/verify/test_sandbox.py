"""Programs that try to get out of the sandbox, or to bring the machine down: each is contained, with a status."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import scalerl
from scalerl.errors import InputError
from scalerl.verify import Verdict, build_verifier
from scalerl.verify.bubblewrap import bubblewrap
from scalerl.verify.programs import CodeVerifier, program_of
from scalerl.verify.sandbox import Limits, Outcome, Sandbox, unsafe_plain_process

from .conftest import children, gone

SUMS = json.dumps({"inputs": ["1 2\n", "5 6\n"], "outputs": ["3\n", "11\n"]})
ADDS = "a, b = map(int, input().split())\nprint(a + b)"

SMALL = Limits(cpu_s=1.0, memory_mb=128, output_bytes=1 << 16)

Try = Callable[..., Outcome]
Started = Callable[[], set[int]]


@pytest.fixture
def attempt(sandbox: Sandbox) -> Try:
    """Run a program in the sandbox, once, with small limits; nothing may be left of it."""

    def run(code: str, limits: Limits = SMALL) -> Outcome:
        before = children()
        session = sandbox.session(code, limits)
        outcome = session.run({"stdin": ""})
        session.close()
        assert children() == before
        return outcome

    return run


def test_a_file_outside_cannot_be_read(attempt: Try, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("42")
    secret.chmod(0o644)
    for path in (secret, Path.home(), Path(__file__), Path("/etc/passwd"), Path("/proc/1/environ")):
        look = f"import os\np = {str(path)!r}\nprint(os.listdir(p) if os.path.isdir(p) else open(p).read())"
        outcome = attempt(look)
        assert outcome.status == "failed"
        assert "FileNotFoundError" in outcome.detail


def test_the_environment_is_not_shown(attempt: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    assert "API_KEY" not in attempt("import os; print(dict(os.environ))").output


def test_no_socket_reaches_anybody(attempt: Try) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        here = attempt(f"import socket; socket.create_connection({server.getsockname()}, 2)")
        with pytest.raises(BlockingIOError):  # nobody knocked
            server.accept()
    there = attempt("import socket; socket.create_connection(('192.0.2.1', 80), 2)")
    assert (here.status, there.status) == ("failed", "failed")
    assert "refused" in here.detail
    assert "unreachable" in there.detail


@pytest.mark.parametrize("again", ["os.fork()", "try:\n    os.fork()\n  except OSError:\n    pass"])
def test_a_fork_bomb_ends(attempt: Try, again: str) -> None:
    outcome = attempt(f"import os\nwhile True:\n  {again}")
    assert outcome.status in {"process_limit", "time_limit"}


def test_threads_are_counted_too(attempt: Try) -> None:
    code = "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(5,)).start()"
    assert attempt(code, Limits(cpu_s=5.0, memory_mb=2048)).status == "process_limit"


@pytest.mark.parametrize("code", ["x = bytearray(10 << 30)", "x = [0]\nwhile True: x += x"])
def test_ten_gigabytes_are_not_given(attempt: Try, code: str) -> None:
    assert attempt(code, Limits(cpu_s=10.0, memory_mb=128)).status == "memory_limit"


@pytest.mark.parametrize(
    "code",
    [
        "while True: print('x' * 1000)",
        "import os\nwhile True: os.write(1, b'x' * 1000)",
        "f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * 1000)",
    ],
)
def test_endless_output_is_cut(attempt: Try, code: str) -> None:
    assert attempt(code).status == "output_limit"


def test_a_program_that_hangs_is_ended(attempt: Try) -> None:
    assert attempt("while True: pass").status == "time_limit"
    assert attempt("import time; time.sleep(600)").status == "time_limit"
    assert attempt("import signal, time\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n"
                   "  except OSError: pass\nwhile True: pass").status == "time_limit"  # fmt: skip


@pytest.mark.parametrize("code", ["os.kill(os.getppid(), 9)", "os.kill(1, 9); os.kill(-1, 9)", "os.killpg(0, 9)"])
def test_killing_reaches_nobody_outside(attempt: Try, code: str) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        outcome = attempt(f"import os\n{code}")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert outcome.status in {"ended", "failed"}


def test_a_runner_that_is_stopped_is_ended_from_outside(attempt: Try) -> None:
    outcome = attempt("import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)")
    assert outcome.status == "time_limit"


def test_the_package_cannot_be_written(attempt: Try) -> None:
    path = Path(scalerl.__file__)
    before = path.read_bytes()
    assert attempt(f"open({str(path)!r}, 'a').write('oops')").status == "failed"
    assert attempt("import scalerl").status == "failed"
    assert path.read_bytes() == before


@pytest.mark.parametrize("place", ["/", "/usr", "/usr/bin", "/dev", "/etc", "/home"])
def test_nothing_of_the_system_can_be_written(attempt: Try, place: str) -> None:
    assert attempt(f"open({place + '/scalerl-was-here'!r}, 'w')").status == "failed"
    assert not Path(place, "scalerl-was-here").exists()


def test_what_is_written_is_gone_afterwards(attempt: Try) -> None:
    assert attempt("open('/tmp/scalerl-was-here', 'w').write('x')").status == "finished"
    assert not Path("/tmp/scalerl-was-here").exists()
    assert attempt("import os; print(os.path.exists('/tmp/scalerl-was-here'))").output == "False\n"


def test_a_program_does_not_outlive_a_killed_parent(sandbox: Sandbox) -> None:
    code = """
from pathlib import Path
from scalerl.verify.bubblewrap import bubblewrap
from scalerl.verify.sandbox import Limits
session = bubblewrap().session("import os, time\\nos.fork()\\ntime.sleep(600)", Limits(cpu_s=60.0))
print(*(n for t in Path("/proc/self/task").glob("*/children") for n in t.read_text().split()), flush=True)
session.run({"stdin": ""})
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        (outer,) = (int(word) for word in parent.stdout.readline().split())
        time.sleep(1.0)
        inner = {int(word) for word in Path(f"/proc/{outer}/task/{outer}/children").read_text().split()}
        assert inner
        parent.send_signal(signal.SIGKILL)
    assert gone({outer, *inner})


@pytest.fixture
def code(sandbox: Sandbox) -> CodeVerifier:
    return CodeVerifier(Limits(cpu_s=1.0, memory_mb=128), workers=2)


def _answer(program: str) -> str:
    return f"This should do:\n```python\n{program}\n```\nDone."


def test_verdicts_in_order(code: CodeVerifier, started: Started) -> None:
    texts = [
        _answer(ADDS),
        "I cannot.",
        _answer("print(3)"),
        _answer("while True: pass"),
        _answer("print("),
        _answer(ADDS),
    ]
    found = code.verify_all(texts, SUMS)
    assert [verdict.status for verdict in found] == ["correct", "unparsable", "wrong", "wrong", "wrong", "correct"]
    assert [verdict.detail.partition(" (")[0] for verdict in found] == [
        "2 tests", "no block of code", "test 2 of 2: another result", "test 1 of 2: time limit", "test 1 of 2: failed",
        "2 tests",
    ]  # fmt: skip
    assert started() == set()


@pytest.mark.parametrize(
    "program",
    [
        "class Solution:\n  def add(self, a, b): return a + b",
        "def add(a, b): return a + b",
        "from operator import add",
        "print('noise')\ndef add(a, b):\n  print('more')\n  return a + b",
    ],
)
def test_calls(code: CodeVerifier, program: str) -> None:
    tests = json.dumps({"fn_name": "add", "inputs": [[1, 2], [[1], [2]]], "outputs": [[3], [[1, 2]]]})
    assert code.verify(_answer(program), tests) == Verdict("correct", "2 tests")


@pytest.mark.parametrize(
    "program",
    [
        "def add(a, b): return a - b",
        "def add(a, b): return {a, b}",
        "def plus(a, b): return a + b",
        "def add(a, b): raise SystemExit",
        "import os\nos._exit(0)",
        "def add(a, b):\n  import os\n  os.write(1, b'3')\n  os._exit(0)",
    ],
)
def test_calls_that_give_something_else(code: CodeVerifier, program: str) -> None:
    tests = json.dumps({"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]})
    assert code.verify(_answer(program), tests).status == "wrong"


def test_expected_outputs_are_never_inside(code: CodeVerifier) -> None:
    """A program that prints every text it finds in the memory of its runner and in its pipes does not find them."""
    hunt = (
        "import gc, os, sys, __main__\n"
        "print(vars(__main__), [o for o in gc.get_objects() if isinstance(o, (dict, list, tuple))][:2000])\n"
        "for number in range(3, 64):\n"
        "  try: os.set_blocking(number, False); print(os.read(number, 99999))\n"
        "  except OSError: pass\n"
    )
    session = code._sandbox.session(hunt, Limits(cpu_s=5.0, memory_mb=512))
    outcome = session.run({"stdin": "1 2\n"})
    session.close()
    assert outcome.status == "finished"
    assert "1 2" in outcome.output or outcome.output
    tests = json.dumps({"inputs": ["1 2\n"], "outputs": ["swordfish\n"]})
    assert code.verify(_answer(hunt.replace("print(vars", "print('x', vars")), tests).status == "wrong"
    assert "swordfish" not in outcome.output


def test_a_reference_without_tests_is_an_error(code: CodeVerifier) -> None:
    assert code.verify(_answer(ADDS), "42").status == "error"
    assert code.objection("42") is not None
    assert code.objection(SUMS) is None


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("```python\nx\n```", "x"), ("```\nx\n```", "x"), ("```py\nx\n```\n```python3\ny\n```", "y"),
        ("```python\nx\n```\nOutput:\n```text\ny\n```", "x"), ("```python\nx = 1", "x = 1"), ("x = 1", None),
        ("```cpp\nint x;\n```", None), ("```python\n\n```", None), ("  ```Python\n  x\n  ```", "  x"), ("", None),
    ],
)  # fmt: skip
def test_where_the_program_is(text: str, program: str | None) -> None:
    assert program_of(text) == program


def test_without_bubblewrap_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.verify.bubblewrap.shutil.which", lambda *_, **__: None)
    bubblewrap.cache_clear()
    with pytest.raises(InputError) as caught:
        build_verifier("code")
    message = str(caught.value)
    assert "the command bwrap is not installed" in message
    assert "run_model_code_without_sandbox" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ('while [ "$1" != "--" ]; do shift; done; shift; exec "$@"', "processes does not hold|can be written|network"),
    ],
    ids=["namespaces are off", "a sandbox that is none"],
)  # fmt: skip
def test_a_sandbox_that_does_not_hold_is_refused(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if os.geteuid() == 0 and folder != Path("/tmp") and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)  # nobody must find it
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    bubblewrap.cache_clear()
    with pytest.raises(InputError, match=reason):
        build_verifier("code")
    bubblewrap.cache_clear()


def test_without_a_sandbox_if_the_user_insists(started: Started) -> None:
    verifier = build_verifier("code", run_model_code_without_sandbox=True, timeout_s=1.0, workers=1)
    texts = [_answer(program) for program in (ADDS, "print(1)", "while True: pass", "x = bytearray(10 << 30)")]
    found = verifier.verify_all(texts, SUMS)
    assert [verdict.status for verdict in found] == ["correct", "wrong", "wrong", "wrong"]
    assert "time limit" in found[2].detail
    assert "memory limit" in found[3].detail
    assert not unsafe_plain_process(sys.executable).safe
    assert started() == set()
