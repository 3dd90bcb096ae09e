"""The scale: policy (`policy`), task (`task`), sizes, optimiser and machine, and nothing about the algorithm.

A named scale is a TOML file of these values (`scalerl/presets/scales`). Any recipe runs at any scale. Read by the tasks
and the pipeline; holds no defaults that a preset should state.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, Strict, model_validator

from scalerl.config.base import Count, Fraction, Frozen, NonNegative, Positive, Share, impossible
from scalerl.config.chat import Chat
from scalerl.config.downstream import DownstreamSet
from scalerl.config.guards import Guards
from scalerl.config.policy import Lora, Model, WarmStart
from scalerl.config.task import Mixture, Task


class Batch(Frozen):
    """One optimiser step."""

    prompts: Count
    """Groups in a batch."""
    rollouts: Annotated[int, Field(ge=2)]
    """Rollouts of each prompt. With one there is no group mean to learn against: every advantage would be zero."""


class Tokens(Frozen):
    """Token budgets of one problem; their sum is the context length."""

    prompt: Count
    """A longer prompt is an error."""
    thinking: Count
    """Budget up to the end of thinking; the length control of the recipe is a share of it."""
    answer: Count
    """Budget after it. An injected interruption phrase counts here."""
    interruption_phrase: str = ""
    """Replaces the recipe's phrase where the vocabulary cannot write it; empty keeps the recipe's."""

    @property
    def response(self) -> int:
        """Thinking and answer: the longest rollout."""
        return self.thinking + self.answer

    @property
    def context(self) -> int:
        """Prompt and response: the longest sequence."""
        return self.prompt + self.response


class Optimiser(Frozen):
    """AdamW with a constant learning rate after a linear warm-up."""

    learning_rate: Positive
    """Constant after the warm-up."""
    betas: Annotated[tuple[Fraction, Fraction], Strict(False)]
    """Adam's decay rates. Not stated in the paper."""
    eps: Positive = 1e-15
    """Adam's epsilon. So small a value leaves nothing to damp a learning rate that is too high."""
    weight_decay: NonNegative = 0.01
    """Decoupled weight decay."""
    warmup_steps: Annotated[int, Field(ge=0)]
    """Steps over which the learning rate rises from zero."""
    grad_clip: Positive
    """Largest norm of the gradient; a huge value turns clipping off. Not stated in the paper."""


class Sampling(Frozen):
    """How rollouts for training are sampled. Always from the full distribution, as the ratio assumes."""

    temperature: Positive
    """Logits are divided by this, in the generator and in the trainer alike. Not stated in the paper."""


class Evaluation(Frozen):
    """Pass rate on fixed held-out problems, at step 0 and then regularly."""

    silent: ClassVar = frozenset({"downstream", "by"})

    every: Count
    """Steps between evaluations."""
    problems: Count
    """Held-out problems, disjoint from training."""
    samples: Count
    """Answers for each problem: the pass rate is mean@samples."""
    temperature: Positive
    """Sampling temperature of an evaluation. Not stated in the paper."""
    downstream: dict[str, DownstreamSet] = Field(default={})
    """Sets from another distribution, by name, measured beside the held-out problems; empty: none."""
    by: Literal["trainer", "generators"] = "trainer"
    """Who writes the answers: an embedded engine on the trainer's device, the same whichever engine generates; or all
    generators with their engine, beside their other work (`local` and `ray`). The trainer waits either way."""

    @model_validator(mode="after")
    def _names_can_be_keys(self) -> Self:
        for name in self.downstream:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise impossible("downstream", name, "names of letters, digits, - and _")
        return self


class Budget(Frozen):
    """When the run ends."""

    unit: Literal["steps", "flops", "tokens", "device_hours"]
    """What is counted."""
    amount: Positive
    """How much of it."""

    @model_validator(mode="after")
    def _whole_steps(self) -> Self:
        if self.unit == "steps" and not self.amount.is_integer():
            raise impossible("amount", self.amount, "a whole number of steps", "unit")
        return self


