"""Provenance: enough to know what ran, and nothing private."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from scalerl.runs import provenance


def test_it_says_what_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["scalerl", "train", "--out", "runs/a"])
    session = provenance.describe_session()
    assert session["command"] == ["scalerl", "train", "--out", "runs/a"]
    assert session["packages"]["numpy"] == version("numpy")
    assert session["scalerl"] == version("scalerl")
    assert session["cpus"] >= 1
    assert session["started"].endswith("+00:00")
    assert session["portable"] is False
    assert json.loads(json.dumps(session)) == session


def test_no_path_of_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    session = provenance.describe_session([f"{tmp_path}/bin/scalerl", f"--out={tmp_path}/runs"])
    assert session["command"] == ["~/bin/scalerl", "--out=~/runs"]
    assert str(tmp_path) not in json.dumps(session)


def test_the_commit_is_that_of_scalerl_and_of_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder that the user works in may be another repository."""
    root = tmp_path / "checkout"
    module = root / "src" / "scalerl" / "runs" / "provenance.py"
    monkeypatch.setattr(provenance, "__file__", str(module))
    assert provenance.commit() is None
    module.parent.mkdir(parents=True)
    module.write_text("first")
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert provenance.commit() == head
    module.write_text("second")
    assert provenance.commit() == f"{head}+changes"


def test_without_git_the_commit_is_not_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.commit() is None
