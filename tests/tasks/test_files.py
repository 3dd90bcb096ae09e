"""Tasks from JSONL and Parquet files: reading, splitting, verifying, and every way a file can be wrong.

Other formats and the layouts of known datasets are in `data`.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalerl.config.task import FileTask as FileConfig
from scalerl.errors import InputError
from scalerl.tasks import FileTask, Problem, build_task, files

ROWS: list[dict[str, Any]] = [{"prompt": f"What is {i} + {i}?", "answer": 2 * i, "level": i % 3} for i in range(60)]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def everything(task: FileTask) -> list[Problem]:
    return [*task.problems("train")[0:], *task.problems("held_out")[0:]]


def test_both_formats_give_the_same_problems(tmp_path: Path) -> None:
    one = FileTask(path=write_jsonl(tmp_path / "a.jsonl", ROWS))
    other = FileTask(path=write_parquet(tmp_path / "a.parquet", ROWS))
    assert everything(one) == everything(other)
    assert {p.prompt: p.answer for p in everything(one)} == {row["prompt"]: str(row["answer"]) for row in ROWS}
    assert not {p.id for p in one.problems("train")[0:]} & {p.id for p in one.problems("held_out")[0:]}


def test_columns_have_other_names(tmp_path: Path) -> None:
    rows = [{"question": row["prompt"], "solution": "x"} for row in ROWS]
    task = FileTask(path=write_jsonl(tmp_path / "a.jsonl", rows), prompt_key="question", answer_key="solution")
    assert task.problems("train")[0].answer == "x"


def test_the_split_depends_on_the_content_alone(tmp_path: Path) -> None:
    """Other rows, another order, other spacing: a held-out prompt stays held out."""
    task = FileTask(path=write_jsonl(tmp_path / "a.jsonl", ROWS))
    changed = [{"prompt": " " + row["prompt"].upper(), "answer": 1} for row in reversed(ROWS[::2])]
    other = FileTask(path=write_jsonl(tmp_path / "b.jsonl", changed), held_out_share=0.1)
    held_out = {p.prompt.upper() for p in task.problems("held_out")[0:]}
    assert {p.prompt.strip() for p in other.problems("held_out")[0:]} <= held_out
    assert not {p.prompt.strip() for p in other.problems("train")[0:]} & held_out


def test_held_out_problems_from_a_file_of_their_own(tmp_path: Path) -> None:
    train = write_jsonl(tmp_path / "train.jsonl", ROWS)
    held_out = write_jsonl(tmp_path / "test.jsonl", [{"prompt": r["prompt"].lower(), "answer": 1} for r in ROWS[:7]])
    task = FileTask(path=train, held_out_path=held_out)
    assert [p.prompt for p in task.problems("train")[0:]] == [row["prompt"] for row in ROWS[7:]]
    assert task.problems("held_out").size == 7


def test_pools_can_be_cut(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", ROWS)
    whole, cut = FileTask(path=path), FileTask(path=path, train_problems=5, held_out_problems=2)
    assert cut.problems("train")[0:] == whole.problems("train")[:5]
    assert cut.problems("held_out")[0:] == whole.problems("held_out")[:2]


def test_reading_ends_with_the_last_problem_that_is_wanted(tmp_path: Path) -> None:
    """What follows may be anything: it is never read."""
    path = Path(write_jsonl(tmp_path / "a.jsonl", ROWS))
    options: dict[str, Any] = {"train_problems": 5, "held_out_problems": 2}
    whole = FileTask(path=str(path), **options)
    path.write_bytes(path.read_bytes() + b'{"prompt": broken\n')
    assert everything(FileTask(path=str(path), **options)) == everything(whole)
    with pytest.raises(InputError, match=r"line 61: broken JSON"):
        FileTask(path=str(path))
    held_out = write_jsonl(tmp_path / "b.jsonl", ROWS[:3])
    cut = FileTask(path=str(path), held_out_path=held_out, train_problems=5)
    assert [p.prompt for p in cut.problems("train")[0:]] == [row["prompt"] for row in ROWS[3:8]]


def test_more_problems_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_LOOKED_AT", 30)
    path = write_jsonl(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(InputError, match=r"too many problems to keep in memory: got 'more than 30'; .*train_problems"):
        FileTask(path=path)
    assert FileTask(path=path, train_problems=12, held_out_problems=1).problems("train").size == 12
    with pytest.raises(InputError, match="a larger held_out_share"):
        FileTask(path=path, train_problems=3, held_out_problems=1, held_out_share=1e-9)


def test_rows_that_cannot_be_used_are_left_out_when_asked(tmp_path: Path) -> None:
    rows = [*ROWS, {"prompt": "", "answer": 1}, {"prompt": "q"}, {"prompt": "r", "answer": "none"},
            {**ROWS[0], "answer": 99}]  # fmt: skip
    path = Path(write_jsonl(tmp_path / "a.jsonl", rows))
    path.write_text("".join(path.read_text().splitlines(keepends=True)) + "oops\n")
    task = FileTask(path=str(path), verifier="number", skip_unusable=True)
    clean = FileTask(path=write_jsonl(tmp_path / "b.jsonl", ROWS), verifier="number")
    assert everything(task) == everything(clean)
    assert build_task(task.settings) == task
    with pytest.raises(InputError, match="line 61"):
        FileTask(path=str(path), verifier="number")


def test_a_file_in_which_nothing_can_be_used(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"prompt": "p", "answer": ""}])
    with pytest.raises(
        InputError, match=r"no problems in the file that can be used \(the first: .*line 1: empty answer"
    ):
        FileTask(path=path, skip_unusable=True)


def test_the_config_of_an_older_run_is_written_as_it_was() -> None:
    """Its digest depends on it."""
    before = {
        "kind": "file", "path": "a.jsonl", "held_out_path": "", "prompt_key": "prompt", "answer_key": "answer",
        "verifier": "exact", "thinking": True, "train_problems": 0, "held_out_share": 0.1,
    }  # fmt: skip
    assert FileConfig(kind="file", path="a.jsonl").model_dump() == before
    assert FileConfig.model_validate(before).model_dump() == before
    assert list(FileConfig(kind="file", path="a.jsonl").model_dump()) == list(before)
    new = FileConfig(kind="file", path="a.jsonl", layout="gsm8k", skip_unusable=True).model_dump()
    assert new == before | {"layout": "gsm8k", "skip_unusable": True, "verifier": "auto"}
    assert FileConfig.model_validate(new).settings == FileConfig.model_validate(new).settings | {"layout": "gsm8k"}


def test_a_prompt_that_occurs_twice_is_one_problem(tmp_path: Path) -> None:
    task = FileTask(path=write_jsonl(tmp_path / "a.jsonl", ROWS + ROWS))
    assert len(everything(task)) == 60


def test_settings_make_an_equal_task(tmp_path: Path) -> None:
    task = FileTask(path=write_jsonl(tmp_path / "a.jsonl", ROWS), verifier="number", tolerance=0.5)
    assert build_task(task.settings) == task


@pytest.mark.parametrize(
    ("verifier", "reference", "answer", "status"),
    [
        ("exact", "Paris", " Paris\n", "correct"), ("exact", "a  b", "a b", "correct"),
        ("exact", "Paris", "paris", "wrong"), ("exact", "x", r"so \boxed{x}", "correct"),
        ("exact", r"\frac{1}{2}", r"\boxed{\frac{1}{2}}", "correct"), ("exact", "x", "", "unparsable"),
        ("number", "1000", "1,000", "correct"), ("number", "1000", "It is 1000.", "correct"),
        ("number", "0.5", r"\boxed{\frac{1}{2}}", "correct"), ("number", "1/3", "0.3333333333", "correct"),
        ("number", "-3", "5 - 8 = -3", "correct"), ("number", "0.001", "1e-3", "correct"),
        ("number", "7", "7 or 8", "wrong"), ("number", "1/3", "0.333", "wrong"), ("number", "3", "-3", "wrong"),
        ("number", "7", "seven", "unparsable"), ("number", "7", "1/0", "unparsable"),
        ("number", "7", "7" * 9999, "unparsable"), ("number", "7", "1e999", "wrong"),
    ],
)  # fmt: skip
def test_verdicts(tmp_path: Path, judge: Any, verifier: str, reference: str, answer: str, status: str) -> None:
    rows = [{"prompt": f"p{i}", "answer": reference} for i in range(30)]
    task = build_task({"kind": "file", "path": write_jsonl(tmp_path / "a.jsonl", rows), "verifier": verifier})
    assert judge(task, task.problems("train")[0])(answer).status == status


def test_thinking_is_needed_unless_the_policy_does_not_think(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", ROWS)
    problem = FileTask(path=path).problems("train")[0]
    assert FileTask(path=path).verify(problem, problem.answer).detail == "no </think>"
    assert FileTask(path=path, thinking=False).verify(problem, problem.answer).correct
    assert FileTask(path=path, thinking=False).verify(problem, f"1</think>{problem.answer}").correct


GOOD = '{"prompt": "p", "answer": "a"}\n'
BAD = {
    "empty": ("", ["the file is empty"]),
    "corrupt": (GOOD + '{"prompt": "q", "ans\n', ["line 2", "broken JSON", "one object per line"]),
    "corrupt first": ("oops\n", ["line 1", "broken JSON"]),
    "no object": (GOOD + "[1]\n", ["line 2", "not a JSON object"]),
    "no answer column": ('{"prompt": "p", "solution": 1, "id": 2}\n',
                         ["answer_key", "got 'answer'", "one of prompt, solution, id"]),
    "no prompt column": ('{"question": "p", "answer": 1}\n', ["prompt_key", "got 'prompt'", "question, answer"]),
    "answer absent": (GOOD + '\n{"prompt": "q"}\n', ["line 3", "no 'answer' in this object"]),
    "prompt absent": (GOOD + '{"answer": "q"}\n', ["line 2", "no 'prompt' in this object"]),
    "empty prompt": (GOOD + '{"prompt": " \\n", "answer": 1}\n', ["line 2", "empty prompt in 'prompt'"]),
    "null prompt": (GOOD + '{"prompt": null, "answer": 1}\n', ["line 2", "empty prompt"]),
    "chat": ('{"prompt": [{"role": "user"}], "answer": 1}\n', ["line 1", "not a text", "[{'role': 'user'}]"]),
    "empty answer": (GOOD + '{"prompt": "q", "answer": ""}\n', ["line 2", "empty answer in 'answer'"]),
    "null answer": (GOOD + '{"prompt": "q", "answer": null}\n', ["line 2", "empty answer"]),
    "list answer": (GOOD + '{"prompt": "q", "answer": [1]}\n', ["line 2", "no text or number", "[1]"]),
    "two answers": (GOOD + GOOD + '{"prompt": "p", "answer": "b"}\n',
                    ["line 3", "a second answer to one prompt: got 'b'", "'a', as in", "line 1"]),
    "too few": (GOOD, ["too few held-out problems: got 1", "at most 0", "held_out_share", "held_out_path"]),
    "half a character": (GOOD + '{"prompt": "\\ud83d", "answer": "a"}\n', ["line 2", "half a character in 'prompt'"]),
    "half an answer": (GOOD + '{"prompt": "q", "answer": "x\\udc00"}\n', ["line 2", "half a character in 'answer'"]),
    "csv": ("prompt,answer\np,a\n", ["not a task file", "JSONL or Parquet"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "parts"), BAD.values(), ids=BAD.keys())
def test_bad_files(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = tmp_path / ("tasks.dat" if text.startswith("prompt,") else "tasks.jsonl")
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        FileTask(path=str(path), held_out_share=1e-9)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_bad_parquet(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"prompt": "p", "answer": 1}, {"prompt": None, "answer": 2}])
    with pytest.raises(InputError, match=r"a.parquet, row 2: empty prompt in 'prompt'"):
        FileTask(path=path)
    with pytest.raises(InputError, match="answer_key: got 'solution'; allowed: one of prompt, answer"):
        FileTask(path=path, answer_key="solution")
    data = Path(path).read_bytes()
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="broken Parquet file"):
        FileTask(path=str(broken))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.jsonl: no such file"):
        FileTask(path=str(tmp_path / "nowhere.jsonl"))


def test_answers_that_the_verifier_cannot_use(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"prompt": "p", "answer": 1}, {"prompt": "q", "answer": "many"}])
    with pytest.raises(
        InputError, match=r"line 2: an answer that the verifier number cannot use \(no number\): got 'many'"
    ):
        FileTask(path=path, verifier="number")
    with pytest.raises(
        InputError, match=r"line 1: an answer that the verifier choice cannot use \(no letter\): got '1'"
    ):
        FileTask(path=path, verifier="choice")
    with pytest.raises(InputError, match=r"line 1: an answer that the verifier code cannot use \(no unit tests"):
        FileTask(path=path, verifier="code", run_model_code_without_sandbox=True)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"verifier": "fuzzy"}, "task.verifier: got 'fuzzy'; allowed: exact or number or choice or math or code"),
        ({"tolerance": 0.1}, "task.tolerance: got 0.1; allowed: only with verifier number, not exact"),
        ({"verifier": "number", "timeout_s": 1}, "task.timeout_s: got 1; allowed: only with verifier math or code"),
        ({"verifier": "math", "memory_mb": 99}, "task.memory_mb: got 99; allowed: only with verifier code, not math"),
        ({"verifier": "math", "run_model_code_without_sandbox": True}, "task.run_model_code_without_sandbox: got True"),
        ({"verifier": "math", "timeout_s": 0}, "task.timeout_s: got 0; allowed: a number of at least 0.01"),
        ({"verifier": "math", "workers": -1}, "task.workers: got -1; allowed: a whole number of at least 0"),
        ({"verifier": "number", "absolute_tolerance": -1}, "task.absolute_tolerance: got -1"),
        ({"tolerance": -1}, "task.tolerance: got -1"),
        ({"thinking": "yes"}, "task.thinking: got 'yes'; allowed: true or false"),
        ({"prompt_key": ""}, "task.prompt_key: got ''"),
        ({"held_out_share": 0}, "task.held_out_share: got 0"),
        ({"train_problems": 1000}, "too few train problems: got 1000; allowed: at most 5"),
        ({"path": 3}, "task.path: got 3; allowed: a text"),
    ],
    ids=str,
)
def test_bad_options(tmp_path: Path, options: dict[str, Any], part: str) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(InputError) as caught:
        build_task({"kind": "file", "path": path, **options})
    assert part in str(caught.value)
