"""Slots, which bound the age of every token, and the order of batches: the half of the buffer that knows no tensors.

A slot's life:   admit (charged) -> rollouts are written -> put -> take, in the order of admission -> step
                 -> the new weights are out: trained (freed; with `ppo_off_policy` every k-th time, k batches at once)

Batch n is the groups n x prompts .. (n + 1) x prompts - 1 by admission, and it is trained at version n. A straggler
holds up its batch and is never overtaken; docs/staleness.md proves what follows. Nothing is thrown away for being old.

Training uses it through `Buffer`, which adds checkpoints; the simulation of `scalerl.plan` uses it as it is, with
groups that have lengths and versions and no tokens. Neither problems nor weights nor what a group is worth is known
here, and torch is never imported.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scalerl.errors import ScaleRLError
from scalerl.pipeline.schedule import Schedule


class Numbered(Protocol):
    """A request, as far as slots are concerned."""

    @property
    def index(self) -> int:
        """Number of the admission, from 0 without gaps."""


class Written(Protocol):
    """A rollout, as far as its age is concerned."""

    @property
    def versions(self) -> NDArray[np.int32]:
        """Policy versions that wrote it."""

    def __len__(self) -> int: ...


class Complete(Protocol):
    """A group, as far as slots and ages are concerned."""

    @property
    def request(self) -> Any:
        """Something `Numbered`."""

    @property
    def rollouts(self) -> Sequence[Written]: ...


RequestT = TypeVar("RequestT", bound=Numbered)
GroupT = TypeVar("GroupT", bound=Complete)


class ClosedError(ScaleRLError, RuntimeError):
    """The buffer was closed: whoever waited for a slot or a batch must stop."""

    def __str__(self) -> str:
        return "the buffer is closed"


class OrderError(ScaleRLError, RuntimeError):
    """A call that the order of the pipeline does not allow, such as an admission without a free slot: a bug."""


class StalenessError(ScaleRLError, RuntimeError):
    """A token is older than the schedule allows, or newer than the policy: a bug, for the slots rule it out."""

    def __init__(self, index: int, age: int, max_age: int) -> None:
        super().__init__(index, age, max_age)
        self.index, self.age, self.max_age = index, age, max_age

    def __str__(self) -> str:
        return f"age of a token in group {self.index}: got {self.age}; allowed: 0 to {self.max_age}"


class Slots(Generic[RequestT, GroupT]):
    """Groups admitted and not yet trained. `version` is the policy version, the number of steps made."""

    def __init__(self, schedule: Schedule, prompts: int) -> None:
        self._schedule = schedule
        self._prompts = prompts
        self._version = 0
        self._admitted = 0
        self._ended = False  # no more admissions
        self._taken = False  # the batch of this version is with the trainer
        self._requests: dict[int, RequestT] = {}  # admitted and not complete
        self._groups: dict[int, GroupT] = {}  # complete; a taken batch stays until it is trained
        self._closed = False
        self._changed = threading.Condition()

    @property
    def version(self) -> int:
        with self._changed:
            return self._version

    @property
    def next_index(self) -> int:
        """Of the next admission: the number of groups admitted so far."""
        with self._changed:
            return self._admitted

    @property
    def free_slots(self) -> int:
        """Groups that may be admitted now."""
        with self._changed:
            return self._free()

    @property
    def num_waiting(self) -> int:
        """Complete groups that no step has begun with."""
        with self._changed:
            return len(self._groups) - (self._prompts if self._taken else 0)

    @property
    def outstanding(self) -> tuple[RequestT, ...]:
        """Admitted and not complete, in order: what a generator must be asked for again if it loses its work."""
        with self._changed:
            return tuple(self._requests.values())

    @property
    def exhausted(self) -> bool:
        """Admissions have ended and there is no whole batch left: `take` will never return one again."""
        with self._changed:
            return self._exhausted()

    def admit(self, request: RequestT) -> None:
        """Charge a slot to the request, whose index must be `next_index`."""
        with self._changed:
            self._check_open()
            if self._free() == 0:
                raise OrderError(f"no free slot at version {self._version} with {self._admitted} groups admitted")
            if request.index != self._admitted:
                raise OrderError(f"index of an admission: got {request.index}; allowed: {self._admitted}")
            self._requests[request.index] = request
            self._admitted += 1

    def end_of_admissions(self) -> None:
        """There are no problems left. Whole batches are still trained, a last batch that is not full never is."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for_slot(self, timeout: float | None = None) -> bool:
        """Block until a group may be admitted. False: time is up (seconds), or admissions have ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._ended or self._free() > 0, timeout)
            self._check_open()
            return self._free() > 0

    def put(self, group: GroupT) -> None:
        """A group is complete."""
        with self._changed:
            self._check_open()
            index = group.request.index
            if self._requests.pop(index, None) is None:
                why = "is complete already" if index < self._admitted else "was never admitted"
                raise OrderError(f"group {index} {why}")
            self._groups[index] = group
            self._changed.notify_all()

    def take(self, timeout: float | None = None) -> tuple[GroupT, ...] | None:
        """Block until the step from this version may begin; its batch, in the order of admission.

        None: time is up (seconds), or it will never be complete (`exhausted`).
        """
        with self._changed:
            if self._taken:
                raise OrderError(f"the batch of version {self._version} is taken and not yet trained")
            self._changed.wait_for(lambda: self._closed or self._exhausted() or self._complete(), timeout)
            self._check_open()
            if self._exhausted() or not self._complete():
                return None
            batch = tuple(self._groups[index] for index in self._indices(self._version))
            self._check_ages(batch)
            self._taken = True
            return batch

    def trained(self, version: int) -> None:
        """The step is done and the generator can have the weights of `version`: free the slots that are due."""
        with self._changed:
            self._check_open()
            if not self._taken or version != self._version + 1:
                raise OrderError(f"version {version} after version {self._version}, batch taken: {self._taken}")
            for index in self._indices(self._version):
                del self._groups[index]
            self._version = version
            self._taken = False
            self._changed.notify_all()

    def close(self) -> None:
        """Wake every waiter: they get `ClosedError`, and so does everyone later. A snapshot may still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # What follows is called with the lock held.

    def _free(self) -> int:
        return 0 if self._ended else self._schedule.admissible(self._version) * self._prompts - self._admitted

    def _exhausted(self) -> bool:
        return self._ended and self._version >= self._admitted // self._prompts

    def _complete(self) -> bool:
        """All batches are complete that must be before the step from this version; after the end, all there are."""
        batches = self._schedule.complete_before(self._version)
        if self._ended:
            batches = min(batches, self._admitted // self._prompts)
        return all(index in self._groups for batch in range(self._version, batches) for index in self._indices(batch))

    def _indices(self, batch: int) -> range:
        return range(batch * self._prompts, (batch + 1) * self._prompts)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError

    def _check_ages(self, batch: Iterable[GroupT]) -> None:
        max_age = self._schedule.max_age
        for group in batch:
            ages = [self._version - rollout.versions for rollout in group.rollouts if len(rollout)]
            for age in (int(extreme) for each in ages for extreme in (each.min(), each.max())):
                if not 0 <= age <= max_age:
                    raise StalenessError(group.request.index, age, max_age)
