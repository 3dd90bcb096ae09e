"""The launcher that a config names."""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedModel

from scalerl.pipeline.assemble import Ground
from scalerl.pipeline.buffer import Buffer
from scalerl.pipeline.launch.feed import Feed
from scalerl.pipeline.launch.inline import InlineFeed
from scalerl.pipeline.schedule import schedule_of


def open_feed(base: Ground, model: PreTrainedModel, folder: Path, version: int) -> Feed:
    """A generator behind a buffer, at this version of the policy; `folder` is where the same policy lies on disk."""
    launcher = base.run.scale.launcher
    schedule = schedule_of(base.run.recipe.asynchrony)
    buffer = Buffer(schedule, base.run.scale.batch.prompts)
    if launcher.kind == "local":
        from scalerl.pipeline.launch.local import open_local

        return open_local(base, folder, buffer, schedule, version)
    return InlineFeed(base.generator(model, version), base.source(), buffer, schedule, launcher.decode_slowdown)
