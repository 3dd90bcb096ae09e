"""TOML layers: where values come from, and how a later layer changes an earlier one.

Used by `load`. A layer is a table of values and a label for messages. Merging goes key by key, with two rules: a layer
that changes the tag of a table with variants (`recipe.loss.surrogate`) replaces that table, because the parameters of
the old variant mean nothing to the new one; and an empty table in the place of one whose names are the user's own
(`scale.evaluation.downstream = {}`) empties it. Nothing is validated here except the syntax.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalerl import presets
from scalerl.errors import InputError

DEEPEST = 30
"""Levels of tables and lists; a config has ten."""
LARGEST = 1 << 64
"""TOML knows integers of 64 bits, Python's reader of it any."""

Table = dict[str, Any]
KeyPath = tuple[str, ...]

_POINT_FIRST = re.compile(r"[+-]?\.\d+(e[+-]?\d+)?", re.IGNORECASE)
"""`.28`, which people write and TOML does not."""
_BARE_WORD = re.compile(r"[A-Za-z_./~][\w./~@:+-]*")
"""A text that may be given to --set without quotes, which a shell would remove anyway: a name or a path."""


@dataclass(frozen=True)
class Layer:
    """Values and the place they come from."""

    label: str
    """How messages name it: a file, a preset."""
    values: Table


def preset_layer(kind: presets.Kind, name: str) -> Layer:
    """A preset, or a file of the same form where the name ends in .toml; its keys go below `recipe` or `scale`."""
    if name.endswith(".toml"):
        layer = file_layer(name)
        return Layer(layer.label, {kind: layer.values})
    return Layer(f"{kind} preset {name}", {kind: tomllib.loads(presets.read(kind, name))})


def file_layer(path: str | Path) -> Layer:
    """A file with the tables `recipe` and `scale` and the key `seed`, each optional."""
    label = str(path)
    try:
        text = Path(path).read_bytes().decode()
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", allowed="a TOML file", where=label) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"the file cannot be read ({reason})", allowed="a TOML file", where=label) from None
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, which is no TOMLDecodeError
        raise InputError(f"not TOML ({error})", allowed="a TOML file", where=label) from None
    check_plain(values, label)
    return Layer(label, values)


def override_layers(overrides: Sequence[str]) -> list[Layer]:
    """One layer for each `dotted.key=value`, labelled as it was typed."""
    return [Layer(f"--set {text}", _nested(*parse_override(text))) for text in overrides]


def parse_override(text: str) -> tuple[KeyPath, Any]:
    """`recipe.loss.clip_high=0.28` as a path and a value in TOML syntax; a single word needs no quotes."""
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise InputError("--set", text, "dotted.key=value, such as recipe.loss.cap=8")
    found = _parse_value(value.strip(), text)
    check_plain(_nested(path, found), "--set")
    return path, found


def _parse_value(value: str, text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        table = {}
    if table.keys() == {"value"}:
        return table["value"]
    if _POINT_FIRST.fullmatch(value):
        return float(value)
    if _BARE_WORD.fullmatch(value):
        return value
    raise InputError("--set: the value is not TOML", text, 'a TOML value: 0.28, true, "text", [0.9, 0.95]')


def nested(flat: Mapping[str, Any]) -> Table:
    """Dotted keys as nested tables."""
    tree: Table = {}
    for key, value in flat.items():
        _insert(tree, tuple(key.split(".")), value)
    check_plain(tree, None)
    return tree


def check_plain(values: Any, where: str | None) -> None:
    """Refuse what is nested absurdly deep, and numbers of absurdly many digits, before anything looks into them."""
    level = [values]
    for _ in range(DEEPEST):
        level = [inner for value in level for inner in _inside(value)]
        if any(isinstance(value, int) and abs(value) > LARGEST for value in level):
            raise InputError("a whole number with too many digits", allowed="64 bits", where=where)
        if not level:
            return
    raise InputError("nested too deep", allowed=f"at most {DEEPEST} levels", where=where)


def _inside(value: Any) -> Collection[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def leaves(tree: Mapping[str, Any], prefix: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value that is not a table (an empty table counts), with its path."""
    for key, value in tree.items():
        path = (*prefix, key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def merge(layers: Sequence[Layer], tags: Mapping[KeyPath, str]) -> tuple[Table, dict[KeyPath, str]]:
    """All layers on top of each other, and the label behind each leaf."""
    tree: Table = {}
    labels: dict[KeyPath, str] = {}
    for layer in layers:
        tree = overlay(tree, layer.values, tags)
        known = dict(leaves(tree))
        labels = {path: label for path, label in labels.items() if path in known}
        labels |= {path: layer.label for path, _ in leaves(layer.values)}
    return tree, labels


def combine(layers: Sequence[Layer]) -> Table:
    """Several layers as one, key by key, without the rule about tags: their order must not matter to it."""
    return merge(layers, {})[0]


def overlay(below: Mapping[str, Any], above: Mapping[str, Any], tags: Mapping[KeyPath, str]) -> Table:
    """One table on top of another; neither is changed."""
    return dict(_over(below, above, tags, ()))


def _over(below: Any, above: Any, tags: Mapping[KeyPath, str], path: KeyPath) -> Any:
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    tag = tags.get(path)
    if tag == "" and not above:
        return {}
    if tag and tag in above and above[tag] != below.get(tag):
        return dict(above)
    merged = {key: _over(below[key], above[key], tags, (*path, key)) if key in above else below[key] for key in below}
    return merged | {key: value for key, value in above.items() if key not in below}


def _nested(path: KeyPath, value: Any) -> Table:
    tree: Table = {}
    _insert(tree, path, value)
    return tree


def _insert(tree: Table, path: KeyPath, value: Any) -> None:
    for key in path[:-1]:
        below = tree.get(key)
        if not isinstance(below, dict):
            below = tree[key] = {}
        tree = below
    tree[path[-1]] = value
