"""`scalerl train` with vLLM that cannot be used: one line before anything is trained, and no process is left."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError
from pathlib import Path

import pytest
from transformers import LlamaConfig

from scalerl.errors import InputError
from scalerl.pipeline.engines.vllm import known
from scalerl.policy import build_tiny_llama
from scalerl.policy.pretrained import read_config

from .conftest import Run
from .tiny import tiny_options

VLLM = ("--launcher", "local", "--set", "scale.generator.engine=vllm", "--budget", "2", "--out", "new")
MODEL = 'scale.model={source="llama", layers=1, width=64, heads=%d, feed_forward=32}'
PRETRAINED = 'scale.model={source="pretrained", name="./policy", dtype="float32"}'


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALERL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`install("0.31.0")`: as if this version of vLLM were there; None: as if it were not."""

    def pretend(found: str | None) -> None:
        def version(name: str) -> str:
            if found is None or name != "vllm":
                raise PackageNotFoundError(name)
            return found

        monkeypatch.setattr("scalerl.pipeline.engines.vllm.checks.version", version)

    return pretend


@pytest.mark.parametrize(
    ("found", "heads", "words"),
    [
        (None, 2, ["'vllm'", "pip install 'scalerl[vllm]'", "on a CPU: scripts/install_vllm.sh"]),
        ("0.31.0", 2, ["version of vLLM", "'0.31.0'", "allowed: 0.32.0"]),
        ("0.32.1+cu130", 2, ["version of vLLM", "'0.32.1+cu130'", "allowed: 0.32.0"]),
        ("0.32.0", 4, ["width of an attention head", "16", "for vLLM on a CPU one of 32, 64"]),
    ],
)
def test_refused_before_anything_is_made(
    found: str | None, heads: int, words: list[str], install: Callable[..., None], run: Run
) -> None:
    install(found)
    ran = run("train", *tiny_options(MODEL % heads), *VLLM)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("scalerl: error: ")
    assert ran.err.count("\n") == 1
    assert not [word for word in words if word not in ran.err]
    assert not Path("new").exists()


def test_a_launcher_that_vllm_cannot_have(install: Callable[..., None], run: Run) -> None:
    install("0.32.0")
    ran = run("train", *tiny_options(MODEL % 2), *VLLM, "--launcher", "inline")
    assert ran.code == 2
    assert "launcher.kind: got 'inline'; allowed: local" in ran.err
    assert not Path("new").exists()


def policy_of(architecture: str) -> None:
    """In ./policy. transformers goes by another key of the file, and reads it as what it is."""
    folder = build_tiny_llama(Path("policy"), width=64, layers=1, heads=2, feed_forward=32, context=64)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": [architecture]}))


@pytest.mark.parametrize("launcher", ["local", "ray"])
@pytest.mark.parametrize(
    "architecture",
    ["NobodyKnowsForCausalLM", "GPTNeoForCausalLM"],  # transformers has the second one, but vLLM cannot wrap it
)
def test_an_architecture_that_vllm_does_not_know(
    architecture: str, launcher: str, install: Callable[..., None], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As said by vLLM's own list, before anything is made or started."""
    install("0.32.0")
    monkeypatch.setattr(known, "known_architectures", lambda: frozenset({"LlamaForCausalLM"}))
    policy_of(architecture)
    ran = run("train", *tiny_options(PRETRAINED), *VLLM, "--launcher", launcher)
    assert (ran.code, ran.out) == (2, "")
    assert "policy: architecture of the policy: got '" + architecture in ran.err
    assert "allowed: one that vLLM 0.32.0 knows, or generator.engine=embedded" in ran.err
    assert ran.err.count("\n") == 1
    assert not Path("new").exists()


def test_a_policy_from_a_hub_is_looked_at_before_step_0(
    install: Callable[..., None], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the download, but before there is a run directory or a process."""
    install("0.32.0")
    monkeypatch.setattr(known, "known_architectures", lambda: frozenset({"LlamaForCausalLM"}))
    monkeypatch.setattr("scalerl.policy.load.resolve", lambda _: Path("policy"))
    policy_of("NobodyKnowsForCausalLM")
    ran = run("train", *tiny_options(PRETRAINED.replace("./policy", "somebody/policy")), *VLLM)
    assert (ran.code, ran.out) == (2, "")
    assert "got 'NobodyKnowsForCausalLM'; allowed: one that vLLM 0.32.0 knows" in ran.err
    assert not Path("new").exists()


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "ArceeForCausalLM"])
def test_an_architecture_that_vllm_may_know_is_left_to_it(
    architecture: str, install: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its list, or one of transformers that vLLM wraps; and any where there are plugins, or no list."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(known, "known_architectures", lambda: frozenset({"LlamaForCausalLM"}))
    policy_of(architecture)
    known.check_architecture(read_config(Path("policy")), "policy")
    unknown = LlamaConfig(architectures=["NobodyKnowsForCausalLM"])
    with pytest.raises(InputError, match="architecture of the policy"):
        known.check_architecture(unknown, "policy")
    with monkeypatch.context() as patched:
        patched.setattr(known, "entry_points", lambda group: [EntryPoint("more", "somebody:register", group)])
        known.check_architecture(unknown, "policy")
    monkeypatch.setattr(known, "known_architectures", lambda: None)
    known.check_architecture(unknown, "policy")


@pytest.mark.vllm
def test_the_list_is_that_of_vllm() -> None:
    registry = import_module("vllm").ModelRegistry
    assert known.known_architectures() == frozenset(registry.get_supported_archs())


@pytest.mark.vllm
def test_a_policy_that_vllm_cannot_load(run: Run, vllm_processes: Callable[[], set[int]]) -> None:
    """Found within seconds, by the list of the vLLM that is there."""
    policy_of("NobodyKnowsForCausalLM")
    started = time.monotonic()
    ran = run("train", *tiny_options(PRETRAINED), *VLLM)
    assert time.monotonic() - started < 30  # vLLM alone takes as long to start, and the policy is not even read
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("scalerl: error: ")
    assert "NobodyKnowsForCausalLM" in ran.err
    assert ran.err.count("\n") == 1
    assert not Path("new").exists()
    assert not vllm_processes()


@pytest.mark.vllm
def test_a_start_that_only_vllm_can_refuse(
    run: Run, vllm_processes: Callable[[], set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reason in one line, and no process is left."""
    monkeypatch.setattr(known, "known_architectures", lambda: None)
    policy_of("NobodyKnowsForCausalLM")
    children = set(multiprocessing.active_children())  # the server of other tests
    ran = run("train", *tiny_options(PRETRAINED), *VLLM)
    assert (ran.code, ran.out) == (2, "")
    last = ran.err.splitlines()[-1]
    assert last.startswith("scalerl: error: ")
    assert "vLLM does not start (" in last
    assert "NobodyKnowsForCausalLM" in last
    assert "Traceback" not in ran.err
    assert not vllm_processes()
    assert set(multiprocessing.active_children()) == children


@pytest.mark.vllm
def test_a_run_goes_on_from_a_checkpoint_that_vllm_loads(run: Run) -> None:
    """What is saved beside the policy must not look like a part of it."""
    first = run("train", *tiny_options(MODEL % 2), *VLLM)
    assert first.code == 0, first.err
    again = run("train", "--out", "new", "--resume", "--budget", "3")
    assert again.code == 0, again.err
    assert json.loads(Path("new/stopped.json").read_text())["step"] == 3
