"""A run that takes seconds, as options of the command line. For every test of a command that trains."""

from __future__ import annotations

TINY = (
    'scale.model={source="llama", layers=1, width=16, heads=2, feed_forward=32}',
    'scale.warm_start={kind="none"}',
    "scale.task.numbers=2",
    "scale.task.largest=20",
    "scale.task.train_problems=0",
    "scale.batch.prompts=2",
    "scale.batch.rollouts=4",
    "scale.tokens.prompt=8",
    "scale.tokens.thinking=8",
    "scale.tokens.answer=6",
    "scale.evaluation.problems=8",
    "scale.evaluation.samples=1",
    "scale.evaluation.every=2",
    "scale.checkpoint_every=2",
    "scale.generator.rows=8",
)
"""`--set` values: steps of 2 x 4 rollouts with a policy of 3k parameters that was not warmed up. No budget."""


def tiny_options(*others: str) -> list[str]:
    """The options of the command line; a later value of the same key replaces the earlier."""
    values = {text.partition("=")[0]: text for text in (*TINY, *others)}
    return [word for text in values.values() for word in ("--set", text)]
