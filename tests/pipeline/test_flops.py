"""The cost of a forward pass against numbers computed by hand from the shapes."""

import pytest
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from scalerl.compute import ForwardCost
from scalerl.errors import InputError
from scalerl.pipeline import flops
from scalerl.pipeline.flops import forward_cost
from scalerl.policy import TinyLlama, TinyMoe
from scalerl.policy.tiny import Shape, new_policy


def policy(shape: Shape) -> PreTrainedModel:
    return new_policy(shape, 0)[0]


def test_a_llama() -> None:
    """2 blocks of width 8: attention 4 x 8 x 8 = 256, feed-forward 3 x 8 x 12 = 288; head 8 x 14 = 112 (10 characters
    and 4 markers). 2 x (256 + 288) + 112 = 1200; norms and the embedding table do not multiply."""
    shape = TinyLlama(width=8, layers=2, heads=2, feed_forward=12, characters="0123456789")
    assert forward_cost(policy(shape)) == ForwardCost(active_parameters=1200, layers=2, attention_width=8)


def test_a_head_that_shares_the_embedding_still_multiplies() -> None:
    shape = TinyLlama(width=8, layers=2, heads=2, feed_forward=12, characters="0123456789", tied=True)
    assert forward_cost(policy(shape)).active_parameters == 1200


def test_a_mixture_of_experts_counts_the_chosen_ones() -> None:
    """1 block of width 8: attention 256, router 4 x 8 = 32, each expert 3 x 8 x 6 = 144, 2 of 4 are chosen = 288; head
    112. 256 + 32 + 288 + 112 = 688."""
    shape = TinyMoe(width=8, layers=1, heads=2, feed_forward=6, experts=4, experts_per_token=2, characters="0123456789")
    assert forward_cost(policy(shape)) == ForwardCost(active_parameters=688, layers=1, attention_width=8)


def test_positions_in_a_table_are_looked_up_too() -> None:
    """GPT-2, 1 block of width 8: attention 8 x 24 + 8 x 8 = 256, feed-forward 2 x 8 x 32 = 512, head 8 x 14 = 112."""
    model = GPT2LMHeadModel(GPT2Config(vocab_size=14, n_positions=16, n_embd=8, n_layer=1, n_head=2))
    assert forward_cost(model) == ForwardCost(active_parameters=880, layers=1, attention_width=8)


def test_flops_of_a_sequence() -> None:
    """3 tokens look at 1 + 2 + 3 = 6 positions: 2 x 1200 x 3 + 4 x 2 x 8 x 6 = 7584, three times that in training."""
    cost = ForwardCost(active_parameters=1200, layers=2, attention_width=8)
    assert cost.flops(3, 6) == 7584
    assert cost.training_flops(3, 6) == 3 * 7584


def test_experts_that_the_config_does_not_count_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flops, "_CHOSEN_EXPERTS", ("name_of_another_model",))
    with pytest.raises(InputError, match=r"how many experts there are; allowed: one of name_of_another_model"):
        forward_cost(policy(TinyMoe(width=8, layers=1, heads=2, feed_forward=6)))
