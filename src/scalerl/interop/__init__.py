"""Our recipes in other trainers' words: the nearest config of TRL and verl, and what they cannot express.

    from scalerl.interop import export
    exported = export("trl", run)       # .text is the file, .axes what became of each axis of the recipe

Called by `scalerl export-config`. Reads a config, and imports neither trainer.
"""

from __future__ import annotations

from scalerl.config import RunConfig
from scalerl.interop.exported import Axis, Exported, Fidelity, Target
from scalerl.interop.trl import export_trl
from scalerl.interop.verl import export_verl

__all__ = ["TARGETS", "Axis", "Exported", "Fidelity", "Target", "export"]

TARGETS: tuple[Target, ...] = ("trl", "verl")


def export(target: Target, run: RunConfig) -> Exported:
    """The nearest config of a trainer."""
    return export_trl(run) if target == "trl" else export_verl(run)
