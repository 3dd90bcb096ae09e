"""The trainer that a config names: alone in this process, or as rank 0 of several.

Called by the session through its launcher. The other ranks run `rank.run_rank`: here in child processes, which this
file starts, whose end it notices, and of which it leaves none behind; on a cluster in actors (`ray.trainer`). What
ranks do together is `fsdp`'s business.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

import torch
from torch import nn
from transformers import PreTrainedModel

from scalerl.config import RunConfig
from scalerl.errors import InputError, ScaleRLError
from scalerl.pipeline.devices import trainer_device
from scalerl.pipeline.fsdp import Together
from scalerl.pipeline.launch.meeting import LOOPBACK, Meeting, RankLostError
from scalerl.pipeline.launch.process import how_it_ended, without_interrupts
from scalerl.pipeline.launch.rank import run_rank
from scalerl.pipeline.trainer import Trainer
from scalerl.policy.load import read_policy
from scalerl.recipe import Recipe

_END_S = 5.0
"""How long a process may take to end before it is killed."""
_NOTICE_S = 3.0
"""How long after a failed collective a process that has died is looked for."""
_POLL_S = 0.02


class OtherRanks(Protocol):
    """Ranks 1 and up, wherever they are."""

    def lost(self) -> ScaleRLError | None:
        """A rank that is gone without having said why. Before the end, that is: then they are told to go."""

    def fate(self) -> ScaleRLError | None:
        """Why a collective has failed; a death takes a moment to be seen."""

    def close(self) -> None:
        """End them; they are gone when this returns."""


StartRanks = Callable[[int, Meeting, RunConfig, Path, Path | None], OtherRanks]
"""How many ranks there are in all, where they meet, and what `run_rank` needs."""


@contextmanager
def open_trainer(
    run: RunConfig,
    recipe: Recipe,
    model: PreTrainedModel,
    folder: Path,
    start: Path,
    *,
    host: str = LOOPBACK,
    others: StartRanks | None = None,
) -> Iterator[Trainer]:
    """`folder` holds the same policy as `model`, `start` the one at step 0: the reference of a KL term.

    With several ranks the model is spread over them: take copies of it before. `host`: the address at which the ranks
    meet, `others`: what starts them; unless given they are processes of this machine.
    """
    reference = start if run.recipe.kl_coefficient > 0 else None
    frozen = None if reference is None else read_policy(reference, run.scale.model.dtype)
    device = trainer_device(run)
    if run.scale.launcher.trainers == 1:
        for policy in (model, frozen):
            if policy is not None:
                nn.Module.to(policy, device)
        yield Trainer(model, recipe, run, frozen)
        return
    meeting = Meeting(run.scale.launcher.trainers, host)
    started = (others or _start_processes)(run.scale.launcher.trainers, meeting, run, folder, reference)
    with _meet(meeting, started, device) as ranks:
        yield Trainer(model, recipe, run, frozen, ranks)


@contextmanager
def _meet(meeting: Meeting, others: OtherRanks, device: torch.device) -> Iterator[Together]:
    """This process as rank 0, with the others beside it; they are gone afterwards, whatever happens."""
    try:
        meeting.wait(others.lost)
        ranks = meeting.join(device, others.fate)
        try:
            yield ranks
        finally:
            ranks.close()
    finally:
        others.close()


def watched_fate(
    meeting: Meeting, killed: Callable[[], ScaleRLError | None], lost: Callable[[], ScaleRLError | None]
) -> ScaleRLError | None:
    """Who was killed comes first: that makes others fail, which then say so at the meeting."""
    end_s = time.monotonic() + _NOTICE_S
    while time.monotonic() < end_s:
        if (error := killed() or meeting.last_words() or lost()) is not None:
            return error
        time.sleep(_POLL_S)
    return None


def _start_processes(size: int, meeting: Meeting, run: RunConfig, policy: Path, reference: Path | None) -> OtherRanks:
    _check_devices(size, run)
    return _Processes(size, meeting, run, policy, reference)


class _Processes:
    """Ranks 1 and up, as child processes."""

    def __init__(self, size: int, meeting: Meeting, run: RunConfig, policy: Path, reference: Path | None) -> None:
        context = get_context("spawn")
        self._meeting = meeting
        self._processes = {
            rank: context.Process(
                target=_live, args=(rank, size, meeting.address, run, policy, reference),
                name=f"scalerl-trainer-{rank}", daemon=True,
            )
            for rank in range(1, size)
        }  # fmt: skip
        with without_interrupts():
            for process in self._processes.values():
                process.start()

    def lost(self) -> ScaleRLError | None:
        codes = {rank: process.exitcode for rank, process in self._processes.items()}
        gone = {rank: code for rank, code in codes.items() if code is not None}
        killed = {rank: code for rank, code in gone.items() if code < 0}
        for rank, code in (killed or gone).items():
            return RankLostError(rank, how_it_ended(code))
        return None

    def fate(self) -> ScaleRLError | None:
        return watched_fate(self._meeting, self._killed, self.lost)

    def close(self) -> None:
        end_s = time.monotonic() + _END_S
        for process in self._processes.values():
            process.join(max(0.0, end_s - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _killed(self) -> ScaleRLError | None:
        error = self.lost()
        killed = any((process.exitcode or 0) < 0 for process in self._processes.values())
        return error if killed else None


def _live(rank: int, size: int, address: str, run: RunConfig, policy: Path, reference: Path | None) -> None:
    """In the process. Ctrl-C and SIGTERM are rank 0's business, also when they are sent to all processes at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        run_rank(rank, size, address, run, policy, reference)
    except Exception:  # noqa: BLE001  # the boundary of the process: rank 0 was told at the meeting
        sys.exit(1)


def _check_devices(size: int, run: RunConfig) -> None:
    if run.scale.launcher.device == "cuda" and torch.cuda.device_count() < size:
        what = "scale.launcher.trainers"
        raise InputError(what, size, f"at most the GPUs of this machine, {torch.cuda.device_count()}")
