"""vLLM's side of benchmarks/engine.py: a child process in vLLM's own environment. Not to be called by hand.

    VLLM_PYTHON engine_vllm.py MODEL_FOLDER WORKLOAD.json

Answers each line on standard input with one line of JSON: the seconds that all requests took, and the tokens written.
Imports nothing of scalerl: that is not installed there.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

ANSWER = "answer "


def main(folder: str, workload_file: str) -> None:
    vllm: Any = importlib.import_module("vllm")

    workload = json.loads(Path(workload_file).read_text())
    engine: Any = vllm.LLM(
        model=folder, skip_tokenizer_init=True, dtype="float32", max_num_seqs=workload["rows"],
        max_model_len=workload["context"], enable_prefix_caching=False,
    )  # fmt: skip
    sampling = vllm.SamplingParams(
        max_tokens=workload["max_response"], temperature=1.0, stop_token_ids=[workload["eos_id"]], detokenize=False
    )
    prompts = [{"prompt_token_ids": prompt} for prompt in workload["prompts"]]
    print(ANSWER + json.dumps({"version": vllm.__version__}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        outputs = engine.generate(prompts, sampling, use_tqdm=False)
        took_s = time.perf_counter() - start
        tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
        print(ANSWER + json.dumps({"seconds": took_s, "tokens": tokens}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
