"""The engine that a config names, checked before time is spent on anything.

Called where generators are put together, and at the start of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from scalerl.config import RunConfig
from scalerl.config.policy import MoeModel, PretrainedModel
from scalerl.config.run import set_key
from scalerl.errors import InputError
from scalerl.pipeline.devices import generator_device
from scalerl.pipeline.engines.embedded import EmbeddedEngine
from scalerl.pipeline.engines.forward import context_of
from scalerl.pipeline.engines.vllm import VllmEngine, VllmOptions, VllmServer
from scalerl.pipeline.engines.vllm.checks import (
    check_heads,
    check_installed,
    check_names,
    check_temperature,
    head_width,
)
from scalerl.pipeline.engines.vllm.known import check_architecture
from scalerl.pipeline.types import Engine, EngineSettings
from scalerl.policy.load import read_policy
from scalerl.policy.pretrained import CONFIG, read_config


def check_engine(run: RunConfig) -> None:
    """Whatever can be said without starting the engine: is it installed, and does it know such a policy."""
    if run.scale.generator.engine != "vllm":
        return
    check_installed()
    _check_gpus(run)
    for key, temperature in _temperatures(run):
        check_temperature(key, temperature)
    model = run.scale.model
    if isinstance(model, MoeModel):
        raise InputError("scale.model.source", model.source, "llama or pretrained: vLLM knows experts by other names")
    if not isinstance(model, PretrainedModel):
        check_heads(model.width // model.heads, gpus=_sees_gpus(run))
    elif (Path(model.name) / CONFIG).is_file():  # a name on a hub is looked at after the download
        check_policy(run, Path(model.name))


def check_policy(run: RunConfig, folder: Path, model: PreTrainedModel | None = None) -> None:
    """The same for a policy that lies in a folder, before step 0: vLLM takes long to say that it cannot. `model`: the
    policy itself, once it has been read."""
    if run.scale.generator.engine != "vllm":
        return
    config = read_config(folder)
    check_architecture(config, str(folder))
    check_heads(head_width(config), gpus=_sees_gpus(run))
    if model is not None:
        check_names(model, folder)


def _temperatures(run: RunConfig) -> Iterator[tuple[str, float]]:
    """At which the generators sample."""
    yield "scale.sampling.temperature", run.scale.sampling.temperature
    evaluation = run.scale.evaluation
    if evaluation.by == "generators":
        yield "scale.evaluation.temperature", evaluation.temperature
        for name in evaluation.downstream:
            yield f"{set_key(name)}.temperature", run.downstream(name).scale.evaluation.temperature


def _check_gpus(run: RunConfig) -> None:
    """On a cluster a generator sees no GPUs but its own."""
    given, needed = run.scale.launcher.generator_gpus, run.scale.generator.vllm.tensor_parallel
    if 0 < given < needed and needed > 1:
        allowed = f"{needed}, as many as scale.generator.vllm.tensor_parallel"
        raise InputError("scale.launcher.generator_gpus", given, allowed)


def _sees_gpus(run: RunConfig) -> bool:
    """Of the generators: on a cluster they may be where GPUs are, though there are none here."""
    return torch.cuda.is_available() or run.scale.launcher.generator_gpus > 0


def read_outline(run: RunConfig, folder: Path) -> PreTrainedModel:
    """The policy in a folder, as far as the engine needs it: vLLM reads the weights itself."""
    if run.scale.generator.engine == "embedded":
        return read_policy(folder, run.scale.model.dtype)
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(read_config(folder), trust_remote_code=False)
    return model


def open_engine(
    run: RunConfig, model: PreTrainedModel, folder: Path | None, settings: EngineSettings, version: int
) -> Engine:
    """`folder`: where the policy lies on disk, with the weights of this version; needed by vLLM only."""
    if run.scale.generator.engine == "embedded":
        return EmbeddedEngine(model, settings, version, generator_device(run))
    assert folder is not None, "vLLM reads the policy from a folder"
    check_heads(head_width(model.config), gpus=torch.cuda.is_available())
    check_names(model, folder)
    server = VllmServer.open(folder, _options(run, settings, context_of(model, settings)))
    return VllmEngine(server, model, settings, version)


def _options(run: RunConfig, settings: EngineSettings, context: int) -> VllmOptions:
    given = run.scale.generator.vllm
    return VllmOptions(
        rows=settings.rows,
        context=context,
        dtype=run.scale.model.dtype,
        fp32_head=settings.fp32_head,
        threads=run.scale.launcher.threads,
        tensor_parallel=given.tensor_parallel,
        gpu_memory_share=given.gpu_memory_share,
        cpu_cache_gb=given.cpu_cache_gb,
        compiled=given.compiled,
    )
