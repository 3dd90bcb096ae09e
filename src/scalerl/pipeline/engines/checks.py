"""What every engine refuses: settings, requests and weights that cannot work.

Called by the engines' constructors, `submit` and `load_weights`. One clear error each; a refusal changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from scalerl.errors import InputError
from scalerl.pipeline.types import EngineSettings, GroupRequest


def check_settings(settings: EngineSettings) -> None:
    for name in ("rows", "max_response", "max_prompt"):
        if (value := getattr(settings, name)) < 1:
            raise InputError(f"engine settings: {name}", value, "a whole number of at least 1")
    if not (settings.temperature > 0 and math.isfinite(settings.temperature)):
        raise InputError("engine settings: temperature", settings.temperature, "a finite number above 0")
    if settings.eos_id in settings.phrase_ids:
        raise InputError("engine settings: phrase_ids", settings.phrase_ids, "no end-of-text token in the phrase")


def check_request(request: GroupRequest, settings: EngineSettings, context: int, vocabulary: int) -> None:
    where = f"request {request.index}, problem {request.problem_id}"
    num_tokens = len(request.prompt_ids)
    if not num_tokens:
        raise InputError("an empty prompt", allowed="at least one token", where=where)
    if num_tokens > settings.max_prompt:
        raise InputError("tokens of the prompt", num_tokens, f"at most {settings.max_prompt}", where)
    room = settings.room_of(request)
    if not 0 < room <= settings.max_response:
        raise InputError("tokens of the longest rollout", room, f"1 to {settings.max_response}", where)
    if num_tokens + room > context:
        allowed = f"at most {context - room}: the policy's context less {room} tokens"
        raise InputError("tokens of the prompt", num_tokens, f"{allowed} of response", where)
    if not all(0 <= token < vocabulary for token in request.prompt_ids):
        wrong = next(token for token in request.prompt_ids if not 0 <= token < vocabulary)
        raise InputError("a token of the prompt", wrong, f"0 to {vocabulary - 1}", where)
    if not request.seeds:
        raise InputError("a request without seeds", allowed="one seed for each rollout", where=where)
    if len(request.interruptions) != len(request.seeds):
        raise InputError("interruptions", len(request.interruptions), f"one for each of {len(request.seeds)}", where)
    if negative := [at for at in request.interruptions if at is not None and at < 0]:
        raise InputError("an interruption", negative[0], "0 or more", where)


@dataclass(frozen=True)
class Shapes:
    """What the weights of a policy must look like."""

    parameters: Mapping[str, torch.Size]
    known: frozenset[str]
    """Names that may be there besides: tied weights, buffers."""

    @classmethod
    def of(cls, model: nn.Module) -> Self:
        """A walk over all modules: not at each update."""
        return cls({name: value.shape for name, value in model.named_parameters()}, frozenset(model.state_dict()))

    def check(self, weights: Mapping[str, Tensor]) -> None:
        for name, shape in self.parameters.items():
            if name not in weights:
                raise InputError("weights without a parameter of the model", name, "every parameter")
            if weights[name].shape != shape:
                allowed = f"the shape of the model, {tuple(shape)}"
                raise InputError(f"the shape of {name}", tuple(weights[name].shape), allowed)
        for name in weights:
            if name not in self.known:
                raise InputError("weights with an unknown parameter", name, "the parameters of the model")
