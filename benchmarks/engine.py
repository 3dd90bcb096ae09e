"""How fast the embedded engine writes: tokens per second with mixed lengths, beside `generate`, vLLM, the GEMM limit.

    python benchmarks/engine.py [--vllm-python FOLDER/bin/python]     # exit code 1 when a limit is missed

One workload for everybody: 512 requests with prompts of 16 tokens to a Llama of 0.87M parameters in float32, at most 64
tokens each, at most 256 at a time, temperature 1. Weights are random, so that each of the 48 tokens, end of text
included, has about the same probability: lengths are mixed, 35 tokens on average. Only tokens up to the end of text
count. `generate` gets batches of 256, as its users do. vLLM runs in its own environment (scripts/install_vllm.sh);
without that it is left out. The engine also returns log-probs and versions; the others are not asked for them.

All take turns, round by round, at the same number of threads; a ratio is the median over rounds of the ratio within a
round, so that the load of the machine cancels. The GEMM limit is the time of the model's matrix products alone, for 256
rows. The table shows each figure beside its limit; benchmarks/results/engine.json keeps them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from engine_vllm import ANSWER
from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.types import EngineSettings, GroupRequest
from scalerl.policy.mark import NO_MARK

RESULTS = Path(__file__).parent / "results" / "engine.json"
REQUESTS, ROWS, PROMPT, MAX_RESPONSE, EOS_ID, VOCABULARY = 512, 256, 16, 64, 1, 48
OURS, GENERIC, GENERATE, VLLM = "engine", "engine, model's own forward", "generate", "vLLM"
LIMITS = {GENERATE: 1.5, VLLM: 1.0, GENERIC: None}
"""At least so many times the rival's tokens per second; None: shown for information."""

Run = Callable[[], tuple[float, int]]
"""The whole workload: seconds and useful tokens."""


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    threads: int
    what: str
    tokens_per_s: float
    """Median over rounds."""
    ours_over_it: float | None
    """Median over rounds of the ratio within a round."""
    limit: float | None

    @property
    def met(self) -> bool:
        return self.limit is None or self.ours_over_it is None or self.ours_over_it >= self.limit


def build_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=128, eos_token_id=EOS_ID, pad_token_id=0, bos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.eval()
    return model


def build_prompts() -> list[list[int]]:
    prompts: list[list[int]] = np.random.default_rng(0).integers(2, VOCABULARY, (REQUESTS, PROMPT)).tolist()
    return prompts


def engine_run(model: LlamaForCausalLM, prompts: list[list[int]], *, fused: bool) -> Run:
    settings = EngineSettings(
        rows=ROWS, max_response=MAX_RESPONSE, max_prompt=PROMPT, eos_id=EOS_ID, end_thinking=NO_MARK, phrase_ids=(),
        temperature=1.0, fp32_head=True,
    )  # fmt: skip
    with (
        contextlib.nullcontext()
        if fused
        else mock.patch("scalerl.pipeline.engines.forward.is_llama_like", return_value=False)
    ):
        engine = EmbeddedEngine(model, settings)
    rounds = iter(range(1_000_000))

    def run() -> tuple[float, int]:
        start, tokens, seed = time.perf_counter(), 0, next(rounds) * REQUESTS
        for index, prompt in enumerate(prompts):
            engine.submit(GroupRequest(index, "train", index, str(index), tuple(prompt), (seed + index,), (None,)))
        while engine.num_pending:
            tokens += engine.step().sampled
        return time.perf_counter() - start, tokens

    return run


def generate_run(model: Any, prompts: list[list[int]]) -> Run:
    config = GenerationConfig(
        do_sample=True, top_k=0, top_p=1.0, temperature=1.0, max_new_tokens=MAX_RESPONSE, eos_token_id=EOS_ID,
        pad_token_id=0,
    )  # fmt: skip
    batches = torch.tensor(prompts).split(ROWS)

    def run() -> tuple[float, int]:
        start, tokens = time.perf_counter(), 0
        for batch in batches:
            with torch.no_grad():
                written: Any = model.generate(
                    input_ids=batch, attention_mask=torch.ones_like(batch), generation_config=config
                )
            ended = (written[:, PROMPT:] == EOS_ID).int()
            tokens += int(((ended.cumsum(1) - ended) == 0).sum())
        return time.perf_counter() - start, tokens

    return run


