"""The parts of a run, put together from its config: task, recipe, generator, source, evaluator, trainer.

Called by `session` and by the generator process of the `local` launcher, so that both sides build the same thing.
"""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from scalerl.config import RunConfig
from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.evaluate import Evaluator, held_out_problems
from scalerl.pipeline.flops import forward_cost
from scalerl.pipeline.generator import Generator
from scalerl.pipeline.settings import engine_settings
from scalerl.pipeline.source import Encode, Source, check_prompts
from scalerl.policy.load import encode_prompt
from scalerl.recipe import Recipe, recipe_of
from scalerl.tasks import Task, build_task


@dataclass(frozen=True)
class Ground:
    """What every part stands on. Building it checks all prompts that can be checked."""

    run: RunConfig
    recipe: Recipe
    task: Task
    tokenizer: PreTrainedTokenizerBase

    @property
    def encode(self) -> Encode:
        return lambda text: encode_prompt(self.tokenizer, text)

    def source(self) -> Source:
        return Source(self.run, self.task, self.recipe, self.encode)

    def generator(self, model: PreTrainedModel, version: int) -> Generator:
        """For training rollouts."""
        precision = self.run.recipe.precision
        return self._generator(model, version, self.run.scale.sampling.temperature, precision.fp32_head_generator)

    def evaluator(self, model: PreTrainedModel, version: int) -> Evaluator:
        """The policy is measured with the precision that its generator has."""
        precision = self.run.recipe.precision
        temperature = self.run.scale.evaluation.temperature
        generator = self._generator(model, version, temperature, precision.fp32_head_generator)
        return Evaluator(self.run, generator, self.task, self.recipe, self.encode)

    def _generator(self, model: PreTrainedModel, version: int, temperature: float, fp32: bool) -> Generator:
        settings = engine_settings(self.run, self.tokenizer, temperature=temperature, fp32=fp32)
        return Generator(EmbeddedEngine(model, settings, version), self.task, self.tokenizer, forward_cost(model))


def task_of(run: RunConfig) -> Task:
    """The task, with as many held-out problems as the evaluation asks for: needs no policy, so it is checked first."""
    task = build_task(run.scale.task_settings, seed=run.seed)
    held_out_problems(task, run.scale.evaluation.problems)
    return task


def ground(run: RunConfig, tokenizer: PreTrainedTokenizerBase, task: Task | None = None) -> Ground:
    """The ground of a run, checked; `task`: that of the run, if it is there already."""
    found = Ground(run, recipe_of(run), task or task_of(run), tokenizer)
    check_prompts(found.task, found.encode, run.scale.tokens.prompt)
    return found
