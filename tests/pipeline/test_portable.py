"""Portable runs: the committed bits on this processor, and a process in which they cannot be had."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from scalerl.config import RunConfig, patch
from scalerl.errors import InputError, PortableError
from scalerl.pipeline import computing as module
from scalerl.pipeline.computing import check_portable, computing
from scalerl.pipeline.session import train
from scalerl.policy.load import load_policy
from scalerl.portable import ENVIRONMENT, in_force

MakeRun = Callable[..., RunConfig]
PORTABLE = 'scale.launcher={kind="inline", threads=1, portable=true}'
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
OTHER_LIBRARIES = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3",
    "OPENBLAS_CORETYPE": "Nehalem",
}
"""libm, numpy and OpenBLAS as on a processor without AVX2: nothing in a portable run may depend on them."""


def _reference() -> dict[str, Any]:
    """What the machine of benchmarks/results/portable.json computed; skips where it cannot be computed again."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip(f"portable runs are for Linux on x86_64, this is {sys.platform} on {platform.machine()}")
    if torch.backends.cpu.get_cpu_capability() not in {"AVX2", "AVX512"}:
        pytest.skip("portable runs need a processor with AVX2 and FMA")
    found: dict[str, Any] = json.loads((BENCHMARKS / "results" / "portable.json").read_text())["processors"]["host"]
    return found


def _computed(environment: Mapping[str, str]) -> dict[str, Any]:
    command = [sys.executable, str(BENCHMARKS / "portable_case.py")]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("environment", [{}, OTHER_LIBRARIES], ids=["as it is", "other libm and numpy"])
def test_this_processor_computes_the_committed_bits(environment: dict[str, str]) -> None:
    reference = _reference()
    found = _computed(environment)
    if found["versions"] != reference["versions"]:
        pytest.skip(f"the digests are those of {reference['versions']}, here is {found['versions']}")
    other = [case for case, digest in found["digests"].items() if digest != reference["digests"][case]]
    assert not other, (
        f"the portable runs {', '.join(other)} computed other bits here than on the machine of "
        "benchmarks/results/portable.json, with the same torch: either a change of the code gives other numbers "
        "(then `python benchmarks/portable.py` writes new digests; say so in CHANGELOG.md), or this processor takes "
        "instructions that the settings in scalerl/portable.py do not hold back. `git stash` and run it again to know."
    )


def test_the_settings_are_in_force_where_it_computes() -> None:
    """As MKL itself says, of a product and of a function."""
    _reference()
    program = "import torch; torch.ones(64, 64) @ torch.ones(64, 64); print(torch.backends.cpu.get_cpu_capability())"
    environment = os.environ | ENVIRONMENT | {"MKL_VERBOSE": "1"}
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    products = [line for line in said.stdout.splitlines() if "GEMM" in line]
    assert products
    assert all("CNR:COMPATIBLE" in line for line in products)
    assert said.stdout.splitlines()[-1] == "AVX2"


def test_a_process_without_the_settings_is_refused(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _reference()
    run = make_run(PORTABLE)
    with pytest.raises(PortableError, match=r"started with.* ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=COMPATIBLE ONEDNN_MAX"):
        train(run, tmp_path / "run")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert not in_force()
    with pytest.raises(PortableError, match="must be started with"):  # too late: the libraries have looked already
        train(run, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_where_it_cannot_be_had_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(InputError, match=r"scale.launcher.portable: got 'true'; allowed: false: .*aarch64"):
        check_portable()
    monkeypatch.setattr(module, "check_start", lambda: None)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    with pytest.raises(InputError, match="lacks AVX2 or FMA"):
        check_portable()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    with pytest.raises(InputError, match="without MKL"):
        check_portable()


def test_onednn_is_off_for_as_long_as_a_portable_run_computes(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "check_portable", lambda: None)
    before = torch._C._get_mkldnn_enabled()
    with computing(make_run()):
        assert torch._C._get_mkldnn_enabled() == before
    with computing(make_run(PORTABLE)):
        assert not torch._C._get_mkldnn_enabled()
    assert torch._C._get_mkldnn_enabled() == before


@pytest.mark.parametrize("start", [{"scale.warm_start": {"kind": "none"}}, {"scale.warm_start.steps": 1}])
def test_it_starts_from_a_policy_of_its_own(make_run: MakeRun, tmp_path: Path, start: dict[str, Any]) -> None:
    plain, portable = patch(make_run(), start), patch(make_run(PORTABLE), start)
    folder = load_policy(plain, tmp_path).folder
    assert load_policy(portable, tmp_path).folder != folder
    assert load_policy(plain, tmp_path).folder == folder
