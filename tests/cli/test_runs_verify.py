"""`scalerl runs verify`: what it prints, its exit code, and its repairs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.runs.tiny_run import copy, tiny_config, train_tiny

from scalerl.runs import RunDirectory

from .conftest import Run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("whole"))


def damage(run: Path) -> None:
    """A flipped bit in the newest checkpoint, and a torn line."""
    file = run / "checkpoints" / "step-000006" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with (run / "metrics.jsonl").open("ab") as stream:
        stream.write(b'{"step": 7')


def test_a_run_as_it_should_be(run: Run, whole: Path) -> None:
    ran = run("runs", "verify", whole)
    assert (ran.code, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["steps", "ok", "1", "to", "6,", "without", "a", "gap"] in rows
    assert ran.out.endswith("1 run: everything is as it should be.\n")
    assert max(map(len, ran.out.splitlines())) <= 100


def test_every_check_as_json(run: Run, whole: Path) -> None:
    document = run("runs", "verify", whole, "--json").document
    assert document["ok"] is True
    (found,) = document["runs"]
    assert (found["level"], found["errors"], found["warnings"], found["repairs"]) == ("ok", 0, 0, [])
    assert {"config", "metrics", "steps", "ledger", "ages", "groups", "evals", "results", "checkpoint 6"} <= {
        finding["check"] for finding in found["findings"]
    }


def test_damage_is_exit_code_1_until_it_is_repaired(run: Run, whole: Path, tmp_path: Path) -> None:
    damage(copy(whole, tmp_path))
    ran = run("runs", "verify", "run")
    assert ran.code == 1
    assert "model.safetensors is damaged (wrong SHA-256)" in " ".join(ran.out.split())
    assert "to do: --repair sets it aside" in " ".join(ran.out.split())
    repaired = run("runs", "verify", "run", "--repair", "--json")
    (found,) = json.loads(repaired.out)["runs"]
    assert [line.split()[0] for line in found["repairs"]] == ["renamed", "cut"]
    again = run("runs", "verify", "run", "--repair")
    assert "nothing to repair" in again.out


def test_of_several_runs_only_what_is_wrong_is_shown(run: Run, whole: Path, tmp_path: Path) -> None:
    for name in ("good", "bad"):
        copy(whole, tmp_path / name)
    damage(tmp_path / "bad" / "run")
    ran = run("runs", "verify", ".")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert any(line.startswith("good/run  ok") for line in lines)
    assert any(line.startswith("bad/run  error") for line in lines)
    assert not any(line.startswith("config ") for line in lines)
    assert lines[-1] == "2 runs: 2 errors, 1 warning."
    twice = run("runs", "verify", "good", "good/run", "--json").document
    assert len(twice["runs"]) == 1


def test_a_run_that_is_held_is_checked_and_not_repaired(run: Run, whole: Path, tmp_path: Path) -> None:
    path = copy(whole, tmp_path)
    with RunDirectory.hold(path, tiny_config()):
        ran = run("runs", "verify", "run")
        assert ran.code == 0
        assert "being written by process" in ran.out
        refused = run("runs", "verify", "run", "--repair")
    assert (refused.code, refused.out) == (2, "")
    assert "the run directory is in use" in refused.err


@pytest.mark.parametrize("arguments", [["nowhere"], ["."], []])
def test_bad_input(run: Run, arguments: list[str]) -> None:
    ran = run("runs", "verify", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
