"""What every test shares: property tests try the same examples on every machine; some tests need vLLM.

vLLM lives in an environment of its own. Tests marked `vllm` are left out where it is missing, unless SCALERL_VLLM=1
says that it must be there: `make test-vllm` does, so that a broken environment is not a suite that passes.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from scalerl.policy.processor import spare_broken_units

settings.register_profile("same-everywhere", derandomize=True, deadline=None)
settings.load_profile("same-everywhere")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "vllm: needs vLLM (make test-vllm)")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # behind `&`; the commands that tests start would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    spare_broken_units()  # torch is used for other things before the first test in bfloat16; other workers inherit it


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("vllm") is None or find_spec("vllm") is not None:
        return
    if os.environ.get("SCALERL_VLLM"):
        pytest.fail("SCALERL_VLLM is set, and there is no vLLM: scripts/install_vllm.sh", pytrace=False)
    pytest.skip("vLLM has an environment of its own: make test-vllm")


@pytest.fixture(scope="session")
def chat_tokenizer() -> Callable[..., Any]:
    """`chat_tokenizer(template, special=("<think>",))`: a tokenizer as real models have it; ChatML unless told."""
    from .chat_tokenizer import tokenizer_of

    return tokenizer_of


@pytest.fixture
def vllm_processes() -> Iterator[Callable[[], set[int]]]:
    """Those of vLLM that the test has started so far. At its end there must be none."""
    before = _vllm_processes()

    def started() -> set[int]:
        return _vllm_processes() - before

    yield started
    end_s = time.monotonic() + 60.0  # they look after their owner once a second; the rest is for a busy machine
    while left := started():
        assert time.monotonic() < end_s, f"processes of vLLM are left: {left}"
        time.sleep(0.1)


def _vllm_processes() -> set[int]:
    """They carry the name of their owner. What is dead and not yet buried does not count: it has no environment.

    Nor does Python's own tracker of resources, which lives as long as the process that used it first.
    """
    from scalerl.pipeline.engines.vllm.worker import OWNER

    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = f"{OWNER}=".encode() in (folder / "environ").read_bytes()
            if ours and b"resource_tracker" not in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
    return found