class Trainer(Frozen):
    """How a batch goes through memory; none of it changes the result, except mixed precision."""

    micro_batch_tokens: Count
    """Tokens, padding included, that go through the model at once; a batch is split to fit."""
    mixed_precision: bool
    """Run the model under bfloat16 autocast, with weights and optimiser in their own dtype."""
    gradient_checkpointing: bool
    """Recompute activations in the backward pass: less memory, about a third more work."""


class Vllm(Frozen):
    """How vLLM is started. The context follows from `tokens`, the rows from `generator.rows`."""

    tensor_parallel: Count = 1
    """GPUs, or CPU processes, that one copy of the policy is spread over."""
    gpu_memory_share: Share = 0.9
    """Share of a GPU's memory that vLLM takes."""
    cpu_cache_gb: Positive = 1.0
    """On a CPU: memory of its keys and values."""
    compiled: bool = False
    """Compile the policy, and capture CUDA graphs: starts minutes later, and is faster on GPUs."""


class Generator(Frozen):
    """The engine that writes rollouts."""

    silent: ClassVar = frozenset({"engine", "vllm"})

    rows: Count
    """Rollouts that are decoded together; a finished row is refilled at once."""
    engine: Literal["embedded", "vllm"] = "embedded"
    """Our own, in the generator's process; or vLLM, in processes of its own."""
    vllm: Vllm = Vllm()
    """Only for vLLM."""


class Launcher(Frozen):
    """Which processes there are."""

    silent: ClassVar = frozenset(
        {"trainers", "generators", "trainer_gpus", "generator_gpus", "device", "transfer", "portable"}
    )

    kind: Literal["inline", "local", "ray"]
    """One process in virtual time, the same under any load; a generator and a trainer process; or actors of a Ray
    cluster."""
    threads: Count
    """Threads of each process."""
    decode_slowdown: Positive = 3.0
    """`inline` only: virtual time of a FLOP of decoding, in FLOPs of training. It decides how far the generator runs
    ahead. 3 makes a sampled and a trained token cost the same, which is about what small models do on a CPU."""
    trainers: Count = 1
    """Processes that train the policy together, its parameters and optimiser spread over them (FSDP2). A run may go on
    with another number of them."""
    generators: Count = 1
    """`ray` only: actors that write rollouts, each with a copy of the policy. A run may go on with another number."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where policies are trained and evaluated, and where the embedded engine writes (on `ray` only if it has
    `generator_gpus`). GPUs were never tried. vLLM takes what it was built for."""
    trainer_gpus: NonNegative = 0.0
    """`ray` only: GPUs of each trainer; with `device` cuda one, or as many as a rank may see."""
    generator_gpus: NonNegative = 0.0
    """`ray` only: GPUs of each generator; with vLLM as many as `generator.vllm.tensor_parallel`."""
    transfer: Literal["store", "direct"] = "store"
    """`ray` only: new weights through Ray's object store, or straight from the trainer's process to the generators':
    NCCL where both have GPUs (never tried: there were none), gloo otherwise."""
    portable: bool = False
    """`inline` only: the same bits on every x86-64 Linux machine with AVX2 and FMA, not only on the same kind of
    processor. Slower; see docs/train.md."""

    @model_validator(mode="after")
    def _processes_fit_the_kind(self) -> Self:
        if self.kind == "inline" and self.trainers > 1:
            raise impossible("trainers", self.trainers, "1, because inline is one process", "kind")
        if self.kind != "ray" and self.generators > 1:
            raise impossible("generators", self.generators, f"1 with {self.kind}; several need ray", "kind")
        for key in ("trainer_gpus", "generator_gpus"):
            if self.kind != "ray" and getattr(self, key):
                raise impossible(key, getattr(self, key), f"0 with {self.kind}, which takes the GPUs it sees", "kind")
        if self.kind == "ray" and (self.device == "cuda") != (self.trainer_gpus > 0):
            allowed = "above 0 with device cuda, 0 with cpu"
            raise impossible("trainer_gpus", self.trainer_gpus, allowed, "device")
        if self.kind != "ray" and self.transfer != "store":
            raise impossible("transfer", self.transfer, f"store with {self.kind}; direct needs ray", "kind")
        return self

    @model_validator(mode="after")
    def _bits_can_be_the_same(self) -> Self:
        for key, needed in {"kind": "inline", "threads": 1, "device": "cpu"}.items():
            if self.portable and getattr(self, key) != needed:
                allowed = f"false with {key} {getattr(self, key)}; a portable run has {key} {needed}"
                raise impossible("portable", self.portable, allowed, key)
        return self


