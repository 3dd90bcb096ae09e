"""Starting vLLM: its arguments, the environment of its processes, and one line about why it could not start.

Called by `server`. vLLM's processes write to a file of their own instead of the terminal; when they fail, the reason is
found there. They listen on the loopback interface only.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import active_children
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from scalerl.errors import InputError
from scalerl.pipeline.engines.vllm import worker
from scalerl.policy.processor import spare_broken_units

if TYPE_CHECKING:
    from scalerl.pipeline.engines.vllm.server import AsyncEngine

_CPU_BLOCK = 32
"""Tokens of a cache block on a CPU. Groups share whole blocks: vLLM's own 128 would be longer than most prompts."""
_ONE_PROCESS = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""By its full name: by the short one vLLM would start another process for its worker, and the two would wait for each
other in loops that leave no core to the trainer."""
_PREFILL_TOKENS = 8192
"""Tokens that go through the model at once, at most."""
_REASON = re.compile(r"(?:\w*\.)*(\w*(?:Error|Exception)): (\S.*)")
_NO_REASON = ("Engine core initialization failed", "WorkerProc initialization failed", "EngineCore encountered")
"""What vLLM says after the reason, in every process that the reason went through."""
_FORM = re.compile(r"\d+ validation errors? for \w+\s+(Value error, )?")
_NOTHING_MORE = ("Supported architectures:", "[type=", "For further information visit")
_HOW_LONG = 400


@dataclass(frozen=True)
class VllmOptions:
    """What vLLM needs to know when it starts; everything else comes with a request."""

    rows: int
    """Rollouts that are decoded together."""
    context: int
    """Tokens of the longest sequence."""
    dtype: str
    fp32_head: bool
    threads: int
    """Of each process, on a CPU."""
    tensor_parallel: int = 1
    gpu_memory_share: float = 0.9
    cpu_cache_gb: float = 1.0
    compiled: bool = False


def start(folder: Path, options: VllmOptions, log: IO[bytes]) -> AsyncEngine:
    """vLLM with the policy in `folder`, or one line about why not; then none of its processes is left."""
    before = set(active_children())
    with _environment(options), _signals_blocked(), _output_to(log), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of vLLM about its own ways
        try:
            return _start(folder, options)
        except Exception as error:  # vLLM raises everything that there is
            reason = why(error, log)
            allowed = "a policy that vLLM knows, and room for it"
            raise InputError(f"vLLM does not start ({reason})", allowed=allowed, where=str(folder)) from error
        finally:
            if sys.exc_info()[0] is not None:
                end_processes(set(active_children()) - before)


def _start(folder: Path, options: VllmOptions) -> AsyncEngine:
    arg_utils, async_llm = import_module("vllm.engine.arg_utils"), import_module("vllm.v1.engine.async_llm")
    cpu = import_module("vllm.platforms").current_platform.is_cpu()
    logging.getLogger("vllm").setLevel(logging.CRITICAL)  # in this process; what matters is raised
    if cpu and options.dtype == "bfloat16":
        spare_broken_units()
    arguments = arg_utils.AsyncEngineArgs(**_arguments(folder, options), **_device(options, cpu=cpu))
    engine: AsyncEngine = async_llm.AsyncLLM.from_engine_args(arguments)
    return engine


def _arguments(folder: Path, options: VllmOptions) -> dict[str, Any]:
    return {
        "model": str(folder),
        "dtype": options.dtype,
        "load_format": "safetensors",  # never a pickle, whatever else lies in the folder
        "trust_remote_code": False,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",  # not the sampling defaults that lie beside some policies
        "max_model_len": options.context,
        "max_num_seqs": options.rows,
        "max_num_batched_tokens": max(_PREFILL_TOKENS, options.rows, options.context),
        "tensor_parallel_size": options.tensor_parallel,
        "enable_prefix_caching": True,
        "scheduling_policy": "priority",  # a rollout that goes on after its interruption is not last in the queue
        "logprobs_mode": "processed_logprobs",  # at the sampling temperature
        "hf_overrides": {"head_dtype": "float32"} if options.fp32_head else {},
        "worker_extension_cls": f"{worker.__name__}.{worker.Receiver.__name__}",
        "enforce_eager": not options.compiled,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }


def _device(options: VllmOptions, *, cpu: bool) -> dict[str, Any]:
    if cpu:
        found: dict[str, Any] = {"kv_cache_memory_bytes": int(options.cpu_cache_gb * 2**30), "block_size": _CPU_BLOCK}
        if options.tensor_parallel == 1:
            found["distributed_executor_backend"] = _ONE_PROCESS
        return found
    return {"gpu_memory_utilization": options.gpu_memory_share}


@contextmanager
def _environment(options: VllmOptions) -> Iterator[None]:
    """For the processes that are started inside; this one's is as before afterwards."""
    wanted = {
        worker.OWNER: str(os.getpid()),
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # to the cores of the trainer, otherwise
        "OMP_NUM_THREADS": str(options.threads),
    }
    if not options.compiled:
        wanted["TORCH_COMPILE_DISABLE"] = "1"  # the sampler would be compiled even so
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Ctrl-C and SIGTERM, sent to the whole group of processes, are the business of the one that owns the run."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _output_to(log: IO[bytes]) -> Iterator[None]:
    """Standard output and error of this process, which those that are started inside keep for good."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, before in enumerate(kept, start=1):
            os.dup2(before, descriptor)
            os.close(before)


def open_log() -> IO[bytes]:
    """A file without a name: it goes with the last process that has it open."""
    return tempfile.TemporaryFile(mode="w+b", buffering=0)


def reason_in(log: IO[bytes]) -> str | None:
    """The last error in what vLLM's processes have written that is more than a sign that there was one before."""
    size = os.fstat(log.fileno()).st_size
    text = os.pread(log.fileno(), size, 0).decode(errors="replace")  # leaves the place where they go on writing
    found = [f"{kind}: {message.strip()}" for kind, message in _REASON.findall(text)]
    reasons = [reason for reason in found if not any(words in reason for words in _NO_REASON)]
    return reasons[-1] if reasons else None


def why(error: BaseException, log: IO[bytes]) -> str:
    """In one line that a person can read: vLLM names hundreds of architectures to say that it does not know one."""
    text = reason_in(log) or f"{type(error).__name__}: {error}"
    for words in _NOTHING_MORE:
        text = text.partition(words)[0]
    line = " ".join(_FORM.sub("", text).split()).rstrip(":;,. ")
    return line if len(line) <= _HOW_LONG else f"{line[: _HOW_LONG - 3]}..."


def end_processes(processes: set[Any]) -> None:
    """At once: they hold nothing that must be saved, and their own workers end with them."""
    for process in processes:
        process.kill()
    for process in processes:
        process.join()
