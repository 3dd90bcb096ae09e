"""The session: what it leaves behind when it cannot begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.pipeline.launch.inline import InlineFeed
from scalerl.pipeline.session import train
from scalerl.pipeline.types import Snapshot
from scalerl.runs import RunDirectory


def test_an_evaluation_ends_with_the_generator(
    make_run: Callable[..., RunConfig], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: InlineFeed) -> None:
        raise InputError("a model", "broken")

    monkeypatch.setattr(InlineFeed, "attend", fail)
    with pytest.raises(InputError, match="a model"):
        train(make_run("scale.budget.amount=1"), tmp_path / "run", cache=cache)
    assert not RunDirectory.open(tmp_path / "run").evals.read()


def test_a_session_that_cannot_go_on_closes_its_generator(
    make_run: Callable[..., RunConfig], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("scale.budget.amount=1")
    train(run, tmp_path / "run", cache=cache)
    closed: list[InlineFeed] = []

    def refuse(_: InlineFeed, __: Snapshot) -> None:
        raise InputError("a saved buffer of another run")

    def close(feed: InlineFeed) -> None:
        closed.append(feed)

    monkeypatch.setattr(InlineFeed, "restore", refuse)
    monkeypatch.setattr(InlineFeed, "close", close)
    with pytest.raises(InputError, match="another run"):
        train(run, tmp_path / "run", cache=cache, resume=True)
    assert len(closed) == 1
