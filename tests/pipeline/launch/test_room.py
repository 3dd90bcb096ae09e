"""Room for actors: an impossible demand is named, a possible one never."""

from __future__ import annotations

import itertools
import random

import pytest

from scalerl.errors import InputError
from scalerl.pipeline.launch.ray.room import Node, check_room, nodes_free, num_placed, short
from scalerl.pipeline.launch.ray.words import Resources


def nodes(*resources: Resources) -> list[Node]:
    return [Node(f"n{number}", f"10.0.0.{number}", each) for number, each in enumerate(resources)]


@pytest.mark.parametrize(
    ("bundles", "has", "message"),
    [
        (
            [{"CPU": 1.0, "GPU": 1.0}] * 3,
            [{"CPU": 2.0}],
            "the cluster is 1 CPU, 3 GPU short of 3 actors, which need 3 CPU, 3 GPU; .*it has, 2 CPU, 0 GPU",
        ),
        (
            [{"CPU": 3.0}],
            [{"CPU": 2.0}, {"CPU": 2.0}],
            "large enough for an actor with 3 CPU; .*one node has: 2 CPU; 2",
        ),
        (
            [{"CPU": 2.0}] * 3,
            [{"CPU": 3.0}, {"CPU": 3.0}],
            r"places for 2 of 3 actors \(3 with 2 CPU\), each of which is on one node; .* nodes of 3 CPU; 3 CPU",
        ),
        (
            [{"CPU": 1.0, "GPU": 1.0}] + [{"CPU": 1.0, "GPU": 4.0}] * 2,
            [{"CPU": 8.0, "GPU": 4.0}, {"CPU": 8.0, "GPU": 3.0}, {"CPU": 8.0, "GPU": 3.0}],
            r"places for 2 of 3 actors \(1 with 1 CPU, 1 GPU and 2 with 1 CPU, 4 GPU\)",
        ),
        ([{"CPU": 1.0}], [], "the cluster is 1 CPU short of 1 actors"),
    ],
)
def test_what_can_never_be_placed(bundles: list[Resources], has: list[Resources], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_room(bundles, nodes(*has))


@pytest.mark.parametrize(
    ("bundles", "has"),
    [
        ([{"CPU": 2.0}] * 3, [{"CPU": 4.0}, {"CPU": 2.0}]),
        ([{"CPU": 1.0, "GPU": 2.0}] * 4 + [{"CPU": 1.0, "GPU": 1.0}] * 8, [{"CPU": 8.0, "GPU": 8.0}] * 2),
        ([{"CPU": 0.1}] * 10, [{"CPU": 1.0}]),
        ([{"CPU": 1.0}, {"CPU": 2.0}, {"CPU": 3.0}], [{"CPU": 3.0}, {"CPU": 3.0}]),
        ([{"CPU": 4.0}] * 6000 + [{"CPU": 4.0, "GPU": 8.0}] * 4000, [{"CPU": 64.0, "GPU": 8.0}] * 4000),
    ],
)
def test_what_may_be_placed_is_not_refused(bundles: list[Resources], has: list[Resources]) -> None:
    check_room(bundles, nodes(*has))


def test_as_many_as_trying_everything_finds() -> None:
    draw = random.Random(7)
    for _ in range(60):
        kinds = [{"CPU": draw.randint(1, 3), "GPU": draw.randint(0, 2)} for _ in range(2)]
        bundles = [dict(draw.choice(kinds)) for _ in range(draw.randint(1, 5))]
        has = [{"CPU": draw.randint(0, 5), "GPU": draw.randint(0, 3)} for _ in range(draw.randint(1, 3))]
        assert num_placed(bundles, has) == by_trying(bundles, has), (bundles, has)


def by_trying(bundles: list[dict[str, int]], has: list[dict[str, int]]) -> int:
    best = 0
    for places in itertools.product(range(len(has) + 1), repeat=len(bundles)):  # the last one: nowhere
        free = [dict(node) for node in has]
        placed = [(bundle, place) for bundle, place in zip(bundles, places, strict=True) if place < len(has)]
        for bundle, place in placed:
            for name, amount in bundle.items():
                free[place][name] -= amount
        if all(amount >= 0 for node in free for amount in node.values()):
            best = max(best, len(placed))
    return best


def test_what_is_free_is_said_node_by_node() -> None:
    free: dict[str, Resources] = {"n0": {"CPU": 1.0}}
    said = nodes_free(nodes({"CPU": 4.0}, {"CPU": 8.0}), free, {"CPU": 9.0})
    assert said == "10.0.0.0 has 1 of 4 CPU free; 10.0.0.1 has 0 of 8 CPU free"
    assert short({"CPU": 2.0, "GPU": 1.0}, {"CPU": 2.0}) == {"GPU": 1.0}
