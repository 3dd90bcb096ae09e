"""Where requests come from: problems drawn one after the other, as the curriculum allows, turned into group requests.

Called by the launchers when a slot is free. Knows nothing about models: it is given a function that encodes a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scalerl.config import RunConfig
from scalerl.config.scale import Tokens
from scalerl.errors import InputError
from scalerl.pipeline.types import Group, GroupRequest
from scalerl.recipe import Recipe
from scalerl.tasks import Problem, ProblemStream, Task, listed, seeded

Encode = Callable[[str], tuple[int, ...]]


class Source:
    """The data cursor of a run: stream, curriculum, and the seeds of rollouts."""

    def __init__(self, run: RunConfig, task: Task, recipe: Recipe, encode: Encode) -> None:
        self._run = run
        self._recipe = recipe
        self._encode = encode
        self._stream = ProblemStream(task.problems("train"), run.seed)
        self._curriculum = recipe.curriculum()

    @property
    def epoch(self) -> int:
        """Complete passes over the training problems."""
        return self._stream.epoch

    def next_request(self, index: int) -> GroupRequest | None:
        """The next prompt as admission number `index`; None when the curriculum has left out every problem."""
        problem = self._stream.draw(self._curriculum.left_out)
        if problem is None:
            return None
        seeds = rollout_seeds(self._run.scale.batch.rollouts, self._run.seed, "rollout", index)
        return request_for(problem, index, seeds, self._recipe, self._encode, self._run.scale.tokens)

    def record(self, group: Group) -> None:
        """Tell the curriculum what became of a group."""
        self._curriculum.record(group.request.problem_id, group.num_correct, group.num_judged)

    def snapshot(self) -> dict[str, Any]:
        return {"stream": self._stream.state(), "curriculum": self._curriculum.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._stream.restore(state["stream"])
        self._curriculum.load_state_dict(state["curriculum"])


def rollout_seeds(num: int, *name: object) -> tuple[int, ...]:
    """Seeds of this name: the same in every process, order and resumed run."""
    rng = seeded(*name)
    return tuple(rng.getrandbits(63) for _ in range(num))


def request_for(
    problem: Problem, index: int, seeds: tuple[int, ...], recipe: Recipe, encode: Encode, tokens: Tokens
) -> GroupRequest:
    """A problem as a request; also used by the evaluation."""
    return GroupRequest(
        index=index,
        split=problem.split,
        problem=problem.index,
        problem_id=problem.id,
        prompt_ids=checked_prompt(problem, encode, tokens.prompt),
        seeds=seeds,
        interruptions=tuple(recipe.interruption_point(seed) for seed in seeds),
        max_response=tokens.response,
    )


def checked_prompt(
    problem: Problem, encode: Encode, max_prompt: int, key: str = "scale.tokens.prompt"
) -> tuple[int, ...]:
    """The tokens of a prompt, which must fit into its budget: a cut prompt would be another problem."""
    tokens = encode(problem.prompt)
    if not tokens:
        raise InputError("a prompt without tokens", problem.prompt, "at least one token", f"problem {problem.id}")
    if len(tokens) > max_prompt:
        allowed = f"at most {key}, {max_prompt}"
        raise InputError("tokens of a prompt", len(tokens), allowed, f"problem {problem.id}")
    return tokens


def check_prompts(task: Task, encode: Encode, max_prompt: int) -> None:
    """Every prompt of the finite pools fits, found out before the start. An endless pool is checked as it goes."""
    for split in ("held_out", "train"):
        for problem in listed(task, split):
            checked_prompt(problem, encode, max_prompt)
