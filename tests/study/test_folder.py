"""The folder of a study: what it remembers, what it lets grow, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalerl import __version__
from scalerl.config.study import StudyConfig, changed, study_from
from scalerl.errors import InputError
from scalerl.study import folder as folder_module
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Outcome
from scalerl.study.plan import plan

SAMPLE = {"name": "sample", "set": {"recipe.aggregation": "sample"}}
TOKEN = {"name": "token", "set": {"recipe.aggregation": "token"}}


def study(**values: Any) -> StudyConfig:
    return study_from({"name": "s", "cells": [SAMPLE], "seeds": [0, 1]} | values, "study.toml")


def refused(path: Path, config: StudyConfig) -> str:
    before = (path / "study.json").read_bytes()
    with pytest.raises(InputError) as caught:
        StudyFolder.create_or_open(path, config)
    assert (path / "study.json").read_bytes() == before
    return str(caught.value)


@pytest.fixture
def there(tmp_path: Path) -> StudyFolder:
    return StudyFolder.create_or_open(tmp_path / "study", study())


def test_a_new_folder_says_what_the_study_is(there: StudyFolder) -> None:
    saved = json.loads((there.path / "study.json").read_text())
    assert saved["scalerl"] == __version__
    assert saved["digest"] == there.plan.digest
    assert study_from(saved["config"], "study.json") == study()
    assert there.added == ()


def test_opened_again_nothing_is_written(there: StudyFolder) -> None:
    file = there.path / "study.json"
    before = file.stat().st_mtime_ns, file.read_bytes()
    again = StudyFolder.create_or_open(there.path, study())
    assert (file.stat().st_mtime_ns, file.read_bytes()) == before
    assert again == there
    assert StudyFolder.open(there.path) == there


def test_seeds_and_cells_may_be_added(there: StudyFolder) -> None:
    names = {job.name for job in there.plan.jobs}
    grown = StudyFolder.create_or_open(there.path, study(cells=[SAMPLE, TOKEN], seeds=[2, 0]))
    assert grown.added == ("seeds added: 2", "cells added: token")
    assert grown.config.seeds == (0, 1, 2)
    assert names < {job.name for job in grown.plan.jobs}
    assert len(grown.plan.jobs) == 9
    assert StudyFolder.open(there.path).plan == grown.plan


def test_fewer_seeds_take_nothing_away(there: StudyFolder) -> None:
    again = StudyFolder.create_or_open(there.path, study(seeds=[1]))
    assert again.config.seeds == (0, 1)
    assert again.added == ()


def test_how_curves_are_fitted_may_change(there: StudyFolder) -> None:
    again = StudyFolder.create_or_open(there.path, study(fit={"margin": 0.01}))
    assert again.plan.jobs == there.plan.jobs
    assert StudyFolder.open(there.path).config.fit.margin == 0.01


def test_peeking_writes_nothing(there: StudyFolder, tmp_path: Path) -> None:
    before = (there.path / "study.json").read_bytes()
    found = StudyFolder.peek(there.path, plan(study(seeds=[5])))
    assert found is not None
    assert found.config.seeds == (0, 1, 5)
    assert (there.path / "study.json").read_bytes() == before
    assert StudyFolder.peek(tmp_path / "none", plan(study())) is None
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"name": "t"}, "it is called s there, t here"),
        ({"base": {"scale": "laptop"}}, 'the base is another one: scale is "study" there, "laptop" here'),
        ({"base": {"set": {"scale.budget.amount": 10}}}, "scale.budget.amount is not set there, 10 here"),
        ({"cells": [TOKEN]}, "cell sample is not here"),
        ({"cells": [SAMPLE | {"set": TOKEN["set"]}]}, "cell sample is another one"),
    ],
)
def test_another_study_is_refused(there: StudyFolder, values: dict[str, Any], expected: str) -> None:
    message = refused(there.path, study(**values))
    assert message.startswith(f"{there.path}: the folder belongs to another study (")
    assert expected in message


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds other things: got 'notes.txt'"):
        StudyFolder.create_or_open(tmp_path, study())
    with pytest.raises(InputError, match="a file, not a folder"):
        StudyFolder.create_or_open(tmp_path / "notes.txt", study())
    with pytest.raises(InputError, match="not the folder of a study"):
        StudyFolder.open(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', '{"format": 9}'])
def test_a_broken_study_is_one_line(there: StudyFolder, text: str) -> None:
    (there.path / "study.json").write_text(text)
    with pytest.raises(InputError, match=r"study\.json: (broken file|format of the study)"):
        StudyFolder.open(there.path)


def test_presets_that_changed_since_are_noticed(there: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def otherwise(config: StudyConfig) -> Any:
        return plan(changed(config, base={"scale.batch.prompts": 5}))

    monkeypatch.setattr(folder_module, "plan", otherwise)
    with pytest.raises(InputError, match="cell base no longer resolves to the config that the study began with"):
        StudyFolder.open(there.path)


def test_a_job_is_written_before_it_starts_and_ends_with_an_outcome(there: StudyFolder) -> None:
    job, other = there.plan.jobs[:2]
    assert not there.started(job)
    there.write_job(job)
    assert there.started(job)
    assert there.outcome(job) is None
    saved = json.loads((there.job_path(job) / "job.json").read_text())
    assert saved == {"cell": "base", "seed": 0, "identity": job.identity, "settings": job.settings}
    there.write_outcome(job, Outcome("failed", 0.5, "it broke"))
    assert there.outcome(job) == Outcome("failed", 0.5, "it broke")
    assert there.outcome(other) is None
    there.clear_outcome(job)
    assert there.outcome(job) is None


def test_a_job_that_is_there_stays_as_it_is(there: StudyFolder) -> None:
    job = there.plan.jobs[0]
    there.write_job(job)
    (there.job_path(job) / "job.json").write_text("kept")
    there.write_job(job)
    assert (there.job_path(job) / "job.json").read_text() == "kept"


def test_everything_of_a_job_lies_in_its_own_folder(there: StudyFolder) -> None:
    job = there.plan.jobs[0]
    assert there.run_path(job) == there.path / "jobs" / job.name / "run"
    assert there.output_path(job) == there.path / "jobs" / job.name / "output.txt"


def test_a_broken_outcome_is_one_line(there: StudyFolder) -> None:
    job = there.plan.jobs[0]
    there.write_job(job)
    (there.job_path(job) / "outcome.json").write_text('{"state": "finished"}')
    with pytest.raises(InputError, match=r"outcome\.json: broken file"):
        there.outcome(job)


def test_decisions_are_kept_in_order_and_never_twice(there: StudyFolder) -> None:
    assert there.decisions() == []
    first = {"rung": 0.3, "cell": "sample", "action": "stop", "probability": 0.01}
    for decision in (first, {**first, "rung": 0.5}, first):
        there.add_decision(decision)
    assert there.decisions() == [first, {**first, "rung": 0.5}]


def test_many_decisions_read_the_file_once(there: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [{"rung": 0.3, "cell": f"cell{i}", "action": "stop", "probability": 0.01} for i in range(20)]
    there.add_decision(made[3])
    reads: list[int] = []
    decisions = StudyFolder.decisions

    def counted(self: StudyFolder) -> list[dict[str, object]]:
        reads.append(1)
        return decisions(self)

    monkeypatch.setattr(StudyFolder, "decisions", counted)
    there.add_decisions(made)
    assert len(reads) == 1
    assert decisions(there) == [made[3], *made[:3], *made[4:]]


def test_one_process_runs_a_study(there: StudyFolder) -> None:
    with there.hold(), pytest.raises(InputError, match="in use"), there.hold():
        pass
    with there.hold():
        pass


def test_results_are_replaced_whole(there: StudyFolder) -> None:
    there.write_results("one\n")
    there.write_results("two\n")
    assert there.results_path.read_text() == "two\n"
    assert [file.name for file in there.path.iterdir() if "results" in file.name] == ["results.json"]


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "1" * 5000, "[1]", '{"format": 1, "config": {}, "cells": [1], "digest": "", "scalerl": ""}'],
    ids=["deep", "digits", "a list", "cells that are no table"],
)
def test_a_damaged_study_is_refused_in_one_line(there: StudyFolder, text: str) -> None:
    (there.path / "study.json").write_text(text)
    with pytest.raises(InputError, match="broken file"):
        StudyFolder.open(there.path)


def test_a_damaged_outcome_is_refused_in_one_line(there: StudyFolder) -> None:
    job = there.plan.jobs[0]
    there.write_job(job)
    (there.job_path(job) / "outcome.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="broken file"):
        there.outcome(job)
