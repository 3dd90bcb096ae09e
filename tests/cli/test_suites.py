"""Suites and mixtures through the command line: trained with, listed, measured after the fact, refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalerl.config import load_run
from scalerl.runs import RunDirectory

from .conftest import Run
from .tiny import tiny_options

KEY = "scale.evaluation.downstream"
SUITE = """
[plus]
task = { path = "plus.jsonl", verifier = "number" }
samples = 2
tokens = { prompt = 9 }
[few]
task = { path = "plus.jsonl", verifier = "number" }
problems = 3
every = 2
tokens = { prompt = 9 }
"""
PARTS = (
    'scale.task={kind="mixture", parts={two={weight=3, task={kind="chained_sums", numbers=2, largest=20, '
    'train_problems=0}}, goals={task={kind="countdown", numbers=2, largest=9, train_problems=0}}}}'
)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALERL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def suite(run: Run) -> str:
    """In the folder that the command line is called in."""
    rows = [{"prompt": f"{a}+{b}+1=", "answer": a + b + 1} for a in range(1, 4) for b in range(1, 4)]
    Path("plus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("mine.toml").write_text(SUITE)
    return "mine.toml"


def test_a_run_with_a_suite_from_the_dry_run_to_a_measurement_after_the_fact(
    run: Run, suite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [*tiny_options("scale.budget.amount=4"), "--suite", suite]
    dry = run("train", *options, "--dry-run").out
    assert "downstream plus: path = plus.jsonl; all problems x 2, every evaluation" in dry
    assert run("train", *options, "--out", "one", "--no-live").code == 0
    shown = run("runs", "show", "one").out
    assert "Downstream sets and parts" in shown
    found = {one["metric"]: one for one in run("runs", "show", "one", "--json").document["sets"]}
    assert [one["step"] for one in found["downstream/few"]["measured"]] == [0, 4]
    assert found["downstream/plus"]["passed"]["num_problems"] == 9
    # again, from the checkpoints
    document = run("evaluate", "one", "--versions", "0,last", "--json").document
    assert [(one["version"], one["set"]) for one in document["measured"]] == [
        (0, "plus"), (0, "few"), (4, "plus"), (4, "few"),
    ]  # fmt: skip
    saved = json.loads(Path("one/evals/step-000004.json").read_text())["downstream"]["plus"]["problems"]
    assert document["measured"][2]["problems"] == saved
    assert list(document["measured"][0]["pass_at"]) == ["1", "2"]
    assert [one["set"] for one in document["differences"]] == ["plus", "few"]
    monkeypatch.setenv("COLUMNS", "80")
    text = run("evaluate", "one", "--versions", "0,last").out
    assert "plus " in text  # the names stay on a narrow screen
    assert "mean@k" in text
    assert "from version 0 to 4, paired over 9 problems" in text


def test_going_on_with_the_same_suite_is_the_same_run_and_with_another_is_not(run: Run, suite: str) -> None:
    options = [*tiny_options("scale.budget.amount=2"), "--suite", suite]
    assert run("train", *options, "--out", "one", "--no-live").code == 0
    more = run("train", "--out", "one", "--resume", "--suite", suite, "--budget", "4", "--no-live")
    assert more.code == 0, more.err
    Path("other.toml").write_text(SUITE.replace("samples = 2", "samples = 3"))
    other = run("train", "--out", "one", "--resume", "--suite", "other.toml")
    assert other.code == 2
    assert f"{KEY}.plus.samples is 2 there, 3 here" in other.err


def test_any_checkpoint_is_measured_with_another_suite(run: Run, suite: str) -> None:
    sizes = ("scale.budget.amount=2", "scale.tokens.prompt=9")
    assert run("train", *tiny_options(*sizes), "--out", "one", "--no-live").code == 0
    nothing = run("evaluate", "one")
    assert nothing.code == 2
    assert "nothing to measure on; allowed: --suite NAME" in nothing.err
    whole = run("evaluate", "one", "--suite", suite, "--json").document["measured"]
    checkpoint = run("evaluate", "one/checkpoints/step-000002", "--suite", suite, "--json").document["measured"]
    assert whole == checkpoint
    fewer = run("evaluate", "one", "--suite", suite, "--set", f"{KEY}.plus.samples=1", "--json").document["measured"]
    assert fewer[0]["k"] == 1
    room = run("evaluate", "one", "--suite", suite, "--set", f"{KEY}.plus.tokens.thinking=99", "--versions", "0")
    assert room.err == (
        f"scalerl: error: {KEY}.plus.tokens: prompt + thinking + answer: got 114; allowed: at most the context of the "
        "policy, 23\n"
    )
    missing = run("evaluate", "one", "--suite", suite, "--versions", "0,1")
    assert missing.code == 2
    assert (
        "no checkpoint of this version: got '1'; allowed: a version whose policy is kept: 0, 2, or last" in missing.err
    )
    assert run("evaluate", "one", "--suite", suite, "--scale", "laptop").code == 2


def test_a_model_of_somebody_elses_is_measured_too(run: Run, suite: str) -> None:
    from scalerl.policy import TinyLlama, build_policy

    build_policy(Path("model"), TinyLlama(layers=1, width=16, heads=2, feed_forward=24, context=64))
    sizes = ["scale.tokens.prompt=9", "scale.tokens.thinking=8", "scale.tokens.answer=6", "scale.generator.rows=8"]
    options = [word for text in sizes for word in ("--set", text)]
    document = run("evaluate", "model", "--suite", suite, *options, "--json").document
    assert [(one["version"], one["set"], one["num_problems"]) for one in document["measured"]] == [
        (0, "plus", 9), (0, "few", 3),
    ]  # fmt: skip
    assert document["differences"] == []
    room = run("evaluate", "model", "--suite", suite)
    assert room.code == 2
    assert "at most the context of the policy, 64" in room.err
    versions = run("evaluate", "model", "--suite", suite, "--versions", "0")
    assert "model: --versions: got '0'; allowed: with a run directory only; this is one policy" in versions.err
    assert run("evaluate", "nowhere/at/all", "--suite", suite).code == 2
    Path("empty").mkdir()
    empty = run("evaluate", "empty", "--suite", "aime24=nowhere.jsonl")  # said before anything is said of the suite
    assert empty.code == 2
    assert "empty: " in empty.err
    assert "config.json" in empty.err


def test_ready_suites_need_no_file_until_they_are_measured(run: Run) -> None:
    dry = run("train", "--suite", "aime24", "--suite", "math500=local.jsonl", "--dry-run").out
    assert "downstream aime24: path = hub:HuggingFaceH4/aime_2024; 30 problems x 32, every evaluation" in dry
    assert "downstream math500: path = local.jsonl; 500 problems x 4, every evaluation" in dry
    wrong = run("train", "--suite", "aime99", "--dry-run")
    assert wrong.code == 2
    assert "unknown suite preset" in wrong.err
    assert "--suite" in run("train", "--help").out


def test_a_ready_suite_from_a_local_file(run: Run) -> None:
    rows = [{"problem": f"{i}+{i}=", "answer": f"{2 * i:03d}"} for i in range(1, 31)]
    Path("aime.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("train", *tiny_options("scale.budget.amount=2"), "--out", "one", "--no-live").code == 0
    ran = run("evaluate", "one", "--suite", "aime24=aime.jsonl", "--set", f"{KEY}.aime24.samples=1", "--json")
    (one,) = ran.document["measured"]
    assert (one["num_problems"], one["k"]) == (30, 1)
    Path("aime.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:29]))
    short = run("evaluate", "one", "--suite", "aime24=aime.jsonl")
    assert short.code == 2
    assert f"{KEY}.aime24.problems: got 30; allowed: at most 29" in short.err


def test_a_mixture_from_the_dry_run_to_the_curve_of_a_part(run: Run) -> None:
    values = [text for text in tiny_options("scale.budget.amount=12")[1::2] if not text.startswith("scale.task.")]
    options = [word for text in (PARTS, *values) for word in ("--set", text)]
    assert run("train", *options, "--out", "one", "--no-live").code == 0
    assert "part goals" in run("runs", "show", "one").out
    listed = {one["name"]: one["count"] for one in run("read", "one", "--list", "--json").document["metrics"]}
    assert listed["part/two"] == listed["part/goals"] == listed["pass_rate"] == 7
    assert run("fit", "one", "--metric", "part/two", "--json").document["points"] == 6
    unknown = run("fit", "one", "--metric", "part/math")
    assert unknown.code == 2
    assert "part/math" in unknown.err
    assert "part/goals" in unknown.err


def test_a_wrong_mixture_is_one_line(run: Run) -> None:
    ran = run("train", "--set", PARTS.replace("weight=3", "weight=0"), "--dry-run")
    assert ran.code == 2
    assert "scale.task.parts.two.weight: got 0; allowed: a number above 0" in ran.err


def test_a_run_whose_set_was_never_measured_is_shown_without_it(run: Run) -> None:
    RunDirectory.create("empty", load_run(suites=["aime24"]).config)
    assert run("runs", "show", "empty").code == 0
