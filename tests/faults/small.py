"""The run that is tortured: seconds long, with a policy of ten thousand parameters that has something to learn.

Options of the command line, and the numbers that follow from them. Used by the tests, the campaigns and `books`.
"""

from __future__ import annotations

from dataclasses import dataclass

PROMPTS, ROLLOUTS, K = 3, 4, 2
STEPS, EVALUATE_EVERY, SAVE_EVERY = 8, 3, 2
"""The last step is saved, then evaluated, then saved again: a checkpoint that replaces one of the same step."""

_SETS = (
    "scale.model.layers=1", "scale.model.width=32", "scale.model.heads=2", "scale.model.feed_forward=64",
    "scale.warm_start.steps=150", "scale.warm_start.batch=32", "scale.warm_start.learning_rate=0.01",
    "scale.warm_start.wrong_steps=0.2",
    "scale.task.numbers=2", "scale.task.largest=9", "scale.task.train_problems=40", "scale.task.held_out_share=0.3",
    f"scale.batch.prompts={PROMPTS}", f"scale.batch.rollouts={ROLLOUTS}", "scale.generator.rows=10",
    "scale.tokens.prompt=6", "scale.tokens.thinking=12", "scale.tokens.answer=6",
    "scale.trainer.micro_batch_tokens=128", "scale.optimiser.learning_rate=0.001", "scale.optimiser.warmup_steps=2",
    "scale.evaluation.problems=6", "scale.evaluation.samples=2", f"recipe.asynchrony.k={K}",
    'recipe.curriculum={kind="uniform"}',
)  # fmt: skip


@dataclass(frozen=True)
class Small:
    """One run; what is not said is as above."""

    launcher: str = "inline"
    steps: int = STEPS
    evaluate_every: int = EVALUATE_EVERY
    save_every: int = SAVE_EVERY
    sets: tuple[str, ...] = ()

    def begin(self, out: str) -> list[str]:
        """The arguments of the first call."""
        own = (
            f"scale.evaluation.every={self.evaluate_every}", f"scale.checkpoint_every={self.save_every}",
            f"scale.budget.amount={self.steps}",
        )  # fmt: skip
        replaced = tuple(f"{text.partition('=')[0]}." for text in self.sets)  # a whole table, say
        sets = [text for text in _SETS if not text.startswith(replaced)] + [*own, *self.sets]
        words = [word for text in sets for word in ("--set", text)]
        return ["train", "--launcher", self.launcher, "--out", out, *words]

    @staticmethod
    def go_on(out: str, *others: str) -> list[str]:
        """The arguments of every later one."""
        return ["train", "--out", out, "--resume", *others]

    @property
    def evaluated(self) -> list[int]:
        """Steps of the evaluations of a run that has ended."""
        return sorted({*range(0, self.steps + 1, self.evaluate_every), self.steps})
