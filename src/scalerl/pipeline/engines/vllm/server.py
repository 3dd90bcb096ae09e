"""vLLM itself, behind plain calls: texts to continue go in, what was written comes out, weights change in between.

Owned by `VllmEngine`. vLLM decodes in its own processes all the time; the event loop here runs only while somebody
waits in `collect` or `load_weights`, so there is no thread and nothing to lock. Knows nothing of groups, seeds of
rollouts, or interruptions.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from torch import Tensor

from scalerl.errors import InputError, ScaleRLError
from scalerl.pipeline.engines.vllm.checks import VllmError, check_installed
from scalerl.pipeline.engines.vllm.start import VllmOptions, end_processes, open_log, start, why
from scalerl.pipeline.engines.vllm.worker import describe
from scalerl.pipeline.weights import SharedWeights
from scalerl.pipeline.wire import End

Result = TypeVar("Result")
_FIRST = 100
"""Before anything else that ends with the process."""


class AsyncEngine(Protocol):
    """What is used of vLLM's `AsyncLLM`, which has no types that could be relied on."""

    engine_core: Any

    def generate(
        self, prompt: Any, sampling_params: Any, request_id: str, *, priority: int = 0
    ) -> AsyncIterator[Any]: ...

    async def pause_generation(self, *, mode: str, clear_cache: bool) -> None: ...

    async def resume_generation(self) -> None: ...

    async def collective_rpc(self, method: str, *, args: tuple[Any, ...] = ()) -> Sequence[Any]: ...

    async def update_weight_version(self, new_version: str) -> None: ...

    def shutdown(self, timeout: float | None = None) -> None: ...


@dataclass(frozen=True)
class Ask:
    """A text to go on with."""

    key: str
    """Names it; no two that are under way have the same."""
    text: tuple[int, ...]
    max_tokens: int
    stop_ids: tuple[int, ...]
    temperature: float
    seed: int
    priority: int
    """Smaller first, where there are more than rows."""
    family: str
    """Texts of one family share the caches of what they have in common. Others do not, also where they begin alike:
    their beginnings may have been read by older weights."""


@dataclass(frozen=True)
class Written:
    """What became of an `Ask`."""

    key: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    """At the temperature of the request, when they were sampled."""
    versions: tuple[int, ...]
    """The weights that wrote each token. vLLM attaches them to each of its steps, and they change only while it is
    paused: the boundary is exact."""
    stopped: bool
    """A stop token was written; otherwise all tokens that were allowed."""
    cached: int
    """Tokens of the text whose keys and values were there already."""


