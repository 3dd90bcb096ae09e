"""How a process computes while it works on a run: its threads, and for a portable run the same bits everywhere.

Used by the session, and by the commands that make or measure a policy as a run would. What the settings of portable
runs are, and how a process comes to have them, is `scalerl.portable`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.portable import KEY, check_start


@contextmanager
def computing(run: RunConfig) -> Iterator[None]:
    """As the config says, and afterwards as before."""
    threads = torch.get_num_threads()
    with ExitStack() as settings:
        if run.scale.launcher.portable:
            check_portable()
            # torch asks the processor, not oneDNN's own limit, whether oneDNN is to multiply in bfloat16
            (before, *_) = torch.backends.mkldnn.set_flags(False, None, None, None)
            settings.callback(torch.backends.mkldnn.set_flags, before, None, None, None)
        settings.callback(torch.set_num_threads, threads)
        torch.set_num_threads(run.scale.launcher.threads)
        yield


def check_portable() -> None:
    """Whether this process gives the bits of portable runs."""
    check_start()
    if (found := torch.backends.cpu.get_cpu_capability()) != "AVX2":
        raise InputError(KEY, "true", f"false: torch computes with {found} here, the processor lacks AVX2 or FMA")
    if not torch.backends.mkl.is_available():
        raise InputError(KEY, "true", "false: this torch was built without MKL")
