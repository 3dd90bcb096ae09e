"""A rank of the trainer other than the first: it comes to the meeting and does what rank 0 says, until it is over.

`run_rank` does not care who started its process: `trainers` does on one machine, a cluster's launcher may do it in an
actor. Everything that it needs beside its arguments it builds from the config, as rank 0 does.
"""

from __future__ import annotations

from pathlib import Path

import torch

from scalerl.config import RunConfig
from scalerl.errors import StorageError, TrainingError
from scalerl.pipeline.batch import make_batch
from scalerl.pipeline.devices import trainer_device
from scalerl.pipeline.fsdp import Together
from scalerl.pipeline.launch.meeting import Arrival
from scalerl.pipeline.learner import Learner
from scalerl.pipeline.ranks import Collect, Learn, Order, Read, Stop, Write
from scalerl.policy.load import read_policy
from scalerl.recipe import recipe_of


def run_rank(
    rank: int, world: int, init_method: str, run: RunConfig, policy: Path, reference: Path | None = None
) -> None:
    """The whole life of a rank from 1 to `world` - 1; it returns when rank 0 says so, and raises what went wrong.

    `init_method`: the address of rank 0's `Meeting`. `policy`: a folder with the weights that rank 0 begins with,
    `reference`: one with the starting policy, where the recipe has a KL term.
    """
    torch.set_num_threads(run.scale.launcher.threads)
    arrival = Arrival(rank, world, init_method)
    ranks: Together | None = None
    try:
        dtype = run.scale.model.dtype
        model = read_policy(policy, dtype)
        frozen = None if reference is None else read_policy(reference, dtype)
        ranks = arrival.join(trainer_device(run, rank))
        learner = Learner(model, recipe_of(run), run, frozen, ranks)
        while not isinstance(order := ranks.listen(), Stop):
            _follow(learner, order)
    except Exception as error:
        arrival.fail(error)
        raise
    finally:
        if ranks is not None:
            ranks.close()


def _follow(learner: Learner, order: Order) -> None:
    """What rank 0 does at the same time. An error that all ranks have together is rank 0's to raise."""
    try:
        match order:
            case Learn(groups, plan, rate):
                learner.learn(make_batch(groups), plan, rate)
            case Collect():
                learner.weights()
            case Write(folder):
                learner.write(folder)
            case Read(folder):
                learner.read(folder)
    except (TrainingError, StorageError):
        return