class VllmServer:
    """A running vLLM. Made with `open`; ended by `close`, or when it is forgotten, or with this process."""

    def __init__(self, engine: AsyncEngine, log: IO[bytes], options: VllmOptions) -> None:
        self.options = options
        self.numbers = itertools.count()
        """For keys and families: none comes twice in the life of a server."""
        self._engine = engine
        self._log = log
        self._loop = asyncio.new_event_loop()
        self._came: asyncio.Queue[Written | BaseException] = asyncio.Queue()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._weights: SharedWeights | None = None
        processes = set(engine.engine_core.resources.engine_manager.processes)
        # Not `weakref.finalize`: a process of multiprocessing waits for its children before that runs.
        arguments = (engine, self._loop, self._tasks, processes, log)
        self._end = Finalize(self, _end, args=arguments, exitpriority=_FIRST)

    @classmethod
    def open(cls, folder: Path, options: VllmOptions) -> VllmServer:
        """Start vLLM with the policy in a folder."""
        check_installed()
        with ExitStack() as undo:
            log = undo.enter_context(open_log())
            server = cls(start(folder, options, log), log, options)
            undo.callback(server.close)
            if options.fp32_head:
                server._check_head(folder)
            undo.pop_all()
        return server

    def ask(self, asks: Sequence[Ask]) -> None:
        """Hand texts over; they are sent off while somebody waits."""
        for ask in asks:
            self._tasks[ask.key] = self._loop.create_task(self._write(ask), name=ask.key)

    def collect(self, timeout_s: float) -> list[Written]:
        """Whatever is complete; waits for the first one, but not for long."""
        return self._wait(self._collect(timeout_s))

    def use_version(self, version: int) -> None:
        """Call the weights that are there by this version."""
        self._wait(self._engine.update_weight_version(str(version)))

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """New weights for everything from the next token on. Requests under way stay, with their caches."""
        if self._weights is None or version <= self._weights.version:
            self._release_weights()
            self._weights = SharedWeights.create(weights, get_context("spawn").Lock(), lambda: True)
        self._weights.publish(weights, version)
        handle = self._weights.handle
        self._wait(self._replace("scalerl_load_weights", handle.memory, describe(handle)))

    def receive_weights(self, end: End) -> int | None:
        """The same, where each worker is an end of a wire: the version that came; None: there was no newer one."""
        return self._wait(self._replace("scalerl_receive_weights", end.plain()))

    def forget(self) -> None:
        """Give up everything that was asked for."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            self._wait(_ended(set(self._tasks.values())))
        self._tasks.clear()
        self._came = asyncio.Queue()

    def close(self) -> None:
        """All processes are gone when this returns."""
        self._end()
        self._release_weights()

    async def _write(self, ask: Ask) -> None:
        try:
            prompt = {"prompt_token_ids": list(ask.text), "cache_salt": ask.family}
            async for output in self._engine.generate(prompt, _sampling(ask), ask.key, priority=ask.priority):
                self._came.put_nowait(_written(ask.key, output))  # there is one, at the end
        except Exception as error:  # noqa: BLE001  # a task: it is raised where somebody waits
            self._came.put_nowait(error)
        finally:
            self._tasks.pop(ask.key, None)

    async def _collect(self, timeout_s: float) -> list[Written]:
        try:
            came = [await asyncio.wait_for(self._came.get(), timeout_s)]
        except TimeoutError:
            return []
        while not self._came.empty():
            came.append(self._came.get_nowait())
        for item in came:
            if isinstance(item, BaseException):
                raise item
        return [item for item in came if isinstance(item, Written)]

    async def _replace(self, method: str, *args: object) -> int | None:
        """Pausing waits for the step that is under way; what it wrote has the old version. The method of the workers
        says which version they have now, or None for the old one."""
        await self._engine.pause_generation(mode="keep", clear_cache=False)
        version: int | None = (await self._engine.collective_rpc(method, args=args))[0]
        if version is not None:
            await self._engine.update_weight_version(str(version))
        await self._engine.resume_generation()
        return version

    def _check_head(self, folder: Path) -> None:
        """Not every architecture of vLLM listens to the override."""
        for dtype in self._wait(self._engine.collective_rpc("scalerl_head_dtype")):
            if dtype != "float32":
                what = "recipe.precision.fp32_head_generator: the head that vLLM has for this policy"
                raise InputError(what, dtype or "not known", "float32; turn it off, or generator.engine", str(folder))

    def _wait(self, awaited: Coroutine[Any, Any, Result]) -> Result:
        """Run the loop until this is done. Whatever vLLM raises is one line with its reason."""
        try:
            return self._loop.run_until_complete(awaited)
        except ScaleRLError:
            raise
        except Exception as error:
            raise VllmError(why(error, self._log)) from error

    def _release_weights(self) -> None:
        if self._weights is not None:
            self._weights.close()
            self._weights = None


def _sampling(ask: Ask) -> Any:
    """From the full distribution, and only the end of what was written: what lies between would cost time."""
    sampling_params = import_module("vllm.sampling_params")
    return sampling_params.SamplingParams(
        max_tokens=ask.max_tokens,
        temperature=ask.temperature,
        seed=ask.seed,
        stop_token_ids=list(ask.stop_ids),
        ignore_eos=True,  # the policy's folder may name other tokens
        logprobs=0,  # of the sampled token alone
        flat_logprobs=True,
        detokenize=False,
        output_kind=sampling_params.RequestOutputKind.FINAL_ONLY,
    )


def _written(key: str, output: Any) -> Written:
    (completion,) = output.outputs
    if completion.finish_reason not in {"stop", "length"}:
        raise VllmError(f"a request ended with {completion.finish_reason!r}")
    versions: list[int] = []
    for span in completion.weight_versions:
        versions += [int(span.version)] * (span.end - span.start)
    return Written(
        key=key,
        tokens=tuple(completion.token_ids),
        logprobs=tuple(completion.logprobs.logprobs),
        versions=tuple(versions),
        stopped=completion.finish_reason == "stop",
        cached=output.num_cached_tokens or 0,
    )


async def _ended(tasks: Set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _end(
    engine: AsyncEngine,
    loop: asyncio.AbstractEventLoop,
    tasks: dict[str, asyncio.Task[None]],
    processes: set[Any],
    log: IO[bytes],
) -> None:
    """Killed, not asked: vLLM takes seconds to go by itself, and there is nothing to be saved."""
    end_processes(processes)
    engine.shutdown(timeout=0.0)
    vars(engine)["shutdown"] = lambda: None  # it calls that again when Python ends and half of its modules are gone
    under_way = {*tasks.values(), *asyncio.all_tasks(loop)}
    for task in under_way:
        task.cancel()
    loop.run_until_complete(_ended(under_way))
    loop.close()
    log.close()
