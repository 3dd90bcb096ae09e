"""What every test shares: property tests try the same examples on every machine; some tests need vLLM.

vLLM lives in an environment of its own. Tests marked `vllm` are left out where it is missing, unless SCALERL_VLLM=1 says
that it must be there: `make test-vllm` does, so that a broken environment is not a suite that passes.
"""

import os
from importlib.util import find_spec

import pytest
from hypothesis import settings

settings.register_profile("same-everywhere", derandomize=True, deadline=None)
settings.load_profile("same-everywhere")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "vllm: needs vLLM (make test-vllm)")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("vllm") is None or find_spec("vllm") is not None:
        return
    if os.environ.get("SCALERL_VLLM"):
        pytest.fail("SCALERL_VLLM is set, and there is no vLLM: scripts/install_vllm.sh", pytrace=False)
    pytest.skip("vLLM has an environment of its own: make test-vllm")
