"""Which presets a config comes from, found by comparing: a config does not carry the names.

Used by `status`. The nearest preset is named, with the number of values that differ; far from all of them is `custom`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from scalerl import presets
from scalerl.config import RunConfig, flatten, load_run

_FAR = 8
"""Values that may differ before a preset says nothing about a config."""


def preset_names(config: RunConfig) -> tuple[str, str]:
    """Recipe and scale, such as `("qwen_dapo +1", "laptop")`."""
    values = flatten(config)
    return _nearest("recipe", values), _nearest("scale", values)


def _nearest(kind: presets.Kind, values: Mapping[str, Any]) -> str:
    own = _part(kind, values)
    distances = {name: _distance(own, known) for name, known in _known(kind).items()}
    name = min(distances, key=lambda name: distances[name])
    if distances[name] > _FAR:
        return "custom"
    return name if distances[name] == 0 else f"{name} +{distances[name]}"


@cache
def _known(kind: presets.Kind) -> Mapping[str, Mapping[str, Any]]:
    """The presets come with the package: they do not change while a process runs."""
    other = {"recipe": "scale", "scale": "recipe"}[kind]
    default = {"recipe": "scalerl", "scale": "laptop"}[other]
    return {name: _part(kind, flatten(load_run(**{kind: name, other: default}).config)) for name in presets.names(kind)}


def _part(kind: presets.Kind, values: Mapping[str, Any]) -> dict[str, Any]:
    """The budget and the frequency of checkpoints do not tell scales apart."""
    free = ("scale.budget.", "scale.checkpoint_every")
    return {key: value for key, value in values.items() if key.startswith(f"{kind}.") and not key.startswith(free)}


def _distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return sum(one.get(key) != other.get(key) for key in {*one, *other})
