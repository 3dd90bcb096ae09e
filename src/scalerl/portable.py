"""Portable runs: the same bits on every x86-64 Linux machine whose processor has AVX2 and FMA.

torch, MKL and oneDNN choose their instructions by the processor they find; the last digits differ between instructions,
and after some steps other tokens are drawn. Three environment variables make them choose the same everywhere. The
libraries read them when they first compute, so they must be there when a process starts: the command line starts itself
again with them, a study gives them to its trainers, everybody else is told. Used by these, by provenance, and by
`pipeline.computing`, which has the checks that need torch.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import NoReturn

from scalerl.errors import InputError, PortableError

KEY = "scale.launcher.portable"
ENVIRONMENT = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "AVX2"}
"""torch's own kernels; MKL's products and functions, whose other settings do nothing on processors that are not
Intel's; oneDNN."""

_AT_START = Path("/proc/self/environ")


def in_force() -> bool:
    """Whether this process was started with the settings, and still has them for what it starts."""
    found = _at_start()
    return all(found.get(name) == value == os.environ.get(name) for name, value in ENVIRONMENT.items())


def check_start() -> None:
    """Refuse a process in which a portable run would get other bits; before torch is imported, for it takes a while."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise InputError(KEY, "true", f"false: this is {sys.platform} on {platform.machine()}, not Linux on x86_64")
    if not in_force():
        raise PortableError(KEY, " ".join(f"{name}={value}" for name, value in ENVIRONMENT.items()))


def start_again() -> NoReturn:
    """This process from its beginning, with the settings: the same command, files and process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | ENVIRONMENT)  # noqa: S606  # ourselves


def _at_start() -> dict[str, str]:
    """The environment that this process was started with. What was set later comes too late for the libraries."""
    try:
        pairs = _AT_START.read_bytes().decode(errors="replace").split("\0")
    except OSError:  # not Linux, or hidden
        return dict(os.environ)
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
