"""Building a task from a text or a mapping, and everything that can be wrong with one."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.tasks import ChainedSums, Countdown, FileTask, build_task, traced


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(f'{{"prompt": "What is {i}?", "answer": "{i}"}}\n' for i in range(40)))
    return path


def refuse(spec: Any) -> str:
    with pytest.raises(InputError) as caught:
        build_task(spec)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_names_and_mappings() -> None:
    assert build_task("chained_sums") == ChainedSums()
    assert build_task({"kind": "countdown", "numbers": 4}) == Countdown(numbers=4)
    assert build_task({"kind": "chained_sums", "train_problems": 20_000}).problems("train").size == 20_000


def test_paths(problems: Path) -> None:
    expected = FileTask(path=str(problems))
    assert build_task(str(problems)) == build_task(f"file:{problems}") == expected
    assert build_task({"kind": "file", "path": str(problems)}, seed=3) == expected


def test_a_spec_is_not_changed() -> None:
    spec = {"kind": "countdown", "numbers": 4}
    build_task(spec)
    assert spec == {"kind": "countdown", "numbers": 4}


def test_unknown_names_list_the_known_ones() -> None:
    for spec in ("sums", {"kind": "sums"}, {"numbers": 3}, ""):
        message = refuse(spec)
        assert "unknown task" in message
        assert "chained_sums, countdown, reasoning_gym, file" in message


def test_unknown_options_list_the_known_ones() -> None:
    message = refuse({"kind": "countdown", "number": 4})
    assert "unknown option of task countdown: got 'number'" in message
    assert "numbers, largest, largest_target" in message
    assert "train_problems, held_out_problems" in message


def test_missing_options() -> None:
    assert "task.path is missing" in refuse({"kind": "file"})
    assert "task.dataset is missing" in refuse("reasoning_gym")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"numbers": 1}, ["task.numbers: got 1", "from 2 to 100"]),
        ({"numbers": 2.5}, ["task.numbers: got 2.5", "a whole number"]),
        ({"numbers": True}, ["task.numbers: got True"]),
        ({"numbers": "4"}, ["task.numbers: got '4'"]),
        ({"numbers": 4, "fewest_numbers": 5}, ["task.fewest_numbers: got 5", "from 2 to 4"]),
        ({"largest": 0}, ["task.largest: got 0"]),
        ({"train_problems": 0}, ["task.train_problems: got 0", "at least 1"]),
        ({"held_out_problems": None}, ["task.held_out_problems", "at least 1"]),
        ({"held_out_share": 1.0}, ["task.held_out_share: got 1.0", "between 0 and 1"]),
        ({"held_out_share": float("nan")}, ["task.held_out_share: got nan"]),
        ({"seed": -1}, ["task.seed: got -1"]),
        ({"kind": "countdown", "numbers": 21}, ["task.numbers: got 21", "from 2 to 20"]),
        ({"kind": "countdown", "largest": 50, "largest_target": 49}, ["task.largest_target: got 49", "from 50"]),
    ],
    ids=str,
)
def test_impossible_dials(options: dict[str, Any], parts: list[str]) -> None:
    message = refuse({"kind": "chained_sums", **options})
    for part in parts:
        assert part in message


def test_too_few_problems_fail_at_once() -> None:
    message = refuse({"kind": "countdown", "numbers": 2, "largest": 5})
    assert "too few distinct held-out problems: got 1000; allowed: at most the" in message
    assert "too few distinct train problems" in refuse({"kind": "chained_sums", "numbers": 3, "train_problems": 10**5})


def test_nothing_heavy_is_imported() -> None:
    """The tasks belong to the base install."""
    heavy = ("torch", "transformers", "tokenizers", "reasoning_gym", "pyarrow", "matplotlib")
    program = f"import sys, scalerl.tasks; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_traces_are_asked_for_by_name(problems: Path) -> None:
    assert traced(build_task("countdown")) == Countdown()
    with pytest.raises(InputError, match="no solution traces: got 'file'; allowed: chained_sums or countdown"):
        traced(build_task(str(problems)))
