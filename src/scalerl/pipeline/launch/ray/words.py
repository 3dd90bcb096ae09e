"""What Ray has and says, in one line: resources, and why an actor is gone.

Used by `cluster`. Plain text in and out: Ray is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Resources = Mapping[str, float]
"""What Ray calls them: CPU, GPU."""

_HOW_LONG = 120
"""Characters of Ray's reason that fit into one line."""
_DEATHS = {
    "worker process has died": "its process was killed or crashed",
    "node has died": "its node was lost",
    "node was terminated": "its node was lost",
    "was killed by `ray.kill": "it was ended",
    "due to the node running low on memory": "its node ran out of memory",
}
"""What Ray says at length, in short."""
_NEVER_BEGAN = "error raised in its creation task"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def total(bundles: Sequence[Resources]) -> dict[str, float]:
    """Of everything that is needed at all."""
    names = sorted({name for bundle in bundles for name in bundle})
    sums = {name: sum(bundle.get(name, 0) for bundle in bundles) for name in names}
    return {name: amount for name, amount in sums.items() if amount}


def fits(bundle: Resources, into: Resources) -> bool:
    return all(amount <= into.get(name, 0) for name, amount in bundle.items())


def named(resources: Resources, like: Resources | None = None) -> str:
    """`3 CPU, 2 GPU`; `like`: only what is in there."""
    names = resources if like is None else like
    return ", ".join(f"{resources.get(name, 0):g} {name}" for name in names) or "nothing"


def reason_of(error: Exception) -> str:
    """Ray explains at length: in our words where they are known; of what was raised in an actor that could not begin
    the end, which names it; otherwise the first line."""
    text = _COLOURS.sub("", str(error))
    for sign, meaning in _DEATHS.items():
        if sign in text:
            return meaning
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if _NEVER_BEGAN in text:
        return f"it cannot begin there: {_short(lines[-1])}"
    return _short(lines[0])


def _short(line: str) -> str:
    return line if len(line) <= _HOW_LONG else line[: _HOW_LONG - 3] + "..."
