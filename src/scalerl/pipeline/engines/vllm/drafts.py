"""Rollouts under way at vLLM: what each has written so far, where it is interrupted, and what is asked for next.

Owned by `VllmEngine`. A rollout that may be interrupted is written in two pieces: up to its interruption, and from
there on, with the phrase in between unless thinking has ended. Pure data; vLLM is not known here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from scalerl.compute import causal_attended
from scalerl.errors import InputError
from scalerl.pipeline.engines.vllm.server import Ask, Written
from scalerl.pipeline.types import EngineSettings, Finished, GroupRequest, Rollout

_BEFORE_ALL = 1 << 40
"""More drafts than there ever are."""


@dataclass
class Draft:
    """One rollout that is not complete."""

    request: GroupRequest
    place: int
    order: int
    """Of submission, among all drafts."""
    family: str
    """Of the group."""
    interruption: int | None
    """Tokens after which to look; None: not, or not any more."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    own: list[bool] = field(default_factory=list)
    stopped: bool = False

    @property
    def key(self) -> str:
        return f"{self.order}-{len(self.tokens)}"

    def ask(self, settings: EngineSettings, stop_ids: tuple[int, ...]) -> Ask:
        """The next piece."""
        end = self.room(settings) if self.interruption is None else min(self.interruption, self.room(settings))
        return Ask(
            key=self.key,
            text=(*self.request.prompt_ids, *self.tokens),
            max_tokens=end - len(self.tokens),
            stop_ids=stop_ids,
            temperature=settings.temperature_of(self.request),
            seed=piece_seed(self.request.seeds[self.place], len(self.tokens)),
            priority=self.order if self.request.exam is None else self.order - _BEFORE_ALL,
            family=self.family,
        )

    def take(self, written: Written, settings: EngineSettings, version: int) -> None:
        """A piece has come. `version`: of the weights now, for the phrase if it is injected."""
        if not np.isfinite(written.logprobs).all():
            where = f"policy version {written.versions[-1]}"
            raise InputError("logits of the policy", "not a number", "finite logits", where)
        self.tokens += written.tokens
        self.logprobs += written.logprobs
        self.versions += written.versions
        self.own += [True] * len(written.tokens)
        self.stopped = written.stopped
        self.interrupt(settings, version)

    def interrupt(self, settings: EngineSettings, version: int) -> None:
        """Inject the phrase if this is the place for it: once, and not after thinking has ended."""
        if self.interruption is None or len(self.tokens) < self.interruption or self.complete(settings):
            return
        self.interruption = None
        if settings.end_thinking.in_tokens(self.tokens):
            return
        phrase = settings.phrase_ids[: self.room(settings) - len(self.tokens)]
        self.tokens += phrase
        self.logprobs += [0.0] * len(phrase)
        self.versions += [version] * len(phrase)
        self.own += [False] * len(phrase)

    def complete(self, settings: EngineSettings) -> bool:
        return self.stopped or len(self.tokens) >= self.room(settings)

    def room(self, settings: EngineSettings) -> int:
        return settings.room_of(self.request)

    def finished(self) -> Finished:
        rollout = Rollout(
            tokens=np.array(self.tokens, dtype=np.int64),
            logprobs=np.array(self.logprobs, dtype=np.float32),
            versions=np.array(self.versions, dtype=np.int32),
            own=np.array(self.own, dtype=np.bool_),
            truncated=not self.stopped,
            interrupted=not all(self.own),
        )
        return Finished(self.request.index, self.place, rollout)


def read_tokens(text: int, written: Written) -> tuple[int, int]:
    """Tokens that went through the model for a piece, and the positions they looked at; `text`: tokens it began with.

    The last token that was written was not read.
    """
    end = text + len(written.tokens) - 1
    return end - written.cached, causal_attended(end) - causal_attended(written.cached)


def piece_seed(seed: int, position: int) -> int:
    """vLLM draws from the seed of a request anew: pieces of a rollout must not draw the same numbers twice."""
    name = f"{seed} {position}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest()) >> 1
