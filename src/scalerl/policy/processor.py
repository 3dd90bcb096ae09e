"""Processors whose matrix units look usable and are not.

Some virtual machines show AMX in the flags of the processor but hide its description (CPUID leaves 1DH and 1EH).
oneDNN, which multiplies bfloat16 matrices for torch, then makes instructions that do not exist, and the process dies of
SIGILL. Nothing can be caught there, so a child tries such a product first; if it dies, oneDNN is told to do without
AMX. It asks once, at its first use, so this has to come before any other work of torch: before a policy is read or
trained. Child processes inherit the answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SETTING = "ONEDNN_MAX_CPU_ISA"
WITHOUT_AMX = "AVX512_CORE_BF16"
FLAGS = Path("/proc/cpuinfo")
TRIAL = (
    "import torch; factor = torch.ones(32, 32, dtype=torch.bfloat16); torch.nn.functional.linear(factor, factor).sum()"
)


def spare_broken_units() -> None:
    """Call it before torch multiplies in bfloat16 on this machine. Takes a second where there are such units."""
    if SETTING not in os.environ and _has_amx() and _dies(TRIAL):
        os.environ[SETTING] = WITHOUT_AMX


def hide_broken_units() -> None:
    """For code that asks torch what there is, as vLLM's attention does: in this process there is no AMX."""
    if os.environ.get(SETTING) == WITHOUT_AMX:
        import torch

        torch.cpu._is_amx_tile_supported = lambda: False


def _has_amx() -> bool:
    try:
        return "amx_tile" in FLAGS.read_text()
    except OSError:  # not Linux
        return False


def _dies(program: str) -> bool:
    """Whether it ends by a signal; what else may go wrong there is not our question."""
    tried = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)  # noqa: S603  # a program of ours
    return tried.returncode < 0
