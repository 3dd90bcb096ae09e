"""`scalerl data inspect` on every layout, and training on every layout, through the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalerl.cli import data_options
from scalerl.policy.tiny import TinyLlama, build_policy
from scalerl.tasks import PRINTABLE_CHARACTERS, SPLITS, build_task, files
from scalerl.tasks.data.layouts import LAYOUTS
from scalerl.verify import KINDS

from .conftest import Run
from .tiny import tiny_options

SAMPLES = Path(__file__).parents[1] / "data"
VERIFIERS = {
    "plain": "exact", "polaris": "math", "dapo": "math", "gsm8k": "number", "math": "math", "deepcoder": "code",
    "taco": "code", "verl": "math", "trl": "math",
}  # fmt: skip


@pytest.fixture(autouse=True)
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALERL_CACHE", str(tmp_path / "cache"))
    for path in SAMPLES.glob("*.jsonl"):
        shutil.copy(path, tmp_path)


def rows_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text().splitlines()]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_the_options_are_those_that_there_are() -> None:
    assert set(get_args(data_options.Layout)) == {"auto", *LAYOUTS}
    assert get_args(data_options.Verifier) == KINDS
    assert {name: layout.verifier for name, layout in LAYOUTS.items()} == VERIFIERS


@pytest.mark.parametrize("name", VERIFIERS)
def test_inspect_every_layout(name: str, run: Run) -> None:
    found = run("data", "inspect", f"{name}.jsonl", "--json").document
    assert (found["layout"], found["verifier"]) == (name, VERIFIERS[name])
    assert found["rows"] == found["usable"] == len(rows_of(name))
    assert found["unusable"] == []
    assert found["duplicates"] == {"distinct": found["rows"], "repeated": 0, "contradicted": 0, "pairs": []}
    assert found["answers"]["statuses"] == ({} if VERIFIERS[name] == "code" else {"correct": found["rows"]})
    assert len(found["samples"]) == 3
    page = run("data", "inspect", f"{name}.jsonl")
    assert page.code == 0
    assert f'task.layout = "{name}"' in page.out
    assert f'task.verifier = "{VERIFIERS[name]}"' in page.out


@pytest.mark.parametrize("name", VERIFIERS)
def test_inspect_parquet_and_arrow(name: str, run: Run, tmp_path: Path) -> None:
    table = pa.Table.from_pylist(rows_of(name))
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    expected = run("data", "inspect", f"{name}.jsonl", "--json").document
    for file in ("a.parquet", "a.arrow"):
        found = run("data", "inspect", file, "--json").document
        same = {key for key in expected if key not in {"file", "bytes", "unit"}}
        assert {key: found[key] for key in same} == {key: expected[key] for key in same}


@pytest.mark.parametrize("name", VERIFIERS)
def test_train_on_every_layout(name: str, run: Run, tmp_path: Path) -> None:
    shape = TinyLlama(
        layers=1, width=16, heads=2, feed_forward=32, context=512, characters=PRINTABLE_CHARACTERS
    )  # fmt: skip
    build_policy(tmp_path / "policy", shape)
    words = tiny_options(
        f'scale.task={{kind="file", path="{name}.jsonl", layout="{name}", held_out_share=0.4}}',
        'scale.model={source="pretrained", name="policy", dtype="float32"}',
        "scale.tokens.prompt=400",
        "scale.trainer.micro_batch_tokens=1000",
        "scale.evaluation.problems=2",
    )
    pairs = [pair for pair in zip(words[::2], words[1::2], strict=True) if not pair[1].startswith("scale.task.")]
    if VERIFIERS[name] == "code":
        pairs.append(("--set", "scale.task.run_model_code_without_sandbox=true"))
    ran = run("train", *(word for pair in pairs for word in pair), "--budget", 1, "--out", "new")
    assert ran.code == 0, ran.err
    task = json.loads((tmp_path / "new" / "config.json").read_text())["config"]["scale"]["task"]
    assert task.get("layout", "plain") == name
    assert task["verifier"] == ("exact" if name == "plain" else "auto")


def test_a_mixture_of_math_and_code_has_a_curve_for_each(run: Run, tmp_path: Path) -> None:
    shape = TinyLlama(layers=1, width=16, heads=2, feed_forward=32, context=512, characters=PRINTABLE_CHARACTERS)
    build_policy(tmp_path / "policy", shape)
    math = '{weight=2, task={kind="file", path="math.jsonl", layout="math", held_out_share=0.4}}'
    code = '{kind="file", path="taco.jsonl", layout="taco", held_out_share=0.4, run_model_code_without_sandbox=true}'
    words = tiny_options(
        f'scale.task={{kind="mixture", parts={{math={math}, code={{task={code}}}}}}}',
        'scale.model={source="pretrained", name="policy", dtype="float32"}', "scale.tokens.prompt=400",
        "scale.trainer.micro_batch_tokens=1000", "scale.evaluation.problems=3",
    )  # fmt: skip
    pairs = [pair for pair in zip(words[::2], words[1::2], strict=True) if not pair[1].startswith("scale.task.")]
    ran = run("train", *(word for pair in pairs for word in pair), "--budget", 2, "--out", "new")
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in (tmp_path / "new" / "evals.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 2]
    for line in lines:
        assert (line["part/math/num_problems"], line["part/code/num_problems"]) == (2, 1)
        assert line["pass_rate"] == pytest.approx((2 * line["part/math"] + line["part/code"]) / 3)
    listed = {one["name"] for one in run("read", "new", "--list", "--json").document["metrics"]}
    assert {"part/math", "part/code"} <= listed


def test_leaks_from_an_evaluation_file(run: Run) -> None:
    ran = run("data", "inspect", "gsm8k.jsonl", "--against", "evaluation.jsonl", "--against", "math.jsonl", "--json")
    leaked, clean = ran.document["against"]
    assert (leaked["problems"], leaked["short"], leaked["same"], leaked["problems_met"]) == (4, 1, 1, 2)
    assert leaked["sharing"] >= 1
    assert leaked["rows"][:2] == [1, 2]
    assert leaked["examples"][0] | {"words": ""} == {"row": 1, "problem": 1, "words": "", "whole": True}
    assert leaked["examples"][1]["words"] == "a ferry makes 4 crossings a day with 6 cars on each and"
    assert (clean["same"], clean["sharing"], clean["rows"]) == (0, 0, [])
    page = run("data", "inspect", "gsm8k.jsonl", "--against", "evaluation.jsonl").out
    assert "whole in 1 row" in page
    assert "13 words in a row" in page
    assert "Shorter than 13 words, and so compared whole: 1 of its problems" in page
    shorter = run("data", "inspect", "gsm8k.jsonl", "--against", "evaluation.jsonl", "--ngram", 5, "--json").document
    assert shorter["against"][0]["sharing"] > leaked["sharing"]


def test_leaks_across_the_split(run: Run, tmp_path: Path) -> None:
    story = "a baker sells {} loaves in the morning and {} rolls at noon before the shop is closed"
    rows = [{"prompt": story.format(i, i + 1) + end, "answer": "1"} for end in ("", "!") for i in range(50)]
    write(tmp_path / "own.jsonl", [*rows, {"prompt": "How many?", "answer": "2"}])
    found = run("data", "inspect", "own.jsonl", "--held-out-share", "0.3", "--json").document
    leaks = found["split"]["leaks"]
    assert found["split"]["held_out_share"] == 0.3
    assert leaks["compared"] == found["split"]["held_out"]
    assert 0 < leaks["same"] < leaks["compared"]
    page = " ".join(run("data", "inspect", "own.jsonl", "--held-out-share", "0.3").out.split())
    assert f"the {leaks['compared']} held-out problems: {leaks['same']} are also trained on, punctuation aside" in page
    first = leaks["examples"][0]
    assert f"line {first['row']} is held-out line {first['problem']}: a baker sells" in page
    assert "or hold out a file of its own (held_out_path)" in page
    assert "task.held_out_share = 0.3" in page
    clean = run("data", "inspect", "math.jsonl", "--held-out-share", "0.5").out
    assert "no row to train on is one, or has 13 words in a row of one" in " ".join(clean.split())
    assert "held_out_share" not in run("data", "inspect", "gsm8k.jsonl").out.partition("To train")[2]


def test_everything_that_is_wrong_is_said_at_once(run: Run, tmp_path: Path) -> None:
    """Broken lines, mixed types, empty answers, answers that no verifier takes, repeats and contradictions."""
    good = [{"question": f"What is {i} + {i}?", "answer": f"so #### {2 * i}"} for i in range(20)]
    bad = [
        "{oops", {"question": "q"}, {"question": 3, "answer": "#### 3"}, {"question": "r", "answer": ""},
        {"question": "s", "answer": "no mark"}, {"question": "t", "answer": "#### many"}, {"answer": "#### 3"},
    ]  # fmt: skip
    again = [good[3], {**good[4], "question": good[4]["question"].upper(), "answer": "#### 99"}]
    write(tmp_path / "bad.jsonl", [*good, *bad, *again])
    found = run("data", "inspect", "bad.jsonl", "--json").document
    assert (found["rows"], found["usable"]) == (29, 22)
    reasons = {one["reason"]: (one["count"], one["examples"][0]["where"]) for one in found["unusable"]}
    assert sum(count for count, _ in reasons.values()) == 7
    assert reasons["the prompt in 'question' is not a text"] == (1, "bad.jsonl, line 23")
    assert reasons["empty answer in 'answer'"] == (1, "bad.jsonl, line 24")
    assert reasons["no #### before the final answer"] == (1, "bad.jsonl, line 25")
    assert reasons["an answer that the verifier number cannot use (no number)"] == (1, "bad.jsonl, line 26")
    assert reasons["no 'question' in this object"] == (1, "bad.jsonl, line 27")
    pairs = [(28, 4, False), (29, 5, True)]
    assert found["duplicates"] == {
        "distinct": 20, "repeated": 2, "contradicted": 1,
        "pairs": [{"again": a, "first": b, "another_answer": c} for a, b, c in pairs],
    }  # fmt: skip
    page = run("data", "inspect", "bad.jsonl").out
    for part in ("29 rows, 22 usable", "Rows that cannot be used", "line 25", "two different answers or more: 1"):
        assert part in page


WRONG = {
    "no file": (["nowhere.jsonl"], ["nowhere.jsonl: no such file; allowed: JSONL or Parquet or Arrow"]),
    "nothing": (["nothing.jsonl"], ["nothing.jsonl: the file is empty; allowed: JSONL or Parquet or Arrow"]),
    "unknown columns": (["strange.jsonl"], ["no known layout", "prompt_key and answer_key with two of text, label"]),
    "not these columns": (["gsm8k.jsonl", "--layout", "math"], ["no column of layout math for prompt_key"]),
    "layout": (["gsm8k.jsonl", "--layout", "gsm9k"], ["gsm9k", "gsm8k"]),
    "key": (["gsm8k.jsonl", "--prompt-key", "ask"], ["unknown column for prompt_key", "question, answer"]),
    "csv": (["table.csv"], ["not a task file", "JSONL or Parquet or Arrow"]),
    "evaluation": (["gsm8k.jsonl", "--against", "strange.jsonl"], ["strange.jsonl", "no column with prompts"]),
    "ngram": (["gsm8k.jsonl", "--ngram", "1"], ["--ngram", "2 or more"]),
    "share": (["gsm8k.jsonl", "--held-out-share", "1"], ["--held-out-share", "got '1'", "between 0 and 1"]),
    "no share": (["gsm8k.jsonl", "--held-out-share", "50%"], ["--held-out-share", "got '50%'", "such as 0.1"]),
    "rows": (["gsm8k.jsonl", "--rows", "few"], ["--rows", "few"]),
    "tokenizer": (["gsm8k.jsonl", "--tokenizer", "nowhere"], ["no tokenizer", "tokenizer.json"]),
    "hub": (["hub:"], ["no dataset of the hub", "hub:openai/gsm8k:main:test"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_line_for_what_cannot_be_read(case: str, run: Run, tmp_path: Path) -> None:
    write(tmp_path / "strange.jsonl", [{"text": "t", "label": 1}])
    (tmp_path / "nothing.jsonl").touch()
    (tmp_path / "table.csv").write_text("prompt,answer\np,a\n")
    arguments, parts = WRONG[case]
    ran = run("data", "inspect", *arguments)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert not ran.out
    for part in parts:
        assert part in ran.err


def test_keys_of_any_file(run: Run, tmp_path: Path) -> None:
    rows = [{"ask": {"text": f"What is {i}?"}, "say": [str(i)]} for i in range(5)]
    write(tmp_path / "own.jsonl", rows)
    options = ["--prompt-key", "ask.text", "--answer-key", "say.0", "--verifier", "number"]
    found = run("data", "inspect", "own.jsonl", *options, "--json").document
    assert (found["layout"], found["usable"], found["verifier"]) == ("plain", 5, "number")
    page = run("data", "inspect", "own.jsonl", *options).out
    assert 'task.prompt_key = "ask.text"' in page
    assert 'task.answer_key = "say.0"' in page


NEEDED: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "a layout with columns of its own": (
        [{"ask": f"What is {i}?", "say": f"#### {i}"} for i in range(40)],
        ["--layout", "gsm8k", "--prompt-key", "ask", "--answer-key", "say"],
    ),
    "the second of a layout's columns": (
        [{"prompt": f"p{i}", "answer": "none", "solution": f"{i}"} for i in range(40)],
        ["--layout", "trl", "--answer-key", "solution", "--verifier", "number"],
    ),
    "an empty answer": ([{"problem": f"p{i}", "answer": "1" * (i > 0)} for i in range(40)], ["--verifier", "number"]),
    "two answers": ([{"prompt": f"p{i % 39}", "answer": str(i)} for i in range(40)], []),
}


@pytest.mark.parametrize("case", NEEDED)
def test_the_lines_for_a_config_are_all_that_a_task_needs(case: str, run: Run, tmp_path: Path) -> None:
    rows, options = NEEDED[case]
    write(tmp_path / "own.jsonl", rows)
    page = run("data", "inspect", "own.jsonl", *options).out
    lines = [line.strip() for line in page.splitlines() if line.startswith("    task.")]
    task = build_task(tomllib.loads("\n".join(lines))["task"])
    found = run("data", "inspect", "own.jsonl", *options, "--json").document
    sizes = {split: task.problems(split).size for split in SPLITS}
    assert sizes == {split: found["split"][split] for split in SPLITS}


def test_a_path_is_never_broken(run: Run, tmp_path: Path) -> None:
    name = f'{"long" * 30} "quoted".jsonl'
    write(tmp_path / name, rows_of("gsm8k"))
    (line,) = (line for line in run("data", "inspect", name).out.splitlines() if "task.path" in line)
    assert tomllib.loads(line)["task"]["path"] == name


def test_nothing_to_train_on(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "empty.jsonl", [{"problem": "p", "answer": ""}] * 3)
    page = run("data", "inspect", "empty.jsonl")
    assert page.code == 0
    assert "There is nothing to train on: no row can be used." in page.out
    assert "task.path" not in page.out
    write(tmp_path / "one.jsonl", [{"problem": "p", "answer": "1"}])
    assert "A task needs problems on both sides of the split" in run("data", "inspect", "one.jsonl").out


def test_evaluation_files_with_the_datasets_own_column(run: Run, tmp_path: Path) -> None:
    rows = [{"ask": f"What is {i}?", "say": i} for i in range(5)]
    write(tmp_path / "own.jsonl", rows)
    write(tmp_path / "set.jsonl", [rows[3], {"ask": 7}, {"say": 8}])
    options = ["own.jsonl", "--prompt-key", "ask", "--answer-key", "say", "--against", "set.jsonl"]
    (found,) = run("data", "inspect", *options, "--json").document["against"]
    assert (found["problems"], found["same"], found["rows"], found["unreadable"]) == (1, 1, [4], 2)
    assert "and so not compared: 2 rows" in run("data", "inspect", *options).out
    write(tmp_path / "set.jsonl", [{"ask": 7}])
    ran = run("data", "inspect", *options)
    assert ran.code == 2
    assert "set.jsonl: no prompt to compare with (the first row: the prompt in 'ask' is not a text): got '7'" in ran.err


def test_tokens_in_the_place_of_words(run: Run, tmp_path: Path) -> None:
    """A tokenizer of characters: as many tokens as characters."""
    build_policy(tmp_path / "policy", TinyLlama(layers=1, width=16, heads=2, characters=PRINTABLE_CHARACTERS))
    found = run("data", "inspect", "polaris.jsonl", "--tokenizer", "policy", "--json").document
    lengths = [len(row["problem"]) for row in rows_of("polaris")]
    assert found["counted_in"] == "tokens"
    assert found["lengths"]["prompt"]["total"] == sum(lengths)
    assert found["lengths"]["prompt"]["longest"] == max(lengths)
    assert "Length of a prompt in tokens" in run("data", "inspect", "polaris.jsonl", "--tokenizer", "policy").out


def test_a_hub_that_cannot_be_reached(tmp_path: Path) -> None:
    """The real package, told to stay away from the network."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    command = [sys.executable, "-m", "scalerl", "data", "inspect", "hub:nobody/nothing:main"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "hub:nobody/nothing:main: the Hugging Face hub cannot be reached" in done.stderr


def test_help_without_a_command(run: Run) -> None:
    assert "inspect" in run("data").out


def test_a_huge_file_that_is_not_cut(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is made small; the file could be of any size."""
    monkeypatch.setattr(files, "MOST_LOOKED_AT", 50)
    write(tmp_path / "huge.jsonl", [{"prompt": f"{i}+1=", "answer": "4"} for i in range(500)])

    def train(more: str) -> tuple[int, str]:
        words = tiny_options(f'scale.task={{kind="file", path="huge.jsonl"{more}}}')
        pairs = [pair for pair in zip(words[::2], words[1::2], strict=True) if not pair[1].startswith("scale.task.")]
        ran = run("train", *(word for pair in pairs for word in pair), "--budget", 1, "--out", f"new{len(more)}")
        return ran.code, ran.err

    code, err = train("")
    assert code == 2
    assert "huge.jsonl: too many problems to keep in memory: got 'more than 66'; allowed: task.train_problems" in err
    assert train(", train_problems=40")[0] == 0
