"""Programs as people and models write them: what works when Python runs the file works in the sandbox."""

import json

import pytest

from scalerl.verify import Verdict
from scalerl.verify.programs import CodeVerifier
from scalerl.verify.sandbox import Limits, Sandbox

NEXT = json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]})
TOTAL = json.dumps({"fn_name": "total", "inputs": [[[1, 2, 3]]], "outputs": [6]})


@pytest.fixture
def code(sandbox: Sandbox) -> CodeVerifier:
    return CodeVerifier(Limits(cpu_s=2.0, memory_mb=256), workers=1)


def judged(code: CodeVerifier, program: str, tests: str) -> Verdict:
    return code.verify(f"```python\n{program}\n```", tests)


ENDS = {
    "exit": "print(2)\nexit()\nprint(3)",
    "quit": "print(2)\nquit(0)\nprint(3)",
    "a thread that nobody joins": "import threading\nthreading.Thread(target=lambda: print(int(input()) + 1)).start()",
    "a thread that starts another": (
        "import threading, time\n"
        "def second(): time.sleep(.2); print(2)\n"
        "def first(): time.sleep(.2); threading.Thread(target=second).start()\n"
        "threading.Thread(target=first).start()"
    ),
    "an idle daemon": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    "print(2)",
    "an exit function": (
        "import atexit, io, sys\nkept = sys.stdout = io.StringIO()\n"
        "atexit.register(lambda: sys.__stdout__.write(kept.getvalue()))\nprint(2)"
    ),
    "the other name of its output": "import sys\nsys.__stdout__.write('2\\n')",
    "an input that is opened again": "import sys\nsys.stdin = open(0)\nprint(int(sys.stdin.readline()) + 1)",
    "an output that is wrapped": (
        "import io, os, sys\nnumber = sys.stdout.fileno()\nsys.stdout = io.StringIO()\nos.write(number, b'2\\n')"
    ),
    "an output that is closed": "import sys\nprint(2)\nsys.stdout.close()",
}


@pytest.mark.parametrize("case", ENDS)
def test_ways_to_read_write_and_end(case: str, code: CodeVerifier) -> None:
    assert judged(code, ENDS[case], NEXT) == Verdict("correct", "1 tests")


def test_a_failure_after_the_output_is_a_failure(code: CodeVerifier) -> None:
    assert judged(code, "print(2)\nexit(1)", NEXT).status == "wrong"
    assert judged(code, "print(2)\nraise ValueError", NEXT).status == "wrong"


def test_a_thread_without_end_is_out_of_time(code: CodeVerifier) -> None:
    endless = "import threading\ndef turn():\n  while True: pass\nprint(2)\nthreading.Thread(target=turn).start()"
    assert "time limit" in judged(code, endless, NEXT).detail


@pytest.mark.parametrize(
    "program",
    [
        "class Solution:\n  def total(self, numbers: List[int]) -> Optional[int]: return sum(numbers)",
        "def total(numbers): return sum(Counter(numbers).elements())",
        "@lru_cache(None)\ndef one(n): return n\ndef total(numbers): return reduce(operator.add, map(one, numbers))",
        "class Solution:\n  def total(self, numbers): return math.floor(sum(numbers)) + pow(5, 0, 1)",
    ],
)
def test_starter_code_that_imports_nothing(code: CodeVerifier, program: str) -> None:
    """As LeetCode and LiveCodeBench have it; a builtin stays what it is, `pow` with three arguments too."""
    assert judged(code, program, TOTAL) == Verdict("correct", "1 tests")


def test_what_is_given_is_not_the_answer(code: CodeVerifier) -> None:
    """A name of the standard library is no function that the program wrote, and does not hide a method of its own."""
    tests = json.dumps({"fn_name": "gcd", "inputs": [[4, 6]], "outputs": [2]})
    assert "no function gcd" in judged(code, "def other(a, b): return 2", tests).detail
    own = "class Solution:\n  def gcd(self, a, b): return 3"
    assert "another result" in judged(code, own, tests).detail
