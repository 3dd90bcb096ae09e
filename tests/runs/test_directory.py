"""The run directory: it belongs to one config, nothing is overwritten, and only the budget may change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalerl.config import RunConfig, patch
from scalerl.errors import InputError, StorageError
from scalerl.runs import RunDirectory, identity, read_sessions

from .conftest import FullDisk


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_created_and_opened_again(tmp_path: Path, config: RunConfig) -> None:
    made = RunDirectory.create(tmp_path / "deep" / "run", config)
    opened = RunDirectory.open(tmp_path / "deep" / "run")
    assert opened == made
    assert opened.config == config
    assert json.loads((made.path / "config.json").read_text())["identity"] == made.identity == identity(config)
    assert len(read_sessions(made.path)) == 1


def test_without_provenance(tmp_path: Path, config: RunConfig) -> None:
    RunDirectory.create(tmp_path / "run", config, provenance=False)
    assert sorted(files(tmp_path / "run")) == ["config.json", "lock"]


def test_creating_this_run_again_opens_it_as_it_is(tmp_path: Path, config: RunConfig) -> None:
    RunDirectory.create(tmp_path, config)
    before = files(tmp_path)
    again = RunDirectory.create(tmp_path, patch(config, {"scale.budget.amount": 500.0}))
    assert again.config == config
    assert files(tmp_path) == before


def test_another_config_is_refused_and_named(tmp_path: Path, config: RunConfig) -> None:
    RunDirectory.create(tmp_path, config)
    before = files(tmp_path)
    other = patch(config, {"seed": 7, "scale.batch.prompts": 3})
    prompts = config.scale.batch.prompts
    message = (
        rf"a run directory that belongs to another config \(scale.batch.prompts is {prompts} there, 3 here; "
        r"seed is 0 there, 7 here\); allowed: the same config, or a new folder"
    )
    for attempt in (RunDirectory.create, RunDirectory.check):
        with pytest.raises(InputError, match=message):
            attempt(tmp_path, other)
    with pytest.raises(InputError, match=message), RunDirectory.hold(tmp_path, other):
        pytest.fail("held")
    many = patch(config, {"seed": 7, "recipe.loss.surrogate": "gspo", "recipe.aggregation": "token"})
    with pytest.raises(InputError, match=r"recipe.loss.surrogate is \"cispo\" there, \"gspo\" here; .*, and \d more\)"):
        RunDirectory.open(tmp_path).check_same(many)
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["notes.txt", "config.json"])
def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, config: RunConfig, name: str) -> None:
    """A config.json alone makes no run: every model folder has one."""
    (tmp_path / name).write_text('{"model_type": "llama"}')
    before = files(tmp_path)
    for attempt in (RunDirectory.create, RunDirectory.check):
        with pytest.raises(InputError, match=f"the folder holds other things: got '{name}'; allowed: a new or empty"):
            attempt(tmp_path, config)
    with pytest.raises(InputError, match="the folder is no run directory"):
        RunDirectory.open(tmp_path)
    assert files(tmp_path) == before


def test_what_is_no_folder(tmp_path: Path, config: RunConfig) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="no such run directory"):
        RunDirectory.open(tmp_path / "nothing")
    for attempt in (RunDirectory.create, RunDirectory.check):
        with pytest.raises(InputError, match="a file, not a folder"):
            attempt(tmp_path / "file", config)


def test_a_creation_that_died_half_way_can_be_repeated(tmp_path: Path, config: RunConfig) -> None:
    (tmp_path / "lock").write_text("")
    (tmp_path / "config.json.abcd.partial").write_text("{")
    assert RunDirectory.create(tmp_path, config).config == config


def test_check_tells_a_new_run_from_one_to_go_on_with(tmp_path: Path, config: RunConfig) -> None:
    RunDirectory.check(tmp_path / "new", config)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="no such run directory"):
        RunDirectory.check(tmp_path / "new", config, resume=True)
    RunDirectory.create(tmp_path / "new", config)
    RunDirectory.check(tmp_path / "new", patch(config, {"scale.budget.amount": 500.0}), resume=True)
    with pytest.raises(InputError, match="the run exists already; allowed: --resume to go on with it, or a new folder"):
        RunDirectory.check(tmp_path / "new", config)


def test_a_larger_budget_is_the_same_run(tmp_path: Path, config: RunConfig) -> None:
    longer = patch(config, {"scale.budget.unit": "flops", "scale.budget.amount": 1e15, "scale.checkpoint_every": 3})
    assert identity(longer) == identity(config) != identity(patch(config, {"seed": 1}))
    with RunDirectory.hold(tmp_path, config) as first:
        assert first.config == config
    with RunDirectory.hold(tmp_path, longer) as second:
        assert second.config == longer
    assert RunDirectory.open(tmp_path).config == longer
    assert len(read_sessions(tmp_path)) == 2


def test_a_new_run_does_not_begin_where_another_process_was_faster(tmp_path: Path, config: RunConfig) -> None:
    RunDirectory.check(tmp_path, config)
    with RunDirectory.hold(tmp_path, config) as faster:
        faster.evals.append({"step": 0})
    before = files(tmp_path)
    with pytest.raises(InputError, match="exists already"), RunDirectory.hold(tmp_path, config, resume=False):
        pytest.fail("begun twice")
    assert {name: text for name, text in files(tmp_path).items() if name != "lock"} == {
        name: text for name, text in before.items() if name != "lock"
    }


def test_a_run_in_use_is_not_touched(tmp_path: Path, config: RunConfig) -> None:
    with RunDirectory.hold(tmp_path, config):
        before = files(tmp_path)
        longer = patch(config, {"scale.budget.amount": 500.0})
        with pytest.raises(InputError, match="in use"), RunDirectory.hold(tmp_path, longer):
            pytest.fail("held twice")
        assert files(tmp_path) == before


def test_a_config_changed_by_hand_is_noticed(tmp_path: Path, config: RunConfig) -> None:
    RunDirectory.create(tmp_path, config)
    file = tmp_path / "config.json"
    saved = json.loads(file.read_text())
    file.write_text(json.dumps(saved | {"config": saved["config"] | {"seed": 5}}))
    with pytest.raises(InputError, match=r"config.json: the config was changed by hand"):
        RunDirectory.open(tmp_path)
    file.write_text(json.dumps(saved | {"config": saved["config"] | {"sead": 5}}))
    with pytest.raises(InputError, match="sead"):
        RunDirectory.open(tmp_path)
    file.write_text(json.dumps(saved | {"format": 2}))
    with pytest.raises(InputError, match="format of the run directory: got 2; allowed: 1"):
        RunDirectory.open(tmp_path)


def test_results_by_problem_have_a_file_for_each_step(tmp_path: Path, config: RunConfig) -> None:
    run = RunDirectory.create(tmp_path, config)
    run.write_evaluation(20, {"step": 20, "problems": {"a": {"correct": 1, "judged": 4}}})
    file = run.write_evaluation(20, {"problems": {"a": {"correct": 2, "judged": 4}}})  # after a resume, once more
    assert file == tmp_path / "evals" / "step-000020.json" == run.evaluation_file(20)
    assert json.loads(file.read_text())["problems"] == {"a": {"correct": 2, "judged": 4}}


def test_a_full_disk_leaves_the_files_as_they_were(tmp_path: Path, config: RunConfig, full_disk: FullDisk) -> None:
    run = RunDirectory.create(tmp_path, config)
    run.write_evaluation(20, {"problems": {}})
    before = files(tmp_path)
    with full_disk(20):
        with pytest.raises(StorageError, match=r"step-000020.json: cannot be written"):
            run.write_evaluation(20, {"problems": dict.fromkeys("abcdefghij", 1)})
        with pytest.raises(StorageError, match=r"config.json: cannot be written"):
            run.adopt_budget(patch(config, {"scale.budget.amount": 500.0}))
        with pytest.raises(StorageError, match=r"stopped.json: cannot be written"):
            run.finish("budget", 100)
    assert files(tmp_path) == before
    with full_disk(20), pytest.raises(StorageError):
        RunDirectory.create(tmp_path / "new", config)
