"""Evaluation suites: files of downstream sets, by name or as TOML, and how they become part of a config.

Used by `load`. A suite is a table for each set, with the keys of `DownstreamSet`; a set is a whole file unless it says
otherwise. Nothing of a suite stays in a config but its sets: whoever reads a run needs no suite.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from scalerl import presets
from scalerl.config.layers import Layer, Table, file_layer, overlay
from scalerl.errors import InputError

KEY = ("scale", "evaluation", "suites")


def suite_layer(text: str) -> Layer:
    """`aime24`, `aime24=problems.jsonl` (the same questions from a file of yours) or `mine.toml`."""
    name, equals, path = text.partition("=")
    sets = _read(name.strip())
    if equals:
        sets = _from_file(sets, path.strip(), text)
    return Layer(f"suite {name.strip()}", {"scale": {"evaluation": {"downstream": sets}}})


def with_suites(layer: Layer) -> Layer:
    """The layer with the sets of its `scale.evaluation.suites` in the place of that key; its own sets come on top."""
    evaluation = layer.values
    for key in KEY[:-1]:
        found = evaluation.get(key)
        if not isinstance(found, Mapping):
            return layer
        evaluation = dict(found)
    if KEY[-1] not in evaluation:
        return layer
    named = evaluation[KEY[-1]]
    if not isinstance(named, list) or not all(isinstance(text, str) for text in named):
        raise InputError(".".join(KEY), named, "a list of names of suites or .toml files", layer.label)
    sets: Table = {}
    for text in named:
        sets = overlay(sets, suite_layer(text).values, {})
    return Layer(layer.label, overlay(sets, _without(layer.values, KEY), {}))


def _read(name: str) -> dict[str, Table]:
    """The sets of a suite, each a whole file unless it says otherwise."""
    if name.endswith(".toml"):
        layer = file_layer(name)
        values, where = layer.values, layer.label
    else:
        values, where = tomllib.loads(presets.read("suite", name)), f"suite {name}"
    if not values:
        raise InputError("a suite without sets", allowed="a table for each set", where=where)
    for key, one in values.items():
        if not isinstance(one, dict) or not isinstance(one.get("task", {}), dict):
            raise InputError(f"not a set of a suite: {key}", one, "a table with a table task in it", where)
    return {key: {"whole": True, **one} for key, one in values.items()}


def _from_file(sets: Mapping[str, Table], path: str, text: str) -> dict[str, Table]:
    if not path or len(sets) != 1:
        allowed = f"NAME=FILE for a suite of one set; this one has {', '.join(sets)}"
        raise InputError("the file of a suite", text, allowed)
    ((name, one),) = sets.items()
    return {name: one | {"task": one.get("task", {}) | {"path": path}}}


def _without(values: Mapping[str, Any], path: tuple[str, ...]) -> Table:
    first, *rest = path
    if not rest:
        return {key: value for key, value in values.items() if key != first}
    return {key: _without(value, tuple(rest)) if key == first else value for key, value in values.items()}
