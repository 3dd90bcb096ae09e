"""The files of examples/ray, as far as they go without Slurm and a cloud."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "ray"
STAND_INS = {
    "scontrol": "echo first; echo second",
    "srun": 'while [ "${1#-}" != "$1" ]; do [ "$1" = -w ] && shift; shift; done; exec "$@"',
    "sleep": "",
    "ray": 'printf "%s\\n" "$*" > "ray $2 $RAY_AUTH_MODE ${#RAY_AUTH_TOKEN} $SRUN_CPUS_PER_TASK"',
    "scalerl": 'printf "%s\\n" "$@" > "scalerl $1"',
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_slurm_script_starts_ray_on_all_nodes_and_a_run_that_can_be_resolved(tmp_path: Path) -> None:
    for name, body in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_JOB_NODELIST": "two", "SLURM_NNODES": "2", "SLURM_CPUS_PER_TASK": "64"}
    environment = {**os.environ, **slurm, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    asked = ["--scale", "laptop", "--out", "run", "--generators", "12", "--trainers", "4"]
    words = ["bash", str(EXAMPLES / "slurm.sh"), *asked]
    subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    rays = [file.read_text() for file in tmp_path.glob("ray --* token 64 64")]  # with the same secret of 64 digits
    assert len(rays) == 2
    assert sum("--head" in one for one in rays) == 1
    check, train = ((tmp_path / f"scalerl {name}").read_text().splitlines() for name in ("cluster-check", "train"))
    assert [word for word in check if word.startswith("scale.launcher") and word not in train] == []
    here = train.index("--address")
    words = [sys.executable, "-m", "scalerl", *train[:here], *train[here + 2 :], "--dry-run"]
    done = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "12" in done.stdout


def test_ray_takes_the_cluster_file_and_starts_its_workers() -> None:
    util = pytest.importorskip("ray.autoscaler._private.util")
    yaml = pytest.importorskip("yaml")
    found = util.prepare_config(yaml.safe_load((EXAMPLES / "cluster.yaml").read_text()))
    util.validate_config(found)
    (head,) = [line for line in found["head_start_ray_commands"] if "ray start" in line]
    assert "--autoscaling-config=~/ray_bootstrap_config.yaml" in head  # otherwise nobody starts the others
