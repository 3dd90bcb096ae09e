"""Near-copies across the split of one file, against the task's own split and a slow search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import InputError
from scalerl.tasks import FileTask
from scalerl.tasks.data import split_leaks
from scalerl.tasks.data.overlap import COMMON, Texts
from scalerl.tasks.data.repeats import content_hash
from scalerl.tasks.data.split_leaks import SplitLeaks
from scalerl.tasks.data.survey import Question, inspect
from scalerl.tasks.files import canonical
from scalerl.tasks.pools import split_of
from scalerl.tasks.records import Columns, Record

from .conftest import Rows, write_jsonl

STORY = "a baker sells {} loaves in the morning and {} rolls at noon and {} cakes before the shop is closed"


def look(path: Path, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = inspect(Question(str(path), Columns("auto"), **options))["split"]["leaks"]
    return found


def grams(text: str, ngram: int) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[i : i + ngram]) for i in range(len(words) - ngram + 1)}


texts = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=9).map(" ".join), max_size=9)


@settings(max_examples=300)
@given(rows=texts, ngram=st.integers(2, 4))
def test_every_problem_that_a_slow_search_finds(rows: list[str], ngram: int) -> None:
    """A full stop makes another prompt of the same words, which may be on the other side."""
    prompts = [text + "." * (number % 3) for number, text in enumerate(rows)]
    records = [Record(prompt, "1", number, "") for number, prompt in enumerate(prompts, 1)]
    leaks = SplitLeaks(0.5, ngram)
    leaks.read_ahead(records, lambda _: True)
    texts = [canonical(prompt) for prompt in prompts]
    leaks.look(Texts(range(1, len(rows) + 1), texts, ngram), [content_hash(text) for text in texts])
    sides: dict[str, dict[str, str]] = {"train": {}, "held_out": {}}
    for prompt in prompts:
        sides[split_of(canonical(prompt), 0.5)][prompt] = prompt.replace(".", "")
    trained = set(sides["train"].values())
    known = {gram for text in trained for gram in grams(text, ngram)}
    same = [text for text in sides["held_out"].values() if text in trained]
    sharing = [text for text in sides["held_out"].values() if text not in trained and known & grams(text, ngram)]
    found = leaks.document()
    assert (found["compared"], found["same"], found["sharing"]) == (len(sides["held_out"]), len(same), len(sharing))


def planted(path: Path) -> Path:
    """Stories, each with a near-copy: another beginning, so another side for some of them."""
    rows: list[dict[str, Any]] = [{"prompt": STORY.format(i, i + 1, i + 2), "answer": str(i)} for i in range(200)]
    rows += [{"prompt": f"Once more: {row['prompt']}", "answer": row["answer"]} for row in rows[:100]]
    rows += [{"prompt": f"{row['prompt']}!", "answer": row["answer"]} for row in rows[100:150]]
    return write_jsonl(path, rows)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_the_split_is_the_tasks_own(tmp_path: Path, share: float) -> None:
    path = planted(tmp_path / "a.jsonl")
    task = FileTask(path=str(path), held_out_share=share)
    trained = {problem.prompt.removeprefix("Once more: ").rstrip("!") for problem in task.problems("train")[:]}
    held_out = [problem.prompt for problem in task.problems("held_out")[:]]
    met = [prompt for prompt in held_out if prompt.removeprefix("Once more: ").rstrip("!") in trained]
    same = [prompt for prompt in met if "Once" not in prompt and int(prompt.split()[3]) >= 100]
    found = look(path, held_out_share=share)
    assert found["compared"] == len(held_out)
    assert found["all_compared"]
    assert found["same"] == len(same) > 0
    assert found["same"] + found["sharing"] == len(met) > len(same)
    assert found["train_rows"] == len(found["rows"]) > 0
    lines = [json.loads(line)["prompt"] for line in path.read_text().splitlines()]
    for example in found["examples"]:
        sides = [split_of(canonical(lines[example[key] - 1]), share) for key in ("row", "problem")]
        assert sides == ["train", "held_out"]
        assert example["words"] in lines[example["problem"] - 1].casefold()


def test_what_a_task_would_not_take_is_not_compared(tmp_path: Path) -> None:
    rows: Rows = [{"problem": f"{STORY.format(1, 1, 1)} {'!' * i}", "answer": ""} for i in range(100)]
    path = write_jsonl(tmp_path / "a.jsonl", [*rows, {"problem": "one", "answer": "1"}, {"problem": 3, "answer": "1"}])
    assert look(path, held_out_share=0.999)["compared"] == 1


def test_each_prompt_is_one_problem(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"prompt": text, "answer": "1"} for text in ("one", "ONE", " one")])
    assert look(path, held_out_share=0.999)["compared"] == 1


@pytest.mark.parametrize("limit", ["MOST_PROBLEMS", "MOST_NGRAMS"])
def test_memory_is_bounded_and_it_is_said(tmp_path: Path, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = planted(tmp_path / "a.jsonl")
    every = look(path, held_out_share=0.3)
    monkeypatch.setattr(split_leaks, limit, 10)
    some = look(path, held_out_share=0.3)
    assert not some["all_compared"]
    assert some["compared"] == (10 if limit == "MOST_PROBLEMS" else 2)  # eight n-grams in a story
    assert some["same"] + some["sharing"] < every["same"] + every["sharing"]


def test_reading_ahead_ends_with_the_last_problem_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_leaks, "MOST_PROBLEMS", 5)
    taken = []

    def endless() -> Any:
        for number in range(10**6):
            taken.append(number)
            yield InputError("broken") if number % 2 else Record(f"p{number}", "1", number, "")

    leaks = SplitLeaks(0.5, 13)
    leaks.read_ahead(endless(), lambda _: True)
    assert leaks.document()["compared"] == 5
    assert len(taken) < 200


def test_only_the_rows_that_are_asked_for(tmp_path: Path) -> None:
    path = planted(tmp_path / "a.jsonl")
    assert look(path, held_out_share=0.3, most_rows=200)["train_rows"] == 0
    assert look(path, held_out_share=0.3)["train_rows"] > 0


def test_a_frame_that_all_problems_share_is_no_leak(tmp_path: Path) -> None:
    frame = "please think about this with care and put the final answer into a box"
    path = write_jsonl(
        tmp_path / "a.jsonl", [{"prompt": f"{frame} what is {i}", "answer": "1"} for i in range(20 * COMMON)]
    )
    found = look(path, held_out_share=0.3)
    assert found["common_ngrams"] > 0
    assert (found["same"], found["sharing"]) == (0, 0)
