"""YAML for configs: nested tables of plain values, and nothing else. The base install has no YAML package.

Used by `exported`. Texts are quoted as in JSON, of which YAML is a superset, unless they are plain words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][\w./~-]*")
_OTHER_MEANING = {"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n", "nan", "inf"}


def to_yaml(table: Mapping[str, Any], indent: int = 0) -> str:
    """The table as text, key by key in its own order."""
    lines = []
    for key, value in table.items():
        name = " " * indent + _scalar(key)
        if isinstance(value, Mapping) and value:
            lines.append(f"{name}:\n{to_yaml(value, indent + 2)}")
        else:
            lines.append(f"{name}: {_value(value)}\n")
    return "".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return "{}" if isinstance(value, Mapping) else _scalar(value)


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            plain = _PLAIN.fullmatch(value) and value.lower() not in _OTHER_MEANING
            return value if plain else json.dumps(value)
        case _:
            raise TypeError(f"no YAML for {type(value).__name__}")


def _number(value: float) -> str:
    """YAML takes `1e-15` for a text: a number with an exponent needs a point."""
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    return text if not exponent or "." in mantissa else f"{mantissa}.0e{power}"
