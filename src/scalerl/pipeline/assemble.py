"""The parts of a run, put together from its config: task, recipe, generator, source, evaluator, trainer.

Called by `session` and by the generator process of the `local` launcher, so that both sides build the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from scalerl.config import RunConfig
from scalerl.pipeline.devices import trainer_device
from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.engines.open import open_engine
from scalerl.pipeline.evaluate import Answers, Evaluations, Evaluator, held_out_problems, own_answers
from scalerl.pipeline.flops import forward_cost
from scalerl.pipeline.generator import Generator
from scalerl.pipeline.settings import engine_settings
from scalerl.pipeline.source import Encode, Source, check_prompts
from scalerl.pipeline.types import Engine, EngineSettings, Exam
from scalerl.policy.chat import Dialogue
from scalerl.recipe import Recipe, recipe_of
from scalerl.tasks import Task, build_task


@dataclass(frozen=True)
class Ground:
    """What every part stands on. Building it checks all prompts that can be checked."""

    run: RunConfig
    recipe: Recipe
    task: Task
    dialogue: Dialogue
    downstream: Mapping[str, Ground] = field(default_factory=dict)
    """What each downstream set stands on; only where the run is evaluated (see `downstream`)."""

    @property
    def encode(self) -> Encode:
        return self.dialogue.encode

    def source(self) -> Source:
        return Source(self.run, self.task, self.recipe, self.encode)

    def generator(
        self,
        model: PreTrainedModel,
        version: int,
        folder: Path | None = None,
        sets: Mapping[str, Task] | None = None,
    ) -> Generator:
        """For training rollouts, with the engine of the config; `folder`: where the policy lies on disk; `sets`: the
        tasks of the downstream sets, where it answers evaluations too."""
        settings = self._settings(self.run.scale.sampling.temperature)
        budgets = [self.run.scale.tokens, *(self.run.scale.set_tokens(name) for name in sets or ())]
        roomy = replace(
            settings,
            max_prompt=max(tokens.prompt for tokens in budgets),
            max_response=max(tokens.response for tokens in budgets),
        )
        return self._generator(open_engine(self.run, model, folder, roomy, version), model, sets)

    def evaluator(self, model: PreTrainedModel, version: int, name: str | None = None) -> Evaluator:
        """For the held-out problems alone; `name`: this is the ground of a downstream set."""
        return self._evaluator(model, version, {}, name)

    def evaluations(self, model: PreTrainedModel, version: int) -> Evaluations:
        """For the held-out problems and every downstream set. They share a copy of the policy, and those that ask for
        the same of an engine the engine too."""
        engines: Engines = {}
        held_out = self._evaluator(model, version, engines)
        sets = {name: base._evaluator(model, version, engines, name) for name, base in self.downstream.items()}
        return Evaluations(self.run, held_out, sets, tuple(engines.values()))

    def exams(self, answers: Answers) -> Evaluations:
        """The same, answered by generators that are at work."""
        sets = {name: base._exam(answers, name) for name, base in self.downstream.items()}
        return Evaluations(self.run, self._exam(answers, None), sets, ())

    def _exam(self, answers: Answers, name: str | None) -> Evaluator:
        exam = Exam(name, self.run.scale.evaluation.temperature)
        return Evaluator(self.run, answers, self.task, self.recipe, self.encode, name, exam)

    def _evaluator(self, model: PreTrainedModel, version: int, engines: Engines, name: str | None = None) -> Evaluator:
        settings = self._settings(self.run.scale.evaluation.temperature)
        if settings not in engines:
            shared = next((one.weights for one in engines.values()), model)
            engines[settings] = EmbeddedEngine(shared, settings, version, trainer_device(self.run))
        generator = self._generator(engines[settings], model)
        return Evaluator(self.run, own_answers(generator), self.task, self.recipe, self.encode, name)

    def _settings(self, temperature: float) -> EngineSettings:
        """The policy is measured with the precision that its generator has."""
        fp32 = self.run.recipe.precision.fp32_head_generator
        return engine_settings(self.run, self.dialogue, temperature=temperature, fp32=fp32)

    def _generator(self, engine: Engine, model: PreTrainedModel, sets: Mapping[str, Task] | None = None) -> Generator:
        return Generator(engine, self.task, self.dialogue, forward_cost(model), sets)


Engines = dict[EngineSettings, EmbeddedEngine]


def task_of(run: RunConfig) -> Task:
    """The task, with as many held-out problems as the evaluation asks for: needs no policy, so it is checked first."""
    task = build_task(run.scale.task_settings, seed=run.seed)
    held_out_problems(task, run.scale.evaluation.problems)
    return task


def ground(run: RunConfig, tokenizer: PreTrainedTokenizerBase, task: Task | None = None) -> Ground:
    """The ground of a run, checked; `task`: that of the run, if it is there already."""
    found = Ground(run, recipe_of(run), task or task_of(run), Dialogue(tokenizer, run.scale.chat))
    check_prompts(found.task, found.encode, run.scale.tokens.prompt)
    return found
