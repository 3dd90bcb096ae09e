"""The compute ledger read back from a file, which may be damaged."""

from __future__ import annotations

from typing import Any

import pytest

from scalerl.compute import Ledger, Usage

USED = {"device_s": 1.5, "flops": 1e9, "tokens": 10}


def test_there_and_back() -> None:
    ledger = Ledger(Usage(1.5, 1e9, 10), Usage(2.5, 2e9, 20), Usage(3.5, 3e9, 30))
    assert Ledger.from_dict(ledger.to_dict()) == ledger


@pytest.mark.parametrize(
    "odd", [1.0, [1], [], {"flops": "many"}, {"flops": None}, {"flops": 10**400}, {"flops": True}, {"other": 1.0}]
)
def test_what_is_no_ledger_is_refused_before_anything_is_added_up(odd: Any) -> None:
    part = USED | odd if isinstance(odd, dict) else odd
    with pytest.raises((KeyError, TypeError, ValueError)):
        Ledger.from_dict({"generation": part, "training": USED, "evaluation": USED})
