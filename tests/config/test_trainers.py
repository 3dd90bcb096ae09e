"""The number of trainers: a key that came later, so that configs without it are what they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl.config import diff, digest, from_json, load_run, patch, to_dict, to_json
from scalerl.errors import InputError
from scalerl.runs import RunDirectory

LOCAL = patch(load_run().config, {"scale.launcher.kind": "local"})
TWO = patch(LOCAL, {"scale.launcher.trainers": 2})


def test_one_trainer_leaves_no_trace_in_a_config() -> None:
    assert "trainers" not in to_dict(LOCAL)["scale"]["launcher"]
    assert digest(patch(TWO, {"scale.launcher.trainers": 1})) == digest(LOCAL)
    assert digest(TWO) != digest(LOCAL)
    assert from_json(to_json(TWO)) == TWO
    assert from_json(to_json(LOCAL)).scale.launcher.trainers == 1
    assert diff(LOCAL, TWO) == {"scale.launcher.trainers": (1, 2)}


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "many"])
def test_numbers_that_are_none(number: str) -> None:
    with pytest.raises(InputError, match=r"scale\.launcher\.trainers: got .*; allowed: a whole number at least 1"):
        load_run(overrides=["scale.launcher.kind=local", f"scale.launcher.trainers={number}"])


def test_inline_is_one_process() -> None:
    with pytest.raises(
        InputError, match=r"scale\.launcher\.trainers: got 2; allowed: 1, because inline is one process"
    ):
        load_run(overrides=["scale.launcher.trainers=2"])


def test_a_run_may_go_on_with_another_number(tmp_path: Path) -> None:
    first = RunDirectory.create(tmp_path / "run", TWO, provenance=False)
    assert first.identity == RunDirectory(tmp_path, LOCAL).identity
    with RunDirectory.hold(tmp_path / "run", LOCAL) as second:
        assert second.config == LOCAL
    assert RunDirectory.open(tmp_path / "run").config == LOCAL
