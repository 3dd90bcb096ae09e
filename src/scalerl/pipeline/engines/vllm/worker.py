"""The part that runs inside vLLM's worker processes: new weights come in, and the worker ends with its owner.

Named to vLLM as its worker extension; nobody else imports this module. The weights lie in shared memory, in full and by
the names of the policy's folder; each worker takes its share. That is the way on a CPU, and from the memory of the host
to a GPU of the same machine. Or they come over a wire, from the trainer to every worker.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor, nn

from scalerl.pipeline.weights import Handle, Place, SharedWeights
from scalerl.pipeline.wire import End, Plain, Receiving
from scalerl.policy.processor import hide_broken_units

OWNER = "SCALERL_VLLM_OWNER"
"""Environment variable: the process that started vLLM."""
_LOOK_S = 1.0

Described = Mapping[str, Sequence[object]]
"""Name -> dtype, shape, offset in bytes: a handle in the words of vLLM's remote calls, which know plain values only."""


class Receiver:
    """Mixed into vLLM's worker class, whose members are declared here. Names must not clash with the worker's own."""

    reload_weights: Callable[..., None]
    get_model: Callable[[], nn.Module]
    rank: int
    device: torch.device
    _scalerl_wire: Receiving | None = None

    def scalerl_load_weights(self, memory: str, places: Described) -> int:
        """Replace the weights by those in shared memory; returns their version. Generation must be paused.

        `reload_weights` and not the model's `load_weights`: on a CPU the matrices are packed beforehand, and only a
        reload packs them again.
        """
        found = {name: _place(*described) for name, described in places.items()}
        # Whoever calls waits for the answer, so that the lock has nothing to do.
        shared = SharedWeights.attach(Handle(memory, found), get_context("spawn").Lock(), lambda: True)
        shared.fetch(-1, self._scalerl_reload)
        version = shared.version
        shared.close()
        return version

    def _scalerl_reload(self, weights: Mapping[str, Tensor], _: int) -> None:
        copies: Iterable[tuple[str, Tensor]] = ((name, tensor.clone()) for name, tensor in weights.items())
        self.reload_weights(weights_iterator=copies)

    def scalerl_receive_weights(self, end: Plain) -> int | None:
        """Replace the weights by those that come over a wire, one tensor at a time; their version, or None if there are
        no newer ones. Generation must be paused."""
        self._scalerl_wire = Receiving.at(End.of(end), self._scalerl_wire, 1 + self.rank, self.device)
        if (came := self._scalerl_wire.receive()) is None:
            return None
        version, weights = came
        self.reload_weights(weights_iterator=weights)
        for _ in weights:  # what the model did not ask for must be taken all the same
            pass
        return version

    def scalerl_head_dtype(self) -> str:
        """In which the logits are computed; empty where the model does not say."""
        processor = getattr(self.get_model(), "logits_processor", None)
        dtype = getattr(processor, "head_dtype", None)
        return "" if dtype is None else str(dtype).removeprefix("torch.")


def describe(handle: Handle) -> dict[str, list[object]]:
    """What `scalerl_load_weights` takes."""
    return {
        name: [str(place.dtype).removeprefix("torch."), list(place.shape), place.offset_bytes]
        for name, place in handle.places.items()
    }


def _place(dtype: object, shape: object, offset_bytes: object) -> Place:
    assert isinstance(dtype, str)
    assert isinstance(shape, Sequence)
    assert isinstance(offset_bytes, int)
    return Place(getattr(torch, dtype), tuple(shape), offset_bytes)


def _end_with(owner: int) -> None:
    """vLLM's processes outlive the one that started them when that is killed; these do not."""
    parent = os.getppid()
    while _started_by(owner, parent):
        time.sleep(_LOOK_S)
    if parent not in {owner, 1} and parent == os.getppid():
        os.kill(parent, signal.SIGKILL)
    os._exit(1)


def _started_by(owner: int, parent: int) -> bool:
    """The owner is the parent of this process, or of the one between."""
    return os.getppid() == parent and owner in {parent, _parent_of(parent)}


def _parent_of(process: int) -> int | None:
    """Linux: a process that is dead and not yet buried has given its children away already."""
    try:
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2]
    except OSError:
        return None
    return int(after_name.split()[1])


def _make_no_semaphores() -> None:
    """A progress bar takes a lock between processes, and Python complains about it when its process has been killed."""
    import_module("tqdm").tqdm.set_lock(threading.RLock())


if OWNER in os.environ:  # only inside vLLM, and from the first moment: starting takes long, and may be given up
    _make_no_semaphores()
    hide_broken_units()
    threading.Thread(target=_end_with, args=(int(os.environ[OWNER]),), daemon=True).start()
