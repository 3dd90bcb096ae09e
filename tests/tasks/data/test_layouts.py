"""What the columns of each layout mean: prompts, answers, verifiers, and rows that do not keep to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from scalerl.config.task import FileTask as FileConfig
from scalerl.errors import InputError
from scalerl.tasks import FileTask, Problem
from scalerl.tasks.data.layouts import LAYOUTS, recognise
from scalerl.verify import KINDS
from scalerl.verify.unit_tests import read_tests

from .conftest import SAMPLES, sample, write_jsonl

NAMED = [name for name in LAYOUTS if name != "plain"]


def task_of(name: str, **options: Any) -> FileTask:
    path = str(SAMPLES / f"{name}.jsonl")
    return FileTask(**{"path": path, "layout": name, "held_out_share": 0.3, **options})


def problems(task: FileTask) -> dict[str, Problem]:
    return {one.prompt: one for split in ("train", "held_out") for one in task.problems(split)[0:]}


def one_row(tmp_path: Path, row: dict[str, Any], **options: Any) -> Problem:
    """The problem that a row becomes."""
    path = write_jsonl(tmp_path / "a.jsonl", [row])
    other = write_jsonl(tmp_path / "b.jsonl", [{"prompt": "other", "answer": "1", **OTHER}])
    task = FileTask(path=str(path), held_out_path=str(other), **options)
    return task.problems("train")[0]


OTHER = {
    "problem": "other", "question": "other", "solution": r"\boxed{1}", "reward_model": {"ground_truth": "1"},
    "tests": '{"inputs": ["1"], "outputs": ["1"]}', "input_output": '{"inputs": ["1"], "outputs": ["1"]}',
}  # fmt: skip


def test_the_config_knows_the_same_names() -> None:
    fields = FileConfig.model_fields
    assert set(get_args(fields["layout"].annotation)) == {*LAYOUTS, "auto"}
    assert set(get_args(fields["verifier"].annotation)) == {*KINDS, "auto"}
    assert [fields[name].default for name in ("layout", "verifier")] == ["plain", "auto"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_samples_are_recognised(name: str) -> None:
    rows = sample(name)
    found = recognise(tuple(rows[0]), rows[0])
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("name", NAMED)
def test_samples_are_whole(name: str) -> None:
    task = task_of(name, **({"run_model_code_without_sandbox": True} if LAYOUTS[name].verifier == "code" else {}))
    assert len(problems(task)) == len(sample(name))
    assert task.judged_by == LAYOUTS[name].verifier


@pytest.mark.parametrize("name", [n for n in NAMED if LAYOUTS[n].verifier != "code"])
def test_samples_verify_against_themselves(name: str) -> None:
    task = task_of(name, thinking=False)
    verdicts = [task.verify(problem, rf"So it is \boxed{{{problem.answer}}}.") for problem in problems(task).values()]
    task.close()
    assert all(verdict.correct for verdict in verdicts)


@pytest.mark.parametrize("name", ["taco", "deepcoder"])
def test_the_solutions_of_the_code_samples_pass_their_tests(name: str) -> None:
    task = task_of(name, thinking=False, run_model_code_without_sandbox=True)
    found = problems(task)
    for row in sample(name):
        solutions = row["solutions"] if isinstance(row["solutions"], list) else json.loads(row["solutions"])
        question = row.get("question") or row["problem"]
        problem = next(one for prompt, one in found.items() if prompt.startswith(question))
        assert task.verify(problem, f"```python\n{solutions[0]}\n```").correct, row
        assert not task.verify(problem, "```python\nprint('no')\n```").correct
    task.close()


def test_polaris() -> None:
    row = sample("polaris")[1]
    assert problems(task_of("polaris"))[row["problem"]].answer == row["answer"] == r"\frac{1}{3}"


def test_gsm8k_takes_what_follows_the_mark() -> None:
    answers = {one.answer for one in problems(task_of("gsm8k")).values()}
    assert "2,190" in answers
    assert not any("#" in answer or "<<" in answer for answer in answers)


def test_math_takes_the_box() -> None:
    answers = {one.answer for one in problems(task_of("math")).values()}
    assert {r"\sqrt{2}", r"3\sqrt{2}", "(-1, 5)"} <= answers


def test_dapo_loses_its_instruction() -> None:
    found = problems(task_of("dapo"))
    assert found["How many pairs $(a, b)$ of positive whole numbers have $a + b = 5$?"].answer == "4"
    as_it_stands = problems(task_of("dapo", layout="verl"))
    assert all(prompt.startswith("Solve the following") and prompt.endswith('"Answer:".') for prompt in as_it_stands)


def test_a_problem_that_only_speaks_of_the_instruction_is_kept(tmp_path: Path) -> None:
    text = (
        "Solve the following math problem step by step.\nLine two.\nRemember to put your answer on its own line.\nEnd."
    )
    row = {"prompt": [{"role": "user", "content": text}], "reward_model": {"ground_truth": "1"}}
    kept = one_row(tmp_path, row, layout="dapo").prompt
    assert kept == "Line two.\nRemember to put your answer on its own line.\nEnd."
    row["prompt"] = [{"role": "user", "content": "What is 1?"}]
    assert one_row(tmp_path, row, layout="dapo").prompt == "What is 1?"


def test_verl_keeps_what_the_system_says() -> None:
    found = problems(task_of("verl"))
    prompt = next(prompt for prompt in found if "costs 10 coins" in prompt)
    assert prompt.startswith("Be careful with units.\n\nA ticket costs")
    assert found[prompt].answer == "27"


def test_verl_with_unit_tests_is_judged_by_them(tmp_path: Path) -> None:
    truth = json.dumps({"inputs": ["1\n"], "outputs": ["1\n"]})
    rows = [
        {"prompt": [{"role": "user", "content": f"Print the input, {i}."}], "reward_model": {"ground_truth": truth}}
        for i in range(20)
    ]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    options: dict[str, Any] = {"path": str(path), "layout": "verl", "held_out_share": 0.3}
    task = FileTask(**options, run_model_code_without_sandbox=True)
    assert task.judged_by == "code"
    assert read_tests(task.problems("train")[0].answer)
    assert FileTask(**options, verifier="exact").judged_by == "exact"


def test_trl_in_both_forms(tmp_path: Path) -> None:
    assert {one.answer for one in problems(task_of("trl")).values()} >= {"6", "15"}
    assert one_row(tmp_path, {"prompt": "What is 2 + 2?", "answer": "$4$"}, layout="trl").answer == "$4$"
    row = {"prompt": "What is 2 + 2?", "solution": "four", "answer": "4"}
    assert one_row(tmp_path, row, layout="trl").answer == "4"


def test_code_problems_show_the_code_to_begin_with() -> None:
    task = task_of("taco", run_model_code_without_sandbox=True)
    with_code = [prompt for prompt in problems(task) if prompt.endswith("```python\ndef without(numbers):\n```")]
    assert len(with_code) == 8
    assert sum("Begin with this code" in prompt for prompt in problems(task)) == 8


def test_the_name_of_a_function_beside_the_tests_reaches_them() -> None:
    task = task_of("deepcoder", run_model_code_without_sandbox=True)
    calls = [test for one in problems(task).values() for test in read_tests(one.answer) if "call" in test.given]
    assert len(calls) == 6
    assert {call.given["call"] for call in calls} == {"count_letter"}


def test_keys_of_the_user_win(tmp_path: Path) -> None:
    row = {"text": "What is it?", "data": {"tries": ["so #### 3", "so #### 4"]}}
    options: dict[str, Any] = {"layout": "gsm8k", "prompt_key": "text", "answer_key": "data.tries.1"}
    problem = FileTask(
        path=str(write_jsonl(tmp_path / "a.jsonl", [row])),
        held_out_path=str(write_jsonl(tmp_path / "b.jsonl", [{**row, "text": "other"}])), **options,
    ).problems("train")[0]  # fmt: skip
    assert (problem.prompt, problem.answer) == ("What is it?", "4")


def test_a_column_whose_name_has_dots(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"p{i}", "reward_model.ground_truth": i, "reward_model": {"ground_truth": "x"}} for i in range(9)
    ]
    path = str(write_jsonl(tmp_path / "a.jsonl", rows))
    task = FileTask(path=path, answer_key="reward_model.ground_truth", held_out_share=0.5)
    assert {one.answer for one in problems(task).values()} == {str(i) for i in range(9)}


CHATS = {
    "empty list": ([], "empty prompt"),
    "no user": ([{"role": "assistant", "content": "a"}], "is not a text"),
    "two turns": (
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
        "is not a text",
    ),
    "a picture": ([{"role": "user", "content": [{"type": "image", "image": "x"}]}], "is not a text"),
    "no content": ([{"role": "user"}], "is not a text"),
    "blank": ([{"role": "system", "content": "s"}, {"role": "user", "content": " "}], "empty prompt"),
    "a number": (3, "is not a text"),
}


@pytest.mark.parametrize(("prompt", "part"), CHATS.values(), ids=CHATS.keys())
def test_prompts_that_are_no_prompt(prompt: Any, part: str, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"prompt": prompt, "answer": "1"}])
    with pytest.raises(InputError) as caught:
        FileTask(path=str(path), layout="trl")
    assert part in str(caught.value)
    assert str(caught.value).startswith(f"{path}, line 1")


def test_parts_of_text_are_one_message(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "What is"}, {"type": "text", "text": "2 + 2?"}]
    row = {"prompt": [{"role": "user", "content": parts}], "answer": "4"}
    assert one_row(tmp_path, row, layout="trl").prompt == "What is\n2 + 2?"


BAD = {
    "gsm8k without a mark": ("gsm8k", {"question": "q", "answer": "42"}, ["no #### before the final answer", "'42'"]),
    "math without a box": ("math", {"problem": "p", "solution": "It is 3."}, [r"no \boxed{...} in the solution"]),
    "wrong columns": ("polaris", {"question": "q", "answer": "1"},
                      ["no column of layout polaris for prompt_key", "problem, or prompt_key with one of question"]),
    "no truth": ("verl", {"prompt": "p", "answer": "1", "reward_model": {"style": "rule"}},
                 ["no 'reward_model.ground_truth' in this object"]),
    "truth is no table": ("verl", {"prompt": "p", "reward_model": "rule"}, ["no 'reward_model.ground_truth'"]),
    "empty truth": ("verl", {"prompt": "p", "reward_model": {"ground_truth": ""}}, ["empty answer in 'reward_model."]),
    "missing in pandas": ("verl", {"prompt": "p", "reward_model": {"ground_truth": float("nan")}}, ["empty answer in"]),
    "a list of truths": ("verl", {"prompt": "p", "reward_model": {"ground_truth": ["1"]}}, ["is no text or number"]),
    "unknown": ("auto", {"text": "p", "label": 1}, ["no known layout", "two of text, label", "gsm8k"]),
    "no tests": ("taco", {"question": "q", "input_output": "{}"}, ["verifier code cannot use (no unit tests"]),
}  # fmt: skip


@pytest.mark.parametrize(("layout", "row", "parts"), BAD.values(), ids=BAD.keys())
def test_rows_that_do_not_keep_to_the_layout(
    layout: str, row: dict[str, Any], parts: list[str], tmp_path: Path
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [row])
    code: dict[str, Any] = {"run_model_code_without_sandbox": True} if layout == "taco" else {}
    with pytest.raises(InputError) as caught:
        FileTask(path=str(path), layout=layout, **code)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    for part in parts:
        assert part in text


def test_a_plain_file_with_known_columns_says_its_layout() -> None:
    with pytest.raises(InputError, match=r"unknown column for prompt_key.*layout gsm8k, which fits these columns"):
        FileTask(path=str(SAMPLES / "gsm8k.jsonl"))
