"""How large a run is, from its config alone: rollouts, tokens, parameters, FLOPs. Nothing is built or loaded.

Called by `train --dry-run`. Lengths are what the config allows, so the figures are upper limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from scalerl.compute import ForwardCost, causal_attended
from scalerl.config import RunConfig
from scalerl.config.policy import LlamaModel, MoeModel

MARKERS = 4
"""Tokens of the small policies' vocabulary that are no characters."""


@dataclass(frozen=True)
class Size:
    """One run; everything per step unless it says otherwise. None where the config does not tell."""

    rollouts: int
    generated_tokens: int
    """At most: every response as long as allowed."""
    trained_tokens: int
    """At most: prompts and responses."""
    evaluated_answers: int
    """In one evaluation, downstream sets included; those that are measured less often count for less."""
    steps: int | None
    """In all; None for a budget in something else."""
    parameters: int | None
    """None for a pretrained policy: it is not opened here."""
    flops: float | None
    """Generation and training, at most."""


def size_of(run: RunConfig) -> Size:
    """The size of a run."""
    scale, tokens = run.scale, run.scale.tokens
    rollouts = scale.batch.prompts * scale.batch.rollouts
    shape = None if scale.model.source == "pretrained" else _shape(scale.model)
    return Size(
        rollouts=rollouts,
        generated_tokens=rollouts * tokens.response,
        trained_tokens=rollouts * tokens.context,
        evaluated_answers=_answers(run) + sum(_set_answers(run, name) for name in scale.evaluation.downstream),
        steps=int(scale.budget.amount) if scale.budget.unit == "steps" else None,
        parameters=None if shape is None else shape[0],
        flops=None if shape is None else _flops(run, shape[1]),
    )


def _answers(run: RunConfig) -> int:
    return run.scale.evaluation.problems * run.scale.evaluation.samples


def _set_answers(run: RunConfig, name: str) -> int:
    """On average, in answers as long as those to the held-out problems."""
    found, every = run.downstream(name), run.scale.evaluation.downstream[name].every
    return round(_answers(found) * found.scale.tokens.context / run.scale.tokens.context / every)


def _flops(run: RunConfig, cost: ForwardCost) -> float:
    """Each prompt is read once, each response written token by token, each sequence trained on."""
    batch, tokens = run.scale.batch, run.scale.tokens
    rollouts = batch.prompts * batch.rollouts
    read = cost.flops(tokens.prompt, causal_attended(tokens.prompt))
    written = cost.flops(tokens.response, causal_attended(tokens.response, tokens.prompt))
    trained = cost.training_flops(tokens.context, causal_attended(tokens.context))
    return batch.prompts * read + rollouts * (written + trained)


def _shape(model: LlamaModel | MoeModel) -> tuple[int, ForwardCost]:
    """All parameters, and the cost of a token: a mixture of experts uses some of them."""
    from scalerl.tasks import TASK_CHARACTERS

    width, vocabulary = model.width, len(TASK_CHARACTERS) + MARKERS
    expert = 3 * width * model.feed_forward
    if isinstance(model, MoeModel):
        router = width * model.experts
        feed_forward = router + model.experts * expert
        active = router + model.experts_per_token * expert
    else:
        feed_forward = active = expert
    attention, norms, head = 4 * width**2, 2 * width, vocabulary * width
    total = model.layers * (attention + feed_forward + norms) + width + head * (1 if model.tied else 2)
    return total, ForwardCost(model.layers * (attention + active) + head, model.layers, width)
