"""What every config model shares: frozen, strict about types, unknown keys refused, docstrings as documentation.

Used by `recipe`, `scale` and `run`. Knows no field of theirs. No field anywhere may be None: TOML cannot say it, and
`diff` uses None for "this key does not exist on that side".
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer
from pydantic_core import PydanticCustomError

from scalerl.errors import InputError

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(min_length=1)]

EVERY_KEY = "every key"
"""Context of a dump that is to have silent keys too."""
IMPOSSIBLE = "impossible"
"""Error type of a combination of values that are each allowed."""
REFUSED = "refused"
"""Error type of something that was checked apart, with its message ready."""


class Frozen(BaseModel):
    """Base of every config model."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    silent: ClassVar[frozenset[str]] = frozenset()
    """Keys that are not written at their default. A key that came later belongs here: a run that does not use it is the
    run that it was before, and its digest must not change."""

    @model_serializer(mode="wrap")
    def _without_silent(self, dump: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        if info.context == EVERY_KEY:
            return values
        fields = type(self).model_fields
        usual = {key for key in self.silent if getattr(self, key) == fields[key].default}
        return {key: value for key, value in values.items() if key not in usual}


def impossible(key: str, value: object, allowed: str, against: str = "") -> PydanticCustomError:
    """The error of a combination that cannot work: `key` clashes with the key `against`.

    Both are dotted and relative to the model that checks them.
    """
    context = {"key": key, "value": value, "allowed": allowed, "against": against}
    return PydanticCustomError(IMPOSSIBLE, "{key} is {value}; allowed: {allowed}", context)


def refused(error: InputError, key: str) -> PydanticCustomError:
    """An error that says everything already; `key`: the dotted key behind it, from the root of the config."""
    context = {"what": error.what, "value": error.value, "allowed": error.allowed, "key": key}
    return PydanticCustomError(REFUSED, "{what} is {value}; allowed: {allowed}", context)
