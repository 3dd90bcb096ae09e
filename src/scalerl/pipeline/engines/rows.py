"""The rows in flight: what each rollout has written so far, as numpy arrays. All rows are advanced at once.

Owned by the embedded engine. Knows nothing of the model or its cache, but for the number of the slot that holds a row's
keys and values. Rows of a group that have written the same tokens so far share a slot, and what they read next goes
through the model once; when they write different tokens, `part` says which slots to copy where. Rows 0 .. n - 1 and
slots 0 .. m - 1 are in use, at any time.

Shapes: r = rows of the engine, n = rows in flight, m = slots in use, t = tokens of the longest response.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scalerl.pipeline.engines.sampling import seed_bits
from scalerl.pipeline.types import EngineSettings, Finished, GroupRequest, Rollout

NEVER = -1
"""In `interruption_r`: the rollout is not to be interrupted."""

_TOKEN_BITS = 32
"""More than any vocabulary needs."""


class Rows:
    """State of every row. Arrays have one line for each row; only the first `num_rows` lines mean anything."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._phrase = np.array(settings.phrase_ids, dtype=np.int64)
        rows, longest = settings.rows, settings.max_response
        self.num_rows = 0
        self.request_r = np.zeros(rows, dtype=np.int64)
        self.place_r = np.zeros(rows, dtype=np.int64)
        self.slot_r = np.zeros(rows, dtype=np.int64)
        self.seed_r = np.zeros(rows, dtype=np.uint64)
        self.prompt_r = np.zeros(rows, dtype=np.int64)  # tokens of the prompt
        self.written_r = np.zeros(rows, dtype=np.int64)  # tokens of the response
        self.interruption_r = np.zeros(rows, dtype=np.int64)  # NEVER once the phrase has begun
        self.injected_r = np.zeros(rows, dtype=np.int64)  # tokens of the phrase
        self.injecting_r = np.zeros(rows, dtype=np.bool_)  # the next token is one of the phrase
        self.room_r = np.full(rows, longest)  # tokens of the longest response
        self.temperature_r = np.full(rows, settings.temperature)
        self.exam_r = np.zeros(rows, dtype=np.bool_)
        self.tokens_rt = np.zeros((rows, longest), dtype=np.int64)
        self.logprobs_rt = np.zeros((rows, longest), dtype=np.float32)
        self.versions_rt = np.zeros((rows, longest), dtype=np.int32)
        self.own_rt = np.zeros((rows, longest), dtype=np.bool_)

    @property
    def num_free(self) -> int:
        return self._settings.rows - self.num_rows

    @property
    def last_token_n(self) -> NDArray[np.int64]:
        """The token that each row reads next; every row has written one."""
        now = slice(self.num_rows)
        last_n: NDArray[np.int64] = self.tokens_rt[np.arange(self.num_rows), self.written_r[now] - 1]
        return last_n

    @property
    def position_n(self) -> NDArray[np.int64]:
        """Where in the sequence, prompt included, that token stands."""
        now = slice(self.num_rows)
        return self.prompt_r[now] + self.written_r[now] - 1

    @property
    def num_slots(self) -> int:
        return int(self.slot_r[: self.num_rows].max()) + 1 if self.num_rows else 0

    @property
    def leader_m(self) -> NDArray[np.int64]:
        """One row of each slot; the others of that slot read the same token at the same position."""
        leader_m: NDArray[np.int64] = np.unique(self.slot_r[: self.num_rows], return_index=True)[1]
        return leader_m

    def admit(self, request: GroupRequest, first: int, last: int, slot: int) -> None:
        """Rollouts first .. last - 1 of a group into the next free rows; their prompt is in this slot."""
        new = slice(self.num_rows, self.num_rows + last - first)
        self.num_rows = new.stop
        self.request_r[new] = request.index
        self.place_r[new] = np.arange(first, last)
        self.slot_r[new] = slot
        self.seed_r[new] = np.array([seed_bits(seed) for seed in request.seeds[first:last]], dtype=np.uint64)
        self.prompt_r[new] = len(request.prompt_ids)
        self.written_r[new] = 0
        self.interruption_r[new] = [NEVER if at is None else at for at in request.interruptions[first:last]]
        if not len(self._phrase):
            self.interruption_r[new] = NEVER
        self.injected_r[new] = 0
        self.injecting_r[new] = self.interruption_r[new] == 0
        self.room_r[new] = self._settings.room_of(request)
        self.temperature_r[new] = self._settings.temperature_of(request)
        self.exam_r[new] = request.exam is not None

    def advance(self, token_n: NDArray[np.int64], logprob_n: NDArray[np.float32], version_n: NDArray[np.int32]) -> int:
        """One token for every row: the one sampled, or the next of the phrase. Returns how many were sampled."""
        now, row_n, at_n = slice(self.num_rows), np.arange(self.num_rows), self.written_r[: self.num_rows].copy()
        injecting_n = self.injecting_r[now].copy()
        if injecting_n.any():
            forced_n = self._phrase[np.minimum(self.injected_r[now], len(self._phrase) - 1)]
            token_n = np.where(injecting_n, forced_n, token_n)
            logprob_n = np.where(injecting_n, np.float32(0), logprob_n)
            self.injected_r[now] += injecting_n
        self.tokens_rt[row_n, at_n] = token_n
        self.logprobs_rt[row_n, at_n] = logprob_n
        self.versions_rt[row_n, at_n] = version_n
        self.own_rt[row_n, at_n] = ~injecting_n
        self.written_r[now] += 1
        self._interrupt(now)
        return int(self.num_rows - injecting_n.sum())

    def _interrupt(self, now: slice) -> None:
        """Decide for every row whether its next token is one of the phrase."""
        if not len(self._phrase):
            return
        begins_n = self.interruption_r[now] == self.written_r[now]
        for row in np.flatnonzero(begins_n).tolist():
            begins_n[row] = not self._settings.end_thinking.in_tokens(
                self.tokens_rt[row, : self.written_r[row]].tolist()
            )
        started_n = (self.injected_r[now] > 0) & (self.injected_r[now] < len(self._phrase))
        self.injecting_r[now] = begins_n | started_n
        self.interruption_r[now][self.injected_r[now] > 0] = NEVER

    def retire(self) -> tuple[Finished, ...]:
        """Take the complete rollouts out; rows from the end move into the gaps."""
        now = slice(self.num_rows)
        written_n = self.written_r[now]
        row_n = np.arange(self.num_rows)
        last_n = written_n - 1
        ended_n = (self.tokens_rt[row_n, last_n] == self._settings.eos_id) & self.own_rt[row_n, last_n]
        done_n = ended_n | (written_n == self.room_r[now])
        done = np.flatnonzero(done_n)
        if not len(done):
            return ()
        finished = tuple(self._finished(row, truncated=not ended_n[row]) for row in done.tolist())
        left = self.num_rows - len(done)
        gaps = done[done < left].tolist()
        movers = (np.flatnonzero(~done_n[left:]) + left).tolist()
        for name in _ARRAYS:
            array = getattr(self, name)
            array[gaps] = array[movers]
        self.num_rows = left
        return finished

    def part(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A slot for each different text: (source, target) of the slots to copy. No target is a source.

        Slots whose rows are all gone are given away; slots beyond the number that is needed move into the gaps.
        """
        nothing = np.empty(0, dtype=np.int64)
        if not self.num_rows:
            return nothing, nothing
        key_n = (self.slot_r[: self.num_rows] << _TOKEN_BITS) + self.last_token_n
        key_m, text_n = np.unique(key_n, return_inverse=True)
        old_m = key_m >> _TOKEN_BITS
        num_slots = len(old_m)
        stays_m = np.append(True, old_m[1:] != old_m[:-1]) & (old_m < num_slots)
        new_m = old_m.copy()
        free = np.ones(num_slots, dtype=np.bool_)
        free[old_m[stays_m]] = False
        new_m[~stays_m] = np.flatnonzero(free)
        self.slot_r[: self.num_rows] = new_m[text_n]
        return old_m[~stays_m], new_m[~stays_m]

    def _finished(self, row: int, *, truncated: bool) -> Finished:
        written = slice(self.written_r[row])
        rollout = Rollout(
            tokens=self.tokens_rt[row, written].copy(),
            logprobs=self.logprobs_rt[row, written].copy(),
            versions=self.versions_rt[row, written].copy(),
            own=self.own_rt[row, written].copy(),
            truncated=truncated,
            interrupted=bool(self.injected_r[row]),
        )
        return Finished(int(self.request_r[row]), int(self.place_r[row]), rollout)

    def tensors(self) -> dict[str, Tensor]:
        """Copies of every row in flight, for a checkpoint. Seeds are stored as signed numbers, bit for bit."""
        return {name: torch.from_numpy(_signed(getattr(self, name)[: self.num_rows]).copy()) for name in _ARRAYS}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """What `tensors` gave, into new rows."""
        self.num_rows = len(tensors["request_r"])
        for name in _ARRAYS if "exam_r" in tensors else [name for name in _ARRAYS if name not in _LATER]:
            _signed(getattr(self, name))[: self.num_rows] = tensors[name].numpy()


_ARRAYS = (
    "request_r", "place_r", "slot_r", "seed_r", "prompt_r", "written_r", "interruption_r", "injected_r", "injecting_r",
    "room_r", "temperature_r", "exam_r", "tokens_rt", "logprobs_rt", "versions_rt", "own_rt",
)  # fmt: skip

_LATER = frozenset({"room_r", "temperature_r", "exam_r"})
"""Not in older checkpoints, whose rows have in them what new rows begin with."""


def _signed(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """safetensors and torch know no arithmetic on unsigned 64 bits; the view has the same bits."""
    return array.view(np.int64) if array.dtype == np.uint64 else array
