"""The embedded engine: continuous batching over any transformers causal LM, one token for every row at each step.

Called by the generator. Decides who gets which row, and when; the passes are in forward.py, the cache in cache.py, the
state of rows in rows.py, the draw in sampling.py. Knows nothing of tasks, verifiers, buffers or training.

A rollout's tokens depend on its prompt, its seed, its interruption and the weights. What else is in the batch changes
the rounding only; the same submissions, steps and weights give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from scalerl.compute import causal_attended
from scalerl.errors import InputError
from scalerl.pipeline.engines import checks, state
from scalerl.pipeline.engines.forward import Forward, Weights
from scalerl.pipeline.engines.rows import Rows
from scalerl.pipeline.engines.sampling import sample, uniforms
from scalerl.pipeline.engines.waiting import Leftover, Share, Waiting
from scalerl.pipeline.types import EngineSettings, EngineStep, Finished, GroupRequest, Snapshot
from scalerl.pipeline.wire import End, Receiving

_PREFILL_TOKENS = 8192
"""Prompt tokens, padding included, that are prefilled at once: more would only need more memory."""


class EmbeddedEngine:
    """An `Engine` in this process, on the device of the model unless told. The model is copied, never changed.

    With `Weights` in the place of a model it shares them with other engines: new ones are loaded into all of these, so
    only one at a time may have anything in flight.
    """

    def __init__(
        self,
        model: PreTrainedModel | Weights,
        settings: EngineSettings,
        version: int = 0,
        device: torch.device | None = None,
    ) -> None:
        checks.check_settings(settings)
        weights = model if isinstance(model, Weights) else Weights(model, fp32_head=settings.fp32_head, device=device)
        assert weights.fp32_head == settings.fp32_head, "weights made for another head"
        self._settings = settings
        self._version = version
        self._vocabulary = weights.model.config.get_text_config().vocab_size
        self._forward = Forward(weights, settings)
        self._rows = Rows(settings)
        self._waiting = Waiting()
        self._in_flight: dict[int, int] = {}  # request -> rollouts that have not come back
        self._wire: Receiving | None = None

    @property
    def version(self) -> int:
        """Of the weights in use."""
        return self._version

    @property
    def weights(self) -> Weights:
        return self._forward.weights

    @property
    def num_pending(self) -> int:
        """Rollouts that were submitted and have not come back."""
        return sum(self._in_flight.values())

    def submit(self, request: GroupRequest) -> None:
        """Queue the rollouts of a prompt; they start as rows become free, in the order of submission, exams first."""
        checks.check_request(request, self._settings, self._forward.context, self._vocabulary)
        if request.index in self._in_flight:
            raise InputError("a request that is in flight already", request.index, "each index once")
        self._in_flight[request.index] = len(request.seeds)
        self._waiting.add(request)

    @torch.inference_mode()
    def step(self) -> EngineStep:
        """Rows in flight read their last token, free rows a prompt; then every row writes one token."""
        read_n, exam_n = self._rows.position_n, self._rows.exam_r[: self._rows.num_rows].copy()
        decoded = self._decode()
        begun = self._begin()
        logits = decoded + begun.logits
        if not logits:
            return EngineStep((), tokens=0, attended=0, sampled=0)
        sampled = self._write(torch.cat(logits), begun.versions)
        return EngineStep(
            finished=self._retire(),
            tokens=len(read_n) + sum(begun.prompts),
            attended=int((read_n + 1).sum()) + sum(map(causal_attended, begun.prompts)),
            sampled=sampled,
            exam_tokens=int(exam_n.sum()) + sum(begun.exam_prompts),
            exam_attended=int((read_n[exam_n] + 1).sum()) + sum(map(causal_attended, begun.exam_prompts)),
        )

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Copy new weights in, by parameter name. Rollouts in flight go on with their caches as they are."""
        self.weights.load(weights)
        self._version = version

    def rest(self) -> None:
        """Give back the memory of the caches until there is something to write again; nothing may be in flight."""
        assert not self._in_flight, "rollouts in flight need their caches"
        self._forward.clear_cache()

    def receive_weights(self, end: End) -> None:
        """The same with weights that come over a wire, if there are newer ones."""
        self._wire = Receiving.at(end, self._wire, 1, self._forward.device)
        if (came := self._wire.receive(borrowed=True)) is not None:
            version, weights = came
            self.load_weights(dict(weights), version)

    @torch.no_grad()
    def snapshot(self) -> Snapshot:
        """Everything in flight and queued, caches included. The weights are not in it."""
        saved = state.save(self._rows, self._waiting, self._forward.cache)
        own = {
            "settings": state.settings_values(self._settings),
            "version": self._version,
            "in_flight": list(map(list, self._in_flight.items())),
        }
        return Snapshot({**saved.values, **own}, saved.tensors)

    @torch.no_grad()
    def restore(self, snapshot: Snapshot) -> None:
        """Take over a snapshot. The weights must be loaded too: the version is that of the snapshot."""
        state.check_settings(snapshot, self._settings)
        self._rows = Rows(self._settings)
        self._forward.clear_cache()
        self._waiting = state.load(snapshot, self._rows, self._forward.cache, self._forward.device)
        self._version = snapshot.values["version"]
        self._in_flight = dict(snapshot.values["in_flight"])

    def _decode(self) -> list[Tensor]:
        """One token for the rows in flight, if there are any; once for rows that have the same text so far."""
        rows = self._rows
        if not rows.num_rows:
            return []
        logits_mv = self._forward.decode(rows.last_token_n[rows.leader_m], rows.position_n[rows.leader_m])
        return [logits_mv[torch.from_numpy(rows.slot_r[: rows.num_rows]).to(logits_mv.device)]]

    def _begin(self) -> _Begun:
        """Free rows to the rollouts that wait, each prompt read once for its group."""
        begun = _Begun([], [], [], [])
        shares = list(self._waiting.take(self._rows.num_free))
        kept = self._waiting.leftover
        if shares and kept is not None:
            self._place(shares[:1], kept, begun)
            shares = shares[1:]
        for batch in _prefill_batches(shares):
            read = Leftover(self._forward.prefill([share.request.prompt_ids for share in batch]), self._version)
            self._place(batch, read, begun)
            begun.prompts.extend(len(share.request.prompt_ids) for share in batch)
            begun.exam_prompts.extend(len(share.request.prompt_ids) for share in batch if share.request.exam)
        return begun

    def _place(self, shares: list[Share], read: Leftover, begun: _Begun) -> None:
        """Rollouts into the next rows, the prompts they share into their slots."""
        first = self._rows.num_slots
        self._forward.cache.put(first, read.prompt)
        for slot, share in enumerate(shares, first):
            self._rows.admit(share.request, share.first, share.last, slot)
        counts = torch.tensor([share.last - share.first for share in shares], device=self._forward.device)
        prompt_n = torch.arange(len(shares), device=self._forward.device).repeat_interleave(counts)
        begun.logits.append(read.prompt.logits_gv[prompt_n])
        begun.versions.extend([read.version] * len(prompt_n))
        last = shares[-1]
        unfinished = last.last < len(last.request.seeds)
        kept = read.prompt.only(len(shares) - 1, len(last.request.prompt_ids)) if unfinished else None
        self._waiting.leftover = None if kept is None else Leftover(kept, read.version)

    def _write(self, logits_nv: Tensor, begun_versions: list[int]) -> int:
        """Sample a token for every row and note it down; returns how many were sampled, not injected."""
        rows = self._rows
        uniform_n = uniforms(rows.seed_r[: rows.num_rows], rows.written_r[: rows.num_rows])
        token_n, logprob_n = sample(logits_nv, uniform_n, self._temperature(logits_nv.device))
        logprobs: NDArray[np.float32] = logprob_n.cpu().numpy()
        if not np.isfinite(logprobs).all():
            raise InputError("logits of the policy", "not a number", "finite logits", f"policy version {self._version}")
        version_n = np.full(rows.num_rows, self._version, dtype=np.int32)
        if begun_versions:
            version_n[-len(begun_versions) :] = begun_versions
        return rows.advance(token_n.cpu().numpy(), logprobs, version_n)

    def _temperature(self, device: torch.device) -> float | Tensor:
        """One for all rows, unless exams are among them."""
        of_rows_n = self._rows.temperature_r[: self._rows.num_rows]
        if (of_rows_n == of_rows_n[0]).all():
            return float(of_rows_n[0])
        return torch.from_numpy(of_rows_n).to(device, torch.float32).unsqueeze(1)

    def _retire(self) -> tuple[Finished, ...]:
        """Hand out what is complete; the caches follow the rows that are left."""
        retired = self._rows.retire()
        source, target = self._rows.part()
        if len(source):
            self._forward.cache.copy(source, target, int(self._rows.position_n.max()))
        for finished in retired:
            self._in_flight[finished.request] -= 1
            if not self._in_flight[finished.request]:
                del self._in_flight[finished.request]
        return retired


def _prefill_batches(shares: list[Share]) -> Iterator[list[Share]]:
    """Groups whose prompts, padded, go through the model together."""
    while shares:
        longest = max(len(share.request.prompt_ids) for share in shares)
        at_once = max(1, _PREFILL_TOKENS // longest)
        yield shares[:at_once]
        shares = shares[at_once:]


@dataclass(frozen=True)
class _Begun:
    """Rollouts that began in this step: logits for their first token, who read the prompt, and the prompts read."""

    logits: list[Tensor]
    versions: list[int]
    """One for each rollout."""
    prompts: list[int]
    """Tokens of each prompt that was read now."""
    exam_prompts: list[int]
    """The same, of exams alone."""
