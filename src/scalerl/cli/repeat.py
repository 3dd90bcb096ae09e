"""The command line that would do the same again, for reports that say how they were made.

Used by the commands that write pages. It knows options as text only.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

Value = str | bool | Sequence[str] | None


def command_line(
    command: str, targets: Sequence[str], given: Mapping[str, Value], defaults: Mapping[str, str] | None = None
) -> str:
    """`scalerl report run.csv --budget 100k`: what was given, without what is the default anyway."""
    words = ["scalerl", command, *targets]
    for option, value in given.items():
        if value is None or value is False or value == (defaults or {}).get(option):
            continue
        if value is True:
            words.append(option)
            continue
        for one in [value] if isinstance(value, str) else value:
            words += [option, one]
    return shlex.join(words)
