"""The curves that come with the package."""

import pytest

from scalerl.errors import InputError
from scalerl.readers import example_names, load_example


def test_the_papers_8b_curve() -> None:
    example = load_example("scalerl-8b")
    assert len(example.series) == 34
    assert (example.series.compute[0], example.series.value[0]) == (1328, 0.4021)
    assert (example.series.compute[-1], example.series.value[-1]) == (89367, 0.6402)
    assert (example.series.compute_name, example.series.value_name) == ("GPU-hours", "pass rate")
    assert (example.series.name, example.series.source) == ("scalerl-8b", "example scalerl-8b")
    assert (example.floor, example.window) == (0.40, (1500.0, None))
    assert "2510.13786" in example.citation


@pytest.mark.parametrize("name", example_names())
def test_every_example_loads(name: str) -> None:
    example = load_example(name)
    assert example.series.name == name
    assert example.description


def test_unknown_example_lists_the_names() -> None:
    with pytest.raises(InputError, match=r"unknown example: got 'x'; allowed: one of scalerl-8b"):
        load_example("x")
