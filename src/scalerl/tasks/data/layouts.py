r"""The usual layouts of datasets: which column is the prompt, which the answer, what is done to them, who judges them.

Called by `records`. A layout is plain data and one or two small functions; to add one, add it to `LAYOUTS`, a sample to
`tests/data`, and its name to `scalerl.config.task`. Recognising goes by columns and the first row, and only where
nobody named a layout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalerl.errors import InputError
from scalerl.readers.cells import shorten
from scalerl.tasks.data.cells import table_of
from scalerl.verify import Kind
from scalerl.verify.statement import boxes

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Layout:
    """How the rows of a dataset are to be read."""

    name: str
    prompts: tuple[str, ...]
    """Keys of the prompt; the first that is there."""
    answers: tuple[str, ...]
    """Keys of the answer; the first that is there."""
    verifier: Kind
    """Who judges it, unless the user says otherwise."""
    about: str
    """Which datasets look like this."""
    beside: tuple[str, ...] = ()
    """Columns that are also used where they are there."""
    prompt_of: Callable[[str, Row], str] = lambda prompt, _: prompt
    answer_of: Callable[[Any, Row], Any] = lambda answer, _: answer


def final_number(answer: Any, _: Row) -> Any:
    """GSM8K: what stands after ####."""
    if not isinstance(answer, str) or not answer.strip():
        return answer
    if "####" not in answer:
        raise InputError("no #### before the final answer", shorten(answer), "GSM8K's form, '... #### 42'")
    return answer.rpartition("####")[2]


def boxed_answer(solution: Any, _: Row) -> Any:
    r"""MATH: what stands in the last \boxed{...}."""
    if not isinstance(solution, str) or not solution.strip():
        return solution
    found = boxes(solution)
    if not found:
        raise InputError(r"no \boxed{...} in the solution", shorten(solution), r"MATH's form, '... \boxed{42}'")
    return ", ".join(found)


def boxed_or_whole(answer: Any, _: Row) -> Any:
    """TRL: a bare answer, or a solution that ends in one."""
    found = boxes(answer) if isinstance(answer, str) else []
    return ", ".join(found) if found else answer


_DAPO_FIRST = re.compile(r"\s*Solve the following math problem step by step\.[^\n]*\n\s*")
_DAPO_LAST = re.compile(r"\s*\n\s*Remember to put your answer on its own line[^\n]*\s*")


def without_instruction(prompt: str, _: Row) -> str:
    """DAPO-Math: the problem alone; how to answer is the matter of `scale.chat.pattern`."""
    first = _DAPO_FIRST.match(prompt)
    rest = prompt[first.end() :] if first else prompt
    last = list(_DAPO_LAST.finditer(rest))
    return rest[: last[-1].start()] if last and last[-1].end() == len(rest) else rest


def with_starter_code(prompt: str, row: Row) -> str:
    """A function that is called by name must be known by name."""
    code = row.get("starter_code")
    if not isinstance(code, str) or not code.strip():
        return prompt
    return f"{prompt.rstrip()}\n\nBegin with this code:\n\n```python\n{code.rstrip()}\n```"


def tests_with_name(tests: Any, row: Row) -> Any:
    """DeepCoder's LiveCodeBench part: the name of the function may stand beside the tests, once for all of them."""
    metadata = table_of(row.get("metadata"))
    name = metadata.get("func_name") if isinstance(metadata, Mapping) else None
    found = table_of(tests) if name else None
    if not isinstance(found, list) or not all(isinstance(test, dict) for test in found):
        return tests
    return json.dumps([_named(test, str(name)) for test in found], default=str)


def _named(test: dict[str, Any], name: str) -> dict[str, Any]:
    own = test.get("metadata")
    known = isinstance(own, Mapping) and own.get("func_name")
    return test if test.get("testtype") != "functional" or known else {**test, "metadata": {"func_name": name}}


_TRUTH = "reward_model.ground_truth"
PLAIN = Layout("plain", ("prompt",), ("answer",), "exact", "a prompt and an answer in each row")
LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        PLAIN,
        Layout("polaris", ("problem",), ("answer",), "math", "Polaris-53K and most mathematics: problem, answer"),
        Layout(
            "dapo", ("prompt",), (_TRUTH,), "math", "DAPO-Math-17k, without its instruction",
            prompt_of=without_instruction,
        ),
        Layout("gsm8k", ("question",), ("answer",), "number", "GSM8K: question, answer after ####",
               answer_of=final_number),
        Layout("math", ("problem",), ("solution",), "math", r"MATH: problem, solution with \boxed{...}",
               answer_of=boxed_answer),
        Layout(
            "deepcoder", ("problem", "question"), ("tests",), "code", "DeepCoder: problem, tests as JSON",
            ("starter_code", "metadata"), with_starter_code, tests_with_name,
        ),
        Layout(
            "taco", ("question", "problem"), ("input_output",), "code", "TACO and APPS: question, input_output as JSON",
            ("starter_code",), with_starter_code,
        ),
        Layout("verl", ("prompt",), (_TRUTH,), "math", "verl: messages, reward_model.ground_truth"),
        Layout("trl", ("prompt",), ("answer", "solution", "ground_truth"), "math", "TRL: text or messages, and answer",
               answer_of=boxed_or_whole),
    )
}  # fmt: skip
PROMPTS = ("prompt", "problem", "question")
"""Columns of prompts where nothing else is known: evaluation files, which are only compared by them."""
KNOWN = frozenset(
    key.partition(".")[0]
    for layout in LAYOUTS.values()
    for key in (*PROMPTS, *layout.prompts, *layout.answers, *layout.beside)
)


def recognise(columns: Sequence[str], first: Row) -> Layout | None:
    """The layout that these columns and this first row have; None: none of them."""
    names = {*columns}
    if {"prompt", "reward_model"} <= names:
        return LAYOUTS["dapo" if _has_instruction(first["prompt"]) else "verl"]
    if "tests" in names and names & {"problem", "question"}:
        return LAYOUTS["deepcoder"]
    if "input_output" in names and names & {"problem", "question"}:
        return LAYOUTS["taco"]
    if {"prompt", "answer"} <= names and not isinstance(first["prompt"], list):
        return PLAIN
    if "prompt" in names and names & {"answer", "solution", "ground_truth"}:
        return LAYOUTS["trl"]
    if {"question", "answer"} <= names and "####" in str(first["answer"]):
        return LAYOUTS["gsm8k"]
    if "problem" in names:
        return LAYOUTS["polaris"] if "answer" in names else LAYOUTS["math"] if "solution" in names else None
    return None


def natural_verifier(layout: Layout, first_answer: Any) -> Kind:
    """Of verl's files some hold mathematics and some unit tests; the first row tells."""
    if layout.name == "verl" and _looks_like_tests(table_of(first_answer)):
        return "code"
    return layout.verifier


def _has_instruction(prompt: Any) -> bool:
    return "Solve the following math problem step by step" in str(prompt)


def _looks_like_tests(table: Any) -> bool:
    if isinstance(table, Mapping):
        return {"inputs", "outputs"} <= {*table}
    return isinstance(table, list) and bool(table) and isinstance(table[0], Mapping) and "input" in table[0]
