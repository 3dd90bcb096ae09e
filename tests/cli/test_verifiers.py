"""Every verifier and every option of it through `scalerl train`, and one line for each setting that cannot work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from scalerl.verify.bubblewrap import bubblewrap

from .conftest import Run
from .tiny import tiny_options

TESTS = json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"]})
ANSWERS: dict[str, Any] = {"exact": "4", "number": "4", "choice": "B", "math": "4", "code": TESTS}


@pytest.fixture(autouse=True)
def problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALERL_CACHE", str(tmp_path / "cache"))
    for kind, answer in ANSWERS.items():
        rows = [{"prompt": f"{i}+1=", "answer": answer} for i in range(60)]
        (tmp_path / f"{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _options(kind: str, **more: object) -> list[str]:
    """Of a tiny run on the file of that kind; with the keys of the task that the file task has."""
    words = tiny_options(f'scale.task={{kind="file", path="{kind}.jsonl", held_out_share=0.3}}')
    pairs = [pair for pair in zip(words[::2], words[1::2], strict=True) if not pair[1].startswith("scale.task.")]
    pairs += [("--set", f"scale.task.{key}={value}") for key, value in {"verifier": kind, **more}.items()]
    return [word for pair in pairs for word in pair]


OPTIONS: dict[str, dict[str, object]] = {
    "exact": {}, "number": {"tolerance": 0.01, "absolute_tolerance": 0.5}, "choice": {},
    "math": {"timeout_s": 2, "workers": 1},
    "code": {"timeout_s": 2.5, "workers": 1, "memory_mb": 256, "run_model_code_without_sandbox": "true"},
}  # fmt: skip


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_run_with_each_verifier(kind: str, run: Run, tmp_path: Path) -> None:
    ran = run("train", *_options(kind, **OPTIONS[kind]), "--budget", 2, "--out", "new")
    assert ran.code == 0, ran.err
    task = json.loads((tmp_path / "new" / "config.json").read_text())["config"]["scale"]["task"]
    assert task["verifier"] == kind
    for key, value in OPTIONS[kind].items():
        assert task[key] == (True if value == "true" else value)


BAD: dict[str, tuple[str, dict[str, object], list[str]]] = {
    "kind": ("math", {"verifier": "maths"}, ["scale.task.verifier", "maths", "choice", "code"]),
    "tolerance": ("number", {"tolerance": -1}, ["scale.task.tolerance", "-1"]),
    "absolute": ("number", {"absolute_tolerance": -1}, ["scale.task.absolute_tolerance", "-1"]),
    "timeout": ("math", {"timeout_s": 0}, ["scale.task.timeout_s", "0"]),
    "workers": ("math", {"workers": -1}, ["scale.task.workers", "-1"]),
    "memory": ("code", {"memory_mb": 1}, ["scale.task.memory_mb", "1"]),
    "flag": ("code", {"run_model_code_without_sandbox": 1}, ["scale.task.run_model_code_without_sandbox"]),
    "another's option": ("exact", {"timeout_s": 1.5}, ["task.timeout_s", "1.5", "math or code, not exact"]),
    "answers": ("exact", {"verifier": "choice"}, ["exact.jsonl, line 1", "verifier choice", "no letter"]),
    "tests": ("exact", {"verifier": "code", "run_model_code_without_sandbox": "true"}, ["line 1", "no unit tests"]),
}


@pytest.mark.parametrize("case", BAD)
def test_settings_that_cannot_work(case: str, run: Run, tmp_path: Path) -> None:
    kind, more, words = BAD[case]
    ran = run("train", *_options(kind, **more), "--budget", 2, "--out", "new")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    for word in words:
        assert word in ran.err
    assert not (tmp_path / "new").exists()


def test_code_without_a_sandbox_refuses_to_start(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, *a, **k: None if name == "bwrap" else found(name, *a, **k))
    bubblewrap.cache_clear()
    ran = run("train", *_options("code"), "--budget", 2, "--out", "new")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "bwrap is not installed" in ran.err
    assert "run_model_code_without_sandbox = true" in ran.err
    assert not (tmp_path / "new").exists()


def test_without_math_verify(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.verify.symbolic.find_spec", lambda _: None)
    ran = run("train", *_options("math"), "--budget", 2, "--out", "new")
    assert ran.code == 2
    assert "math-verify" in ran.err
    assert "scalerl[train]" in ran.err
