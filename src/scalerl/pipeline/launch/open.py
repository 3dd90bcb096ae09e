"""The launcher that a config names, as the session knows it: where generators come from, and where the trainer runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from transformers import PreTrainedModel

from scalerl.config import RunConfig
from scalerl.pipeline.assemble import Ground
from scalerl.pipeline.buffer import Buffer
from scalerl.pipeline.launch.feed import Feed
from scalerl.pipeline.launch.inline import InlineFeed
from scalerl.pipeline.launch.trainers import open_trainer
from scalerl.pipeline.schedule import schedule_of
from scalerl.pipeline.trainer import Trainer
from scalerl.recipe import Recipe


class Launcher(Protocol):
    """Which processes there are."""

    def open_feed(self, base: Ground, model: PreTrainedModel, folder: Path, version: int) -> Feed:
        """Generators behind a buffer, at this version of the policy; `folder` is where the same policy lies on disk."""

    def open_trainer(
        self, run: RunConfig, recipe: Recipe, model: PreTrainedModel, folder: Path, start: Path
    ) -> AbstractContextManager[Trainer]:
        """`folder` holds the same policy as `model`, `start` the one at step 0."""


class OnThisMachine:
    """`inline` and `local`."""

    def open_feed(self, base: Ground, model: PreTrainedModel, folder: Path, version: int) -> Feed:
        launcher = base.run.scale.launcher
        schedule = schedule_of(base.run.recipe.asynchrony)
        buffer = Buffer(schedule, base.run.scale.batch.prompts)
        if launcher.kind == "local":
            from scalerl.pipeline.launch.local import open_local

            return open_local(base, folder, buffer, schedule, version)
        assert launcher.kind == "inline", "a cluster has a launcher of its own, in the actor that trains"
        return InlineFeed(base.generator(model, version), base.source(), buffer, schedule, launcher.decode_slowdown)

    def open_trainer(
        self, run: RunConfig, recipe: Recipe, model: PreTrainedModel, folder: Path, start: Path
    ) -> AbstractContextManager[Trainer]:
        return open_trainer(run, recipe, model, folder, start)
