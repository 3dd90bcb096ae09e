"""What a wrong cluster gets: one line, soon, and nothing is left behind."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import RunConfig
from scalerl.errors import InputError, MissingDependencyError
from scalerl.pipeline.launch.ray import check
from scalerl.pipeline.launch.ray import cluster as clusters
from scalerl.pipeline.launch.ray.cluster import Cluster, check_address
from scalerl.pipeline.launch.ray.drive import train_on_ray
from scalerl.pipeline.launch.ray.room import Node
from scalerl.pipeline.launch.ray.trainer import TrainerActor

MakeRun = Callable[..., RunConfig]


def scalerl(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scalerl", *words], capture_output=True, text=True, cwd=folder, check=False, timeout=1200
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--address", "127.0.0.1:1"], "no Ray cluster answers (Connection refused): got '127.0.0.1:1'"),
        (["--address", "ray://127.0.0.1:10001"], "--address: got 'ray://127.0.0.1:10001'; allowed: auto, or HOST:PORT"),
        (["--address", "somewhere"], "--address: got 'somewhere'; allowed: auto, or HOST:PORT"),
        (["--address", "127.0.0.1:99999"], "--address: got '127.0.0.1:99999'; allowed: auto, or HOST:PORT"),
        (["--generators", "0"], "scale.launcher.generators: got 0; allowed: a whole number at least 1"),
        (["--set", "scale.launcher.trainer_gpus=-1"], "scale.launcher.trainer_gpus"),
    ],
)
def test_a_wrong_address_or_number(words: list[str], message: str, tmp_path: Path) -> None:
    done = scalerl("train", "--launcher", "ray", *words, "--out", "run", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_port_where_somebody_else_listens(tmp_path: Path) -> None:
    """Ray would try for a quarter of an hour and print every try."""
    with socket.create_server(("", 0)) as other:  # takes calls and says nothing
        at = f"127.0.0.1:{other.getsockname()[1]}"
        started = time.monotonic()
        done = scalerl("train", "--launcher", "ray", "--address", at, "--out", "run", folder=tmp_path)
        assert time.monotonic() - started < 60
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no Ray cluster answers (what listens there said nothing that Ray knows in 10 s): got '{at}'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_slow_machine_is_not_a_missing_cluster(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time counts from the question on: on busy cores it takes long to be asked."""
    monkeypatch.setattr(clusters, "_ANSWER_S", 5.0)
    monkeypatch.setattr(clusters, "_ASK", f"import time; time.sleep(6)\n{clusters._ASK}")
    check_address(address)


