"""`Series`: what it accepts, what it refuses and how it says so, and that nothing is lost on the way through JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import InputError
from scalerl.series import Series, StartValue

FINITE = st.floats(-1e6, 1e6, allow_nan=False)
COMPUTES = st.lists(st.floats(1e-9, 1e30), min_size=0, max_size=12, unique=True)


def test_sorts_by_compute_and_keeps_the_columns_together() -> None:
    series = Series.of([30, 10, 20], [0.3, 0.1, 0.2], [300, 100, 200])
    assert series.compute.tolist() == [10, 20, 30]
    assert series.value.tolist() == [0.1, 0.2, 0.3]
    assert series.n is not None
    assert series.n.tolist() == [100, 200, 300]
    assert len(series) == 3


def test_a_row_at_zero_compute_is_the_step_0_measurement_and_not_a_point() -> None:
    series = Series.of([10, 0, 20], [0.1, 0.05, 0.2], [100, 50, 200])
    assert series.start == StartValue(0.05, 50.0)
    assert series.compute.tolist() == [10, 20]


def test_start_as_a_plain_number() -> None:
    assert Series.of([1], [0.5], start=0.25).start == StartValue(0.25)


def test_one_n_for_all_points() -> None:
    series = Series.of([1, 2], [0.1, 0.2], 16)
    assert series.n is not None
    assert series.n.tolist() == [16, 16]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1, 2], [0.1]), "differ in length"),
        (([1, np.nan], [0.1, 0.2]), "unusable compute at point 2"),
        (([1, np.inf], [0.1, 0.2]), "unusable compute at point 2"),
        (([1, 2], [np.nan, 0.2]), "unusable value at point 1"),
        (([1, -2], [0.1, 0.2]), "zero or more"),
        (([1, 1], [0.1, 0.2]), "duplicate compute"),
        (([1, 2], [0.1, 0.2], [5, 0]), "unusable n at point 2"),
        (([1, 2], [0.1, 0.2], [5]), "n and value differ in length"),
        ((["a", 2], [0.1, 0.2]), "compute is not numeric"),
        (([[1, 2]], [0.1, 0.2]), "wrong shape"),
    ],
)
def test_refuses_what_cannot_be_used_in_one_line(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        Series.of(*arguments, name="run 7")
    assert "\n" not in str(caught.value)


def test_the_message_names_the_curve() -> None:
    with pytest.raises(InputError, match="run 7"):
        Series.of([1, 1], [0.1, 0.2], name="run 7")


@pytest.mark.parametrize("start", [float("nan"), float("inf"), StartValue(float("nan"))])
def test_refuses_a_step_0_value_that_is_not_finite(start: float | StartValue) -> None:
    with pytest.raises(InputError):
        Series.of([1, 2], [0.1, 0.2], start=start)


def test_numpy_scalars_are_numbers_too() -> None:
    n: Any = np.int64(16)
    start: Any = np.float32(0.25)
    series = Series.of([1, 2], [0.1, 0.2], n, start=start)
    assert series.n is not None
    assert series.n.tolist() == [16, 16]
    assert series.start == StartValue(0.25)


def test_window_holds_both_ends_and_keeps_the_step_0_value() -> None:
    series = Series.of([0, 1, 2, 3, 4], [0.0, 0.1, 0.2, 0.3, 0.4])
    part = series.window(2, 3)
    assert part.compute.tolist() == [2, 3]
    assert part.start == StartValue(0.0)
    assert series.window(None, 2).compute.tolist() == [1, 2]
    assert series.window(3, None).compute.tolist() == [3, 4]
    assert series.head(1).compute.tolist() == [1]


def test_does_not_share_memory_with_the_arrays_it_was_given() -> None:
    compute, value = np.array([1.0, 2.0]), np.array([0.1, 0.2])
    series = Series.of(compute, value)
    value[0] = 9.0
    assert series.value.tolist() == [0.1, 0.2]


def test_equality_looks_at_every_column() -> None:
    one = Series.of([1, 2], [0.1, 0.2], 10, start=0.0, name="a")
    assert one == Series.of([2, 1], [0.2, 0.1], 10, start=0.0, name="a")
    assert one != Series.of([1, 2], [0.1, 0.3], 10, start=0.0, name="a")
    assert one != Series.of([1, 2], [0.1, 0.2], 11, start=0.0, name="a")
    assert one != Series.of([1, 2], [0.1, 0.2], 10, start=0.1, name="a")
    assert one != "a"


@settings(deadline=None, max_examples=40)
@given(compute=COMPUTES, data=st.data(), with_n=st.booleans(), start=st.none() | FINITE)
def test_round_trip_through_json_is_exact(
    compute: list[float], data: st.DataObject, with_n: bool, start: float | None
) -> None:
    value = data.draw(st.lists(FINITE, min_size=len(compute), max_size=len(compute)))
    n = [float(i + 1) for i in range(len(compute))] if with_n else None
    series = Series.of(compute, value, n, start=start, name="r", compute_name="c", value_name="v", source="f.csv")
    back = Series.from_dict(json.loads(json.dumps(series.to_dict())))
    assert back == series
    assert back.to_dict() == series.to_dict()
