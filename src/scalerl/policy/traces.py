"""Solution traces as token batches: what supervised training reads.

Used by `sft`. Shapes: b = traces in a batch, t = tokens of the longest one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from scalerl.errors import InputError
from scalerl.policy.tokenizer import unwritable
from scalerl.tasks import ProblemStream, TracedTask, seeded

IGNORED = -100
"""The label of a token that has no loss, as torch and transformers know it."""


@dataclass(frozen=True)
class TraceBatch:
    """Padded on the right: a causal model never looks there, so no attention mask is needed."""

    tokens_bt: Tensor
    labels_bt: Tensor
    """The tokens themselves where they are learnt, IGNORED in the prompt and in the padding."""
    num_tokens: int
    """Without padding."""


def trace_batches(
    task: TracedTask, tokenizer: PreTrainedTokenizerFast, *, batch: int, wrong_steps: float, seed: int
) -> Iterator[TraceBatch]:
    """Batches without end; every problem gets a fresh trace each time it comes."""
    stream = ProblemStream(task.problems("train"), seed)
    rng = seeded(seed, "traces")
    while True:
        yield encode(tokenizer, *_draw(task, stream, rng, batch, wrong_steps))


def encode(tokenizer: PreTrainedTokenizerFast, prompts: Sequence[str], completions: Sequence[str]) -> TraceBatch:
    """Prompt, completion and the end-of-text token, with a loss on the last two."""
    if missing := unwritable(tokenizer, [*prompts, *completions]):
        raise InputError("characters that the policy cannot write", missing, "those of model.characters")
    before, after = _ids(tokenizer, prompts), _ids(tokenizer, completions)
    rows = [[*p, *c, tokenizer.eos_token_id] for p, c in zip(before, after, strict=True)]
    longest = max(map(len, rows))
    if longest > tokenizer.model_max_length:
        allowed = f"at most the context of the model, {tokenizer.model_max_length}"
        raise InputError("tokens of a prompt with its trace", longest, allowed)
    tokens_bt = torch.full((len(rows), longest), tokenizer.pad_token_id)
    labels_bt = torch.full((len(rows), longest), IGNORED)
    for i, (prompt, row) in enumerate(zip(before, rows, strict=True)):
        tokens_bt[i, : len(row)] = torch.tensor(row)
        labels_bt[i, len(prompt) : len(row)] = tokens_bt[i, len(prompt) : len(row)]
    return TraceBatch(tokens_bt, labels_bt, sum(map(len, rows)))


def _ids(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text, by the inner tokenizer: the outer one takes twice as long."""
    return [found.ids for found in tokenizer.backend_tokenizer.encode_batch_fast([*texts], add_special_tokens=False)]


def _draw(
    task: TracedTask, stream: ProblemStream, rng: random.Random, batch: int, wrong_steps: float
) -> tuple[list[str], list[str]]:
    prompts, completions = [], []
    for _ in range(batch):
        problem = stream.draw()
        assert problem is not None  # nothing is left out
        prompts.append(problem.prompt)
        completions.append(task.trace(problem, rng, wrong_steps))
    return prompts, completions
