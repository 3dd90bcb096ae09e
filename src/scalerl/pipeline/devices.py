"""The device that a config names, for the trainer, the evaluation and the embedded engine.

vLLM chooses its own. Nothing here was ever run with a GPU.
"""

from __future__ import annotations

import torch

from scalerl.config import RunConfig
from scalerl.errors import InputError


def check_device(run: RunConfig) -> None:
    """In the process that trains: whether it has what it was promised."""
    if run.scale.launcher.device == "cuda" and not torch.cuda.is_available():
        raise InputError("scale.launcher.device", "cuda", "cpu: torch sees no GPU here")


def trainer_device(run: RunConfig, rank: int = 0) -> torch.device:
    """One GPU for each rank; a launcher may show each of its processes only one."""
    if run.scale.launcher.device == "cpu":
        return torch.device("cpu")
    check_device(run)
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def generator_device(run: RunConfig) -> torch.device:
    """Of the embedded engine that writes rollouts: the last GPU of a machine, so that a trainer may have the first."""
    launcher = run.scale.launcher
    if launcher.device == "cpu" or (launcher.kind == "ray" and not launcher.generator_gpus):
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.device_count() - 1)
