"""The local launcher: the generator in a process of its own, the trainer in this one, both busy at the same time.

Requests and groups go through a pipe, weights through shared memory. Opened by `open_feed`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from scalerl.config import RunConfig
from scalerl.pipeline.assemble import Ground, ground
from scalerl.pipeline.buffer import Buffer
from scalerl.pipeline.downstream import set_tasks
from scalerl.pipeline.engines.open import read_outline
from scalerl.pipeline.generator import Generator
from scalerl.pipeline.launch.process import GeneratorProcess
from scalerl.pipeline.launch.remote import RemoteFeed
from scalerl.pipeline.schedule import Schedule
from scalerl.policy.pretrained import read_tokenizer


def open_local(base: Ground, folder: Path, buffer: Buffer, schedule: Schedule, version: int) -> RemoteFeed:
    """Start the generator with the policy in `folder`; it builds everything else from the config, as this side did."""
    source = base.source()  # before there is a process that an error would leave behind
    build = partial(build_generator, base.run, folder, version)
    process = GeneratorProcess(
        build, base.run.scale.launcher.threads, has_children=base.run.scale.generator.engine == "vllm"
    )
    return RemoteFeed(process, source, buffer, schedule, process.wait_until_started)


def build_generator(run: RunConfig, folder: Path, version: int) -> Generator:
    """In the generator's process."""
    base = ground(run, read_tokenizer(folder))
    sets = set_tasks(run) if run.scale.evaluation.by == "generators" else None
    return base.generator(read_outline(run, folder), version, folder, sets)
