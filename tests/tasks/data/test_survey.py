"""What is said about a dataset: lengths, duplicates and leaks against slow and obvious ways to find them."""

from __future__ import annotations

import errno
import random
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median_low
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import InputError, StorageError
from scalerl.tasks import FileTask
from scalerl.tasks.data import repeats as repeats_file
from scalerl.tasks.data.lengths import LONGEST, Lengths, token_counter
from scalerl.tasks.data.overlap import COMMON, EvaluationIndex, Texts
from scalerl.tasks.data.reference import ReferenceCheck, Sample
from scalerl.tasks.data.repeats import Found, Repeats
from scalerl.tasks.data.survey import Question, Refusals, inspect
from scalerl.tasks.files import canonical
from scalerl.tasks.pools import split_of
from scalerl.tasks.records import Columns

from .conftest import SAMPLES, Rows, write_jsonl

WORDS = ["a", "b", "c", "d"]


@given(st.lists(st.integers(0, LONGEST + 5), min_size=1, max_size=200))
def test_lengths_are_exact(lengths: list[int]) -> None:
    found = Lengths()
    found.add(lengths[: len(lengths) // 2])
    found.add(lengths[len(lengths) // 2 :])
    document = found.document()
    assert document["total"] == sum(lengths)
    assert document["longest"] == max(lengths)
    assert document["median"] == min(LONGEST, median_low(lengths))
    assert sum(one["count"] for one in document["histogram"]) == len(lengths)
    assert len(document["histogram"]) <= 13
    for one in document["histogram"]:
        assert one["count"] == sum(one["from"] <= min(length, LONGEST) <= one["to"] for length in lengths)


def test_nothing_has_no_lengths() -> None:
    assert Lengths().document() == {}


def by_hand(rows: list[tuple[str, str]], share: float) -> Found:
    answers: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    pairs = []
    for number, (prompt, answer) in enumerate(rows, 1):
        if prompt in answers:
            first = answers[prompt][0]
            pairs.append(repeats_file.Pair(number, first[1], first[0] != answer))
        answers[prompt].append((answer, number))
    return Found(
        distinct=len(answers),
        repeated=len(pairs),
        contradicted=sum(len({answer for answer, _ in found}) > 1 for found in answers.values()),
        held_out=sum(split_of(prompt, share) == "held_out" for prompt in answers),
        pairs=tuple(pairs[: repeats_file.SHOWN]),
    )


@pytest.mark.parametrize("in_memory", [1, 1 << 20], ids=["on disk", "in memory"])
def test_repeats_in_memory_and_on_disk(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats_file, "CHUNK_ROWS", 100)
    rng = random.Random(3)
    rows = [(f"prompt {rng.randrange(2000)}", rng.choice("xyz")) for _ in range(3000)]
    with Repeats(0.1, in_memory) as repeats:
        for number, (prompt, answer) in enumerate(rows, 1):
            repeats.add(prompt, answer, number)
        assert repeats.found() == by_hand(rows, 0.1)


def test_no_room_for_temporary_files_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(repeats_file, "_write_all", full)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Repeats(0.1, 1) as repeats:
        repeats.add("a", "b", 1)
        with pytest.raises(StorageError, match=r"cannot be written \(No space left on device\)"):
            repeats.found()
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from("xy")), max_size=20))
def test_repeats_of_few_rows(rows: list[tuple[str, str]]) -> None:
    with Repeats(0.5) as repeats:
        for number, (prompt, answer) in enumerate(rows, 1):
            repeats.add(prompt, answer, number)
        assert repeats.found() == by_hand(rows, 0.5)


texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), max_size=8)


@settings(max_examples=300)
@given(evaluation=texts, rows=texts, ngram=st.integers(2, 5))
def test_leaks_are_those_that_a_slow_search_finds(evaluation: list[str], rows: list[str], ngram: int) -> None:
    index = EvaluationIndex("e", ngram)
    for number, text in enumerate(evaluation, 1):
        index.add(number, text)
    index.look(Texts(range(1, len(rows) + 1), rows, ngram))
    whole = {" ".join(text.split()) for text in evaluation}
    known = {gram for text in evaluation for gram in grams(text, ngram)}
    same = [i for i, row in enumerate(rows, 1) if row.split() and " ".join(row.split()) in whole]
    sharing = [i for i, row in enumerate(rows, 1) if i not in same and known & grams(row, ngram)]
    assert (index.found.same, index.found.sharing) == (len(same), len(sharing))
    assert index.found.rows == sorted(same + sharing)
    for meeting in index.found.meetings:
        assert meeting.words in " ".join(rows[meeting.row - 1].split())
        assert meeting.words in " ".join(evaluation[meeting.problem - 1].split())


