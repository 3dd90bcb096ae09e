"""Code by unit tests: the last fenced block of an answer is run in the sandbox, test after test, until one fails.

Made by `build`. A program that runs into a limit is wrong, like any other that does not give the right output; only a
sandbox that fails is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from scalerl.errors import InputError
from scalerl.verify.bubblewrap import bubblewrap
from scalerl.verify.pool import Pool
from scalerl.verify.sandbox import Limits, Outcome, Sandbox, Session, unsafe_plain_process
from scalerl.verify.unit_tests import UnitTest, read_tests
from scalerl.verify.verdict import Verdict, Verifier

LONGEST_ANSWER = 200_000
"""Characters."""

_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+#-]*)[^\n]*$", re.MULTILINE)
_PYTHON = {"", "python", "python3", "py"}

Work = tuple[str, tuple[UnitTest, ...]]
"""A program and its tests."""


@dataclass(frozen=True)
class CodeVerifier(Verifier):
    """A program against its tests."""

    limits: Limits = field(default_factory=Limits)
    workers: int = 0
    """Programs at once; 0: one for each core, up to eight."""
    without_sandbox: bool = False
    """Run the programs where they can do whatever the user can."""

    def __post_init__(self) -> None:
        assert self._sandbox.command  # a machine without a sandbox is refused now

    def verify(self, text: str, reference: str) -> Verdict:
        return self.verify_all([text], reference)[0]

    def verify_all(self, texts: Sequence[str], reference: str) -> list[Verdict]:
        try:
            tests = read_tests(reference)
        except InputError as error:
            return [Verdict("error", error.what)] * len(texts)
        codes = [program_of(text) for text in texts]
        judged = iter(self._pool.verdicts([(code, tests) for code in codes if code]))
        return [next(judged) if code else Verdict("unparsable", "no block of code") for code in codes]

    def objection(self, reference: str) -> str | None:
        try:
            read_tests(reference)
        except InputError as error:
            return f"{error.what}; allowed: {error.allowed}"
        return None

    def close(self) -> None:
        self._pool.close()

    @cached_property
    def _sandbox(self) -> Sandbox:
        return unsafe_plain_process(sys.executable) if self.without_sandbox else bubblewrap()

    @cached_property
    def _pool(self) -> Pool[Work]:
        return Pool(partial(_ProgramJudge, self._sandbox, self.limits), self.workers)


class _ProgramJudge:
    """One sandbox after the other."""

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._session: Session | None = None

    def judge(self, item: Work) -> Verdict:
        code, tests = item
        self._session = session = self._sandbox.session(code, self._limits)
        try:
            for number, test in enumerate(tests, 1):
                outcome = session.run(test.given)
                if outcome.status == "broken":
                    return Verdict("error", f"the sandbox failed ({outcome.detail})")
                if outcome.status != "finished" or not test.passed(outcome.output):
                    return Verdict("wrong", f"test {number} of {len(tests)}: {_reason(outcome)}")
        finally:
            session.close()
        return Verdict("correct", f"{len(tests)} tests")

    def close(self) -> None:
        if self._session is not None:
            self._session.abort()


def program_of(text: str) -> str | None:
    """The last fenced block in Python, or without a language; one that is cut off at the end of the text counts."""
    tail = text[-LONGEST_ANSWER:]
    fences = list(_FENCE.finditer(tail))
    blocks = [
        (
            fence[1].casefold(),
            tail[fence.end() : fences[i + 1].start() if i + 1 < len(fences) else len(tail)].strip("\n"),
        )
        for i, fence in enumerate(fences)
        if i % 2 == 0
    ]
    found = [code for language, code in blocks if language in _PYTHON and code.strip()]
    return found[-1] if found else None


def _reason(outcome: Outcome) -> str:
    if outcome.status == "finished":
        return "another result"
    return outcome.status.replace("_", " ") + (f" ({outcome.detail})" if outcome.detail else "")
