"""Questions about the config models themselves: which keys exist, what each allows, what its docstring says.

Used by `refusal` to say what is allowed and by `layers` to know which tables have variants. Reads the models of
`recipe`, `scale` and `run` through pydantic's field information and never looks at a value's meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Model = type[BaseModel]

_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", NoneType: "nothing"}
_BOUNDS = {Gt: ("gt", "above"), Ge: ("ge", "at least"), Lt: ("lt", "below"), Le: ("le", "at most")}


def variants(field: FieldInfo) -> dict[str, Model]:
    """The models a table may be, by tag; one model without a tag is under ""; empty for a plain value."""
    models = [kind for kind in _members(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
    if field.discriminator is None:
        return dict.fromkeys([""], models[0]) if models else {}
    return {_tag(model, str(field.discriminator)): model for model in models}


def tag_key(field: FieldInfo) -> str | None:
    """The key that says which variant a table is."""
    return None if field.discriminator is None else str(field.discriminator)


def model_of(field: FieldInfo, value: Any) -> Model | None:
    """The model of a table, given its value (a mapping whose tag picks the variant)."""
    options = variants(field)
    key = tag_key(field)
    if key is None:
        return options.get("")
    return options.get(str(value.get(key))) if isinstance(value, Mapping) else None


def entry_of(field: FieldInfo) -> Model | None:
    """The model of every entry, where a table's names are the user's own."""
    return _entry(field.annotation) if _is_free(field.annotation) else None


def field_at(root: Model, data: Any, path: tuple[str, ...]) -> FieldInfo | None:
    """The field at a path, following the variants that `data` chose; None where there is no such field."""
    model: Model | None = root
    field: FieldInfo | None = None
    for key in path:
        entry = None if field is None else entry_of(field)
        if entry is not None:
            field = FieldInfo(annotation=entry)
        else:
            field = None if model is None else model.model_fields.get(key)
        if field is None:
            return None
        data = data.get(key) if isinstance(data, Mapping) else None
        model = model_of(field, data)
    return field


def model_at(root: Model, data: Any, path: tuple[str, ...]) -> Model | None:
    """The model whose table is at a path, following the variants that `data` chose."""
    if not path:
        return root
    field = field_at(root, data, path)
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return None if field is None else model_of(field, data)


def owners(field: FieldInfo, key: str) -> list[str]:
    """The tags of the variants that have a key."""
    return [tag for tag, model in variants(field).items() if tag and key in model.model_fields]


def tagged_tables(root: Model, prefix: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """Every table with variants: its path and the key of its tag."""
    found = {}
    for name, field in root.model_fields.items():
        path = (*prefix, name)
        if (key := tag_key(field)) is not None:
            found[path] = key
        for model in variants(field).values():
            found.update(tagged_tables(model, path))
    return found


def table_rules(root: Model) -> dict[tuple[str, ...], str]:
    """What `layers` must know: the tag of every table with variants, and "" for a table of the user's own names."""
    return tagged_tables(root) | dict.fromkeys(_free_tables(root), "")


def _free_tables(root: Model, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in root.model_fields.items():
        if _is_free(field.annotation):
            yield (*prefix, name)
        for model in variants(field).values():
            yield from _free_tables(model, (*prefix, name))


def every_key(root: Model, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every dotted key that some variant has, with its field; tables come before what they hold."""
    for name, field in root.model_fields.items():
        yield f"{prefix}{name}", field
        for model in variants(field).values():
            yield from every_key(model, f"{prefix}{name}.")


def allowed(field: FieldInfo) -> str:
    """What a field accepts, in words: `a number above 0 and below 1`, `prompt, sample, token`."""
    options = variants(field)
    if options:
        tags = ", ".join(tag for tag in options if tag)
        return f"a table with {tag_key(field)} = {tags}" if tags else "a table"
    words = _words(field.annotation)
    bounds = [bound for bound in map(_bound, field.metadata) if bound]
    if any(isinstance(mark, MinLen) for mark in field.metadata):
        words = "a text that is not empty"
    return f"{words} {' and '.join(bounds)}" if bounds else words


def _bound(mark: object) -> str | None:
    for kind, (attribute, word) in _BOUNDS.items():
        if isinstance(mark, kind):
            bound = getattr(mark, attribute)
            return f"{word} {bound}" if isinstance(bound, int) else f"{word} {bound:g}"
    return None


def _words(annotation: Any) -> str:
    origin, parameters = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(map(str, parameters))
    if origin is tuple:
        each = [bound for part in get_args(parameters[0])[1:] for bound in map(_bound, part.metadata) if bound]
        return f"a list of {len(parameters)} numbers" + (f", each {' and '.join(each)}" if each else "")
    if _is_free(annotation):
        return "a table of plain values" if _entry(annotation) is None else "a table of named tables"
    return _TYPES.get(annotation, str(annotation))


def _is_free(annotation: Any) -> bool:
    """A table whose names are the user's own."""
    return get_origin(annotation) is dict


def _entry(annotation: Any) -> Model | None:
    value = get_args(annotation)[1]
    return value if isinstance(value, type) and issubclass(value, BaseModel) else None


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)


def _tag(model: Model, key: str) -> str:
    return str(get_args(model.model_fields[key].annotation)[0])
