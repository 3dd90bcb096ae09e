"""What a model can write at its worst: no exception, a verdict for everything else, and no process left behind."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import MissingDependencyError
from scalerl.verify import STATUSES, build_verifier
from scalerl.verify.pool import Pool
from scalerl.verify.process import Conversation, NoReplyError
from scalerl.verify.symbolic import MathVerifier
from scalerl.verify.verdict import Verdict

from .conftest import gone

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "verify.py"
HANGS = r"\boxed{9^{9^{9^{9}}}}"

Started = Callable[[], set[int]]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """benchmarks/verify.py does the same with 10,000."""
    spec = importlib.util.spec_from_file_location("verify_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_many_verifications_with_pathological_ones(benchmark: ModuleType, started: Started) -> None:
    _, before = benchmark.accuracy()
    figures = benchmark.endure(300, before)
    assert sum(figures["statuses"].values()) == 300
    assert figures["changed_verdicts"] == 0
    assert figures["processes_left"] == 0
    assert sum(figures["pathological"].values()) == 3
    assert "correct" not in figures["pathological"]
    assert started() == set()


def test_every_pathological_text_has_a_verdict_of_the_light_verifiers(benchmark: ModuleType, started: Started) -> None:
    for kind, reference in (("exact", "y"), ("number", "8"), ("choice", "B")):
        verifier = build_verifier(kind)  # type: ignore[arg-type]
        for text in benchmark.PATHOLOGICAL:
            assert not verifier.verify(text, reference).correct
    assert started() == set()  # and no process at any time


@settings(max_examples=300)
@given(st.text(max_size=200), st.sampled_from(["", r"\boxed{", "The answer is ", "$", "(", "1/", "-", "#### "]))
def test_any_text_has_a_verdict(text: str, before: str) -> None:
    for kind, reference in (("exact", "x"), ("number", "7"), ("choice", "B")):
        verdict = build_verifier(kind).verify(before + text, reference)  # type: ignore[arg-type]
        assert verdict.status in STATUSES
        assert verdict.judged


def test_a_hanging_answer_is_a_timeout_and_the_others_keep_their_order(started: Started) -> None:
    verifier = MathVerifier(timeout_s=1.0, workers=2)
    texts = [r"\boxed{x+1}", HANGS, r"\boxed{1+x}", r"\boxed{x+2}", r"\boxed{2x-x+1}"]
    found = verifier.verify_all(texts, "x+1")
    assert [verdict.status for verdict in found] == ["correct", "timeout", "correct", "wrong", "correct"]
    assert not found[1].judged
    assert 1 <= len(started()) <= 2  # they stay for the next group; the one that hung comes back when it is needed
    assert verifier.verify(r"\boxed{x+1}", "1+x").correct
    verifier.close()
    assert started() == set()
    assert verifier.verify(r"\boxed{x+1}", "1+x").correct  # closed is not broken
    verifier.close()


def test_a_forgotten_verifier_leaves_nothing(started: Started) -> None:
    verifier = MathVerifier(workers=1)
    assert verifier.verify(r"\boxed{x+1}", "1+x").correct
    assert len(started()) == 1
    del verifier
    assert started() == set()


def test_easy_answers_start_no_process(started: Started) -> None:
    verifier = MathVerifier()
    assert verifier.verify(r"\boxed{\frac{1}{2}}", "0.5").correct
    assert verifier.verify(r"\boxed{\text{Evelyn}}", "Evelyn").correct
    assert verifier.verify("", "7").status == "unparsable"
    assert started() == set()


def test_a_worker_that_is_killed_is_replaced(started: Started) -> None:
    verifier = MathVerifier(workers=1)
    assert verifier.verify(r"\boxed{x+1}", "1+x").correct
    (worker,) = started()
    os.kill(worker, signal.SIGKILL)
    assert gone({worker})
    assert verifier.verify(r"\boxed{x+1}", "1+x").correct
    verifier.close()


def test_without_math_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.verify.symbolic.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"math-verify.*scalerl\[train\]"):
        build_verifier("math")


PARENT = f"""
import threading, time
from contextlib import suppress
from pathlib import Path
from scalerl.verify.symbolic import MathVerifier
def tell():
    workers = []
    while len(workers) < 2:  # on a busy machine one of them may answer easy questions alone
        time.sleep(0.05)
        with suppress(OSError):  # a thread that has just ended
            workers = [n for t in Path("/proc/self/task").glob("*/children") for n in t.read_text().split()]
    print(*workers, flush=True)
verifier = MathVerifier(timeout_s=20.0, workers=2)
verifier.verify_all([r"\\boxed{{x+1}}", r"\\boxed{{x+2}}"], "1+x")
threading.Thread(target=tell, daemon=True).start()
verifier.verify_all([{HANGS!r}, {HANGS!r}], "1+x")
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_their_parent(how: signal.Signals) -> None:
    """Even in the middle of an answer that would take for ever."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        workers = {int(word) for word in parent.stdout.readline().split()}
        assert len(workers) == 2
        time.sleep(0.5)  # both are at work
        parent.send_signal(how)
        parent.wait(60)
    assert gone(workers, 60)


class _Slow:
    """A judge that waits until it is closed."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def judge(self, item: str) -> Verdict:
        if item == "raise":
            raise KeyboardInterrupt
        self._closed.wait(60)
        return Verdict("error", "closed")

    def close(self) -> None:
        self._closed.set()


def test_an_interruption_closes_every_judge_and_waits_for_nobody() -> None:
    made: list[_Slow] = []

    def make() -> _Slow:
        made.append(_Slow())
        return made[-1]

    with pytest.raises(KeyboardInterrupt):
        Pool(make, 3).verdicts(["raise", "wait", "wait", "wait"])
    assert len(made) == 3
    assert all(judge._closed.is_set() for judge in made)


@pytest.mark.parametrize(
    ("program", "late", "reason"),
    [
        ("input(); import time; time.sleep(60)", True, "no reply within 0.5 s"),
        ("input(); print('[1]')", False, "no object"),
        ("input(); print('[' * 100_000)", False, "recursion"),
        ("input(); print('{')", False, "Expecting"),
        ("input(); import os; os._exit(3)", False, "with code 3"),
        ("input(); import os; os.kill(os.getpid(), 9)", False, "by SIGKILL"),
        ("input(); import signal; signal.setitimer(signal.ITIMER_PROF, .1)\nwhile True: pass", True, "processor time"),
    ],
)
def test_replies_that_are_none(program: str, late: bool, reason: str, started: Started) -> None:
    talk = Conversation([sys.executable, "-c", program], dict(os.environ))
    with pytest.raises(NoReplyError, match=reason) as caught:
        talk.exchange({}, 0.5 if "sleep" in program else 60)
    assert caught.value.late is late
    assert not talk.running


def test_a_process_that_does_not_listen_is_ended(started: Started) -> None:
    """More than a pipe holds is never taken."""
    talk = Conversation([sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ))
    with pytest.raises(NoReplyError, match=r"no reply within 0\.5 s"):
        talk.exchange({"text": "x" * 1_000_000}, 0.5)
