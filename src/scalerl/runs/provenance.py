"""Where a run's numbers come from: versions, machine, command line and time of each session.

Called by the run directory when a session begins. Holds no path of the user's home, no key or password, and
of the environment only whether the settings of portable runs were in force.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from scalerl import portable
from scalerl.redaction import command_without_secrets

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
_GIT_TIMEOUT_S = 10.0


def describe_session(command: Sequence[str] | None = None) -> dict[str, Any]:
    """This process, as JSON; `command` defaults to its own command line."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [_without_home(word) for word in command_without_secrets(sys.argv if command is None else command)],
        "scalerl": version_of("scalerl"),
        "commit": commit(),
        "python": platform.python_version(),
        "packages": {package: version_of(package) for package in PACKAGES},
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "portable": portable.in_force(),
    }


def commit() -> str | None:
    """The commit of scalerl itself, with `+changes` if files differ from it; None unless it runs from a checkout."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    head = _git(root, "rev-parse", "HEAD")
    if not head:
        return None
    return f"{head}+changes" if _git(root, "status", "--porcelain", "--untracked-files=no") else head


def _git(root: Path, *arguments: str) -> str | None:
    try:
        command = ["git", "-C", str(root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_TIMEOUT_S)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def version_of(package: str) -> str | None:
    """Of an installed package; None: it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _without_home(text: str) -> str:
    """`/home/ada/runs/a` as `~/runs/a`."""
    home = os.path.expanduser("~")  # noqa: PTH111  Path.home() raises where there is none
    return text if home in {"", "/", "~"} else text.replace(home, "~")
