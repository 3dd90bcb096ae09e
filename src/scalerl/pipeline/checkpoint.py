"""Checkpoints: the policy in Hugging Face format and the state of every part, whole or not there. No pickles.

    step-000100/  config.json, model.safetensors, tokenizer files    any tool can load the policy from here
                  parts/<part>.safetensors                           the tensors of a part that has some; vLLM takes
                                                                     all that lie beside the policy for its weights
                  shards/*.safetensors                               of several trainer ranks: what each has of weights
                                                                     and optimiser (`shards`)
                  adapter/                                           of a run with LoRA: the adapters, in peft's format
                  state.json                                         the JSON values of all parts
                  complete.json                                      written last: SHA-256 of every file

Written and read by the session; what is in a part only the part knows. The crash contract: a folder appears under its
name complete and on the disk, or not at all, so a full disk or a killed process leaves the checkpoints before it valid.
The newest `keep` are kept, older ones are removed once a new one is complete. One whose digests are wrong is set aside,
and the one before it used.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from scalerl.errors import InputError
from scalerl.folder import PARTIAL, complete_folder, discard_folder, rename_folder
from scalerl.pipeline.types import Snapshot
from scalerl.plain_file import read_plain
from scalerl.policy.tiny import disk_errors, save_policy
from scalerl.runs.layout import (
    COMPLETE,
    FORMAT,
    NEXT,
    PARTS,
    STATE,
    aside_of,
    complete_checkpoints,
    step_name,
    step_of,
)  # fmt: skip

KEEP = 2
"""Checkpoints kept unless told otherwise: the newest, and the one before it."""

WriteParts = Callable[[Path], Mapping[str, Tensor] | None]
"""Writes into the folder of the checkpoint, and returns the whole policy; None: it is the model in memory."""

_PART = re.compile(r"[a-z][a-z0-9_]*")
_TAKEN = {"model"}
"""Earlier versions wrote parts beside the policy, where this name was its own."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and verified."""

    step: int
    parts: Mapping[str, Snapshot]
    policy: Path
    """A folder that `from_pretrained` reads: the weights bit for bit, and the tokenizer."""
    damaged: tuple[str, ...] = ()
    """What is wrong with newer ones, in the place of which this one is used."""


def save(
    root: Path,
    step: int,
    parts: Mapping[str, Snapshot],
    *,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    keep: int = KEEP,
    spare: int | None = None,
    write_parts: WriteParts | None = None,
) -> Path:
    """Write `root/step-...`, then remove all but the newest `keep`. One of the same step is replaced.

    `spare`: the newest up to this step is kept too, to go back to.

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
                (folder / PARTS).mkdir(exist_ok=True)
                save_file(_separate(part.tensors), folder / PARTS / f"{name}.safetensors")
        (folder / STATE).write_text(state, encoding="utf-8")
        marker = {"format": FORMAT, "step": step, "files": _digests(folder)}
        (folder / COMPLETE).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
    if target != final:
        _put_in_place(target, final)
    complete = complete_checkpoints(root)
    spared = [folder for folder in complete if spare is not None and step_of(folder) <= spare][-1:]
    for old in complete[:-keep]:
        if old not in spared:
            discard_folder(old)
    return final


def load(folder: Path) -> Checkpoint:
    """Read a checkpoint and check every file against its digest."""
    try:
        files = _read_files(folder)
        for name, expected in files.items():
            _check_file(folder / name, expected)
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        parts = {name: Snapshot(values, _tensors(folder, name, files)) for name, values in state["parts"].items()}
    except OSError as error:
        raise InputError(f"the checkpoint cannot be read ({error.strerror})", where=str(folder)) from None
    return Checkpoint(state["step"], parts, folder)


def newest(root: Path) -> Path | None:
    """The newest complete checkpoint; None when there is none."""
    complete = complete_checkpoints(root)
    return complete[-1] if complete else None


def load_newest(root: Path) -> Checkpoint | None:
    """What a run goes on from; None when nothing was saved yet. Newer ones that are damaged are set aside as
    `step-....damaged`; an error when all are. Only for the process that holds the run."""
    damaged: list[tuple[Path, InputError]] = []
    found = None
    for folder in reversed(complete_checkpoints(root)):
        try:
            found = load(folder)
        except InputError as error:
            damaged.append((folder, error))
        else:
            break
    if found is None:
        if damaged:
            raise damaged[0][1]
        return None
    for folder, _ in damaged:
        rename_folder(folder, aside_of(folder).name)
    return replace(found, damaged=tuple(str(error) for _, error in damaged))


def discard_after(root: Path, step: int) -> None:
    """Remove the checkpoints after a step, but not the only one there is."""
    complete = complete_checkpoints(root)
    for folder in complete[1:] if complete and step_of(complete[0]) > step else complete:
        if step_of(folder) > step:
            discard_folder(folder)


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


def _tensors(folder: Path, part: str, files: Mapping[str, str]) -> dict[str, Tensor]:
    before = f"{part}.safetensors"  # where earlier versions wrote it
    found = [name for name in (f"{PARTS}/{before}", before) if name in files]
    return load_file(folder / found[0]) if found else {}


def _read_files(folder: Path) -> dict[str, str]:
    """The digest of each file, by its name; everything that a checkpoint needs is among them."""
    file = folder / COMPLETE
    try:
        marker = json.loads(read_plain(file))
    except FileNotFoundError:
        raise InputError("no complete checkpoint", allowed=f"a folder with {COMPLETE}", where=str(folder)) from None
    except (ValueError, RecursionError):
        raise InputError("a broken file", allowed="an untouched checkpoint", where=str(file)) from None
    if not isinstance(marker, dict) or marker.get("format") != FORMAT:
        raise InputError("unknown format of a checkpoint", allowed=f"format {FORMAT}", where=str(file))
    files = marker.get("files")
    if not isinstance(files, dict) or STATE not in files:
        raise InputError("it does not name the files", allowed="an untouched checkpoint", where=str(file))
    for name in files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise InputError("a file of the checkpoint", name, "names inside its folder", str(file))
    return files


def _check_file(file: Path, expected: str) -> None:
    allowed = "an untouched checkpoint"
    if not file.is_file():
        raise InputError("a file of the checkpoint is missing", allowed=allowed, where=str(file))
    if _digest(file) != expected:
        raise InputError("a file of the checkpoint is damaged (wrong SHA-256)", allowed=allowed, where=str(file))


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): _digest(file) for file in files}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _tidy(root: Path) -> None:
    """Remove what a killed process left behind, and finish a replacement that it had begun. One process writes here."""
    for folder in root.glob(f"step-*{PARTIAL}"):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in root.glob(f"step-*{NEXT}"):
        _put_in_place(folder, folder.with_name(folder.name.removesuffix(NEXT)))


def _put_in_place(folder: Path, final: Path) -> None:
    """A complete checkpoint under its final name."""
    if final.exists():
        discard_folder(final)
    rename_folder(folder, final.name)
