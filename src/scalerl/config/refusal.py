"""From pydantic's errors to one line: the dotted key, the value, what is allowed, and the file that said so.

Used by `load` on every validation. Knows pydantic's error types, and nothing of what the fields mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scalerl.config.base import IMPOSSIBLE, REFUSED
from scalerl.config.schema import allowed, every_key, field_at, model_at, owners, tag_key
from scalerl.errors import InputError

Path = tuple[str, ...]
Origins = Mapping[Path, str]
"""Which layer a value came from, for each leaf."""

LONGEST_VALUE = 60


def refusal(error: ValidationError, root: type[BaseModel], data: Any, origins: Origins) -> InputError:
    """The most telling of the errors: a misspelt key before the missing key that it causes."""
    details = sorted(error.errors(include_url=False), key=lambda detail: detail["type"] != "extra_forbidden")
    detail = details[0]
    path = _path(detail, data)
    if detail["type"] == "extra_forbidden":
        return _unknown_key(path, root, data, origins)
    if detail["type"] == IMPOSSIBLE:
        return _impossible(detail, path, origins)
    if detail["type"] == REFUSED:
        context = detail["ctx"]
        where = origin(tuple(str(context["key"]).split(".")), origins)
        return InputError(context["what"], context["value"], context["allowed"], where)
    return _bad_value(detail, path, root, data, origins)


def origin(path: Path, origins: Origins) -> str | None:
    """The layer behind a key: its own, else that of something inside it, else of its nearest relative."""
    for length in range(len(path), 0, -1):
        found = [label for leaf, label in origins.items() if leaf[:length] == path[:length]]
        if found:
            return found[-1]
    return None


def _path(detail: ErrorDetails, data: Any) -> Path:
    """pydantic's location without the tags that it inserts below a table with variants, and without list indices."""
    path: Path = ()
    for position, part in enumerate(detail["loc"]):
        last = position == len(detail["loc"]) - 1
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif not (last and detail["type"] == "missing" and isinstance(data, Mapping)):
            continue
        path = (*path, str(part))
    return path


def _unknown_key(path: Path, root: type[BaseModel], data: Any, origins: Origins) -> InputError:
    model = model_at(root, data, path[:-1])
    known = "none" if model is None else ", ".join(model.model_fields)
    what = f"unknown key {'.'.join(path)}{_hint(path, root, data)}"
    where = origin(path, origins)
    return InputError(what, _short(_value(data, path)), f"{known} in {'.'.join(path[:-1]) or 'a run'}", where)


def _hint(path: Path, root: type[BaseModel], data: Any) -> str:
    """The key's owner, if another variant has it; else the key of that name elsewhere; else one that is spelt alike."""
    name, table, model = path[-1], field_at(root, data, path[:-1]), model_at(root, data, path[:-1])
    if table is not None and (tags := owners(table, name)):
        return f" (it belongs to {tag_key(table)} = {', '.join(tags)})"
    siblings = [".".join((*path[:-1], sibling)) for sibling in (model.model_fields if model else ())]
    keys = [key for key, _ in every_key(root) if field_at(root, data, tuple(key.split("."))) is not None]
    found = _alike(name, keys, 1.0) or _alike(name, siblings, 0.6) or _alike(name, keys, 0.8)
    return f", did you mean {' or '.join(found)}?" if found else ""


def _alike(name: str, keys: list[str], likeness: float) -> list[str]:
    """The keys whose last part is closest to a name, if it is close enough."""
    closest = get_close_matches(name, [_name(key) for key in keys], n=1, cutoff=likeness)
    return list(dict.fromkeys(key for key in keys if _name(key) in closest))


def _name(key: str) -> str:
    return key.rpartition(".")[2]


def _impossible(detail: ErrorDetails, path: Path, origins: Origins) -> InputError:
    """Two keys clash: both may be to blame, so both sources are named."""
    context = detail["ctx"]
    keys = [(*path, *str(context[name]).split(".")) for name in ("key", "against") if context[name]]
    sources = dict.fromkeys(label for key in keys if (label := origin(key, origins)) is not None)
    return InputError(".".join(keys[0]), context["value"], context["allowed"], " and ".join(sources) or None)


def _bad_value(detail: ErrorDetails, path: Path, root: type[BaseModel], data: Any, origins: Origins) -> InputError:
    kind = detail["type"]
    field = field_at(root, data, path)
    if kind in {"union_tag_invalid", "union_tag_not_found"} and field is not None:
        # The tag is at fault, not the table.
        path = (*path, str(tag_key(field)))
        expected = allowed(field).rpartition(" = ")[2]
    else:
        expected = detail["msg"] if field is None else allowed(field)
    where = origin(path, origins)
    if _value(data, path) is None:
        return InputError(f"missing key {'.'.join(path)}", allowed=expected, where=where)
    return InputError(".".join(path) or "the config", _short(_value(data, path)), expected, where)


def _value(data: Any, path: Path) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _short(value: Any) -> Any:
    """Plain numbers and texts as they are; anything long cut off."""
    try:
        text = str(value)
    except ValueError:  # an integer of thousands of digits, which a TOML file can hold in hexadecimal
        return value
    if len(text) <= LONGEST_VALUE:
        return value
    return f"{text[:LONGEST_VALUE]}..."
