"""The generator: an engine that writes rollouts and a verifier that judges them, together a source of groups.

Driven by the launchers, one decode step at a time, and by the evaluation. Knows neither buffer nor trainer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from scalerl.compute import ForwardCost, Usage
from scalerl.pipeline.packing import pack_rollouts, request_from_json, request_to_json, unpack_rollouts
from scalerl.pipeline.types import Engine, EngineStep, Group, GroupRequest, Rollout, Snapshot
from scalerl.pipeline.wire import End
from scalerl.policy.chat import Dialogue
from scalerl.tasks import Task, Verdict, verify_all


@dataclass(frozen=True)
class GeneratorStep:
    """What one decode step brought."""

    groups: tuple[Group, ...]
    """Groups whose last rollout was finished and judged by it."""
    usage: Usage
    exam: Usage
    """Of `usage`, what exams took: of the time their share of the FLOPs."""


class Generator:
    """Requests in, groups out."""

    def __init__(
        self,
        engine: Engine,
        task: Task,
        dialogue: Dialogue,
        cost: ForwardCost,
        sets: Mapping[str, Task] | None = None,
    ) -> None:
        """`sets`: the tasks of downstream sets, where these ask here too."""
        self._engine = engine
        self._task = task
        self._sets = sets or {}
        self._dialogue = dialogue
        self._cost = cost
        self._requests: dict[int, GroupRequest] = {}
        self._rollouts: dict[int, dict[int, Rollout]] = {}

    @property
    def version(self) -> int:
        return self._engine.version

    @property
    def num_pending(self) -> int:
        """Groups that were submitted and have not come back."""
        return len(self._requests)

    def submit(self, request: GroupRequest) -> None:
        self._requests[request.index] = request
        self._rollouts[request.index] = {}
        self._engine.submit(request)

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Between two decode steps; rollouts in flight go on."""
        self._engine.load_weights(weights, version)

    def receive_weights(self, end: End) -> int:
        """The same, over a wire; the version that it has then."""
        self._engine.receive_weights(end)
        return self._engine.version

    def advance(self) -> GeneratorStep:
        """One decode step; what is finished is judged at once."""
        started = time.perf_counter()
        step = self._engine.step()
        groups = []
        for finished in step.finished:
            rollouts = self._rollouts[finished.request]
            rollouts[finished.position] = finished.rollout
            if len(rollouts) == len(self._requests[finished.request].seeds):
                groups.append(self._complete(finished.request))
        usage = Usage(time.perf_counter() - started, self._cost.flops(step.tokens, step.attended), step.tokens)
        return GeneratorStep(tuple(groups), usage, self._exam_part(step, usage))

    def snapshot(self) -> Snapshot:
        """The engine's state, the requests under way, and those of their rollouts that are finished."""
        engine = self._engine.snapshot()
        done = [(index, place) for index, rollouts in self._rollouts.items() for place in sorted(rollouts)]
        packed = pack_rollouts([self._rollouts[index][place] for index, place in done])
        values = {
            "engine": dict(engine.values),
            "requests": [request_to_json(request) for request in self._requests.values()],
            "finished": [list(key) for key in done],
            "rollouts": packed.values,
        }
        tensors = {f"engine.{name}": tensor for name, tensor in engine.tensors.items()}
        tensors |= {f"rollouts.{name}": tensor for name, tensor in packed.tensors.items()}
        return Snapshot(values, tensors)

    def restore(self, snapshot: Snapshot) -> None:
        self._engine.restore(part(snapshot, "engine"))
        self._requests = {item["index"]: request_from_json(item) for item in snapshot.values["requests"]}
        self._rollouts = {index: {} for index in self._requests}
        rollouts = unpack_rollouts(part(snapshot, "rollouts"))
        for (index, place), rollout in zip(snapshot.values["finished"], rollouts, strict=True):
            self._rollouts[index][place] = rollout

    def _exam_part(self, step: EngineStep, usage: Usage) -> Usage:
        if not step.exam_tokens:
            return Usage()
        flops = self._cost.flops(step.exam_tokens, step.exam_attended)
        return Usage(usage.device_s * flops / usage.flops, flops, step.exam_tokens)

    def _complete(self, index: int) -> Group:
        request, by_place = self._requests.pop(index), self._rollouts.pop(index)
        rollouts = tuple(by_place[place] for place in range(len(request.seeds)))
        return Group(request, rollouts, self._verdicts(request, rollouts))

    def _verdicts(self, request: GroupRequest, rollouts: tuple[Rollout, ...]) -> tuple[Verdict, ...]:
        of_set = None if request.exam is None else request.exam.set
        task = self._task if of_set is None else self._sets[of_set]
        problem = task.problems(request.split)[request.problem]
        texts = self._dialogue.texts([rollout.tokens.tolist() for rollout in rollouts])
        return verify_all(task, problem, texts)


def part(snapshot: Snapshot, name: str) -> Snapshot:
    """One part of a snapshot that was put together from several."""
    prefix = f"{name}."
    tensors = {key.removeprefix(prefix): value for key, value in snapshot.tensors.items() if key.startswith(prefix)}
    return Snapshot(snapshot.values[name], tensors)
