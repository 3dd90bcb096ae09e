"""What is said of trouble on a cluster, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl.config import RunConfig, load_run
from scalerl.errors import InputError
from scalerl.pipeline.engines.open import check_engine
from scalerl.pipeline.launch.ray import drive, trainer
from scalerl.pipeline.launch.ray.cluster import Cluster
from scalerl.pipeline.launch.ray.words import fits, reason_of

REFUSED = """The actor died because of an error raised in its creation task, \x1b[36mray::Probe\x1b[39m
           ^^^^^^^^^^^^^^^^^^^^
RuntimeError: The actor with name Probe failed to import on the worker. This may be because:

\x1b[36mray::Probe.__init__()\x1b[39m (pid=7)
                  ^^^^^^^^^^^
ModuleNotFoundError: No module named 'scalerl'"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (REFUSED, "it cannot begin there: ModuleNotFoundError: No module named 'scalerl'"),
        ("The actor died unexpectedly.\nThe worker process has died.", "its process was killed or crashed"),
        ("\x1b[36mSomething\x1b[39m else\nat length", "Something else"),
        ("x" * 200, "x" * 117 + "..."),
        ("", "Exception"),
    ],
)
def test_reasons(text: str, words: str) -> None:
    assert reason_of(Exception(text)) == words


def test_what_fits_into_a_node() -> None:
    assert fits({"CPU": 2.0}, {"CPU": 2.0, "GPU": 1.0})
    assert not fits({"CPU": 2.0, "GPU": 1.0}, {"CPU": 8.0})


def test_a_policy_that_a_generator_cannot_use_is_not_called_by_the_name_of_a_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(run: RunConfig, folder: Path, version: int) -> None:
        raise InputError("an engine does not start", where=str(folder))

    monkeypatch.setattr(trainer, "build_generator", refuse)
    with pytest.raises(InputError, match=r"^the policy, as a generator has it: an engine does not start$"):
        trainer._build(load_run("scalerl", "laptop").config, tmp_path, 0)


def test_a_generator_has_a_gpu_for_each_part_of_its_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.pipeline.engines.vllm.checks.version", lambda _: "0.32.0")
    vllm = ["scale.generator.engine=vllm", "scale.model.heads=2", "scale.generator.vllm.tensor_parallel=4"]
    vllm += ['scale.launcher.kind="ray"']
    for gpus in ("0", "4"):  # none: on CPUs
        check_engine(load_run("scalerl", "laptop", overrides=[*vllm, f"scale.launcher.generator_gpus={gpus}"]).config)
    two = load_run("scalerl", "laptop", overrides=[*vllm, "scale.launcher.generator_gpus=2"]).config
    with pytest.raises(InputError, match=r"scale\.launcher\.generator_gpus: got 2\.0; allowed: 4, as many as "):
        check_engine(two)


@pytest.mark.parametrize(
    ("address", "cpus", "notices"),
    [
        (None, 2, ["3 actors need 6 CPU, this machine has 2: they take turns on them"]),
        (None, 6, []),
        ("auto", 2, []),  # other machines
    ],
)
def test_more_actors_than_a_machine_of_our_own_has_cpus(
    address: str | None, cpus: int, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = ["scale.launcher.kind=ray", "scale.launcher.generators=2", "scale.launcher.threads=2"]
    run = load_run("scalerl", "laptop", overrides=overrides).config
    said: list[str] = []

    def connect(asked: str | None, needs: object) -> Cluster:
        raise InputError("no cluster", asked)

    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    monkeypatch.setattr(Cluster, "connect", connect)
    with pytest.raises(InputError), drive.connected(address, run, said.append):
        pass
    assert said == notices
