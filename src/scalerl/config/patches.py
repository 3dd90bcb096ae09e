"""Many patches of one config: what `load.patch` does, for studies of hundreds of cells.

Used by `scalerl.study.plan`. The base is taken apart once, and parts that two configs share are not looked into: a cell
costs little more than its validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from scalerl.config.layers import nested, overlay
from scalerl.config.load import to_dict
from scalerl.config.refusal import refusal
from scalerl.config.run import RunConfig
from scalerl.config.schema import table_rules
from scalerl.errors import InputError


class Patches:
    """Of one base."""

    def __init__(self, base: RunConfig) -> None:
        self._base = to_dict(base)
        self._tags = table_rules(RunConfig)

    def apply(self, changes: Mapping[str, Any], where: str) -> RunConfig:
        """The base with some dotted keys changed; a changed tag resets its table to the variant's defaults."""
        values = overlay(self._base, nested(changes), self._tags)
        try:
            return RunConfig.model_validate(values)
        except ValidationError as error:
            found = refusal(error, RunConfig, values, {})
            raise InputError(found.what, found.value, found.allowed, where) from None
