"""A small pipeline whose times can be worked out by hand."""

from __future__ import annotations

import math

import pytest

from scalerl.config.recipe import Asynchrony, Pipeline
from scalerl.plan import Lengths, Question, Rates
from scalerl.plan.hardware import HARDWARE
from scalerl.plan.question import model_of
from scalerl.plan.rates import Fleet


def exact(length: int) -> Lengths:
    """All responses of one length."""
    return Lengths(float(length), 0.0, 10 * length)


def question(
    asynchrony: Asynchrony | None = None,
    *,
    prompts: int = 4,
    rollouts: int = 4,
    lengths: Lengths | None = None,
    generating: int = 1,
    training: int = 1,
    rows: int = 256,
    prompt_length: int = 0,
) -> Question:
    chosen = asynchrony or Pipeline(kind="pipeline", k=2)
    return Question(
        model_of(8e9), HARDWARE["h100"], generating, training, prompts, rollouts, lengths or exact(100), prompt_length,
        chosen, rows,
    )  # fmt: skip


def rates(decode_s: float = 0.01, trained_token_s: float = 0.0, **values: float) -> Rates:
    """A decode step takes so long whatever is in it; everything else takes no time unless given."""
    given = {"row_s": 0.0, "context_s": 0.0, "prompt_token_s": 0.0, "load_s": 0.0, "update_s": 0.0, "send_s": 0.0}
    return Rates(
        step_s=decode_s, weights_s=0.0, active_share=1.0, trained_token_s=trained_token_s, trained_context_s=0.0,
        **(given | values),  # type: ignore[arg-type]  # evaluation_every is whole
    )  # fmt: skip


@pytest.fixture
def one() -> Fleet:
    return Fleet(1, 1, 256)


def close(value: float, expected: float, within: float = 1e-6) -> bool:
    return math.isclose(value, expected, rel_tol=within)
