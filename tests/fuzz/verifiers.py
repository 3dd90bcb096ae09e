"""Fuzz targets of everything that reads what a model wrote: verifiers, extraction of code, tasks, marks of thinking.

None of them may raise at all, whatever the text. Programs are not run and sympy is not asked, except by `math-worker`,
which talks to the real process behind the math verifier.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scalerl.errors import InputError
from scalerl.tasks import build_task
from scalerl.tasks.answers import final_answer, whole_number
from scalerl.tasks.expression import numbers_in, parse_expression, value_of
from scalerl.verify import Kind, Verdict, build_verifier
from scalerl.verify.programs import program_of
from scalerl.verify.symbolic import MathVerifier
from scalerl.verify.unit_tests import read_tests
from scalerl.verify.verdict import STATUSES

from . import samples
from .target import JSON_WORDS, NUMBER_WORDS, Run, Target, as_text, fields

_WORDS = (
    *NUMBER_WORDS, "\\boxed{", "}", "{", "\\frac{", "$", "\\[", "\\]", "\\(", "\\)", "####", "the answer is",
    "Answer:", "**", "%", "\\text{ cm}^2", " and ", ", ", "=", "≈", "million", "10^{", "\\times", "(A)", "B.",
    "option C", "</think>", "²", "½", "\u202f", "\\sqrt", "\\left(", "x=", "_{16}", "\\{", "e999", "1/0", "\0",
)  # fmt: skip
_CODE_WORDS = (
    *JSON_WORDS, "```", "```python\n", "\n", '{"inputs": [', '"outputs": [', '"fn_name": "f"',
    '"testtype": "functional"', '"metadata": {"func_name": "f"}', "\0", "1e400", "[1, 2]",
)  # fmt: skip


def check(verdict: Verdict) -> None:
    assert verdict.status in STATUSES
    assert isinstance(verdict.detail, str)


def never(run: Callable[[bytes], None]) -> Run:
    """Not even a refusal is allowed."""

    def driven(data: bytes) -> None:
        try:
            run(data)
        except InputError as refusal:
            raise AssertionError(f"a verifier refused: {refusal}") from refusal

    return driven


def _make(kind: Kind, _: Path) -> Run:
    verifier = build_verifier(kind, tolerance=1e-3) if kind == "number" else build_verifier(kind)

    def run(data: bytes) -> None:
        text, reference = [*fields(data), ""][:2]
        check(verifier.verify(text, reference))
        if verifier.objection(text) is None:
            assert verifier.verify(text, text).status != "error"

    return never(run)


class _NoPool:
    """In the place of the processes with sympy."""

    def verdicts(self, items: Sequence[Any]) -> list[Verdict]:
        return [Verdict("unparsable")] * len(items)

    def close(self) -> None:
        return


def _make_math(_: Path) -> Run:
    verifier = MathVerifier()
    vars(verifier)["_pool"] = _NoPool()

    def run(data: bytes) -> None:
        text, reference = [*fields(data), ""][:2]
        check(verifier.verify(text, reference))

    return never(run)


def _make_math_worker(_: Path) -> Run:
    verifier = MathVerifier(timeout_s=1.0, workers=1)

    def run(data: bytes) -> None:
        text, reference = [*fields(data), ""][:2]
        check(verifier.verify(f"\\boxed{{{text}}}", f"\\boxed{{{reference}}}"))

    return never(run)


def _make_code(_: Path) -> Run:
    """A completion, the reference with its tests, and what a program printed."""

    def run(data: bytes) -> None:
        text, reference, output = [*fields(data), "", ""][:3]
        program = program_of(text)
        assert program is None or program.strip()
        try:
            tests = read_tests(reference)
        except InputError:
            return
        for test in tests:
            assert test.passed(output) in {True, False}

    return run


def _make_tasks(_: Path) -> Run:
    sums = build_task({"kind": "chained_sums", "numbers": 3, "largest": 99, "train_problems": 10})
    countdown = build_task({"kind": "countdown", "numbers": 4, "largest": 20, "train_problems": 10})
    problems = [(task, task.problems("train")[0]) for task in (sums, countdown)]

    def run(data: bytes) -> None:
        text = as_text(data)
        for thinking in (True, False):
            answer = final_answer(text, thinking=thinking)
            assert isinstance(answer, Verdict) or answer.strip() == answer
        whole_number(text)
        tree = parse_expression(text)
        if tree is not None and all(number < 10**6 for number in numbers_in(tree)):
            assert isinstance(value_of(tree), int)
        for task, problem in problems:
            check(task.verify(problem, text))
            check(task.verify(problem, f"</think>{text}"))

    return never(run)


def _make_chat(_: Path) -> Run:
    """A prompt and tokens through a chat template, with a tokenizer of its own."""
    from tests.chat_tokenizer import tokenizer_of

    from scalerl.config.chat import Chat
    from scalerl.policy.chat import Dialogue

    tokenizer, special = tokenizer_of(), tokenizer_of(special=("<think>", "</think>"))
    ways = [Dialogue(tokenizer, Chat()), Dialogue(tokenizer, Chat(template="model", system="s")),
            Dialogue(special, Chat(template="model", opened=True))]  # fmt: skip

    def run(data: bytes) -> None:
        text = data.decode(errors="replace")
        for way in ways:
            way.encode(text)
            tokens = [token % len(special) for token in data]
            way.end_thinking.in_tokens(tokens)
            assert len(way.texts([tokens, list(way.encode(text))])) == 2

    return run


def _pairs(kind: str) -> list[bytes]:
    pairs = tomllib.loads((samples.TESTS / "verify" / "pairs" / f"{kind}.toml").read_text())["pairs"]
    return [f"{text}\0{reference}".encode() for reference, text, *_ in pairs]


def _codes() -> list[bytes]:
    tests = (
        '{"inputs": ["1 2\\n"], "outputs": ["3\\n"]}',
        '{"fn_name": "f", "inputs": [[1, 2]], "outputs": [[3.5]]}',
        '[{"type": "stdin_stdout", "input": "1", "output": "2.0"}]',
        '[{"testtype": "functional", "input": "[1, 2]\\n3", "output": "[3]", "metadata": {"func_name": "f"}}]',
    )
    return [
        f"Text\n```python\nprint(3)\n```\n\0{test}\0{output}".encode()
        for test in tests
        for output in ("3", "[3]", "3.5")
    ]


def _thoughts() -> list[bytes]:
    return [b"3+4=7 7+5=12</think>12", b"</think>(3+4)*5-2", b"12", b"3 * (4 + 5)", b"<think></think> -7"]


TARGETS = (
    *(
        Target(f"verify-{kind}", partial(_make, kind), partial(_pairs, kind), _WORDS)
        for kind in ("exact", "number", "choice")
    ),
    Target("verify-math", _make_math, partial(_pairs, "math"), _WORDS),
    Target("verify-math-worker", _make_math_worker, partial(_pairs, "math"), _WORDS, cost=60),
    Target("verify-code", _make_code, _codes, _CODE_WORDS),
    Target("tasks", _make_tasks, _thoughts, ("</think>", "<think>", "+", "-", "*", "(", ")", "0", "12", "\n", "=")),
    Target(
        "chat",
        _make_chat,
        _thoughts,
        ("</think>", "<|im_end|>", "<|im_start|>", "<|end|>", "\0", "\u200b", "🙂"),
        cost=8,
    ),
)
