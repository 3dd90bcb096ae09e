"""Everything that decides what `scalerl sft --model` computes, and how options become it.

Read by every part of this package; built by the command line. Knows no file and no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Strict, ValidationError, model_validator

from scalerl.config.base import Count, Fraction, Frozen, Name, NonNegative, Positive, impossible
from scalerl.config.layers import combine, leaves, override_layers
from scalerl.config.policy import Dtype
from scalerl.config.refusal import refusal
from scalerl.errors import InputError

MOST_TOKENS = 16_384
"""Longest trace unless told otherwise, whatever the model could take: the paper's sequence length."""
USUAL_ROW_TOKENS = 4_096

_CHANGEABLE = ("checkpoint_every",)
"""What may be different when training goes on: it does not change the result."""

Files = Annotated[tuple[Name, ...], Strict(False)]


class SftSettings(Frozen):
    """One supervised training."""

    model: Name
    """Folder or hub name of a causal LM with its tokenizer."""
    data: Annotated[tuple[Name, ...], Strict(False), Field(min_length=1)]
    """Files of traces, JSONL or Parquet."""
    held_out: Files = ()
    """Files whose loss is measured and never trained on."""
    held_out_share: Fraction = 0.0
    """Share of the prompts in `data` that is held out; a prompt is on one side with all its traces."""
    prompt_key: str = ""
    """Column of the prompt; empty: messages, conversations, or prompt."""
    completion_key: str = ""
    """Column of the answer; empty: messages, conversations, or completion."""
    template: Literal["model", "none"] = "model"
    """model: the tokenizer's chat template, also around prompts and answers that are plain texts. none: plain texts as
    they stand, with the end-of-text token."""
    template_options: dict[str, bool | int | float | str] = Field(default={})
    """More variables for the chat template, such as enable_thinking of Qwen3."""
    max_tokens: Annotated[int, Field(ge=0)] = 0
    """Longest trace; 0: the context of the model, at most 16,384."""
    too_long: Literal["error", "skip"] = "error"
    """What happens to longer ones: end before anything is trained, or leave them out and say how many."""
    row_tokens: Annotated[int, Field(ge=0)] = 0
    """Tokens that go through the model at once; traces are packed into rows of this size. 0: 4,096, or
    `batch_tokens` where that is less, or the longest trace where that is longer."""
    batch_tokens: Count = 65_536
    """Tokens of one optimiser step: rows are added up until the next one would not fit. The paper: 2M."""
    epochs: Count = 2
    """Times that every trace is seen. The paper: about 4."""
    learning_rate: Positive = 2e-5
    """AdamW's rate at its highest. The paper: 3e-5."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the rate falls after the warm-up: to zero at the end, or not at all."""
    warmup_share: Fraction = 0.03
    """Share of the steps over which the rate rises from zero."""
    betas: Annotated[tuple[Fraction, Fraction], Strict(False)] = (0.9, 0.95)
    """Adam's decay rates."""
    weight_decay: NonNegative = 0.0
    """Decoupled weight decay."""
    grad_clip: Positive = 1.0
    """Largest norm of the gradient."""
    dtype: Dtype = "float32"
    """Type of the passes through the model and of the saved policy; the weights in training and AdamW are float32."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third more work."""
    evaluate_every: Annotated[int, Field(ge=0)] = 0
    """Steps between two measurements of the held-out loss; 0: a tenth of all steps."""
    checkpoint_every: Count = 100
    """Steps between checkpoints."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of the order of the traces."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.held_out and self.held_out_share:
            raise impossible("held_out_share", self.held_out_share, "0, because held_out names files", "held_out")
        if self.template == "none" and self.template_options:
            allowed = "none, because template none has no variables"
            raise impossible("template_options", ", ".join(self.template_options), allowed, "template")
        if self.row_tokens and self.row_tokens < self.max_tokens:
            allowed = f"at least max_tokens, {self.max_tokens}"
            raise impossible("row_tokens", self.row_tokens, allowed, "max_tokens")
        return self

    @property
    def identity(self) -> dict[str, Any]:
        """As JSON: training may go on with the same one only."""
        return {key: value for key, value in self.model_dump(mode="json").items() if key not in _CHANGEABLE}


def load_settings(options: Mapping[str, Any], sets: Sequence[str] = ()) -> SftSettings:
    """`options`: by field, with what is None left out. `sets`: `key=value` texts, which must not repeat them."""
    layers = override_layers(sets)
    values: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    origins: dict[tuple[str, ...], str] = {(key,): f"--{key.replace('_', '-')}" for key in values}
    origins |= {path: layer.label for layer in layers for path, _ in leaves(layer.values)}
    changed = combine(layers)
    for key in changed:
        if key in values:
            raise InputError(f"{key} is given twice", f"--{key.replace('_', '-')} and --set {key}=", "one of the two")
    values |= changed
    try:
        return SftSettings.model_validate(values)
    except ValidationError as error:
        raise refusal(error, SftSettings, values, origins) from None
