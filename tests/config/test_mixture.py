"""Mixtures in a config: named parts, each a whole task, refused in one line with their dotted key."""

from __future__ import annotations

import pytest

from scalerl.config import RunConfig, from_json, load_run, patch, to_json
from scalerl.errors import InputError
from scalerl.runs.directory import identity
from scalerl.tasks import MixtureTask, build_task

SUMS = {"kind": "chained_sums", "numbers": 4, "largest": 9, "train_problems": 0}
GOALS = {"kind": "countdown", "numbers": 3, "largest": 9, "train_problems": 500}
FILE = {"kind": "file", "path": "x.jsonl", "verifier": "math"}


def mixed(**parts: object) -> RunConfig:
    return patch(load_run().config, {"scale.task": {"kind": "mixture", "parts": parts}})


def test_a_mixture_is_built_from_its_settings() -> None:
    run = mixed(sums={"weight": 3, "task": SUMS}, goals={"task": GOALS})
    assert run.scale.task_settings == {
        "kind": "mixture",
        "parts": {
            "sums": {"weight": 3.0, "task": {k: v for k, v in SUMS.items() if v} | {"held_out_share": 0.1}},
            "goals": {"weight": 1.0, "task": GOALS | {"largest_target": 100, "held_out_share": 0.1}},
        },
        "held_out_problems": 256,
    }
    task = build_task(run.scale.task_settings, seed=run.seed)
    assert isinstance(task, MixtureTask)
    assert task.problems("held_out").size == 256
    assert task.tasks["goals"].problems("held_out").size == 64
    assert from_json(to_json(run)) == run
    assert identity(run) != identity(mixed(sums={"weight": 2, "task": SUMS}, goals={"task": GOALS}))


def test_thinking_is_that_of_every_part() -> None:
    options = {"scale.warm_start": {"kind": "none"}, "recipe.length": {"kind": "none"}}
    for thinking in (True, False):
        parts = {"sums": {"task": SUMS}, "file": {"task": FILE | {"thinking": thinking}}}
        run = patch(load_run().config, {"scale.task": {"kind": "mixture", "parts": parts}, **options})
        assert run.scale.task.thinking is thinking  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"a": {"task": SUMS}}, "scale.task.parts: got 'a'; allowed: at least two parts"),
        ({"a": {"task": SUMS}, "b c": {"task": GOALS}}, "scale.task.parts: got 'b c'; allowed: names of letters"),
        ({"a": {"task": SUMS}, "b": {"task": GOALS, "weight": 0}}, "parts.b.weight: got 0; allowed: a number above 0"),
        ({"a": {"task": SUMS}, "b": {"task": GOALS, "weight": -2}}, "parts.b.weight: got -2"),
        (
            {"a": {"task": SUMS}, "b": {"task": {"kind": "mixture"}}},
            "b.task.kind: got 'mixture'; allowed: chained_sums, ",
        ),
        ({"a": {"task": SUMS}, "b": {"task": GOALS | {"numbrs": 3}}}, "unknown key scale.task.parts.b.task.numbrs"),
        ({"a": {"task": SUMS}, "b": {"weight": 3}}, "missing key scale.task.parts.b.task"),
        ({"a": {"task": SUMS}, "b": 3}, "scale.task.parts.b: got 3; allowed: a table"),
        (
            {"a": {"task": SUMS}, "b": {"task": FILE}},
            "warm_start.kind: got 'sft'; allowed: none, because the task file",
        ),
        (
            {"a": {"task": SUMS}, "b": {"task": SUMS | {"largest": 30, "held_out_share": 0.3}}},
            r"parts.b.task.held_out_share: got 0.3; allowed: at most scale.task.parts.a.task.held_out_share, 0.1",
        ),
    ],
)
def test_what_cannot_be_a_mixture_is_refused_with_its_key(parts: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        mixed(**parts)
    assert "\n" not in str(caught.value)


def test_a_set_beside_a_mixture_has_a_kind_of_its_own_and_holds_out_no_more_than_any_part() -> None:
    run = mixed(sums={"task": SUMS}, goals={"task": GOALS})
    key = "scale.evaluation.downstream.x"
    other = {"kind": "countdown", "numbers": 4, "largest": 9}
    assert patch(run, {f"{key}.task": other}).downstream("x").scale.task.kind == "countdown"
    with pytest.raises(InputError, match=rf"{key}.task.kind: got 'mixture'; allowed: the kind of one task"):
        patch(run, {f"{key}.task": {"numbers": 3}})
    wide = {"kind": "chained_sums", "numbers": 4, "largest": 30, "held_out_share": 0.5}
    with pytest.raises(InputError, match=r"at most scale.task.parts.sums.task.held_out_share, 0.1"):
        patch(run, {f"{key}.task": wide})
