"""Low-rank adapters (LoRA) in a policy: put in by peft, trained in the place of its weights, and added to them again.

Used by the learner. Everybody else, generators, evaluations and other people's tools, gets the sum of both under the
names of the plain policy. The adapters alone are written in peft's own format beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from scalerl.config.policy import Lora
from scalerl.errors import InputError, MissingDependencyError

ADAPTER = "adapter"
"""The folder of a checkpoint that holds the adapters in peft's format."""
_NAME = "default"
_BASE = ".base_layer"
_PEFT_PREFIX = "base_model.model."


def add_adapters(model: PreTrainedModel, settings: Lora, seed: int) -> None:
    """In place: afterwards only the adapters, in float32, have gradients. The sum is the policy as it was."""
    if find_spec("peft") is None:
        raise MissingDependencyError("peft", "lora")
    from peft import LoraConfig, inject_adapter_in_model

    wanted = list(settings.targets) or "all-linear"
    config = LoraConfig(r=settings.rank, lora_alpha=settings.alpha, target_modules=wanted, task_type="CAUSAL_LM")  # type: ignore[arg-type]  # alpha may be a fraction
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # of patterns that peft itself adds for mixtures of experts
        warnings.filterwarnings("ignore", r"The following (rank|alpha)_pattern keys did not match", RuntimeWarning)
        torch.manual_seed(seed)
        try:
            inject_adapter_in_model(config, model)
        except ValueError as error:
            what = f"scale.lora.targets ({str(error).partition('. ')[0]})"
            raise InputError(what, ", ".join(settings.targets), "names of linear layers of the policy") from None
    for layer in _layers(model).values():
        for part in (layer.lora_A, layer.lora_B):
            part.float()


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """What has gradients."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


@torch.no_grad()
def merged(model: nn.Module) -> dict[str, Tensor]:
    """The plain policy by parameter name: weights with their adapters added, in the type of the weights."""
    layers = {_adapted(name, layer): layer for name, layer in _layers(model).items()}
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            continue
        layer = layers.get(plain := name.replace(_BASE, ""))
        sum_ = parameter if layer is None else parameter + layer.get_delta_weight(_NAME)
        found[plain] = sum_.detach().to(parameter.dtype)
    return found


def write_adapters(model: nn.Module, policy: str, folder: Path) -> None:
    """In peft's format, for `PeftModel.from_pretrained(policy, folder)`; `policy`: the name of the one at step 0."""
    folder.mkdir()
    config: Any = model.peft_config
    config[_NAME].base_model_name_or_path = policy
    config[_NAME].save_pretrained(str(folder))
    tensors = {_PEFT_PREFIX + name.replace(f".{_NAME}.", "."): value for name, value in trained(model).items()}
    save_file(
        {name: value.detach().contiguous() for name, value in tensors.items()}, folder / "adapter_model.safetensors"
    )


def _layers(model: nn.Module) -> dict[str, Any]:
    """Layers with an adapter, by name."""
    return dict(_walk(model))


def _adapted(name: str, layer: Any) -> str:
    """The plain name of the weight that a layer changes. Of experts, which are no layers, it is a named parameter."""
    return f"{name}.{getattr(layer, 'parameter_name', 'weight')}".replace(_BASE, "")


def _walk(model: nn.Module) -> Iterator[tuple[str, Any]]:
    from peft.tuners.lora import LoraLayer

    for name, module in model.named_modules():
        if isinstance(module, LoraLayer):
            yield name, module
