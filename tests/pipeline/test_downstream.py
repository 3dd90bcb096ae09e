"""Downstream sets beside the held-out evaluation: measured when due, never trained on, repeatable, and without any
effect on the run itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from scalerl.compute import Ledger
from scalerl.config import RunConfig, patch
from scalerl.errors import InputError
from scalerl.pipeline.assemble import ground, task_of
from scalerl.pipeline.downstream import downstream_tasks, with_downstream
from scalerl.pipeline.engines.embedded import EmbeddedEngine
from scalerl.pipeline.evaluate import is_due
from scalerl.pipeline.records import point_from_line, point_line, problem_lines
from scalerl.pipeline.session import train
from scalerl.policy import TinyLlama, build_policy
from scalerl.policy.load import load_policy
from scalerl.readers.curves import read_table

MakeRun = Callable[..., RunConfig]
KEY = "scale.evaluation.downstream"
SETS = (
    f"{KEY}.three={{task={{numbers=3, held_out_share=0.9}}, problems=5, samples=3, every=2}}",
    f"{KEY}.larger={{task={{largest=12}}, problems=6, temperature=0.5, tokens={{thinking=9}}}}",
)
TIMES = {"wall_s", "device_s"}


def lines(folder: Path, name: str = "evals.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line, object_pairs_hook=_without_times) for line in (folder / name).read_text().splitlines()]


def _without_times(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if key not in TIMES}


def held_out(line: dict[str, Any]) -> dict[str, Any]:
    """What a run without sets has in its line, the cost of evaluating aside."""
    own = {key: value for key, value in line.items() if not key.startswith("downstream/")}
    return own | {"ledger": {role: value for role, value in line["ledger"].items() if role != "evaluation"}}


@pytest.fixture(scope="module")
def whole(make_run: MakeRun, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(make_run(*SETS), tmp_path_factory.mktemp("runs") / "whole", cache=cache).folder


def test_sets_are_measured_when_they_are_due_and_null_otherwise(whole: Path) -> None:
    found = lines(whole)
    assert [line["step"] for line in found] == [0, 2, 4, 6]
    assert [line["downstream/three"] is None for line in found] == [False, True, False, True]
    assert all(line["downstream/larger"] is not None for line in found)
    assert found[0]["downstream/three/num_judged"] == 15
    assert found[1]["downstream/three/num_judged"] is None
    assert found[0]["downstream/larger/num_problems"] == 6
    assert max(line["downstream/larger/mean_length"] for line in found) <= 9 + 6


def test_the_run_itself_does_not_notice(make_run: MakeRun, cache: Path, tmp_path: Path, whole: Path) -> None:
    """Same steps, same held-out results, bit for bit; only the cost of evaluating is larger."""
    plain = train(make_run(), tmp_path / "plain", cache=cache).folder
    assert [held_out(line) for line in lines(plain)] == [held_out(line) for line in lines(whole)]
    assert not any(key.startswith("downstream") for line in lines(plain) for key in line)
    steps = [[{**line, "ledger": None} for line in lines(folder, "metrics.jsonl")] for folder in (plain, whole)]
    assert steps[0] == steps[1]
    costs = [lines(folder)[-1]["ledger"]["evaluation"]["flops"] for folder in (plain, whole)]
    assert costs[0] < costs[1]


def test_a_resumed_run_measures_the_same(make_run: MakeRun, cache: Path, tmp_path: Path, whole: Path) -> None:
    calls = iter(range(3))
    stopped = train(
        make_run(*SETS), tmp_path / "parts", cache=cache, should_stop=lambda: next(calls, None) is None
    )  # fmt: skip
    assert (stopped.reason, stopped.step) == ("interrupted", 3)
    resumed = train(make_run(*SETS), tmp_path / "parts", cache=cache, resume=True)
    assert lines(resumed.folder) == lines(whole)
    for step in (0, 2, 4, 6):
        name = f"evals/step-{step:06d}.json"
        assert (resumed.folder / name).read_bytes() == (whole / name).read_bytes()
    point = resumed.points[1]  # read back from the file
    assert point.downstream["three"] is None
    assert point.downstream["larger"] is not None
    assert point.downstream["larger"].num_judged == 12


def test_results_by_problem_are_kept_for_the_sets_that_were_due(whole: Path) -> None:
    first, second = (json.loads((whole / f"evals/step-{step:06d}.json").read_text()) for step in (0, 2))
    assert set(first["downstream"]) == {"three", "larger"}
    assert set(second["downstream"]) == {"larger"}
    assert len(first["downstream"]["three"]["problems"]) == 5
    assert all(one["judged"] == 3 for one in first["downstream"]["three"]["problems"].values())


def test_a_set_is_a_curve_of_its_own_with_its_own_counts(whole: Path) -> None:
    (series,) = read_table(whole, y="downstream/three")
    assert series.value_name == "downstream/three"
    assert series.start is not None
    assert len(series) == 1  # step 4; 2 and 6 were not due, which is not zero
    assert series.n is not None
    assert series.n.tolist() == [15.0]


def test_the_local_launcher_measures_them_too(make_run: MakeRun, cache: Path, tmp_path: Path, whole: Path) -> None:
    run = make_run(*SETS, 'scale.launcher.kind="local"', "scale.budget.amount=2")
    found = lines(train(run, tmp_path / "local", cache=cache).folder)
    assert [line["downstream/larger"] is None for line in found] == [False, False]
    sets = [{key: value for key, value in line.items() if key.startswith("downstream/")} for line in found]
    assert sets[0] == {key: value for key, value in lines(whole)[0].items() if key.startswith("downstream/")}


def test_seeds_differ_between_sets_and_from_the_held_out_ones(make_run: MakeRun, cache: Path) -> None:
    """Two sets with the same problems write different answers; the same set writes the same again."""
    twins = [f"{KEY}.{name}={{task={{largest=12}}, problems=6, samples=8}}" for name in ("one", "two")]
    run = make_run(*twins)
    policy, task = load_policy(run, cache), task_of(run)
    base = with_downstream(ground(run, policy.tokenizer, task), downstream_tasks(run, task), policy.model)
    weights = {name: tensor.detach() for name, tensor in policy.model.named_parameters()}
    seen: list[tuple[int, int]] = []
    first, usage = base.evaluations(policy.model, 0).evaluate(
        weights, 0, Ledger(), lambda done, wanted: seen.append((done, wanted))
    )
    again, _ = base.evaluations(policy.model, 0).evaluate(weights, 0, Ledger(), lambda *_: None)
    one, two = first.downstream["one"], first.downstream["two"]
    assert one is not None
    assert two is not None
    assert one.per_problem.keys() == two.per_problem.keys()
    assert one.mean_length != two.mean_length
    assert again == first
    assert seen[-1] == (20, 20)  # one count over all of them
    assert seen == sorted(seen)
    alone, held_out_usage = base.evaluator(policy.model, 0).evaluate(weights, 0, Ledger(), lambda *_: None)
    assert alone.per_problem == first.per_problem
    assert usage.flops > 2 * held_out_usage.flops
    assert point_from_line(point_line(first, 1.0)).downstream["one"] is not None
    assert list(problem_lines(first)["downstream"]) == ["one", "two"]


def test_evaluations_share_a_policy_and_keep_no_caches(make_run: MakeRun, cache: Path) -> None:
    """A copy for every set that thinks longer would be gigabytes; alone or beside others, a set is measured alike."""
    run = make_run(*SETS)
    policy, task = load_policy(run, cache), task_of(run)
    base = with_downstream(ground(run, policy.tokenizer, task), downstream_tasks(run, task), policy.model)
    weights = {name: tensor.detach() for name, tensor in policy.model.named_parameters()}
    evaluations = base.evaluations(policy.model, 0)
    engines = cast("tuple[EmbeddedEngine, ...]", evaluations._engines)
    assert len(engines) == 2  # `larger` has its own tokens and temperature
    assert engines[0].weights is engines[1].weights
    point, _ = evaluations.evaluate(weights, 0, Ledger(), lambda *_: None)
    assert not any(layer.is_initialized for engine in engines for layer in engine._forward.cache.slots)
    for name, alone in base.downstream.items():
        own, _ = alone.evaluator(policy.model, 0, name).evaluate(weights, 0, Ledger(), lambda *_: None)
        assert point.downstream[name] == own


def test_no_problem_of_a_set_is_trained_on(make_run: MakeRun) -> None:
    run = make_run(f"{KEY}.larger={{task={{largest=12}}, problems=20}}", "scale.task.train_problems=0")
    task = task_of(run)
    trained = {tuple(sorted(problem.metadata["numbers"])) for problem in task.problems("train")[:3000]}
    found = downstream_tasks(run, task)["larger"].problems("held_out")[:20]
    assert not trained & {tuple(sorted(problem.metadata["numbers"])) for problem in found}
    assert any(max(problem.metadata["numbers"]) <= 9 for problem in found)  # it could have been: 1 to 9 is shared


def test_a_set_from_a_file_may_not_hold_training_prompts(make_run: MakeRun, tmp_path: Path) -> None:
    def written(name: str, prompts: list[str]) -> Path:
        file = tmp_path / name
        file.write_text("".join(json.dumps({"prompt": one, "answer": "1"}) + "\n" for one in prompts))
        return file

    prompts = [f"{i}+1=" for i in range(40)]
    train_file, leaked = written("train.jsonl", prompts), written("leaked.jsonl", ["100+1=", *prompts[:20]])
    task = {"kind": "file", "path": str(train_file), "held_out_share": 0.5}
    sets = {"leaked": {"task": {"held_out_path": str(leaked)}, "problems": 21}}
    run = patch(make_run(), {"scale.task": task, "scale.warm_start": {"kind": "none"}, KEY: sets})
    with pytest.raises(InputError, match=rf"{KEY}.leaked: a downstream problem is trained on: got '\d+\+1='"):
        downstream_tasks(run, task_of(run))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("task={numbers=3}, problems=5000", f"{KEY}.x: .*too few distinct held-out problems.*5000"),
        ("task={numbers=4, largest=99}, problems=9", rf"at most {KEY}.x.tokens.prompt, 6"),
        ("task={numbers=3}, problems=9, tokens={answer=1}", f"{KEY}.x.tokens.answer: tokens of the interruption"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    given: str, words: str, make_run: MakeRun, cache: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        train(make_run(f"{KEY}.x={{{given}}}"), tmp_path / "run", cache=cache)
    assert list(tmp_path.iterdir()) == []


def test_only_the_step_decides_what_is_due_except_at_an_end_out_of_turn(make_run: MakeRun) -> None:
    run = make_run(*SETS)  # every second evaluation, that is every 4 steps
    assert [is_due(run, "three", step) for step in (0, 2, 4, 6, 8)] == [True, False, True, False, True]
    assert is_due(run, "three", 5)
    assert all(is_due(run, "larger", step) for step in range(9))


ROOMY = {"task": {"numbers": 3}, "problems": 9, "tokens": {"thinking": 99}}


def test_a_small_policy_is_built_with_room_for_the_sets(make_run: MakeRun, tmp_path: Path) -> None:
    run = patch(make_run(), {"scale.warm_start": {"kind": "none"}, KEY: {"x": ROOMY}})
    assert load_policy(run, tmp_path).model.config.max_position_embeddings == run.scale.context == 6 + 99 + 6


def test_a_given_policy_must_have_room_for_the_sets(make_run: MakeRun, tmp_path: Path) -> None:
    folder = build_policy(tmp_path / "policy", TinyLlama(layers=1, width=16, heads=2, feed_forward=24, context=24))
    model = {"source": "pretrained", "name": str(folder), "dtype": "float32"}
    run = patch(make_run(), {"scale.model": model, "scale.warm_start": {"kind": "none"}, KEY: {"x": ROOMY}})
    with pytest.raises(InputError, match="context"):
        train(run, tmp_path / "run", cache=tmp_path / "cache")
    assert not (tmp_path / "run").exists()
