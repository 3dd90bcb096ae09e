"""How results show themselves in a notebook: `_repr_html_` and `.plot()`, for `Series`, `Fit` and `Comparison`.

The classes that inherit this stand at the bottom and must not know the report, which knows them: an import upwards
would let the engine drag in matplotlib. So the report is looked up by name, at the moment somebody asks to see
something, and the engine alone never loads it. Nothing is drawn here.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_NOTEBOOK = "scalerl.report.notebook"


class Displayed:
    """Something that a notebook shows as a table and a chart."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What Jupyter shows for a value at the end of a cell: no script, every text escaped."""
        return str(import_module(_NOTEBOOK).html_of(self))

    def plot(self, path: str | Path | None = None, **options: Any) -> Any:
        """A matplotlib `Figure`; with `path` it is also written there (.png, .svg or .pdf).

        Options: of a series `title`; of a fit `budgets`, `target`, `title`, `scale` ("log" or "linear"); of a
        comparison `fits` (the fits that were compared: draws their curves), `title`.
        """
        return import_module(_NOTEBOOK).plot(self, path, **options)
