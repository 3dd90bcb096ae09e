"""reasoning-gym as a handler of `scalerl.verify.guarded`: items and scores of one dataset, in a process of its own.

Several of its scorers call `eval` on the answer, which a model wrote; any may crash or run for ever; some datasets
depend on the order of sets. `guarded` says what that process does about it. Imports nothing of scalerl.

In:  {"dataset": ..., "options": {...}}, then each of
     {"id": ..., "seed": ..., "size": ..., "first": ..., "last": ...}     for items
     {"id": ..., "seed": ..., "size": ..., "index": ..., "answer": ...}   for a score
Out: {"ready": true} or {"refused": ..., "datasets": [...]}, then each of
     {"id": ..., "items": [[question, answer], ...]}, {"id": ..., "score": ...} or {"id": ..., "error": ...}
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Message = dict[str, Any]
Datasets = Callable[[int, int], Any]


def prepare(header: Message) -> Callable[[Message], Message] | Message:
    """The answers for one dataset, or why there are none."""
    import reasoning_gym
    from reasoning_gym.factory import DATASETS

    @lru_cache(maxsize=8)
    def datasets(seed: int, size: int) -> Any:
        return reasoning_gym.create_dataset(header["dataset"], seed=seed, size=size, **header["options"])

    if header["dataset"] not in DATASETS:
        return {"refused": "dataset", "datasets": sorted(DATASETS)}
    try:
        datasets(0, 1)
    except (AssertionError, TypeError, ValueError) as error:  # how its configs refuse a value
        return {"refused": str(error).partition("\n")[0] or type(error).__name__}
    return lambda request: answer(request, datasets)


def answer(request: Message, datasets: Datasets) -> Message:
    """Items, or a score."""
    dataset = datasets(request["seed"], request["size"])
    return _scored(request, dataset) if "answer" in request else _items(request, dataset)


def _items(request: Message, dataset: Any) -> Message:
    entries = [dataset[i] for i in range(request["first"], request["last"])]
    return {"items": [[entry["question"], entry["answer"] or ""] for entry in entries]}


def _scored(request: Message, dataset: Any) -> Message:
    score = float(dataset.score_answer(request["answer"], dataset[request["index"]]))
    return {"score": score} if math.isfinite(score) else {"error": f"the score is {score}"}
