"""Checkpoints: the policy in Hugging Face format and the state of every part, whole or not there. No pickles.

    step-000100/  config.json, model.safetensors, tokenizer files    any tool can load the policy from here
                  <part>.safetensors                                 the tensors of a part that has some
                  shards/*.safetensors                               of several trainer ranks: what each has of weights
                                                                     and optimiser (`shards`)
                  adapter/                                           of a run with LoRA: the adapters, in peft's format
                  state.json                                         the JSON values of all parts
                  complete.json                                      written last: SHA-256 of every file

Written and read by the session; what is in a part only the part knows. The crash contract: a folder appears under its
name complete and on the disk, or not at all, so a full disk or a killed process leaves the checkpoints before it valid.
The newest `keep` are kept, older ones are removed once a new one is complete.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from scalerl.errors import InputError
from scalerl.folder import PARTIAL, complete_folder
from scalerl.pipeline.types import Snapshot
from scalerl.policy.tiny import disk_errors, save_policy
from scalerl.runs.layout import COMPLETE, NEXT, complete_checkpoints, step_name

FORMAT = 1
STATE = "state.json"
KEEP = 2
"""Checkpoints kept unless told otherwise: the newest, and the one before it."""

WriteParts = Callable[[Path], Mapping[str, Tensor] | None]
"""Writes into the folder of the checkpoint, and returns the whole policy; None: it is the model in memory."""

_PART = re.compile(r"[a-z][a-z0-9_]*")
_TAKEN = {"model"}
"""Names whose tensors would overwrite the policy."""
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and verified."""

    step: int
    parts: Mapping[str, Snapshot]
    policy: Path
    """A folder that `from_pretrained` reads: the weights bit for bit, and the tokenizer."""


def save(
    root: Path,
    step: int,
    parts: Mapping[str, Snapshot],
    *,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    keep: int = KEEP,
    write_parts: WriteParts | None = None,
) -> Path:
    """Write `root/step-...`, then remove all but the newest `keep`. One of the same step is replaced.

    `write_parts`: where the policy is spread over ranks, which write their parts themselves, or has adapters.
    `StorageError` when the disk is full: then everything is as it was before.
    """
    if keep < 1:
        raise InputError("checkpoints to keep", keep, "at least 1")
    state = _state(step, parts)
    final = root / step_name(step)
    _tidy(root)
    target = final.with_name(final.name + NEXT) if final.exists() else final
    with complete_folder(target) as folder, disk_errors():
        weights = None if write_parts is None else write_parts(folder)
        save_policy(folder, model, tokenizer, weights)
        for name, part in parts.items():
            if part.tensors:
                save_file(_separate(part.tensors), folder / f"{name}.safetensors")
        (folder / STATE).write_text(state, encoding="utf-8")
        marker = {"format": FORMAT, "step": step, "files": _digests(folder)}
        (folder / COMPLETE).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
    if target != final:
        _discard(final)
        target.rename(final)
    for old in complete_checkpoints(root)[:-keep]:
        _discard(old)
    return final


def load(folder: Path) -> Checkpoint:
    """Read a checkpoint and check every file against its digest."""
    marker = _read_marker(folder)
    for name, expected in marker["files"].items():
        file = folder / name
        if not file.is_file():
            raise InputError("a file of the checkpoint is missing", allowed="an untouched checkpoint", where=str(file))
        if _digest(file) != expected:
            allowed = "an untouched checkpoint; remove the folder to go on from the one before it"
            raise InputError("a file of the checkpoint is damaged (wrong SHA-256)", allowed=allowed, where=str(file))
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    parts = {name: Snapshot(values, _tensors(folder, name, marker)) for name, values in state["parts"].items()}
    return Checkpoint(state["step"], parts, folder)


def newest(root: Path) -> Path | None:
    """The newest complete checkpoint; None when there is none."""
    complete = complete_checkpoints(root)
    return complete[-1] if complete else None


def load_newest(root: Path) -> Checkpoint | None:
    """What a run goes on from; None when nothing was saved yet."""
    folder = newest(root)
    return None if folder is None else load(folder)


def _state(step: int, parts: Mapping[str, Snapshot]) -> str:
    for name, part in parts.items():
        if not _PART.fullmatch(name) or name in _TAKEN:
            raise InputError("name of a part", name, "small letters, digits and _, and not model")
        _check_json(part.values, name)
    values = {"step": step, "parts": {name: dict(part.values) for name, part in parts.items()}}
    return json.dumps(values, allow_nan=False) + "\n"


def _check_json(value: Any, where: str) -> None:
    """What JSON cannot hold exactly is refused: a run that goes on from something else is another run."""
    match value:
        case None | bool() | int() | str():
            return
        case float():
            if not math.isfinite(value):
                raise InputError("a value for a checkpoint", value, "finite numbers, or None", where)
        case Mapping():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise InputError("a key for a checkpoint", repr(key), "text", where)
                _check_json(item, f"{where}.{key}")
        case list() | tuple():
            for index, item in enumerate(value):
                _check_json(item, f"{where}[{index}]")
        case _:
            raise InputError("a value for a checkpoint", type(value).__name__, "JSON values", where)


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor dense and with memory of its own, as the format wants it."""
    seen: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        dense = tensor.detach().cpu().contiguous()
        address = dense.untyped_storage().data_ptr()
        shared = address in seen or dense.untyped_storage().nbytes() > dense.nbytes
        separate[name] = dense.clone() if shared else dense
        seen.add(address)
    return separate


def _tensors(folder: Path, part: str, marker: Mapping[str, Any]) -> dict[str, Tensor]:
    name = f"{part}.safetensors"
    return load_file(folder / name) if name in marker["files"] else {}


def _read_marker(folder: Path) -> dict[str, Any]:
    file = folder / COMPLETE
    try:
        marker = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise InputError("no complete checkpoint", allowed=f"a folder with {COMPLETE}", where=str(folder)) from None
    except ValueError:
        raise InputError("a broken file", allowed="an untouched checkpoint", where=str(file)) from None
    if not isinstance(marker, dict) or marker.get("format") != FORMAT:
        raise InputError("unknown format of a checkpoint", allowed=f"format {FORMAT}", where=str(file))
    return marker


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): _digest(file) for file in files}


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _tidy(root: Path) -> None:
    """Remove what a killed process left behind, and finish a replacement that it had begun. One process writes here."""
    for folder in root.glob(f"step-*{PARTIAL}"):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in root.glob(f"step-*{NEXT}"):
        final = folder.with_name(folder.name.removesuffix(NEXT))
        _discard(final)
        folder.rename(final)


def _discard(folder: Path) -> None:
    """First the name, then the content: half a checkpoint is never taken for a whole one."""
    if folder.exists():
        gone = folder.rename(folder.with_name(folder.name + PARTIAL))
        shutil.rmtree(gone, ignore_errors=True)
