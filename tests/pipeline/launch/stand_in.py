"""The generator of test_local.py: no model, no verifier; it finishes groups in an odd order, one at each step.

Imported by the generator's process, which finds it on the path that the test gives.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from scalerl.compute import Usage
from scalerl.errors import InputError
from scalerl.pipeline.types import Group, GroupRequest, Rollout
from scalerl.pipeline.wire import End, Receiving
from scalerl.tasks import Verdict


@dataclass(frozen=True)
class Step:
    groups: tuple[Group, ...]
    usage: Usage
    exam: Usage


class StandIn:
    """Each rollout has one token that holds the value of the weights it was written with."""

    def __init__(self, version: int, exit_at: int | None = None) -> None:
        self.version = version
        self._value = version
        self._exit_at = exit_at
        self._waiting: list[GroupRequest] = []
        self._wire: Receiving | None = None

    @property
    def num_pending(self) -> int:
        return len(self._waiting)

    def submit(self, request: GroupRequest) -> None:
        self._waiting.append(request)

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        self.version = version
        self._value = int(weights["value"])

    def receive_weights(self, end: End) -> int:
        self._wire = Receiving.at(end, self._wire, 1, torch.device("cpu"))
        if (came := self._wire.receive()) is not None:
            version, weights = came
            self.load_weights(dict(weights), version)
        return self.version

    def advance(self) -> Step:
        time.sleep(0.002)
        request = self._waiting.pop(len(self._waiting) // 2)
        if request.index == self._exit_at:
            os._exit(3)
        rollouts = tuple(
            Rollout(
                np.array([self._value]),
                np.zeros(1, np.float32),
                np.array([self.version], np.int32),
                np.ones(1, np.bool_),
                truncated=False,
                interrupted=False,
            )
            for _ in request.seeds
        )
        group = Group(request, rollouts, (Verdict("wrong"),) * len(rollouts))
        usage = Usage(0.002, 10.0, 3)
        return Step((group,), usage, Usage() if request.exam is None else usage)


def refuse() -> StandIn:
    raise InputError("a model", "broken", "a whole one", "models/x")


def stumble() -> StandIn:
    raise ZeroDivisionError("an accident")


def never_begin() -> StandIn:
    while True:
        time.sleep(1)
