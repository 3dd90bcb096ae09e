"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from scalerl import numbers
from scalerl.curves.results import Estimate


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.63521, 0.62434, 0.64912), "0.635 [0.624, 0.649]"),
        (Estimate(0.6352, 0.51, 0.83), "0.64 [0.51, 0.83]"),
        (Estimate(0.6352, 0.6351, 0.6354), "0.63520 [0.63510, 0.63540]"),
        (Estimate(1.793, 1.5, 2.1), "1.79 [1.50, 2.10]"),
        (Estimate(0.4), "0.400"),
        (Estimate(1234567.0, 1200000.0, 1300000.0), "1.23M [1.20M, 1.30M]"),
    ],
)
def test_rounding_follows_the_width_of_the_interval(estimate: Estimate, text: str) -> None:
    assert numbers.estimate(estimate) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(9800.0, 8500.0, 12000.0), "9.8k [8.5k, 12.0k]"),
        (Estimate(30e3, 9e3, 400e3), "30k [9k, 400k]"),
        (Estimate(1.234e21, 1.1e21, 1.3e21), "1.23e21 [1.10e21, 1.30e21]"),
        (Estimate(850.0), "850"),
    ],
)
def test_compute_with_an_interval(estimate: Estimate, text: str) -> None:
    assert numbers.estimate(estimate, compute=True) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (850.0, "850"), (400.0, "400"), (12_700.0, "12.7k"), (999_999.0, "1M"), (3.2e6, "3.2M"), (1.2e21, "1.2e21"),
        (0.0, "0"), (2e-5, "2e-5"), (None, "unknown"), (math.nan, "unknown"),
    ],
)  # fmt: skip
def test_amounts(value: float | None, text: str) -> None:
    assert numbers.amount(value) == text


def test_unknown_is_a_word_and_never_zero() -> None:
    assert numbers.estimate(None) == "unknown"
    assert numbers.number(None) == numbers.number(math.nan) == numbers.probability(None) == "unknown"
    assert numbers.ranged(0.5, None, None) == ("0.500", "unknown")
    assert numbers.ranged(50_000.0, 40_000.0, None, compute=True) == ("50k", "[40k, unknown]")


def test_a_rounded_zero_has_no_minus_sign() -> None:
    assert numbers.ranged(-0.0001, -0.02, 0.03, signed=True) == ("+0.000", "[-0.020, +0.030]")
    assert numbers.ranged(-0.0001, -0.02, 0.03)[0] == "0.000"


def test_a_probability_is_never_certain() -> None:
    given = (0.0, 0.004, 0.0095, 0.43, 0.996, 1.0)
    assert [numbers.probability(p) for p in given] == ["<0.01", "<0.01", "0.01", "0.43", ">0.99", ">0.99"]


def test_a_name_is_one_printable_line() -> None:
    assert numbers.name("a\x1b[31m\nb\t c\udc80") == "a [31m b c"
    assert numbers.name("") == "(no name)"
    assert len(numbers.name("x" * 300, 40)) == 40
    assert numbers.name("start" + "x" * 300 + "end", 20).endswith("end")


def test_names_side_by_side_drop_what_they_share() -> None:
    assert numbers.names(["a/b/one/acc", "a/b/two/acc"]) == ["one", "two"]
    assert numbers.names(["a/b", "a/b"]) == ["b", "b"]
    assert numbers.names(["one", "one/two"]) == ["one", "one/two"]
    assert numbers.names(["a/b"]) == ["a/b"]


@pytest.mark.parametrize(
    ("value", "text"), [(5e-324, "0.5e-323"), (-5e-324, "-0.5e-323"), (1.7976931348623157e308, "1.79769e+308")]
)
def test_the_smallest_and_the_largest_numbers(value: float, text: str) -> None:
    assert numbers.amount(value) == text
    assert numbers.ranged(value, value / 2, value, compute=True)


def test_the_end_of_an_interval_that_cannot_be_rounded() -> None:
    """Nothing above the largest numbers is left to round to."""
    assert numbers.ranged(math.nan, -1.7976931348496958e308, 0.0)[1].startswith("[-1797")
