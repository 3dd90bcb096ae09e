"""What is asked of a plan: model, devices, batch, lengths, asynchrony; and every number that had to be assumed.

Built by the command line. `rates` turns it into seconds; nothing is simulated here. Everything in `Assumptions` can be
set, and is shown with the result: no GPU was ever measured by us.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from scalerl.config.recipe import Asynchrony
from scalerl.errors import InputError
from scalerl.plan.hardware import Device
from scalerl.plan.lengths import Lengths


@dataclass(frozen=True)
class Assumptions:
    """What a program gets out of a device, and other numbers that nobody measured for this plan."""

    bandwidth_efficiency: float = 0.7
    """Share of the memory bandwidth that decoding reaches."""
    decode_efficiency: float = 0.5
    """Share of the FLOP/s that the matrix products of decoding reach once there are enough rows."""
    prefill_efficiency: float = 0.5
    """Share of the FLOP/s that reading prompts reaches."""
    training_efficiency: float = 0.35
    """Share of the FLOP/s that training reaches: 6 FLOPs for each parameter and token, plus attention. Pretraining of
    Llama 3 405B reached .38 to .43; rollouts of unequal length reach less."""
    link_efficiency: float = 0.5
    """Share of the network that new weights travel at."""
    parallel_efficiency: float = 0.9
    """What is left of the speed of a generator with each doubling of its GPUs."""
    usable_memory: float = 0.9
    """Share of a device's memory that weights and caches may take."""
    step_overhead_s: float = 0.002
    """Of one decode step, whatever is in it: scheduling, launching, sampling."""
    update_s: float = 1.0
    """Of one optimiser step, beside the passes: advantages, AdamW, moving the batch."""
    transfer_latency_s: float = 0.5
    """Of one transfer of weights, beside the bytes."""
    training_bytes: float = 16.0
    """Memory of training for each parameter: weights, gradients, AdamW and its master copy; spread over the GPUs."""
    trained_share: float = 1.0
    """Share of the tokens that are trained on; groups whose answers are all right or all wrong can be left out."""
    evaluation_every: float = 0.0
    """Steps between evaluations during which the trainer waits; 0: none do."""
    evaluation_s: float = 0.0
    """How long one of them takes."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            share = item.name.endswith(("_efficiency", "_share", "_memory"))
            if not (0 < value <= 1 if share else 0 <= value < float("inf")):
                allowed = "above 0, at most 1" if share else "zero or more"
                raise InputError(f"--set {item.name}", value, allowed)


@dataclass(frozen=True)
class Model:
    """The policy as far as its cost goes; see `model_of` for what is not given."""

    parameters: float
    active_parameters: float
    """That multiply one token: of a mixture of experts only the chosen ones."""
    kv_bytes: float
    """Of the keys and values of one token."""
    attention_width: float
    """Layers times heads times the width of a head: what attention multiplies, for each position looked at."""


@dataclass(frozen=True)
class Question:
    """One plan. `generating` and `training` are devices; the split search fills them in."""

    model: Model
    device: Device
    generating: int
    training: int
    prompts: int
    rollouts: int
    lengths: Lengths
    prompt_length: int
    asynchrony: Asynchrony
    rows: int = 256
    """Rollouts that a generator decodes together, if its memory allows."""
    gpus_per_generator: int | None = None
    """None: as few as the weights and some rows fit into."""
    assumptions: Assumptions = field(default_factory=Assumptions)

    @property
    def devices(self) -> int:
        return self.generating + self.training

    def split(self, generating: int, training: int) -> Question:
        return replace(self, generating=generating, training=training)


_EIGHT = 8e9
_EIGHT_KV, _EIGHT_WIDTH = 131_072.0, 131_072.0
"""Llama 3 8B: 32 layers, 8 of 32 heads have keys, 128 wide, two bytes."""


def model_of(
    parameters: float, active: float | None = None, kv_bytes: float | None = None, attention_width: float | None = None
) -> Model:
    """What is not given follows the Llama 3 family: between 8B, 70B and 405B keys and values grow about as the power
    .4 of the parameters, the width that attention multiplies as .72; within a quarter of the three."""
    ratio = (active or parameters) / _EIGHT
    return Model(
        parameters,
        active or parameters,
        _EIGHT_KV * ratio**0.4 if kv_bytes is None else kv_bytes,
        _EIGHT_WIDTH * ratio**0.72 if attention_width is None else attention_width,
    )
