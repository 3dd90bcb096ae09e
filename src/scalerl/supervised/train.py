"""The training itself: from settings to a folder with a policy, with a log, and able to go on where it stopped.

Called by the command line. While it trains everything lies beside the result, in `OUT.training`:

    run.json              the settings, the digest of the traces, whether they are packed
    metrics.jsonl         one line a step: loss, held-out loss, learning rate, norm of the gradient, tokens, seconds
    checkpoints/step-...  two of them, as those of RL runs
    lock                  held by the process that trains

At the end OUT appears as a whole: a plain Hugging Face folder, with the log and `sft.json`, which says how it was made;
then the other folder goes. The same call goes on from the newest checkpoint, and ends with the weights, bit for bit,
that it would have had without the interruption (on the same machine, with the same number of threads).

There is no dropout, as in RL: the model is in eval mode.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from scalerl.errors import InputError
from scalerl.folder import check_writable, make_folder, refuse_existing
from scalerl.policy.pretrained import read_config, read_tokenizer, resolve
from scalerl.runs.layout import LOCK
from scalerl.runs.lock import locked
from scalerl.supervised.corpus import read_corpora
from scalerl.supervised.session import MARKER, RUN, Progress, Session, Watcher
from scalerl.supervised.settings import MOST_TOKENS, SftSettings
from scalerl.supervised.spans import Encoder

TRAINING = ".training"

Reason = Literal["finished", "interrupted", "already there"]


@dataclass(frozen=True)
class SftResult:
    """What came out."""

    reason: Reason
    folder: Path
    """The policy; or what there is so far, if it was interrupted."""
    progress: Progress
    record: dict[str, Any]
    """What `sft.json` says, or will say."""


def train_supervised(
    settings: SftSettings, out: Path, watcher: Watcher, should_stop: Callable[[], bool] = lambda: False
) -> SftResult:
    """Train, or go on, until the policy lies in `out`, or until `should_stop` says so after a step."""
    work = out.with_name(out.name + TRAINING)
    if (found := _finished(settings, out)) is not None:
        shutil.rmtree(work, ignore_errors=True)  # a process may have died between the last two steps
        return found
    refuse_existing(out)
    check_writable(out)
    _check_same(settings, work)
    source = _resolve(settings.model)
    tokenizer = read_tokenizer(source)
    encoder = Encoder(tokenizer, template=settings.template == "model", options=settings.template_options)
    max_tokens = _max_tokens(settings, source, tokenizer)
    corpora = read_corpora(settings, encoder, max_tokens, watcher.reading)
    for note in corpora.tally.notes(max_tokens):
        watcher.notice(note)
    make_folder(work)
    with locked(work / LOCK):
        session = Session(settings, work, source, tokenizer, corpora, watcher)
        reason = session.run(should_stop)
        if reason == "finished":
            session.publish(out)
    folder = out if reason == "finished" else work
    if reason == "finished":
        shutil.rmtree(work, ignore_errors=True)
    return SftResult(reason, folder, session.progress, session.record)


def _finished(settings: SftSettings, out: Path) -> SftResult | None:
    """The result of the same settings, if it is there already."""
    try:
        record = json.loads((out / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if SftSettings.model_validate(record["settings"]).identity != settings.identity:
        allowed = "a new folder; nothing is overwritten"
        raise InputError("the folder holds a policy of other settings", allowed=allowed, where=str(out))
    known = {key: value for key, value in record["measured"].items() if key != "rows"}
    return SftResult("already there", out, Progress(**known), record)


def _check_same(settings: SftSettings, work: Path) -> None:
    """Before anything is read: training goes on with its own settings only."""
    try:
        known = json.loads((work / RUN).read_text(encoding="utf-8"))["settings"]
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):
        raise InputError("a broken file", allowed="that of an interrupted training", where=str(work / RUN)) from None
    for key, value in settings.identity.items():
        if known.get(key) != value:
            allowed = f"{known.get(key)}, to go on with the training there; or another --out"
            raise InputError(key, str(value), allowed, str(work))


def _resolve(name: str) -> Path:
    try:
        return resolve(name)
    except InputError as error:  # the policy of a run has another name for the same thing
        raise InputError(
            error.what.replace("scale.model.name", "--model"), error.value, error.allowed, error.where
        ) from None


def _max_tokens(settings: SftSettings, source: Path, tokenizer: PreTrainedTokenizerBase) -> int:
    """What was asked for, if the model can read it."""
    config = read_config(source).get_text_config()
    known = (getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
    context = min(value for value in (*known, 10**9) if isinstance(value, int) and value > 0)
    if settings.max_tokens > context:
        raise InputError("max_tokens", settings.max_tokens, f"at most the context of the model, {context}", str(source))
    return settings.max_tokens or min(context, MOST_TOKENS)