class ScaleConfig(Frozen):
    """A whole scale."""

    silent: ClassVar = frozenset({"chat", "guards", "lora"})

    model: Annotated[Model, Field(discriminator="source")]
    """The policy."""
    warm_start: Annotated[WarmStart, Field(discriminator="kind")]
    """How the policy is prepared before step 0."""
    lora: Lora = Lora()
    """Train low-rank adapters in the place of the whole policy."""
    chat: Chat = Chat()
    """From problem to prompt, and from response to answer."""
    task: Annotated[Task, Field(discriminator="kind")]
    """Which problems are solved."""
    batch: Batch
    """Prompts and rollouts of one step."""
    tokens: Tokens
    """Token budgets."""
    optimiser: Optimiser
    """AdamW."""
    sampling: Sampling
    """How rollouts are sampled."""
    evaluation: Evaluation
    """What becomes a point of the curve."""
    budget: Budget
    """When the run ends."""
    checkpoint_every: Count
    """Steps between checkpoints."""
    trainer: Trainer
    """How a batch goes through memory."""
    generator: Generator
    """The engine that writes rollouts."""
    launcher: Launcher
    """Which processes there are."""
    guards: Guards = Guards()
    """When a run is in trouble, and what is done about it."""

    @property
    def context(self) -> int:
        """The longest sequence of training and evaluation: what the policy must have room for."""
        return max([self.tokens.context, *(self.set_tokens(name).context for name in self.evaluation.downstream)])

    def set_tokens(self, name: str) -> Tokens:
        """The token budgets of a downstream set."""
        own = self.evaluation.downstream[name].tokens.model_dump()
        return self.tokens.model_copy(update={key: value for key, value in own.items() if value})

    @property
    def task_settings(self) -> dict[str, Any]:
        """What `scalerl.tasks.build_task` takes."""
        wanted = self.evaluation.problems  # 0 for a whole file: all of it
        return self.task.settings | ({"held_out_problems": wanted} if wanted else {})

    @model_validator(mode="after")
    def _one_sequence_fits(self) -> Self:
        given, needed = self.trainer.micro_batch_tokens, self.tokens.context
        if given < needed:
            allowed = f"at least one whole sequence (tokens.prompt + thinking + answer), {needed}"
            raise impossible("trainer.micro_batch_tokens", given, allowed, "tokens")
        return self

    @model_validator(mode="after")
    def _engine_fits(self) -> Self:
        if self.generator.engine == "vllm" and self.launcher.kind == "inline":
            allowed = "local or ray, because vLLM knows no virtual time"
            raise impossible("launcher.kind", "inline", allowed, "generator.engine")
        if self.generator.engine == "embedded" and self.generator.vllm != Vllm():
            allowed = "vllm, because options of vLLM are given"
            raise impossible("generator.engine", "embedded", allowed, "generator.vllm")
        return self

    @model_validator(mode="after")
    def _somebody_measures(self) -> Self:
        if self.evaluation.by == "generators" and self.launcher.kind == "inline":
            allowed = "trainer with inline, whose generator is part of its process"
            raise impossible("evaluation.by", "generators", allowed, "launcher.kind")
        return self

    @model_validator(mode="after")
    def _adapters_fit(self) -> Self:
        if self.lora.rank and self.launcher.trainers > 1:
            allowed = "1, because adapters are not spread over processes"
            raise impossible("launcher.trainers", self.launcher.trainers, allowed, "lora.rank")
        return self

    @model_validator(mode="after")
    def _traces_exist(self) -> Self:
        parts = [part.task for part in self.task.parts.values()] if isinstance(self.task, Mixture) else [self.task]
        for task in parts:
            if self.warm_start.kind == "sft" and task.kind not in {"chained_sums", "countdown"}:
                allowed = f"none, because the task {task.kind} brings no solution traces"
                raise impossible("warm_start.kind", "sft", allowed, "task.kind")
        return self
