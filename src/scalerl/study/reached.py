"""How far a job has come by whole rungs: jobs/NAME/progress.json, written when the trainer has ended well.

Written by `workers`, read by it and by `status`. It is what makes a study that was killed go on at the rung it was at,
whoever trains. The time is for estimates only; nothing that is decided depends on it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from scalerl.errors import InputError
from scalerl.folder import replace_file

FILE = "progress.json"


@dataclass(frozen=True)
class Reached:
    """What is behind a job."""

    share: float = 0.0
    """Of the budget, trained and recorded."""
    wall_s: float = 0.0
    """Time that it took, starts that were interrupted left out."""
    value: float | None = None
    """The last measurement by then."""


def read_reached(place: Path) -> Reached:
    """Nothing, when there is no such file."""
    file = place / FILE
    try:
        values = json.loads(file.read_bytes())
        return Reached(float(values["share"]), float(values["wall_s"]), values.get("value"))
    except FileNotFoundError:
        return Reached()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"broken file ({error})", allowed="what a study has written", where=str(file)) from None


def write_reached(place: Path, reached: Reached) -> None:
    replace_file(place / FILE, json.dumps(asdict(reached)) + "\n")
