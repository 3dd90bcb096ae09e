"""From a question to seconds: what a decode step, a prompt, a trained token and a transfer of weights take.

Used by the simulation, which knows nothing of FLOPs or bytes. The formulas stand in docs/plan.md. `likeness` builds the
same from a measured run.

    decode step of n rows that look back on S tokens in all:
        step_s + max(weights_s x share of the weights that n rows touch, n x row_s) + S x context_s
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.plan.question import Question

_ROWS_THAT_MUST_FIT = 8


@dataclass(frozen=True)
class Rates:
    """Everything in seconds, of one generator or of all trainers together."""

    step_s: float
    weights_s: float
    row_s: float
    context_s: float
    active_share: float
    """Of the weights, that one token touches: 1 unless the policy is a mixture of experts."""
    prompt_token_s: float
    load_s: float
    """A generator's pause for new weights."""
    trained_token_s: float
    trained_context_s: float
    """For each position that a trained token looks at."""
    update_s: float
    send_s: float
    """How long the trainer is held by a transfer of weights."""
    evaluation_s: float = 0.0
    evaluation_every: int = 0
    trained_share: float = 1.0
    prompts_s: float = 0.0
    """A decode step in which prompts are read takes so much longer, however many they are."""

    def decode_s(self, rows: int) -> float:
        """One decode step without what it looks back on."""
        touched = 1.0 if self.active_share >= 1 else 1.0 - (1.0 - self.active_share) ** rows
        return self.step_s + max(self.weights_s * touched, rows * self.row_s)

    def train_s(self, tokens: float, attended: float) -> float:
        """One step on sequences of so many tokens, prompts included."""
        return self.update_s + self.trained_share * (self.trained_token_s * tokens + self.trained_context_s * attended)

    def evaluation_after(self, step: int) -> float:
        due = self.evaluation_every and step % self.evaluation_every == 0
        return self.evaluation_s if due else 0.0


@dataclass(frozen=True)
class Fleet:
    """How many generators there are and what fits into one of them."""

    generators: int
    gpus_per_generator: int
    rows: int


def fleet_of(question: Question) -> Fleet:
    """`InputError` says what is missing where the policy does not fit."""
    size = generator_size(question)
    rows = _rows_that_fit(question, size)
    if rows < 1:
        raise _too_little(question, size)
    if question.generating < size:
        where = f"{question.model.parameters:.3g} parameters on {question.device.name}"
        raise InputError("GPUs that generate", question.generating, f"at least {size}, one generator", where)
    _check_training(question)
    return Fleet(question.generating // size, size, min(question.rows, rows))


def rates_of(question: Question, fleet: Fleet) -> Rates:
    """The roofline of the device, times the assumed efficiencies."""
    assumed, model, device = question.assumptions, question.model, question.device
    doublings = (fleet.gpus_per_generator - 1).bit_length()
    speed = fleet.gpus_per_generator * assumed.parallel_efficiency**doublings
    bandwidth, flops = (speed * peak for peak in (device.bandwidth * assumed.bandwidth_efficiency, device.flops))
    training = question.training * device.flops * assumed.training_efficiency
    weights = model.parameters * device.parameter_bytes
    transfer_s = assumed.transfer_latency_s + weights / (
        fleet.gpus_per_generator * device.link * assumed.link_efficiency
    )
    return Rates(
        step_s=assumed.step_overhead_s,
        weights_s=weights / bandwidth,
        row_s=2 * model.active_parameters / (flops * assumed.decode_efficiency),
        context_s=model.kv_bytes / bandwidth,
        active_share=model.active_parameters / model.parameters,
        prompt_token_s=2 * model.active_parameters / (flops * assumed.prefill_efficiency),
        load_s=transfer_s,
        trained_token_s=6 * model.active_parameters / training,
        trained_context_s=12 * model.attention_width / training,
        update_s=assumed.update_s,
        send_s=transfer_s,
        evaluation_s=assumed.evaluation_s,
        evaluation_every=int(assumed.evaluation_every),
        trained_share=assumed.trained_share,
    )


def fewest_training(question: Question) -> int:
    """GPUs below which the state of training does not fit."""
    usable = question.device.memory * question.assumptions.usable_memory
    return max(1, -int(-(question.model.parameters * question.assumptions.training_bytes) // usable))


def generator_size(question: Question) -> int:
    """GPUs of one generator: given, or the smallest power of two that some rows fit into beside the weights."""
    if question.gpus_per_generator is not None:
        return question.gpus_per_generator
    size = 1
    while _rows_that_fit(question, size) < _ROWS_THAT_MUST_FIT and size < 1024:
        size *= 2
    return size


def _rows_that_fit(question: Question, size: int) -> int:
    usable = size * question.device.memory * question.assumptions.usable_memory
    free = usable - question.model.parameters * question.device.parameter_bytes
    return int(free / max(1.0, question.model.kv_bytes * _tokens_of_a_row(question)))


def _tokens_of_a_row(question: Question) -> float:
    """Rows in flight are at all stages, and long ones stay longer: on average about a whole response of mean length."""
    return question.prompt_length + question.lengths.mean()


def _check_training(question: Question) -> None:
    needed = fewest_training(question)
    if question.training < needed:
        bytes_needed = question.model.parameters * question.assumptions.training_bytes
        usable = question.device.memory * question.assumptions.usable_memory
        why = f"{bytes_needed / 1e9:,.0f} GB of weights, gradients and AdamW, {usable / 1e9:,.0f} GB usable in each"
        raise InputError("GPUs that train", question.training, f"at least {needed}: {why}", question.device.name)


def _too_little(question: Question, size: int) -> InputError:
    weights = question.model.parameters * question.device.parameter_bytes / 1e9
    usable = size * question.device.memory * question.assumptions.usable_memory / 1e9
    what = f"memory of a generator of {size} x {question.device.name}"
    return InputError(what, f"{usable:,.0f} GB", f"more than {weights:,.0f} GB, the weights, and room for one row")
