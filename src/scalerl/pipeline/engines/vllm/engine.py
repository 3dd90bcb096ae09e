"""vLLM behind the `Engine` protocol: groups in, rollouts out, each token with its log-prob and policy version.

Called by the generator. A step is not one token here: vLLM goes on by itself, and `step` hands out what has come back
since the last one. Work is counted when it comes back.

A rollout's tokens depend on its prompt, its seed, its interruption and the weights, up to rounding: what else is in the
batch changes the last digits of the logits, and very rarely a token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor
from transformers import PreTrainedModel

from scalerl.errors import InputError
from scalerl.pipeline.engines import checks
from scalerl.pipeline.engines.forward import context_of
from scalerl.pipeline.engines.state import check_settings, settings_values
from scalerl.pipeline.engines.vllm.drafts import Draft, read_tokens
from scalerl.pipeline.engines.vllm.server import VllmServer
from scalerl.pipeline.packing import request_from_json, request_to_json
from scalerl.pipeline.types import EngineSettings, EngineStep, GroupRequest, Snapshot
from scalerl.pipeline.wire import End

_WAIT_S = 0.02
"""How long a step waits for something to come back: the caller looks for new weights between two steps."""


class VllmEngine:
    """An `Engine` on a running server. `model` says what the policy looks like; its weights may be on no device."""

    def __init__(self, server: VllmServer, model: PreTrainedModel, settings: EngineSettings, version: int = 0) -> None:
        checks.check_settings(settings)
        self._server = server
        self._settings = settings
        self._context = context_of(model, settings)
        self._vocabulary = model.config.get_text_config().vocab_size
        self._shapes = checks.Shapes.of(model)
        # vLLM refuses to stop at a token that cannot be written
        self._stop_ids = (settings.eos_id,) if settings.eos_id < self._vocabulary else ()
        self._version = version
        self._drafts: dict[str, Draft] = {}
        self._pending: dict[int, int] = {}
        server.forget()
        server.use_version(version)

    @property
    def version(self) -> int:
        """Of the weights in use."""
        return self._version

    @property
    def num_pending(self) -> int:
        """Rollouts that were submitted and have not come back."""
        return sum(self._pending.values())

    def submit(self, request: GroupRequest) -> None:
        """Hand the rollouts of a prompt to vLLM; they start as rows become free, in the order of submission, exams
        first."""
        checks.check_request(request, self._settings, self._context, self._vocabulary)
        if request.index in self._pending:
            raise InputError("a request that is in flight already", request.index, "each index once")
        self._begin(request, range(len(request.seeds)))

    def step(self) -> EngineStep:
        """What has come back since the last step; waits a moment for the first of it."""
        if not self._drafts:
            return EngineStep((), tokens=0, attended=0, sampled=0)
        finished, next_asks = [], []
        tokens = attended = sampled = exam_tokens = exam_attended = 0
        for written in self._server.collect(_WAIT_S):
            draft = self._drafts.pop(written.key)
            read, looked_at = read_tokens(len(draft.request.prompt_ids) + len(draft.tokens), written)
            tokens, attended, sampled = tokens + read, attended + looked_at, sampled + len(written.tokens)
            if draft.request.exam is not None:
                exam_tokens, exam_attended = exam_tokens + read, exam_attended + looked_at
            draft.take(written, self._settings, self._version)
            if draft.complete(self._settings):
                finished.append(draft.finished())
                self._came_back(draft.request.index)
            else:
                next_asks.append(draft)
        self._ask(next_asks)
        return EngineStep(tuple(finished), tokens, attended, sampled, exam_tokens, exam_attended)

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """New weights from the next token on. Rollouts in flight go on with their caches as they are."""
        self._shapes.check(weights)
        self._server.load_weights(weights, version)
        self._version = version

    def receive_weights(self, end: End) -> None:
        """The same with weights that vLLM's workers take from a wire themselves, if there are newer ones."""
        if (version := self._server.receive_weights(end)) is not None:
            self._version = version

    def snapshot(self) -> Snapshot:
        """The rollouts that have not come back. Their caches are vLLM's: a restored engine writes them again."""
        places: dict[int, list[int]] = {}
        requests: dict[int, GroupRequest] = {}
        for draft in sorted(self._drafts.values(), key=lambda draft: draft.order):
            requests[draft.request.index] = draft.request
            places.setdefault(draft.request.index, []).append(draft.place)
        values = {
            "settings": settings_values(self._settings),
            "version": self._version,
            "pending": [[request_to_json(request), places[index]] for index, request in requests.items()],
        }
        return Snapshot(values)

    def restore(self, snapshot: Snapshot) -> None:
        """Ask again for what had not come back, with the same seeds. The weights must be loaded too."""
        check_settings(snapshot, self._settings)
        self._server.forget()
        self._drafts, self._pending = {}, {}
        self._version = snapshot.values["version"]
        self._server.use_version(self._version)
        for values, places in snapshot.values["pending"]:
            self._begin(request_from_json(values), places)

    def close(self) -> None:
        """End vLLM."""
        self._server.close()

    def _begin(self, request: GroupRequest, places: Iterable[int]) -> None:
        drafts = []
        family = f"group {next(self._server.numbers)}"
        for place in places:
            at = request.interruptions[place] if self._settings.phrase_ids else None
            draft = Draft(request, place, next(self._server.numbers), family, at)
            draft.interrupt(self._settings, self._version)
            drafts.append(draft)
        self._pending[request.index] = len(drafts)
        self._ask(drafts)

    def _ask(self, drafts: Iterable[Draft]) -> None:
        asks = {draft.key: (draft, draft.ask(self._settings, self._stop_ids)) for draft in drafts}
        self._drafts |= {key: draft for key, (draft, _) in asks.items()}
        self._server.ask([ask for _, ask in asks.values()])

    def _came_back(self, request: int) -> None:
        self._pending[request] -= 1
        if not self._pending[request]:
            del self._pending[request]
