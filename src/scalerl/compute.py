"""The compute ledger: device-seconds, FLOPs and tokens, for each role. It is a ledger, not a timer.

Written beside every step and every evaluation by the pipeline; any of its totals can be the x axis of a curve. The
evaluation's own cost is booked apart: it is not part of what the policy was trained with. No torch here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Role = Literal["generation", "training", "evaluation"]
ROLES: tuple[Role, ...] = ("generation", "training", "evaluation")
_LARGEST = 1e300


@dataclass(frozen=True)
class Usage:
    """What was used up. Two of them add up."""

    device_s: float = 0.0
    """Seconds that a device was held, waiting included."""
    flops: float = 0.0
    """Multiplications and additions that the model needs; padding and recomputed activations are not counted."""
    tokens: int = 0
    """Tokens that went through the model: prefilled and sampled ones, or those trained on."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.device_s + other.device_s, self.flops + other.flops, self.tokens + other.tokens)


@dataclass(frozen=True)
class Ledger:
    """Everything a run has used so far."""

    generation: Usage = Usage()
    training: Usage = Usage()
    evaluation: Usage = Usage()

    @property
    def total(self) -> Usage:
        """Generation and training: the compute of the curve."""
        return self.generation + self.training

    def book(self, role: Role, usage: Usage) -> Ledger:
        """The ledger with something more in it."""
        return replace(self, **{role: getattr(self, role) + usage})

    def to_dict(self) -> dict[str, dict[str, float]]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Mapping[str, Any]]) -> Ledger:
        """KeyError, TypeError or ValueError for what is no ledger."""
        return cls(**{role: Usage(**_numbers(values[role])) for role in ROLES})


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that can be added up; a damaged file holds anything."""
    if not isinstance(values, Mapping):  # an empty list would pass for an empty table
        raise TypeError(f"no usage of a role: {str(values)[:40]}")
    for value in values.values():
        if type(value) not in {int, float} or not abs(value) < _LARGEST:
            raise ValueError(f"no number of a ledger: {str(value)[:40]}")
    return dict(values)


@dataclass(frozen=True)
class ForwardCost:
    """FLOPs of a forward pass, from the shape of the policy."""

    active_parameters: int
    """Parameters that multiply a token: no embedding table; of a mixture of experts only those that are chosen."""
    layers: int
    attention_width: int
    """Heads times the width of a head."""

    def flops(self, tokens: int, attended: int) -> float:
        """`attended`: for each token the number of positions it looks at, itself included, summed over tokens."""
        return 2.0 * self.active_parameters * tokens + 4.0 * self.layers * self.attention_width * attended

    def training_flops(self, tokens: int, attended: int, *, frozen: bool = False) -> float:
        """The backward pass costs twice the forward pass: half of it for what went in, half for the weights. `frozen`:
        the weights need none, and the adapters beside them are too small to count."""
        return (2.0 if frozen else 3.0) * self.flops(tokens, attended)


def causal_attended(length: int, start: int = 0) -> int:
    """Positions that the tokens start .. start + length - 1 of one sequence look at, summed."""
    return length * start + length * (length + 1) // 2
