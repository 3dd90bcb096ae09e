"""Measuring a policy on downstream sets after the fact: versions of a run that have a checkpoint, or any model.

Called by `scalerl evaluate`. The parts and the seeds are those of a run's own evaluations, so a version that was
measured on a set while it trained gives the same answers again. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scalerl.compute import Ledger
from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.pipeline.assemble import task_of
from scalerl.pipeline.downstream import downstream_tasks, set_grounds, set_tasks
from scalerl.pipeline.evaluate import judged
from scalerl.pipeline.types import EvalPoint
from scalerl.policy.chat import Dialogue
from scalerl.policy.load import LoadedPolicy, load_policy, read_policy
from scalerl.policy.pretrained import read_tokenizer
from scalerl.runs.layout import complete_checkpoints, step_of
from scalerl.tasks import Task

Watch = Callable[[str, int, int, int], None]
"""Called with the set, the version, and the problems done and wanted."""
LAST = "last"


def find_versions(checkpoints: Path, asked: Sequence[str]) -> dict[int, Path | None]:
    """The folder of each version that was asked for, in order; None: version 0, which the config tells how to make."""
    there: dict[int, Path | None] = {0: None} | {
        step_of(folder): folder for folder in complete_checkpoints(checkpoints)
    }
    found: dict[int, Path | None] = {}
    for text in asked:
        step = max(there) if text == LAST else _whole(text)
        if step not in there:
            allowed = f"a version whose policy is kept: {', '.join(map(str, there))}, or {LAST}"
            raise InputError("no checkpoint of this version", text, allowed, str(checkpoints))
        found[step] = there[step]
    return dict(sorted(found.items()))


def tasks_to_measure(run: RunConfig, *, trained: bool) -> dict[str, Task]:
    """The tasks of the sets; `trained`: by this run, so that none of them may hold its training problems."""
    return downstream_tasks(run, task_of(run)) if trained else set_tasks(run)


def policy_of(run: RunConfig, folder: Path | None, cache: Path | None = None) -> LoadedPolicy:
    """The policy in a checkpoint's folder, or that of step 0; `run` as it was trained, because a small policy is made
    as large as the run's longest sequence."""
    if folder is None:
        return load_policy(run, cache)
    return LoadedPolicy(read_policy(folder, run.scale.model.dtype), read_tokenizer(folder), folder)


def measure(
    run: RunConfig, policy: LoadedPolicy, version: int, tasks: Mapping[str, Task], watch: Watch
) -> dict[str, EvalPoint]:
    """One version on every set."""
    dialogue = Dialogue(policy.tokenizer, run.scale.chat)
    weights = {name: parameter.detach() for name, parameter in policy.model.named_parameters()}
    points = {}
    for name, base in set_grounds(run, dialogue, tasks, policy.model).items():
        evaluator = base.evaluator(policy.model, version, name)

        def seen(done: int, wanted: int, name: str = name) -> None:
            watch(name, version, done, wanted)

        points[name] = judged(evaluator.evaluate(weights, version, Ledger(), seen)[0])
    return points


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise InputError("--versions", text, f"whole numbers and {LAST}, with commas between them")
    return int(text)
