"""What happens in a process of the harness: the command line as it stands, after something in it was tampered with.

`obey` is started by `nursery`, in a fork of a process that has imported everything (`preload`). The fork differs from
`python -m scalerl` in how it came into being and in nothing that matters when it is killed: it leads a process group,
its generator is a process of that group which shares no open file with it, and the tracker that removes shared memory
of the dead is its own. Imports neither torch nor scalerl before the order is known.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import forkserver, get_context, process, resource_tracker, shared_memory
from typing import Any

Tampering = tuple[str, Mapping[str, Any]]
"""The name of a function of `tampering`, and its options."""


@dataclass(frozen=True)
class Order:
    """One call of the command line."""

    arguments: tuple[str, ...]
    folder: str
    """Where it is called."""
    output: str
    """Beginning of the names of two files, `.out` and `.err`."""
    token: str
    """In the name of everything that it leaves in shared memory."""
    environment: Mapping[str, str] = field(default_factory=dict)
    tampering: tuple[Tampering, ...] = ()
    in_generator: tuple[Tampering, ...] = ()
    """The same in the process of the generator, where there is one."""


def obey(order: Order) -> None:
    """The whole life of the process; its exit code is that of the command."""
    os.setpgid(0, 0)
    _redirect(order.output)
    os.environ.update(order.environment)
    tempfile.tempdir = None  # it is in the environment
    os.chdir(order.folder)
    _own_shared_memory(order.token)
    _generators_as_forks(order.in_generator)
    ends = [_tampered(name, options) for name, options in order.tampering]
    from scalerl.cli import main

    try:
        code = main(list(order.arguments))
    finally:
        for end in ends:
            end()
    sys.exit(code)


def serve_in_group(group: int, tampering: tuple[Tampering, ...], *arguments: Any) -> None:
    """The generator's whole life, in the group of its trainer, as a spawned process would be."""
    os.setpgid(0, group)
    for name, options in tampering:
        _tampered(name, options)
    from scalerl.pipeline.launch.worker import serve

    serve(*arguments)


def _tampered(name: str, options: Mapping[str, Any]) -> Callable[[], None]:
    from tests.faults import tampering

    tamper: Callable[..., Callable[[], None] | None] = getattr(tampering, name)
    return tamper(**options) or (lambda: None)


def _redirect(output: str) -> None:
    for name, number in ((".out", 1), (".err", 2)):
        file = os.open(output + name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)


def _own_shared_memory(token: str) -> None:
    """Names that tell whose it is, and a tracker of its own: the one that was inherited outlives us."""
    shared_memory._SHM_NAME_PREFIX = f"/f{token}_"  # type: ignore[attr-defined]
    process.current_process()._config["semprefix"] = f"/f{token}"  # type: ignore[attr-defined]
    tracker: Any = resource_tracker._resource_tracker
    if tracker._fd is not None:
        os.close(tracker._fd)
    tracker._fd = tracker._pid = None


def _generators_as_forks(tampering: tuple[Tampering, ...]) -> None:
    """Of the process that we were forked from: nothing is to be imported again, and nothing of ours is inherited."""
    from scalerl.pipeline.launch import process as launch

    forkserver._forkserver.ensure_running = resource_tracker.ensure_running  # type: ignore[method-assign]
    launch.get_context = lambda _: get_context("forkserver")  # type: ignore[assignment,attr-defined]
    launch.serve = partial(serve_in_group, os.getpgrp(), tampering)  # type: ignore[attr-defined]
