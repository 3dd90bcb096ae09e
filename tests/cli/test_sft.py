"""`scalerl sft`: the warm start, its cache, and a copy of the policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run
from .tiny import tiny_options

WARM = tiny_options('scale.warm_start={kind="sft", steps=20, batch=4, learning_rate=1e-3, wrong_steps=0.3}')


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SCALERL_CACHE", str(folder))
    return folder


def test_warm_start_and_its_cache(run: Run, cache: Path, tmp_path: Path) -> None:
    first = run("sft", *WARM, "--json")
    assert first.err.count("warm start: step") == 10
    assert Path(first.document["folder"]).parent == cache
    assert (first.document["problems"], first.document["samples"], first.document["steps"]) == (8, 1, 20)
    assert 0 <= first.document["pass_rate"] <= 1
    second = run("sft", *WARM, "--json")
    assert "warm start" not in second.err
    assert second.document["folder"] == first.document["folder"]
    assert second.document["pass_rate"] == first.document["pass_rate"]
    assert list(tmp_path.iterdir()) == []


def test_another_seed_is_another_policy(run: Run) -> None:
    folders = {run("sft", *WARM, "--seed", seed, "--json").document["folder"] for seed in (0, 1)}
    assert len(folders) == 2


def test_out_is_a_policy_of_its_own(run: Run, cache: Path) -> None:
    ran = run("sft", *WARM, "--out", "policy")
    assert ran.code == 0, ran.err
    assert "Policy    policy" in ran.out
    assert "Pass rate" in ran.out
    (cached,) = cache.iterdir()
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert Path("policy", name).read_bytes() == (cached / name).read_bytes()
    again = run("sft", *WARM, "--out", "policy")
    assert again.code == 2
    assert "policy: the folder exists already" in again.err
    pretrained = tiny_options('scale.model={source="pretrained", name="policy", dtype="float32"}')
    used = run("train", *pretrained, "--out", "run", "--budget", 2)
    assert used.code == 0, used.err


def test_a_scale_without_a_warm_start(run: Run) -> None:
    ran = run("sft", "--scale", "paper_8b")
    assert ran.code == 2
    assert ran.err.startswith("scalerl: error: scale.warm_start.kind: got 'none'; allowed: sft")


def test_an_unwritable_place_is_found_before_the_work(run: Run, cache: Path) -> None:
    Path("policy").write_text("a file of mine")
    ran = run("sft", *WARM, "--out", "policy")
    assert ran.code == 2
    assert list(cache.iterdir()) == []
    assert Path("policy").read_text() == "a file of mine"
