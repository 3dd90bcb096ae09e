"""The presets that come with the package: recipes (the algorithm), scales (sizes, task, machine), studies, suites (sets
to evaluate on); as TOML.

Read by `scalerl.config`, listed by the command line. Only text goes out of here; what the keys mean is config's job.
Every line of a recipe, scale or suite says where its value comes from: `# paper:`, `# inferred:` or `# ours:`,
in a suite `# dataset:`, `# literature:` or `# ours:`.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

from scalerl.errors import InputError

Kind = Literal["recipe", "scale", "study", "suite"]


def names(kind: Kind) -> list[str]:
    """The presets of a kind, sorted."""
    return sorted(entry.name.removesuffix(".toml") for entry in _folder(kind).iterdir() if entry.name.endswith(".toml"))


def read(kind: Kind, name: str) -> str:
    """The text of a preset."""
    known = names(kind)
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        allowed = f"{', '.join(known)}, or a file ending in .toml"
        raise InputError(f"unknown {kind} preset{hint}", name, allowed)
    return (_folder(kind) / f"{name}.toml").read_text(encoding="utf-8")


def _folder(kind: Kind) -> Traversable:
    return files(__name__) / ("studies" if kind == "study" else f"{kind}s")