@contextlib.contextmanager
def vllm_run(python: Path, model: LlamaForCausalLM, prompts: list[list[int]], threads: int) -> Iterator[Run]:
    """A child process that holds the engine between rounds."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        workload = Path(folder) / "workload.json"
        sizes = {"rows": ROWS, "context": PROMPT + MAX_RESPONSE, "max_response": MAX_RESPONSE, "eos_id": EOS_ID}
        workload.write_text(json.dumps({**sizes, "prompts": prompts}))
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "VLLM_CPU_OMP_THREADS_BIND": "0" if threads == 1 else f"0-{threads - 1}",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # one process: no pipes between its halves
            "VLLM_LOGGING_LEVEL": "ERROR",
        }
        command = [str(python), str(Path(__file__).with_name("engine_vllm.py")), folder, str(workload)]
        pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, text=True, env=environment) as child:
            print(f"vLLM {_answer(child)['version']} is up with {threads} threads", flush=True)

            def run() -> tuple[float, int]:
                assert child.stdin is not None
                child.stdin.write("\n")
                child.stdin.flush()
                answer = _answer(child)
                return answer["seconds"], answer["tokens"]

            yield run


def _answer(child: subprocess.Popen[str]) -> dict[str, Any]:
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith(ANSWER):
            answer: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
            return answer
    raise RuntimeError(f"vLLM's process ended with exit code {child.wait()}")


def gemm_limit(model: LlamaForCausalLM) -> float:
    """Tokens per second if there were nothing but the matrix products of one step of 256 rows; best of 20."""
    weights = [module.weight.detach() for module in model.modules() if isinstance(module, nn.Linear)]
    inputs = {weight.shape[1]: torch.randn(ROWS, weight.shape[1]) for weight in weights}
    best_s = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for weight in weights:
            nn.functional.linear(inputs[weight.shape[1]], weight)
        best_s = min(best_s, time.perf_counter() - start)
    return ROWS / best_s


def compare(runs: dict[str, Run], threads: int, rounds: int) -> list[Line]:
    for run in runs.values():  # memory, kernels and compilers
        run()
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            seconds, tokens = run()
            rates[name].append(tokens / seconds)
    lines = [Line(threads, OURS, statistics.median(rates[OURS]), None, None)]
    for name in list(runs)[1:]:
        ratio = statistics.median(ours / theirs for ours, theirs in zip(rates[OURS], rates[name], strict=True))
        lines.append(Line(threads, name, statistics.median(rates[name]), ratio, LIMITS[name]))
    return lines


def measure(threads: int, rounds: int, vllm_python: Path | None) -> list[Line]:
    torch.set_num_threads(threads)
    model, prompts = build_model(), build_prompts()
    with contextlib.ExitStack() as stack:
        runs = {
            OURS: engine_run(model, prompts, fused=True),
            GENERIC: engine_run(model, prompts, fused=False),
            GENERATE: generate_run(model, prompts),
        }
        if vllm_python is not None:
            runs[VLLM] = stack.enter_context(vllm_run(vllm_python, model, prompts, threads))
        lines = compare(runs, threads, rounds)
    limit = gemm_limit(model)
    return [*lines, Line(threads, "GEMM limit", limit, lines[0].tokens_per_s / limit, None)]


def table(lines: list[Line]) -> str:
    rows = [f"{'threads':>7}  {'':30} {'tokens/s':>9}  {'ours is':>8}  limit"]
    for line in lines:
        ratio = "" if line.ours_over_it is None else f"{line.ours_over_it:7.2f}x"
        limit = "" if line.limit is None else f"at least {line.limit}x {'met' if line.met else 'MISSED'}"
        rows.append(f"{line.threads:>7}  {line.what:30} {line.tokens_per_s:9,.0f}  {ratio:>8}  {limit}".rstrip())
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of the embedded engine; see the head of this file.")
    parser.add_argument("--vllm-python", type=Path, help="python of an environment made by scripts/install_vllm.sh")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.vllm_python is None:
        print("vLLM is left out: no --vllm-python (see scripts/install_vllm.sh)")
    lines = [line for threads in options.threads for line in measure(threads, options.rounds, options.vllm_python)]
    print(table(lines))
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "load_average": list(os.getloadavg())}
    versions = {name: version(name) for name in ("torch", "transformers")}
    document = {"rounds": options.rounds, **machine, "versions": versions, "lines": [asdict(line) for line in lines]}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(line.met for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
