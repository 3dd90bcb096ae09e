"""`scalerl sft --model`: supervised training of a real model on chat traces.

Called by `sft`. Options become settings, `scalerl.supervised` trains, and this says what came out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalerl.cli.output import Outcome, text_of, to_json

if TYPE_CHECKING:
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
    return Outcome(to_json(document) if json else text_of(_lines(document)), code=code)


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


def _lines(document: Document) -> list[str]:
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
        *(_next(document) if document["reason"] != "interrupted" else []),
    ]


def _next(document: Document) -> list[str]:
    name = document["folder"]
    return [
        f'RL        scalerl train --set \'scale.model={{source="pretrained", name="{name}", dtype="float32"}}\' ...'
    ]
