"""What can be wrong with a run from inside: each function breaks one thing in the process that it is called in.

Called by `inside` by name, with options that JSON could hold, before the command line begins. A function may return
another one, which is called at the end of the command.
"""

from __future__ import annotations

import errno
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from .write_points import Deed, WritePoints


def writes(
    root: str, *, at: int = 0, error: str = "ENOSPC", lasting: bool = False, deed: Deed = "fail", log: str | None = None
) -> Callable[[], None]:
    """See `write_points`."""
    points = WritePoints(root, at, getattr(errno, error), lasting, deed)
    points.install()
    return (lambda: None) if log is None else (lambda: points.save(log))


def slow_trainer(seconds: float) -> None:
    """Every step takes longer."""
    from scalerl.pipeline.trainer import Trainer

    _prefix(Trainer, "step", lambda *_, **__: time.sleep(seconds))


def stuck_trainer(step: int, file: str) -> None:
    """That step takes minutes; the file is there once it has begun."""
    from scalerl.pipeline.trainer import Trainer

    steps = itertools.count(1)

    def wait(*_: Any, **__: Any) -> None:
        if next(steps) == step:
            Path(file).touch()
            time.sleep(300.0)

    _prefix(Trainer, "step", wait)


def slow_generator(seconds: float) -> None:
    """Every decode step takes longer."""
    from scalerl.pipeline.generator import Generator

    _prefix(Generator, "advance", lambda *_, **__: time.sleep(seconds))


def slow_start(seconds: float) -> None:
    """A generator takes longer to read its policy."""
    from scalerl.pipeline.launch import local

    _prefix(local, "read_outline", lambda *_, **__: time.sleep(seconds))


def verifier(how: str, every: int = 1) -> None:
    """The task's own verifier fails every n-th time: `raises`, `nonsense` (no verdict), `odd_status`, `fewer` (of the
    answers of a group only one is judged); or says `wrong` to whatever it is asked."""
    from scalerl.tasks.chained_sums import ChainedSums

    real, turns = ChainedSums.verify, itertools.count(1)

    def verify(self: Any, problem: Any, completion: str) -> Any:
        return _answer(how) if next(turns) % every == 0 else real(self, problem, completion)

    def verify_group(self: Any, problem: Any, completions: Sequence[str]) -> Any:
        some = completions[:1] if next(turns) % every == 0 else completions
        return tuple(real(self, problem, completion) for completion in some)

    if how == "fewer":
        ChainedSums.verify_all = verify_group  # type: ignore[attr-defined]
    else:
        ChainedSums.verify = verify  # type: ignore[method-assign]


def _answer(how: str) -> Any:
    from scalerl.verify import Verdict

    match how:
        case "raises":
            raise ZeroDivisionError("an accident in the verifier")
        case "nonsense":
            return "maybe"
        case "odd_status":
            return Verdict("splendid")  # type: ignore[arg-type]
        case "wrong":
            return Verdict("wrong")
        case _:
            raise ValueError(how)


def worker_of_verifier(handler: str) -> None:
    """Another program in the place of the one that judges mathematics in a process of its own; it is always asked."""
    from scalerl.verify import symbolic

    symbolic._HANDLER = Path(handler)
    symbolic._compared = lambda *_: None


def not_finite(steps: Sequence[int], what: str = "loss") -> None:
    """The loss, or the gradient alone, is NaN in these steps of this process (from 1)."""
    from scalerl.pipeline.learner import Learner

    real, made = Learner.accumulate, itertools.count(1)

    def accumulate(self: Any, batch: Any, plan: Any) -> Any:
        found = real(self, batch, plan)
        if next(made) not in steps or found.stats is None:
            return found
        for parameter in self.model.parameters():
            parameter.grad.fill_(float("nan"))
        return replace(found, loss=float("nan")) if what == "loss" else found

    Learner.accumulate = accumulate  # type: ignore[method-assign]


def _prefix(owner: Any, name: str, before: Callable[..., Any]) -> None:
    real = getattr(owner, name)

    @wraps(real)
    def call(*arguments: Any, **options: Any) -> Any:
        before(*arguments, **options)
        return real(*arguments, **options)

    setattr(owner, name, call)
