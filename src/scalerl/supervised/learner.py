"""Steps of supervised training: rows become gradients, gradients one update.

Used by `session`, which knows files and checkpoints; this knows neither. The weights are float32 whatever the
precision of the passes, so that gradients of many rows add up well and no update is rounded away. The loss of a step is
the mean over all tokens that are learnt in it: not a mean over rows, which would depend on how they are packed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from scalerl.errors import TrainingError
from scalerl.pipeline.learner import checkpoint_gradients
from scalerl.pipeline.optimiser_state import restore_optimiser, save_optimiser
from scalerl.supervised.corpus import Corpora, Corpus
from scalerl.supervised.plan import Row, Step, rate_share, sorted_rows
from scalerl.supervised.rows import row_loss, row_tensors
from scalerl.supervised.settings import SftSettings


@dataclass(frozen=True)
class Done:
    """What a step did."""

    loss: float
    norm: float
    """Of the gradient, before clipping."""
    rate: float
    tokens: int
    learnt_tokens: int


class Learner:
    """Owns the weights and the state of AdamW."""

    def __init__(
        self, model: PreTrainedModel, settings: SftSettings, corpora: Corpora, row_tokens: int, num_steps: int
    ) -> None:
        self.model: PreTrainedModel = model
        self._settings = settings
        self._corpora = corpora
        self._num_steps = num_steps
        self._held_out = [] if corpora.held_out is None else sorted_rows(corpora.held_out.lengths, row_tokens)
        if settings.gradient_checkpointing:
            checkpoint_gradients(model)
        self._parameters: dict[str, Tensor] = dict(model.named_parameters())
        self._optimiser = torch.optim.AdamW(
            self._parameters.values(), lr=settings.learning_rate, betas=settings.betas,
            weight_decay=settings.weight_decay, fused=True,
        )  # fmt: skip

    def step(self, rows: Step, number: int) -> Done:
        """Update `number`, from 1."""
        tokens, learnt = _sizes(self._corpora.train, rows)
        loss = sum(self._backward(row, tokens, learnt) for row in rows)
        share = rate_share(number, self._num_steps, self._settings.warmup_share, self._settings.schedule)
        rate = share * self._settings.learning_rate
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._settings.grad_clip).item()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            numbers = f"loss {loss:g}, gradient norm {norm:g}, learning rate {rate:g}"
            raise TrainingError(
                f"step {number}: loss or gradient is not finite ({numbers}); try a smaller learning rate"
            )
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._optimiser.zero_grad()
        return Done(loss, norm, rate, tokens, learnt)

    @torch.no_grad()
    def held_out_loss(self) -> float | None:
        """Mean over the learnt tokens of what is held out; None where nothing is."""
        corpus = self._corpora.held_out
        if corpus is None:
            return None
        return sum(self._loss(corpus, row)[0].item() for row in self._held_out) / corpus.num_learnt

    def state(self) -> dict[str, Tensor]:
        """AdamW by parameter name: copies."""
        return save_optimiser(self._parameters, self._optimiser)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state; the model must already have the weights that belong to it."""
        restore_optimiser(self._parameters, self._optimiser, tensors)

    def _backward(self, row: Row, tokens: int, learnt: int) -> float:
        """Add the gradients of a row's share of the step's loss; that share."""
        loss, balance = self._loss(self._corpora.train, row)
        share = loss / learnt
        total = share if balance is None else share + balance * (_sizes(self._corpora.train, (row,))[0] / tokens)
        total.backward()
        return share.item()

    def _loss(self, corpus: Corpus, row: Row) -> tuple[Tensor, Tensor | None]:
        tensors = row_tensors(corpus, row, self.model.device)
        return row_loss(self.model, tensors, low_precision=self._settings.dtype == "bfloat16")


def _sizes(corpus: Corpus, rows: Sequence[Row]) -> tuple[int, int]:
    """Tokens of some rows, and how many of them are learnt."""
    documents = [document for row in rows for document in row]
    pieces = [slice(int(corpus.starts[number]), int(corpus.starts[number + 1])) for number in documents]
    return sum(piece.stop - piece.start for piece in pieces), sum(int(corpus.learnt[piece].sum()) for piece in pieces)
