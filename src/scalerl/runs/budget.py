"""How much of the budget is used: steps, FLOPs, tokens or device-hours, read off the ledger.

Asked by the session after each step, by the status of a run, and by whoever shows progress.
"""

from __future__ import annotations

from scalerl.compute import Ledger
from scalerl.config.scale import Budget


def used(budget: Budget, step: int, ledger: Ledger) -> float:
    """In the budget's own unit; evaluation is not counted."""
    total = ledger.total
    amounts = {"steps": step, "flops": total.flops, "tokens": total.tokens, "device_hours": total.device_s / 3600}
    return float(amounts[budget.unit])


def spent(budget: Budget, step: int, ledger: Ledger) -> bool:
    """The run is over: the step that used up the budget was its last."""
    return used(budget, step, ledger) >= budget.amount
