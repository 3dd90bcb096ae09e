"""Portable runs on several processors: are they the same bits, and what do they cost?

    python benchmarks/portable.py                       # half an hour or more: emulation is 20 to 50 times slower
    python benchmarks/portable.py --only "host;Haswell"  # some of them; the others keep what was measured before

`portable_case.py` is run on this machine as it is, on this machine with the system's libm and numpy told to do without
AVX2 and FMA (what portable runs leave to them must not matter), and on processors that QEMU emulates (`qemu-x86_64` of
Debian's package qemu-user, if it is there). The rows `plain` are the same runs without the settings: they must differ,
or the comparison would show nothing. A processor without AVX2 must refuse. The slowdown is processor time of steps at
the scale `study`, portable by plain, interleaved. results/portable.json keeps it all, with the digests that
tests/pipeline/test_portable.py holds every other machine to.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalerl.portable import ENVIRONMENT

CASE = Path(__file__).with_name("portable_case.py")
RESULTS = Path(__file__).parent / "results" / "portable.json"
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
OTHER_LIBRARIES = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3",
    "OPENBLAS_CORETYPE": "Nehalem",
}
"""libm, numpy and OpenBLAS as on a processor without AVX2 and FMA; the names for libm are of two of its versions."""
WORKS_IN_QEMU = {"NPY_DISABLE_CPU_FEATURES": "X86_V3"}
"""QEMU 7.2 computes something in numpy's AVX2 code wrongly: its `argsort` does not sort."""
EMULATED = ("Haswell", "EPYC", "max", "Skylake-Server")
TOO_OLD = "Nehalem"
FEW, MANY = 4, 24
"""Steps of the two runs whose difference in processor time is that of steps alone."""


def processors() -> dict[str, tuple[list[str], dict[str, str], list[str]]]:
    """Name -> what stands before python, further environment, options of the case."""
    found: dict[str, tuple[list[str], dict[str, str], list[str]]] = {
        "host": ([], {}, []),
        "host, other libm and numpy": ([], OTHER_LIBRARIES, []),
        "host, plain": ([], {}, ["--plain"]),
    }
    if (qemu := shutil.which("qemu-x86_64")) is None:
        print("no qemu-x86_64 here (Debian: apt-get install qemu-user): emulated processors are left out")
        return found
    for model in (*EMULATED, TOO_OLD):
        found[model] = ([qemu, "-cpu", model], WORKS_IN_QEMU, [])
    return found | {"Haswell, plain": ([qemu, "-cpu", "Haswell"], WORKS_IN_QEMU, ["--plain"])}


def measured(before: Sequence[str], environment: Mapping[str, str], options: Sequence[str]) -> dict[str, Any]:
    """What the case printed, or its exit code and last line. The settings are given: QEMU cannot start itself."""
    clean = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    given = {**clean, **THREADS, **environment, **({} if options else ENVIRONMENT)}
    done = subprocess.run(
        [*before, sys.executable, str(CASE), *options], env=given, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found
    said = [line for line in done.stderr.splitlines() if not line.startswith("qemu-x86_64: warning")]
    return {"refused": f"exit code {done.returncode}: {said[-1] if said else 'nothing was said'}"}


def slowdown(rounds: int) -> dict[str, Any]:
    """Processor seconds of a step, portable and plain, and their ratio in each round."""
    with tempfile.TemporaryDirectory() as folder:
        for portable in (True, False):  # the warm start goes into the cache
            _train(Path(folder), portable, 1)
        found = [
            {name: _step_s(Path(folder), portable) for name, portable in (("portable", True), ("plain", False))}
            for _ in range(rounds)
        ]
    return {"cpu_s_per_step": found, "ratios": [round(each["portable"] / each["plain"], 3) for each in found]}


def _step_s(folder: Path, portable: bool) -> float:
    few, many = (_train(folder, portable, steps) for steps in (FEW, MANY))
    return round((many - few) / (MANY - FEW), 4)


def _train(folder: Path, portable: bool, steps: int) -> float:
    """Processor seconds of a whole run."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    words = ["train", "--scale", "study", "--budget", f"{steps} steps", "--out", str(out), "--no-live"]
    words += ["--set", f"scale.launcher.portable={str(portable).lower()}", "--set", "scale.evaluation.every=1000"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    environment = os.environ | THREADS | {"SCALERL_CACHE": str(folder / "cache")}
    subprocess.run([sys.executable, "-m", "scalerl", *words], env=environment, capture_output=True, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def row(name: str, found: Mapping[str, Any]) -> str:
    digests = found.get("digests", {})
    shown = "  ".join(f"{case} {digest[:12]}" for case, digest in digests.items())
    return f"{name:28} {shown or found['refused']}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", help="names of processors, or slowdown, with ; between them; default: all")
    options.add_argument("--rounds", type=int, default=3, help="of the slowdown")
    asked = options.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"processors": {}}
    only = None if asked.only is None else [name.strip() for name in asked.only.split(";")]
    for name, how in processors().items():
        if only is None or name in only:
            kept["processors"][name] = measured(*how)
            print(row(name, kept["processors"][name]), flush=True)
            RESULTS.write_text(json.dumps(kept, indent=2) + "\n")
    if only is None or "slowdown" in only:
        kept["slowdown"] = slowdown(asked.rounds)
        print("slowdown", kept["slowdown"]["ratios"])
        RESULTS.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
