"""`scalerl sft --model`: supervised training of a real model on chat traces.

Called by `sft`. Options become settings, `scalerl.supervised` trains, and this says what came out.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalerl.cli.output import Outcome, text_of, to_json, unbroken

if TYPE_CHECKING:
    from rich.console import RenderableType

    from scalerl.cli.output import Document
    from scalerl.supervised.settings import SftSettings
    from scalerl.supervised.train import SftResult

INTERRUPTED = 130


def sft_model(settings: SftSettings, out: Path, live: bool | None, json: bool) -> Outcome:
    """Train, watched on the screen."""
    from scalerl.cli.sft_view import view_for
    from scalerl.supervised.train import train_supervised

    view = view_for(live)
    with view.shown():
        result = train_supervised(settings, out, view, lambda: view.stopping)
    document = _document(settings, result)
    code = INTERRUPTED if result.reason == "interrupted" else 0
    return Outcome(to_json(document) if json else text_of(_lines(document, settings.template)), code=code)


def _document(settings: SftSettings, result: SftResult) -> Document:
    progress = result.progress
    measured: dict[str, Any] = {
        name: getattr(progress, name)
        for name in ("step", "steps", "loss", "held_out_loss", "tokens", "learnt_tokens", "wall_s")
    }
    return {
        "reason": result.reason,
        "folder": str(result.folder),
        "model": settings.model,
        "traces": result.record["traces"],
        **measured,
    }


def _lines(document: Document, template: str) -> list[RenderableType]:
    from scalerl import numbers
    from scalerl.cli.screen import duration

    traces = document["traces"]
    left_out = f", {traces['too_long']:,} too long and left out" if traces["too_long"] else ""
    held_out = "" if document["held_out_loss"] is None else f", held out {document['held_out_loss']:.3f}"
    tokens = f"{numbers.amount(document['tokens'])} tokens, {numbers.amount(document['learnt_tokens'])} of them learnt"
    head = {
        "finished": f"Policy    {document['folder']}",
        "already there": f"Policy    {document['folder']} (it was there already: nothing was done)",
        "interrupted": f"Stopped   after step {document['step']:,}; the same command goes on from there",
    }[document["reason"]]
    return [
        head,
        f"Trained   step {document['step']:,} of {document['steps']:,}, {tokens}, {duration(document['wall_s'])}",
        f"Traces    {traces['read']:,} read, {traces['held_out']:,} held out{left_out}",
        f"Loss      {document['loss']:.3f}{held_out}",
        *([unbroken(_next(document["folder"], template))] if document["reason"] != "interrupted" else []),
    ]


def _next(folder: str, template: str) -> str:
    """The policy as it was trained: asked in its chat template, and not warmed up once more."""
    sets = [f'scale.model={{source="pretrained", name="{folder}", dtype="float32"}}', 'scale.warm_start={kind="none"}']
    sets += ['scale.chat={template="model"}'] if template == "model" else []
    return f"RL        scalerl train {' '.join(f'--set {shlex.quote(one)}' for one in sets)} ..."
