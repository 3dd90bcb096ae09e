"""An observer that looks away, for runs that nobody watches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scalerl.compute import Ledger
from scalerl.pipeline.types import EvalPoint, StepRecord, StopReason
from scalerl.runs.events import Event


class Silent:
    """Every event, without an effect; a base for observers that need only some of them."""

    def started(self, step: int, ledger: Ledger, points: Sequence[EvalPoint]) -> None: ...

    def generating(self, version: int, num_finished: int, num_wanted: int) -> None: ...

    def stepped(self, record: StepRecord) -> None: ...

    def evaluated(self, point: EvalPoint) -> None: ...

    def saved(self, step: int, folder: Path) -> None: ...

    def noticed(self, event: Event) -> None: ...

    def stopped(self, reason: StopReason, step: int, ledger: Ledger) -> None: ...
