"""`--budget` of `scalerl train`: every form that is allowed, and one line for every other."""

from __future__ import annotations

import pytest

from scalerl.cli.budget import GivenBudget, budget_words, parse_budget
from scalerl.errors import InputError


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("500", "steps", 500),
        ("500 steps", "steps", 500),
        ("1 step", "steps", 1),
        ("2k steps", "steps", 2000),
        ("1_000", "steps", 1000),
        ("2e13 flops", "flops", 2e13),
        ("2e+13flops", "flops", 2e13),
        ("5M tokens", "tokens", 5e6),
        ("5Mtokens", "tokens", 5e6),
        ("0.5 device-hours", "device_hours", 0.5),
        (".5 device_hours", "device_hours", 0.5),
        (" 1 device-hour ", "device_hours", 1),
    ],
)
def test_forms(text: str, unit: str, amount: float) -> None:
    found = parse_budget(text)
    assert (found.unit, found.amount) == (unit, amount)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "device-hours"),
        ("steps", "device-hours"),
        ("5 hours", "device-hours"),
        ("5 steps 6", "device-hours"),
        ("1e", "device-hours"),
        ("1..5 tokens", "device-hours"),
        ("five steps", "device-hours"),
        ("0", "more than zero"),
        ("-5 steps", "more than zero"),
        ("1e999 flops", "more than zero"),
        ("nan", "device-hours"),
        ("2.5 steps", "a whole number of steps"),
        ("50%", "device-hours"),
    ],
)
def test_everything_else_is_refused(text: str, word: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_budget(text)
    assert refused.value.value == text
    assert word in str(refused.value)
    assert str(refused.value).startswith("--budget: got ")


@pytest.mark.parametrize("text", ["500 steps", "2e13 flops", "5M tokens", "1.5 device-hours"])
def test_the_words_can_be_read_again(text: str) -> None:
    given = parse_budget(text)
    assert parse_budget(budget_words(given.unit, given.amount).lower().replace("m t", "M t")) == given


def test_words() -> None:
    assert budget_words("steps", 1500.0) == "1,500 steps"
    assert budget_words("flops", 2e13) == "2e13 FLOPs"
    assert GivenBudget("tokens", 5e6) == parse_budget("5M tokens")
