"""Downstream sets in a config: changes of the run's own task, refused in one line with their dotted key, and nothing
that a run without them would notice."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scalerl.config import digest, flatten, from_json, load_run, patch, to_dict, to_json
from scalerl.config.downstream import DownstreamSet, SetTokens
from scalerl.config.study import study_from
from scalerl.errors import InputError
from scalerl.runs.directory import identity
from scalerl.study.plan import plan

KEY = "scale.evaluation.downstream"
SHORTER = f"{KEY}.shorter={{task={{numbers=3}}, problems=20}}"
PLAIN = load_run().config


def test_a_set_is_the_runs_task_with_changes_and_its_own_sizes() -> None:
    given = f"{KEY}.longer={{task={{numbers=8}}, samples=2, temperature=0.5, tokens={{thinking=90}}}}"
    run = load_run(overrides=[given, "scale.task.largest=7"]).config
    found = run.downstream("longer")
    assert (found.scale.task.kind, found.scale.task.numbers, found.scale.task.largest) == ("chained_sums", 8, 7)  # type: ignore[union-attr]
    assert found.scale.evaluation.samples == 2
    assert found.scale.evaluation.problems == run.scale.evaluation.problems
    assert found.scale.evaluation.temperature == 0.5
    assert (found.scale.tokens.thinking, found.scale.tokens.prompt) == (90, run.scale.tokens.prompt)
    assert found.scale.evaluation.downstream == {}
    assert found.length != run.length  # shares of the set's own thinking budget
    assert found.recipe == run.recipe


def test_another_kind_of_task_begins_anew() -> None:
    run = load_run(overrides=[f"{KEY}.other={{task={{kind='countdown', numbers=3, largest=9}}}}"]).config
    assert run.downstream("other").scale.task.kind == "countdown"


def test_nothing_changes_for_a_run_without_sets() -> None:
    """Runs are identified by what is dumped: a key that appeared there would make another run of each."""
    assert "downstream" not in to_dict(PLAIN)["scale"]["evaluation"]
    assert not any("downstream" in key for key in flatten(PLAIN))
    assert PLAIN.scale.context == PLAIN.scale.tokens.context
    emptied = load_run(overrides=[f"{KEY}={{}}"]).config
    assert (digest(emptied), identity(emptied)) == (digest(PLAIN), identity(PLAIN))


def test_a_set_belongs_to_the_identity_and_comes_back_from_json() -> None:
    run = load_run(overrides=[SHORTER]).config
    assert identity(run) != identity(PLAIN)
    assert from_json(to_json(run)) == run
    assert flatten(run)[f"{KEY}.shorter.task.numbers"] == 3


def test_an_empty_table_removes_the_sets_of_a_lower_layer_and_another_adds_to_them() -> None:
    run = load_run(overrides=[SHORTER]).config
    assert patch(run, {KEY: {}}) == PLAIN
    both = patch(run, {f"{KEY}.longer.task.numbers": 8})
    assert list(both.scale.evaluation.downstream) == ["shorter", "longer"]
    assert both.scale.evaluation.downstream["shorter"].problems == 20


def test_the_policy_needs_room_for_the_longest_set() -> None:
    tokens = PLAIN.scale.tokens
    run = load_run(overrides=[f"{KEY}.longer={{task={{numbers=8}}, tokens={{prompt={tokens.prompt + 9}}}}}"]).config
    assert run.scale.context == tokens.context + 9


@pytest.mark.parametrize(
    ("given", "what", "allowed"),
    [
        ("x={task={numbers=1}}", "x.task.numbers", "a whole number at least 2 and at most 100"),
        ("x={task={numbrs=4}}", "unknown key {}.x.task.numbrs, did you mean {}.x.task.numbers?", "kind, numbers"),
        ("x={task={dataset='a'}}", "(it belongs to kind = reasoning_gym)", "kind, numbers"),
        ("x={task={kind='sums'}}", "x.task.kind", "chained_sums, countdown, reasoning_gym, file"),
        ("x={task={kind='countdown'}}", "missing key {}.x.task.numbers", "at least 2"),
        ("x={task={fewest_numbers=9}}", "x.task.fewest_numbers", "0, or 2 to numbers"),
        ("x={task={train_problems=9}}", "x.task.train_problems", "no such key: a downstream set is never trained on"),
        ("x={task={}}", "x.task", "at least one key of scale.task"),
        ("x={problems=4}", "missing key {}.x.task", "a table"),
        ("x={task={numbers=3}, problms=4}", "did you mean {}.x.problems?", "task, problems, samples, every"),
        ("x={task={numbers=3}, every=0}", "x.every", "a whole number at least 1"),
        ("x={task={numbers=3}, tokens={prompt=-1}}", "x.tokens.prompt", "a whole number at least 0"),
        ("x=3", "{}.x", "a table"),
        ("'a/b'={task={numbers=3}}", "{}", "letters, digits, - and _"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_key(given: str, what: str, allowed: str) -> None:
    with pytest.raises(InputError) as caught:
        load_run(overrides=[f"{KEY}={{{given}}}"])
    assert what.replace("{}", KEY) in str(caught.value)
    assert allowed.replace("{}", KEY) in str(caught.value.allowed)
    assert (caught.value.where or "").startswith("--set scale.evaluation.downstream=")
    assert "\n" not in str(caught.value)


def test_the_length_control_must_fit_into_the_budget_of_the_set() -> None:
    given = [f"{KEY}.x={{task={{numbers=3}}, tokens={{thinking=1}}}}", "recipe.length.low_share=0.3"]
    with pytest.raises(InputError, match=f"recipe.length.low_share: got 0.3.*{KEY}.x.tokens.thinking, 1"):
        load_run(overrides=given)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ("largest=30, held_out_share=0.5", True),
        ("numbers=9, fewest_numbers=3, held_out_share=0.5", True),
        ("largest=30", False),
        ("numbers=3, held_out_share=0.9", False),  # the run's sums have five numbers: none of these is among them
        ("kind='countdown', numbers=3, largest=9, held_out_share=0.9", False),
    ],
)
def test_a_larger_share_is_held_out_only_where_nothing_is_shared_with_training(changes: str, refused: bool) -> None:
    given = f"{KEY}.x={{task={{{changes}}}}}"
    if not refused:
        assert load_run(overrides=[given]).config.set_task("x").held_out_share >= 0.1
        return
    with pytest.raises(InputError, match=r"x.task.held_out_share: got 0.5; allowed: at most scale.task.held_out_share"):
        load_run(overrides=[given])


def test_a_study_takes_sets_in_its_base_and_can_leave_out_those_of_its_scale() -> None:
    values = {"name": "s", "cells": [{"name": "c", "set": {"recipe.zero_variance": "keep"}}]}
    with_sets = study_from(
        {**values, "base": {"scale": "laptop", "set": {KEY: {"shorter": {"task": {"numbers": 3}}}}}}, "a test"
    )
    for run in plan(with_sets).configs.values():
        assert run.downstream("shorter").scale.task.numbers == 3  # type: ignore[union-attr]
    without = study_from({**values, "base": {"scale": "laptop", "set": {KEY: {}}}}, "a test")
    assert identity(plan(without).configs["base"]) == identity(PLAIN)


def test_the_examples_of_the_docs_are_configs(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    own, given, mixture = re.findall(r"```toml\n(.*?)```", (docs / "downstream.md").read_text(), re.DOTALL)
    for name, text in (("suite", own), ("config", given), ("mixture", mixture)):
        (tmp_path / f"{name}.toml").write_text(text)
    run = load_run(file=tmp_path / "config.toml", suites=[str(tmp_path / "suite.toml")]).config
    assert run.scale.evaluation.downstream["harder"].every == 2
    assert run.downstream("olympiad").scale.tokens.thinking == 8000
    assert load_run(file=tmp_path / "mixture.toml").config.scale.task.kind == "mixture"
    (line,) = re.findall(
        r'^    (base.set."scale.evaluation.downstream.*)$', (docs / "study.md").read_text(), re.MULTILINE
    )
    study = study_from({"name": "s", "cells": [{"name": "c", "set": {"seed": 1}}], **tomllib.loads(line)}, "the docs")
    assert study.base.set[f"{KEY}.harder.problems"] == 128


def test_every_field_of_a_set_is_documented_and_refuses_unknown_keys() -> None:
    for model in (DownstreamSet, SetTokens):
        assert [name for name, field in model.model_fields.items() if not field.description] == []
        assert model.model_config.get("extra") == "forbid"