def grams(text: str, ngram: int) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[i : i + ngram]) for i in range(len(words) - ngram + 1)}


def test_an_instruction_that_many_problems_share_is_no_leak() -> None:
    instruction = "please reason step by step and put your final answer within a box"
    index = EvaluationIndex("e", 13)
    for number in range(COMMON + 1):
        index.add(number, f"{instruction} what is {number} plus {number} and then some more of these {number} now")
    index.look(Texts([1, 2], [f"how many? {instruction}.", "what is 3 plus 3 and then some more of these 3 now"]))
    assert index.found.common > 0
    assert index.found.rows == [2]


def test_punctuation_case_and_braces_hide_nothing() -> None:
    index = EvaluationIndex("e", 4)
    index.add(1, r"Find \frac{1}{2} of (the) CAKE!")
    index.look(Texts([7], [canonical("so find FRAC 1 2 of it")], 4))
    assert index.found.meetings[0].words == "find frac 1 2"


def test_a_sample_is_fair_and_the_same_each_time() -> None:
    def draw(name: str) -> list[int]:
        sample: Sample[int] = Sample(10, name)
        for i in range(1000):
            sample.offer(i)
        return sample.items()

    assert draw("x") == draw("x") == sorted(draw("x"))
    counts = Counter(item // 100 for name in range(200) for item in draw(str(name)))
    assert all(140 <= counts[tenth] <= 260 for tenth in range(10))


def test_answers_that_do_not_verify_against_themselves() -> None:
    check = ReferenceCheck("exact", 10)
    for number, answer in enumerate(["x", r"\boxed{a} and \boxed{}"], 1):
        assert check.objection(answer) is None
        check.offer(number, answer)
    judged = check.judged()
    assert judged.checked == 2
    assert dict(judged.statuses) == {"correct": 1, "unparsable": 1}
    assert judged.examples[0]["row"] == 2


def test_code_is_read_and_not_run() -> None:
    check = ReferenceCheck("code", 10)
    assert check.objection('{"inputs": ["1"], "outputs": ["2"]}') is None
    assert "no unit tests" in str(check.objection('{"inputs": ["1"]}'))
    assert check.judged().note == "unit tests were read, not run"


def test_reasons_stay_few() -> None:
    refusals = Refusals()
    for i in range(1000):
        refusals.add(f"reason {i}", i, f"line {i}")
    assert len(refusals.document()) == Refusals.MOST_REASONS + 1
    assert refusals.document()[0] == {
        "reason": "another reason", "count": 900,
        "examples": [{"where": f"line {i}", "value": str(i)} for i in (100, 101, 102)],
    }  # fmt: skip


def look(path: Path, **options: Any) -> dict[str, Any]:
    return inspect(Question(str(path), Columns("auto"), **options))


def test_the_split_is_the_one_that_a_task_makes() -> None:
    path = SAMPLES / "polaris.jsonl"
    found = look(path, held_out_share=0.3)["split"]
    task = FileTask(path=str(path), layout="polaris", held_out_share=0.3)
    assert (found["train"], found["held_out"]) == (task.problems("train").size, task.problems("held_out").size)


def test_progress_ends_at_the_end(write: Any) -> None:
    path, seen = write([{"prompt": f"p{i}", "answer": "1"} for i in range(2000)]), []
    inspect(Question(path, Columns("auto")), lambda done, total: seen.append((done, total)))
    assert len(seen) > 3
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1]


def test_only_the_first_rows(tmp_path: Path) -> None:
    rows: Rows = [{"prompt": f"p{i}", "answer": "1"} for i in range(1000)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    found = look(path, most_rows=300)
    assert (found["rows"], found["complete"]) == (300, False)
    assert (look(path)["rows"], look(path)["complete"]) == (1000, True)


def test_tokens_of_a_tokenizer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {"[UNK]": 0, "a": 1, "b": 2}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert token_counter(str(tmp_path))(["a b a", "b"]) == [3, 1]
    with pytest.raises(InputError, match="no tokenizer"):
        token_counter(str(tmp_path / "nowhere"))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="broken tokenizer"):
        token_counter(str(tmp_path))
