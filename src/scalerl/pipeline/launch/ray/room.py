"""Is there room for all actors of a run? Which of them find no place, and what is missing on which node.

Used by `cluster`, before Ray is asked for places and after it was waited for. Plain arithmetic on what nodes have; Ray
is not known here. An impossible demand is named only where that is certain: Ray itself may find no place for a possible
one, because fractions of GPUs do not add up across GPUs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scalerl.errors import InputError
from scalerl.pipeline.launch.ray.words import Resources, fits, named, total

_GRAIN = 1e-6
"""Amounts are floats; Ray itself knows ten thousandths."""
_MOST_WORK = 2_000_000
"""Combinations that are looked at; beyond them nothing is said to be impossible."""


@dataclass(frozen=True)
class Node:
    """A machine of the cluster."""

    id: str
    address: str
    resources: Resources


def check_room(bundles: Sequence[Resources], nodes: Sequence[Node]) -> None:
    """`InputError` says what is missing, if these nodes could not hold all bundles even with nothing else on them."""
    needed = total(bundles)
    has = {name: sum(node.resources.get(name, 0) for node in nodes) for name in needed}
    if missing := short(needed, has):
        what = f"the cluster is {named(missing)} short of {len(bundles)} actors, which need {named(needed)}"
        raise InputError(what, allowed=f"at most what it has, {named(has, like=needed)}")
    each = nodes_have(nodes, needed)
    for bundle in bundles:
        if not any(fits(bundle, node.resources) for node in nodes):
            what = f"no node is large enough for an actor with {named(bundle)}"
            raise InputError(what, allowed=f"at most what one node has: {nodes_have(nodes, bundle)}")
    placed = num_placed(bundles, [node.resources for node in nodes])
    if placed < len(bundles):
        sizes = " and ".join(f"{count} with {named(dict(kind))}" for kind, count in _kinds(bundles).items())
        what = f"the nodes have places for {placed} of {len(bundles)} actors ({sizes}), each of which is on one node"
        raise InputError(what, allowed=f"what fits into nodes of {each}")


def short(needed: Resources, has: Resources) -> dict[str, float]:
    """What is missing of each resource."""
    return {name: amount - has.get(name, 0) for name, amount in needed.items() if amount > has.get(name, 0) + _GRAIN}


def nodes_have(nodes: Sequence[Node], like: Resources) -> str:
    """`4 CPU, 1 GPU; 8 CPU, 0 GPU`: one after the other."""
    return "; ".join(named(node.resources, like=like) for node in nodes) or "nothing"


def nodes_free(nodes: Sequence[Node], free: dict[str, Resources], like: Resources) -> str:
    """`10.0.0.1 has 1 of 4 CPU free; ...`. `free`: by the id of the node."""
    return "; ".join(f"{node.address} has {_share(node, free.get(node.id, {}), like)} free" for node in nodes)


def num_placed(bundles: Sequence[Resources], nodes: Sequence[Resources]) -> int:
    """How many bundles find a place, at most. Exact for bundles of one or two kinds, which is what runs have; too many
    of them, or more kinds, are taken to find one."""
    kinds = sorted(_kinds(bundles).items(), key=lambda item: item[1])
    if len(kinds) > 2 or kinds[0][1] * sum(_room(node, dict(kinds[0][0])) + 1 for node in nodes) > _MOST_WORK:
        return len(bundles)
    (last, wanted), *others = reversed(kinds)
    few, most = others[0] if others else ({}, 0)
    best = [0.0] + [-math.inf] * most  # by bundles of the rarer kind that have a place: most of the others
    for node in nodes:
        gains = _choices(node, dict(few), dict(last), most)
        best = [
            max(best[done - here] + gain for here, gain in enumerate(gains) if here <= done)
            for done in range(most + 1)
        ]  # fmt: skip
    return max(done + min(wanted, int(rest)) for done, rest in enumerate(best) if rest >= 0)


def _choices(node: Resources, few: Resources, last: Resources, most: int) -> list[int]:
    """With 0, 1, ... bundles of one kind on a node, how many of the other kind fit beside them."""
    highest = min(most, _room(node, few)) if most else 0
    return [
        _room({name: amount - number * few.get(name, 0) for name, amount in node.items()}, last)
        for number in range(highest + 1)
    ]


def _room(node: Resources, bundle: Resources) -> int:
    """Bundles of one kind that fit into an empty node."""
    return min(int((node.get(name, 0) + _GRAIN) // amount) for name, amount in bundle.items())


def _kinds(bundles: Sequence[Resources]) -> Counter[tuple[tuple[str, float], ...]]:
    return Counter(tuple(sorted(item for item in bundle.items() if item[1])) for bundle in bundles)


def _share(node: Node, free: Resources, like: Resources) -> str:
    return ", ".join(f"{free.get(name, 0):g} of {node.resources.get(name, 0):g} {name}" for name in like)
