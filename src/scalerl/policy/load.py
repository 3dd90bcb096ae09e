"""The policy of a run: built and warmed up, or read from a folder or a hub, and checked against the run's needs.

Called by the session before anything is written, and by the generator's process. Small policies lie in a cache, by a
digest of everything that decides their weights, so that every policy has a folder that another process can read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from scalerl.config import InterruptionWindow, RunConfig
from scalerl.config.policy import Dtype, LlamaModel, MoeModel, PretrainedModel, SftWarmStart
from scalerl.errors import InputError
from scalerl.policy.chat import Dialogue
from scalerl.policy.pretrained import read_model, read_tokenizer, resolve
from scalerl.policy.processor import spare_broken_units
from scalerl.policy.sft import Progress, WarmStart, warm_start
from scalerl.policy.tiny import Shape, TinyLlama, TinyMoe, build_policy

__all__ = [
    "LoadedPolicy",
    "Progress",
    "default_cache",
    "load_policy",
    "read_policy",
]


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy in memory, and where the same one lies on disk."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    folder: Path


def load_policy(
    run: RunConfig, cache: Path | None = None, progress: Callable[[Progress], None] | None = None
) -> LoadedPolicy:
    """The policy at step 0; `progress` hears of the warm start, if one has to be trained now."""
    model = run.scale.model
    if run.uses_bfloat16:
        spare_broken_units()  # a warm start, which comes first, would settle what oneDNN uses
    if isinstance(model, PretrainedModel):
        folder = _pretrained(run, model)
    else:
        folder = _tiny(run, model, default_cache() if cache is None else cache, progress)
    tokenizer = read_tokenizer(folder)
    _check_text(run, tokenizer)
    loaded = read_policy(folder, model.dtype)
    _check_context(run, loaded, folder)
    return LoadedPolicy(loaded, tokenizer, folder)


def read_policy(folder: Path, dtype: Dtype) -> PreTrainedModel:
    """The model in a folder, for example in a checkpoint."""
    if dtype == "bfloat16":
        spare_broken_units()
    return read_model(folder, getattr(torch, dtype))


def default_cache() -> Path:
    """$SCALERL_CACHE, or a folder of ours in the user's cache."""
    if own := os.environ.get("SCALERL_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "scalerl"


def _pretrained(run: RunConfig, model: PretrainedModel) -> Path:
    if run.scale.warm_start.kind != "none":
        allowed = "none, because only llama and moe policies are warmed up"
        raise InputError("scale.warm_start.kind", run.scale.warm_start.kind, allowed)
    return resolve(model.name)


def _tiny(
    run: RunConfig, model: LlamaModel | MoeModel, cache: Path, progress: Callable[[Progress], None] | None
) -> Path:
    shape = _shape(model, run.scale.context)
    warm = run.scale.warm_start
    if not isinstance(warm, SftWarmStart):
        return _random(shape, run.seed, cache, portable=run.scale.launcher.portable)
    settings = WarmStart(
        task=run.scale.task_settings,
        model=shape,
        steps=warm.steps,
        batch=warm.batch,
        learning_rate=warm.learning_rate,
        wrong_steps=warm.wrong_steps,
        seed=0 if warm.shared else run.seed,
        portable=run.scale.launcher.portable,
    )
    return warm_start(settings, cache, progress)


def _shape(model: LlamaModel | MoeModel, context: int) -> Shape:
    kind = TinyLlama if isinstance(model, LlamaModel) else TinyMoe
    return kind(**model.model_dump(exclude={"source", "dtype"}), context=context)


def _random(shape: Shape, seed: int, cache: Path, *, portable: bool) -> Path:
    """Cached like a warm start: another process reads the same folder."""
    described = {"kind": type(shape).__name__, **asdict(shape), "seed": seed} | ({"portable": True} if portable else {})
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:20]
    folder = cache / f"random-{digest}"
    if not folder.is_dir():
        with suppress(FileExistsError):  # another process built the same policy meanwhile
            build_policy(folder, shape, seed=seed)
    return folder


def _check_text(run: RunConfig, tokenizer: PreTrainedTokenizerBase) -> None:
    dialogue = Dialogue(tokenizer, run.scale.chat)
    assert dialogue.end_of_response is not None  # each of these is refused now, not after the run has begun
    assert dialogue.end_thinking_ids
    limits, tokens = run.length, run.scale.tokens
    if isinstance(limits, InterruptionWindow):
        phrase = dialogue.phrase_ids(limits.phrase)
        room = tokens.response - limits.high_tokens
        if len(phrase) >= room:
            what = "tokens of the interruption phrase (recipe.length.phrase or scale.tokens.interruption_phrase)"
            raise InputError(what, len(phrase), f"less than {room}, or nothing is left of scale.tokens for the answer")


def _check_context(run: RunConfig, model: PreTrainedModel, folder: Path) -> None:
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    needed = run.scale.context
    if context is not None and needed > context:
        what = "scale.tokens: prompt + thinking + answer"
        raise InputError(what, needed, f"at most the context of the policy, {context}", str(folder))
