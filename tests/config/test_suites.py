"""Suites: files of sets that become downstream sets of a config, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl import presets
from scalerl.config import digest, from_json, load_run, patch, to_dict, to_json
from scalerl.config.suites import suite_layer
from scalerl.errors import InputError
from scalerl.runs.directory import identity

KEY = "scale.evaluation.downstream"
MINE = """
[easy]
task = { path = "easy.jsonl", verifier = "number" }
samples = 8
every = 5
tokens = { thinking = 400 }
[hard]
task = { path = "hard.parquet", prompt_key = "question", verifier = "math" }
temperature = 0.6
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.toml").write_text(MINE)
    return str(tmp_path / "mine.toml")


@pytest.mark.parametrize("name", presets.names("suite"))
def test_every_ready_suite_is_a_set_of_a_run_from_the_hub_or_from_a_file(name: str) -> None:
    run = load_run(suites=[name]).config
    found = run.downstream(name).scale
    assert found.task.path.startswith("hub:")  # type: ignore[union-attr]
    assert run.scale.evaluation.downstream[name].whole
    assert (found.evaluation.problems, found.evaluation.samples) == {
        "aime24": (30, 32), "aime25": (30, 32), "math500": (500, 4),
    }[name]  # fmt: skip
    local = load_run(suites=[f"{name}=problems.jsonl"]).config.downstream(name).scale.task
    assert (local.path, local.prompt_key) == ("problems.jsonl", "problem")  # type: ignore[union-attr]
    assert local.verifier == {"math500": "math"}.get(name, "number")  # type: ignore[union-attr]


def test_every_line_of_a_ready_suite_says_where_it_comes_from() -> None:
    for name in presets.names("suite"):
        lines = [line for line in presets.read("suite", name).splitlines() if "=" in line.partition("#")[0]]
        assert all(line.partition("# ")[2].startswith(("dataset", "literature", "ours")) for line in lines), name


def test_a_file_of_several_sets(mine: str) -> None:
    run = load_run(suites=[mine]).config
    easy, hard = run.downstream("easy").scale, run.downstream("hard").scale
    assert easy.task.verifier == "number"  # type: ignore[union-attr]
    assert (easy.evaluation.samples, easy.tokens.thinking, easy.evaluation.problems) == (8, 400, 0)
    assert run.scale.evaluation.downstream["easy"].every == 5
    assert (hard.evaluation.temperature, hard.evaluation.samples) == (0.6, run.scale.evaluation.samples)
    assert from_json(to_json(run)) == run
    assert identity(run) != identity(load_run().config)


def test_suites_may_stand_in_a_config_whose_own_sets_come_on_top(mine: str, tmp_path: Path) -> None:
    text = (
        f'[scale.evaluation]\nsuites = ["aime24=a.jsonl", "{mine}"]\n[scale.evaluation.downstream.easy]\nsamples = 3\n'
    )
    (tmp_path / "config.toml").write_text(text)
    run = load_run(file=tmp_path / "config.toml").config
    assert list(run.scale.evaluation.downstream) == ["aime24", "easy", "hard"]
    assert run.scale.evaluation.downstream["easy"].samples == 3
    assert "suites" not in to_dict(run)["scale"]["evaluation"]
    same = load_run(suites=["aime24=a.jsonl", mine], overrides=[f"{KEY}.easy.samples=3"]).config
    assert digest(same) == digest(run)
    assert load_run(overrides=['scale.evaluation.suites=["aime25"]']).config == load_run(suites=["aime25"]).config


def test_a_whole_file_takes_nothing_of_the_runs_own_file_but_whether_it_thinks() -> None:
    own = {
        "kind": "file",
        "path": "train.jsonl",
        "verifier": "code",
        "prompt_key": "q",
        "memory_mb": 99,
        "thinking": False,
    }
    run = patch(
        load_run("base").config,
        {"scale.task": own, "scale.warm_start": {"kind": "none"}, "recipe.length": {"kind": "none"}},
    )
    run = patch(run, {f"{KEY}.x": {"task": {"path": "x.jsonl"}, "whole": True}})
    task = run.downstream("x").scale.task
    assert (task.path, task.prompt_key, task.verifier, task.memory_mb) == ("x.jsonl", "prompt", "exact", 512)  # type: ignore[union-attr]
    assert task.thinking is False  # type: ignore[union-attr]
    assert "held_out_problems" not in run.downstream("x").scale.task_settings


def test_a_set_that_is_no_whole_file_says_nothing_about_it() -> None:
    run = load_run(overrides=[f"{KEY}.x={{task={{numbers=3}}}}"]).config
    assert "whole" not in to_dict(run)["scale"]["evaluation"]["downstream"]["x"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("aime23", "unknown suite preset, did you mean aime2[45]?.*aime24, aime25, math500, or a file ending in .toml"),
        ("aime24=", "the file of a suite: got 'aime24='"),
        ("missing.toml", "missing.toml: the file cannot be read"),
    ],
)
def test_an_unknown_suite_is_one_line(given: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        suite_layer(given)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a suite without sets"),
        ("a = 3", "not a set of a suite: a"),
        ("[a]\ntask = 3", "not a set of a suite: a"),
        ("[a]\nsamples = 3", f"missing key {KEY}.a.task"),
        ("[a]\ntask = {path = 'x'}\nk = 3", f"unknown key {KEY}.a.k"),
        (
            "[a]\ntask = {path = 'x', held_out_share = 0.5}",
            f"{KEY}.a.task.held_out_share: got 0.5.*nothing is trained on",
        ),
        ("[a]\ntask = {path = 'x', train_problems = 5}", "never trained on"),
        ("[a]\ntask = {kind = 'chained_sums', numbers = 3}", f"{KEY}.a.task.kind: got 'chained_sums'; allowed: file"),
        ("[a]\ntask = {path = 'x', verifier = 'maths'}", f"{KEY}.a.task.verifier: got 'maths'"),
        ("[a]\ntask = {verifier = 'math'}", f"missing key {KEY}.a.task.path"),
        ("[a]\ntask = {path = 'x'}\nsamples = -1", f"{KEY}.a.samples: got -1"),
    ],
)
def test_what_cannot_be_a_suite_names_the_key_and_the_file(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        load_run(suites=[str(file)])
    assert "bad.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_for_a_suite_of_several_sets_is_refused(mine: str) -> None:
    with pytest.raises(InputError, match="NAME=FILE for a suite of one set; this one has easy, hard"):
        load_run(suites=[f"{mine}=x.jsonl"])
    with pytest.raises(InputError, match=r"scale.evaluation.suites: got 'aime24'; allowed: a list"):
        load_run(overrides=["scale.evaluation.suites=aime24"])
