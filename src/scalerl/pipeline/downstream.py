"""Downstream sets of a run, checked before anything is trained: their problems, prompts and token budgets.

Called by the session. A set is a run of its own as far as an evaluation can tell (`RunConfig.downstream`), so it is put
together like one. That none of its problems is trained on rests on two things: generated problems are held out by a
hash of their content (`tasks.pools`), whatever the dials, and no prompt of a set may be in a finite training pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from transformers import PreTrainedModel

from scalerl.config import InterruptionWindow, RunConfig
from scalerl.config.run import set_key
from scalerl.errors import InputError
from scalerl.pipeline.assemble import Ground
from scalerl.pipeline.evaluate import held_out_problems
from scalerl.pipeline.source import checked_prompt
from scalerl.policy.chat import Dialogue
from scalerl.recipe import recipe_of
from scalerl.tasks import Task, build_task, canonical, listed


def downstream_tasks(run: RunConfig, trained: Task) -> dict[str, Task]:
    """The task of each set, with as many problems as it asks for, none of them trained on: needs no policy."""
    found = set_tasks(run)
    if found:
        known = {canonical(problem.prompt) for problem in listed(trained, "train")}
        for name, task in found.items():
            _refuse_trained(task, known, name)
    return found


def set_tasks(run: RunConfig) -> dict[str, Task]:
    """The task of each set, whatever was trained on."""
    return {name: _task(run, name) for name in run.scale.evaluation.downstream}


def with_downstream(base: Ground, tasks: Mapping[str, Task], model: PreTrainedModel) -> Ground:
    """The ground of a run together with those of its sets, checked against its tokenizer and its policy."""
    return replace(base, downstream=set_grounds(base.run, base.dialogue, tasks, model))


def set_grounds(
    run: RunConfig, dialogue: Dialogue, tasks: Mapping[str, Task], model: PreTrainedModel
) -> dict[str, Ground]:
    """What each set stands on."""
    sets = {}
    for name, task in tasks.items():
        own = run.downstream(name)
        sets[name] = one = Ground(own, recipe_of(own), task, dialogue)
        _check_room(one, model, name)
        for problem in held_out_problems(one.task, one.run.scale.evaluation.problems):
            checked_prompt(problem, one.encode, one.run.scale.tokens.prompt, f"{set_key(name)}.tokens.prompt")
    return sets


def _task(run: RunConfig, name: str) -> Task:
    own = run.downstream(name)
    settings = own.scale.task_settings
    if run.scale.evaluation.downstream[name].whole:
        settings = {**settings, "whole": True, "held_out_problems": None}  # whether there are enough is asked below
    try:
        task = build_task(settings, seed=run.seed)
    except InputError as error:
        place = set_key(name) if error.where is None else f"{set_key(name)}, {error.where}"
        raise InputError(error.what, error.value, error.allowed, place) from None
    held_out_problems(task, own.scale.evaluation.problems, set_key(name))
    return task


def _refuse_trained(task: Task, known: Set[str], name: str) -> None:
    """`known`: of an endless pool there are none to compare, its problems are apart by their hash."""
    for problem in listed(task, "held_out"):
        if canonical(problem.prompt) in known:
            allowed = "problems that scale.task does not train on"
            raise InputError("a downstream problem is trained on", problem.prompt[:60], allowed, set_key(name))


def _check_room(base: Ground, model: PreTrainedModel, name: str) -> None:
    """A whole sequence fits into the policy's context, and the interruption leaves room for an answer."""
    tokens, limits = base.run.scale.tokens, base.run.length
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if context is not None and tokens.context > context:
        what = f"{set_key(name)}.tokens: prompt + thinking + answer"
        raise InputError(what, tokens.context, f"at most the context of the policy, {context}")
    if isinstance(limits, InterruptionWindow):
        phrase, room = base.dialogue.phrase_ids(limits.phrase), tokens.response - limits.high_tokens
        if len(phrase) >= room:
            what = f"{set_key(name)}.tokens.answer: tokens of the interruption phrase"
            raise InputError(what, len(phrase), f"less than {room}, or nothing is left for the answer")
