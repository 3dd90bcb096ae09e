"""The one table of fuzz targets. Both drivers run over it: `test_fuzz` (hypothesis) and `guided` (atheris)."""

from __future__ import annotations

from . import configs, datasets, fitting, readers, recorded, serving, verifiers
from .target import Target

_TABLES = (readers, configs, verifiers, datasets, serving, recorded, fitting)

TARGETS: dict[str, Target] = {target.name: target for table in _TABLES for target in table.TARGETS}
HOMES: dict[str, str] = {target.name: table.__name__ for table in _TABLES for target in table.TARGETS}
"""The module of each, so that a process need not import them all."""