@contextmanager
def head_with_a_token(port: int) -> Iterator[None]:
    program = "from ray.scripts.scripts import main; main()"
    words = ["start", "--head", f"--port={port}", "--num-cpus=1", "--include-dashboard=false", "--block"]
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:  # sockets want a short name
        command = [sys.executable, "-c", program, *words, f"--temp-dir={folder}"]
        head = subprocess.Popen(
            command, env={**os.environ, **secret}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield
        finally:
            head.terminate()  # it ends what it started
            head.wait()


def test_a_cluster_that_wants_a_token(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as free:
        at = f"127.0.0.1:{free.getsockname()[1]}"
    wanted = f"asks for a token and got none or another one: got '{at}'; allowed: RAY_AUTH_MODE=token"
    end_s = time.monotonic() + 120
    with head_with_a_token(int(at.rpartition(":")[2])):
        while True:
            done = scalerl("train", "--launcher", "ray", "--address", at, "--out", "run", folder=tmp_path)
            if wanted in done.stderr or time.monotonic() > end_s:
                break
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert wanted in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--launcher", "local", "--generators", "2"], "generators: got 2; allowed: 1 with local; several need ray"),
        (["--launcher", "local", "--address", "auto"], "--address: got 'auto'; allowed: with --launcher ray only"),
        (["--launcher", "ray", "--patience", "60"], "--patience: got '60'; allowed: with --address only"),
        (["--launcher", "ray", "--address", "auto", "--patience", "-1"], "--patience: got '-1'; allowed: a finite"),
        (["--set", "scale.launcher.generator_gpus=1"], "generator_gpus: got 1.0; allowed: 0 with inline"),
        (["--launcher", "ray", "--set", "scale.launcher.device=cuda"], "trainer_gpus: got 0.0; allowed: above 0"),
        (
            ["--launcher", "ray", "--set", "scale.launcher.trainer_gpus=1"],
            "trainer_gpus: got 1.0; allowed: above 0",
        ),
        (["--set", "scale.launcher.transfer=direct"], "transfer: got 'direct'; allowed: store with inline"),
        (["--launcher", "ray", "--set", "scale.launcher.transfer=nccl"], "got 'nccl'; allowed: store, direct"),
    ],
)
def test_options_of_ray_without_ray(words: list[str], message: str, tmp_path: Path) -> None:
    done = scalerl("train", *words, "--out", "run", folder=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_no_cluster_to_be_found(make_run: MakeRun, tmp_path: Path, heard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # where a running one would be written down
    run = make_run('scale.launcher.kind="ray"')

    def refuse(**_: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(InputError, match=r"no Ray cluster was found: got 'auto'; allowed: a cluster that runs"):
        train_on_ray(run, tmp_path / "run", watcher=heard(), address="auto")
    assert not (tmp_path / "run").exists()


def test_another_version_of_ray(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.1.0\n    Python: 3.11.0\n")

    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(
        InputError, match=r"of the cluster differ from those here .*Ray: 2\.1\.0.*; allowed: the same versions"
    ):
        Cluster.connect(address, [])


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'scalerl\[ray\]'"):
        check_address(None)


def free_are(cluster: Cluster, cpus: float) -> None:
    """Ray hears of what its nodes have free a little later."""
    end_s = time.monotonic() + 60
    while cluster.free().get("CPU", 0.0) != cpus:
        assert time.monotonic() < end_s, cluster.free()
        time.sleep(0.1)


def test_what_is_missing_is_named(
    make_run: MakeRun, tmp_path: Path, address: str, heard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = 'scale.launcher.kind="ray"'
    many = make_run(ray, "scale.launcher.generators=9", "scale.launcher.generator_gpus=1")
    with pytest.raises(
        InputError,
        match=r"the cluster is 6 CPU, 9 GPU short of 10 actors, which need 10 CPU, 9 GPU.*it has, 4 CPU, 0 GPU",
    ):
        train_on_ray(many, tmp_path / "run", watcher=heard(), address=address)
    monkeypatch.setattr(clusters, "FREE_S", 1.5)
    wide = make_run(ray, "scale.launcher.threads=3", "scale.launcher.generators=1")
    held = Cluster.connect(address, [])
    try:
        held.place([{"CPU": 3.0}], print)
        free_are(held, 1.0)
        told: list[str] = []
        with pytest.raises(
            InputError,
            match=r"no room in the cluster for 2 actors \(2 CPU in all\) within 1.5 s, 1 CPU missing.*free: 1 CPU "
            r"\(.* has 1 of 4 CPU free\); --patience waits longer",
        ):
            Cluster().place([{"CPU": 1.0}] * 2, told.append)
        assert told == ["waiting up to 1.5 s for 1 CPU more: needed are 2 CPU, free are 1 CPU"]
        with pytest.raises(InputError, match=r"no room in the cluster for 2 actors \(2 CPU in all\).*free: 1 CPU"):
            Cluster().place([{"CPU": 1.0}] * 2, print, patience_s=0.5)
    finally:
        held.close()
    with pytest.raises(InputError, match="2 CPU short of 2 actors, which need 6 CPU"):
        train_on_ray(wide, tmp_path / "run", watcher=heard(), address=address)
    assert not (tmp_path / "run").exists()


def test_a_policy_that_cannot_be_read_is_said_as_it_is(
    make_run: MakeRun, tmp_path: Path, address: str, heard: Any, gone: Any
) -> None:
    """The error of the session, from the actor."""
    run = make_run('scale.launcher.kind="ray"', "scale.tokens.prompt=2")
    with pytest.raises(InputError, match=r"tokens of a prompt: got 4; allowed: at most scale\.tokens\.prompt, 2"):
        train_on_ray(run, tmp_path / "run", watcher=heard(), cache=tmp_path / "cache", address=address)
    assert gone("TrainerActor")


class Broken(TrainerActor):
    """An actor of which its node does not have everything."""

    def __init__(self, *_: object) -> None:
        raise ImportError("no such package here")


def test_a_node_that_cannot_run_the_trainer_is_said_at_once(
    make_run: MakeRun, tmp_path: Path, address: str, heard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not a death: another try would end in the same way."""
    monkeypatch.setattr("scalerl.pipeline.launch.ray.drive.TrainerActor", Broken)
    watcher = heard()
    with pytest.raises(
        InputError, match=r"the trainer's actor \(it cannot begin there: .*Error: .*\); allowed: the same"
    ):
        train_on_ray(make_run('scale.launcher.kind="ray"'), tmp_path / "run", watcher=watcher, address=address)
    assert watcher.notices == []


def test_a_node_is_too_small_for_one_actor(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said at once: nobody would ever free it."""
    held = Cluster.connect(address, [])
    halves = [Node(name, name, {"CPU": 2.0}) for name in ("one", "two")]
    monkeypatch.setattr(Cluster, "nodes", lambda _: halves)
    try:
        with pytest.raises(InputError, match=r"no node is large enough for an actor with 3 CPU; .* has: 2 CPU; 2 CPU"):
            held.place([{"CPU": 3.0}], print)
    finally:
        held.close()


def test_what_can_never_be_placed_is_refused_within_seconds(
    make_run: MakeRun, tmp_path: Path, address: str, heard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is enough in all, and no node lacks anything for one actor; but two do not fit into four CPUs."""
    run = make_run('scale.launcher.kind="ray"', "scale.launcher.threads=2", "scale.launcher.generators=2")
    halves = [Node(name, name, {"CPU": 3.0}) for name in ("one", "two")]
    monkeypatch.setattr(Cluster, "nodes", lambda _: halves)
    monkeypatch.setattr(clusters, "FREE_S", 600.0)
    started = time.monotonic()
    with pytest.raises(InputError, match=r"places for 2 of 3 actors \(3 with 2 CPU\).* nodes of 3 CPU; 3 CPU"):
        train_on_ray(run, tmp_path / "run", watcher=heard(), address=address)
    assert time.monotonic() - started < 60  # nobody was waited for
    assert not (tmp_path / "run").exists()


def test_patience_is_for_nodes_that_join(address: str) -> None:
    """Without it, what no node has is refused at once; with it, one waits."""
    asking = Cluster.connect(address, [])
    waited: list[str] = []
    try:
        free_are(asking, 4.0)
        started = time.monotonic()
        with pytest.raises(InputError, match=r"the cluster is 5 CPU short"):
            asking.place([{"CPU": 3.0}] * 3, waited.append, patience_s=3.0)
        assert time.monotonic() - started >= 3.0
        assert waited == ["waiting up to 3 s for 5 CPU more: needed are 9 CPU, free are 4 CPU"]
    finally:
        asking.close()


def test_a_node_joins_while_one_waits() -> None:
    from ray.cluster_utils import Cluster as Several

    several = Several(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        asking = Cluster.connect(several.address, [])
        try:
            asking.place([{"CPU": 1.0}] * 2, lambda _: several.add_node(num_cpus=1) and None, patience_s=60.0)
        finally:
            asking.close()
    finally:
        several.shutdown()  # type: ignore[no-untyped-call]


def test_cluster_check_looks_at_vllm_first(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        assert name == "vllm"
        return "0.31.0"

    monkeypatch.setattr("scalerl.pipeline.engines.vllm.checks.version", version)
    findings: list[check.Finding] = []
    run = make_run('scale.launcher.kind="ray"', "scale.generator.engine=vllm")
    assert not check.check_cluster(run, None, findings.append)
    (only,) = findings
    assert (only.name, only.ok) == ("engine", False)
    assert "version of vLLM: got '0.31.0'; allowed: 0.32.0" in only.text


def test_cluster_check_compares_vllm_where_it_generates(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    there = {**check.installed(), "vllm": "0.31.0"}
    monkeypatch.setattr(cluster, "ask_every_node", lambda *_: {"10.0.0.7": there})
    ray = 'scale.launcher.kind="ray"'
    assert check._versions(cluster, make_run(ray)).ok
    found = check._versions(cluster, make_run(ray, "scale.generator.engine=vllm"))
    assert not found.ok
    assert found.text.startswith("10.0.0.7 has vllm 0.31.0, here ")


def test_cluster_check(address: str, tmp_path: Path, gone: Any) -> None:
    done = scalerl("cluster-check", "--address", address, "--generators", "2", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] is True
    assert [finding["name"] for finding in document["findings"]] == ["cluster", "versions", "places", "smoke run"]
    assert "2 steps with 1 trainer(s) and 2 generator(s)" in document["findings"][-1]["text"]
    assert not list(tmp_path.iterdir())
    gpu = ("--set", "scale.launcher.trainer_gpus=1", "--set", "scale.launcher.device=cuda")
    done = scalerl("cluster-check", "--address", address, *gpu, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "The cluster is not ready.\n")
    assert "FAILED  cluster: the cluster is 1 GPU short" in done.stderr
    started = time.monotonic()
    done = scalerl("cluster-check", "--address", address, *gpu, "--patience", "20", folder=tmp_path)
    assert (done.returncode, time.monotonic() - started > 20) == (1, True)
    assert "note: waiting up to 20 s for 1 GPU more" in done.stderr
    for name in ("TrainerActor", "PolicyGenerator", "Probe"):
        assert gone(name)
