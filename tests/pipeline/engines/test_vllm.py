"""vLLM itself, in the environment that has it: starting, failing, ending, sharing of prompts, the FP32 head."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from scalerl.errors import InputError
from scalerl.pipeline.engines.vllm import VllmEngine, VllmOptions, VllmServer
from scalerl.pipeline.engines.vllm.checks import CPU_HEAD_WIDTHS, VllmError
from scalerl.pipeline.types import Engine, EngineSettings, GroupRequest, Rollout

pytestmark = pytest.mark.vllm

MakeSettings = Callable[..., EngineSettings]
MakeRequest = Callable[..., GroupRequest]
Drain = Callable[[Engine], dict[tuple[int, int], Rollout]]
Started = Callable[[], set[int]]
OPTIONS = VllmOptions(rows=4, context=64, dtype="float32", fp32_head=False, threads=1, cpu_cache_gb=0.05)


@pytest.mark.filterwarnings("ignore")  # of what vLLM imports
def test_the_widths_are_those_that_vllm_says() -> None:
    backend = import_module("vllm.v1.attention.backends.cpu_attn").CPUAttentionBackend
    assert tuple(backend.get_supported_head_sizes()) == CPU_HEAD_WIDTHS


def test_a_group_reads_its_prompt_once_but_for_the_last_block(
    vllm_server: VllmServer, policy: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest
) -> None:
    engine = VllmEngine(vllm_server, policy, settings(max_prompt=100))
    engine.load_weights(dict(policy.named_parameters()), version=1)
    engine.submit(request_of(0, 8, prompt_ids=tuple(5 + token % 15 for token in range(100))))
    tokens = sampled = 0
    while engine.num_pending:
        step = engine.step()
        tokens, sampled = tokens + step.tokens, sampled + step.sampled
    assert sampled == 8 * 12
    assert tokens == 100 + 7 * (100 - 96) + 8 * 11  # three blocks of 32 are shared


def test_a_policy_that_vllm_does_not_know(policy_folder: Path, tmp_path: Path, vllm_processes: Started) -> None:
    for file in policy_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["NobodyKnowsForCausalLM"]}))
    with pytest.raises(InputError) as caught:
        VllmServer.open(tmp_path, OPTIONS)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: vLLM does not start (")
    assert "NobodyKnowsForCausalLM" in message
    assert "\n" not in message
    assert len(message) < 400
    assert not vllm_processes()


def test_a_policy_whose_weights_are_damaged(policy_folder: Path, tmp_path: Path, vllm_processes: Started) -> None:
    """Found by a process of vLLM, not by this one."""
    for file in policy_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"vLLM does not start \(.*[Ss]afetensor.*\)") as caught:
        VllmServer.open(tmp_path, OPTIONS)
    assert "\n" not in str(caught.value)
    assert not vllm_processes()


PROGRAM = """
import sys, time
from pathlib import Path
from scalerl.pipeline.engines.vllm import VllmOptions, VllmServer
if __name__ == "__main__":
    server = VllmServer.open(Path(sys.argv[1]), VllmOptions(
        rows=4, context=64, dtype="bfloat16", fp32_head=True, threads=1, cpu_cache_gb=0.05))
    print("ready", flush=True)
    time.sleep(600)
"""


def listening(pids: set[int]) -> dict[int, bool]:
    """The TCP ports where these processes wait for others: whether on the loopback interface only."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if found := re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink())):
                inodes.add(found[1])
    ports = {}
    for table, loopback in (("tcp", "0100007F"), ("tcp6", "00000000000000000000000001000000")):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                ports[int(port, base=16)] = address == loopback
    return ports


def test_it_needs_no_fixed_port_listens_to_itself_only_and_ends_with_a_killed_owner(
    policy_folder: Path, tmp_path: Path, vllm_processes: Started
) -> None:
    script = tmp_path / "owner.py"
    script.write_text(PROGRAM)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        command = [sys.executable, str(script), str(policy_folder)]
        environment = {**os.environ, "VLLM_PORT": str(taken)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as owner:
            assert owner.stdout is not None
            ready = owner.stdout.readline()
            ports = listening(vllm_processes())
            owner.kill()  # what it leaves ends by itself: the fixture waits for that
    assert ready == "ready\n"
    assert ports
    assert taken not in ports
    assert all(ports.values())


def test_bfloat16_with_the_fp32_head_and_a_death(
    policy: PreTrainedModel, policy_folder: Path, settings: MakeSettings, request_of: MakeRequest, drain: Drain,
    vllm_processes: Started,
) -> None:  # fmt: skip
    options = VllmOptions(rows=16, context=128, dtype="bfloat16", fp32_head=True, threads=1, cpu_cache_gb=0.05)
    server = VllmServer.open(policy_folder, options)  # it would refuse a head that is not in float32
    engine = VllmEngine(server, policy, settings(fp32_head=True, max_response=40))
    # Trained in float32, generated in bfloat16.
    engine.load_weights({name: 1.5 * tensor for name, tensor in policy.named_parameters()}, version=1)
    engine.submit(request_of(0, 16))
    rollouts = drain(engine)
    body = type(policy)(policy.config).bfloat16()
    body.load_state_dict({name: 1.5 * tensor for name, tensor in policy.state_dict().items()})
    errors = []
    for rollout in rollouts.values():
        ids = torch.tensor([[*request_of(0).prompt_ids, *rollout.tokens.tolist()]])
        with torch.no_grad():
            states = body.get_decoder()(ids).last_hidden_state[0, len(request_of(0).prompt_ids) - 1 : -1]
            logits = states.float() @ body.lm_head.weight.float().T
        expected = logits.log_softmax(-1)[torch.arange(len(rollout)), torch.from_numpy(rollout.tokens)].numpy()
        errors.append(np.abs(rollout.logprobs - expected))
    assert np.median(np.concatenate(errors)) < 0.02  # the bodies round differently
    engine.submit(request_of(1, 4))
    (core,) = (pid for pid in vllm_processes() if b"EngineCore" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(core, signal.SIGKILL)
    with pytest.raises(VllmError, match="vLLM failed: "):
        drain(engine)
    server.close()
    assert not vllm_processes()
