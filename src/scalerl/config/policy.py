"""The policy of a scale: where it comes from and how it is prepared before step 0.

Part of `ScaleConfig`; read by `scalerl.policy`, which builds or loads the model.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Strict, model_validator

from scalerl.config.base import Count, Fraction, Frozen, Name, Positive, impossible

Dtype = Literal["float32", "bfloat16"]


class PretrainedModel(Frozen):
    """Any Hugging Face causal LM."""

    source: Literal["pretrained"]
    """Where the policy comes from."""
    name: Name
    """Directory or hub name; it must bring its tokenizer."""
    dtype: Dtype
    """Type of the weights while training and generating; the optimiser works on float32 copies."""


class LlamaModel(Frozen):
    """A small Llama with a character tokenizer, built from these sizes."""

    source: Literal["llama"]
    """Where the policy comes from."""
    layers: Count
    """Transformer blocks."""
    width: Count
    """Width of the residual stream."""
    heads: Count
    """Attention heads; width / heads must be even, because rotary embeddings turn pairs."""
    feed_forward: Count
    """Inner width of the feed-forward network."""
    tied: bool
    """Share the weights of the input embedding and the LM head."""
    dtype: Dtype
    """Type of the weights while training and generating; the optimiser works on float32 copies."""

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        _check_heads(self.width, self.heads)
        return self


class MoeModel(Frozen):
    """A small mixture-of-experts policy with a character tokenizer, built from these sizes."""

    source: Literal["moe"]
    """Where the policy comes from."""
    layers: Count
    """Transformer blocks."""
    width: Count
    """Width of the residual stream."""
    heads: Count
    """Attention heads; width / heads must be even, because rotary embeddings turn pairs."""
    feed_forward: Count
    """Inner width of each expert."""
    experts: Annotated[int, Field(ge=2)]
    """Experts in each block."""
    experts_per_token: Count
    """Experts that a token is sent to."""
    tied: bool
    """Share the weights of the input embedding and the LM head."""
    dtype: Dtype
    """Type of the weights while training and generating; the optimiser works on float32 copies."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        _check_heads(self.width, self.heads)
        if self.experts_per_token > self.experts:
            allowed = f"at most experts, {self.experts}"
            raise impossible("experts_per_token", self.experts_per_token, allowed, "experts")
        return self


class SftWarmStart(Frozen):
    """Supervised training on noisy solution traces before step 0, so that RL starts from a partly able policy."""

    kind: Literal["sft"]
    """How the policy is prepared before step 0."""
    steps: Count
    """Optimiser steps."""
    batch: Count
    """Traces in a step."""
    learning_rate: Positive
    """AdamW's learning rate."""
    wrong_steps: Fraction
    """Share of the steps in the traces that are wrong on purpose: it sets the pass rate at step 0."""
    shared: bool = False
    """One policy for all seeds, that of seed 0, as runs from one base model have it; false: each seed makes its own."""


class NoWarmStart(Frozen):
    """RL starts from the policy as it is."""

    kind: Literal["none"]
    """How the policy is prepared before step 0."""


class Lora(Frozen):
    """Low-rank adapters (LoRA, by peft): the policy stays as it is, and small matrices beside its linear layers learn.

    Generators, evaluations and checkpoints have the sum of both, a policy like any other.
    """

    rank: Annotated[int, Field(ge=0)] = 0
    """Rank of each adapter; 0: none, all weights are trained."""
    alpha: Positive = 32.0
    """An adapter's output counts alpha / rank times."""
    targets: Annotated[tuple[Name, ...], Strict(False)] = ()
    """Names of the layers, such as q_proj; empty: every linear layer but the LM head."""

    @model_validator(mode="after")
    def _there_is_an_adapter(self) -> Self:
        for key, usual in (("alpha", 32.0), ("targets", ())):
            if self.rank == 0 and getattr(self, key) != usual:
                allowed = f"1 or more, because lora.{key} is given, and rank 0 has no adapters"
                raise impossible("rank", self.rank, allowed, key)
        return self


Model = LlamaModel | MoeModel | PretrainedModel
WarmStart = SftWarmStart | NoWarmStart


def _check_heads(width: int, heads: int) -> None:
    if width % (2 * heads):
        raise impossible("heads", heads, f"a number for which width / heads is even (width is {width})", "width")
