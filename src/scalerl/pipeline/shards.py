"""Sharded checkpoints through torch.distributed.checkpoint: named tensors that ranks write and read together.

Used by the learner (every rank writes and reads its part) and by the trainer (the whole policy, for the plain folder).
The files are safetensors, one for each rank, which say in their header where in the whole tensor a part belongs; so any
number of ranks can read what any other number wrote, and no pickle is involved. Plain safetensors files in the folder
are read the same way. Knows nothing about models.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from scalerl.errors import InputError, StorageError
from scalerl.policy.tiny import disk_errors
from scalerl.runs.layout import PARTS

SHARDS = "shards"
"""The folder of a checkpoint in which they lie."""


def is_sharded(checkpoint: Path) -> bool:
    """Whether several ranks wrote it."""
    return (checkpoint / SHARDS).is_dir()


def shards_of(checkpoint: Path) -> Path:
    """Where the state of the trainer lies: in the shards, or, of one rank, among the parts; before that was so, beside
    everything else."""
    places = (checkpoint / SHARDS, checkpoint / PARTS, checkpoint)
    return next(place for place in places if place.is_dir())


def write(folder: Path, tensors: Mapping[str, Tensor], group: ProcessGroup | None) -> None:
    """All ranks of the group together, into a folder that all of them see; `StorageError` on each if one has failed."""
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        with _quiet():
            save(dict(tensors), storage_writer=writer, process_group=group, no_dist=group is None)
    except CheckpointException as error:
        raise _failure(error, folder) from None


def read(folder: Path, tensors: Mapping[str, Tensor], group: ProcessGroup | None) -> None:
    """Fill these tensors, each rank its part."""
    reader = HuggingFaceStorageReader(str(folder))
    try:
        with _quiet():
            load(dict(tensors), storage_reader=reader, process_group=group, no_dist=group is None)
    except CheckpointException as error:
        raise _failure(error, folder) from None


def shapes(folder: Path) -> dict[str, torch.Size]:
    """The names in the files, with the shapes of the whole tensors."""
    return {name: found.size for name, found in _metadata(folder).items()}


def read_whole(folder: Path, prefix: str) -> dict[str, Tensor]:
    """The whole tensors whose names begin so, without that beginning. Needs no other rank."""
    wanted = {name: found for name, found in _metadata(folder).items() if name.startswith(prefix)}
    tensors = {name: torch.empty(found.size, dtype=found.properties.dtype) for name, found in wanted.items()}
    read(folder, tensors, None)
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


def _metadata(folder: Path) -> dict[str, TensorStorageMetadata]:
    found = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    return {name: item for name, item in found.items() if isinstance(item, TensorStorageMetadata)}


def _failure(error: CheckpointException, folder: Path) -> StorageError | InputError:
    """What the first rank that failed has to say."""
    cause, _ = next(iter(error.failures.values()))
    try:
        with disk_errors():
            raise cause
    except OSError as found:
        return StorageError.of(found, folder)
    except (SafetensorError, KeyError, ValueError, RuntimeError, AssertionError) as found:
        first = (str(found).strip() or type(found).__name__).splitlines()[0]
        return InputError(f"shards that do not fit ({first})", allowed="an untouched checkpoint", where=str(folder))


@contextmanager
def _quiet() -> Iterator[None]:
    """torch warns whenever one process reads alone, which is meant here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is", category=UserWarning)
        yield
