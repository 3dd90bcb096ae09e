"""`scalerl sft`: supervised training before RL, of a real model on chat traces or of a small policy on made-up ones.

Called by the typer application. With --model it is a real model, and everything else is in `sft_model`. Without, it is
the warm start on its own: `scalerl train` does the same by itself before step 0 and finds the result in the same cache;
this command shows the policy, measures it, and can copy it out.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scalerl.cli import options, sft_options
from scalerl.cli.output import Outcome, text_of, to_json
from scalerl.cli.settings import Asked, resolve
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.cli.output import Document
    from scalerl.config import RunConfig
    from scalerl.pipeline.types import EvalPoint
    from scalerl.policy.load import LoadedPolicy


def sft(
    model: sft_options.Model = None,
    data: sft_options.Data = None,
    held_out: sft_options.HeldOut = None,
    epochs: sft_options.Epochs = None,
    learning_rate: sft_options.LearningRate = None,
    batch_tokens: sft_options.BatchTokens = None,
    max_tokens: sft_options.MaxTokens = None,
    too_long: sft_options.TooLong = None,
    dtype: sft_options.Dtype = None,
    scale: options.Scale = None,
    config: options.ConfigFile = None,
    sets: options.Sets = None,
    seed: options.Seed = None,
    out: sft_options.Out = None,
    live: options.LiveView = None,
    json: options.Json = False,
) -> Outcome:
    """Supervised training before RL: with --model a real model on chat traces; otherwise warm up a small policy (or
    find it in the cache) and measure it on held-out problems.
    """
    real = {
        "data": data, "held_out": held_out, "epochs": epochs, "learning_rate": learning_rate,
        "batch_tokens": batch_tokens, "max_tokens": max_tokens, "too_long": too_long, "dtype": dtype,
    }  # fmt: skip
    if model is None:
        _refuse(real, "--model, which names the model to train on traces")
        return _small(Asked(scale=scale, config=config, sets=tuple(sets or ()), seed=seed), out, live, json)
    _refuse({"scale": scale, "config": config}, "without --model only: they describe small policies")
    return _real(real | {"model": model, "seed": _seed(seed)}, sets or [], out, live, json)


def _seed(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        raise InputError("--seed", text, "a whole number of at least 0") from None


def _refuse(given: Mapping[str, object], allowed: str) -> None:
    """Options of the one kind of training say nothing to the other."""
    names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if names:
        raise InputError(", ".join(names), allowed=allowed)


def _real(given: Mapping[str, object], sets: Sequence[str], out: str | None, live: bool | None, json: bool) -> Outcome:
    from scalerl.cli.train import check_installed
    from scalerl.supervised.settings import load_settings

    if not given["data"]:
        raise InputError("nothing to train on", allowed="--data FILE with traces: JSONL or Parquet")
    if out is None:
        raise InputError("no place for the policy", allowed="--out DIR")
    settings = load_settings({name: None if value == [] else value for name, value in given.items()}, sets)
    check_installed()
    from scalerl.cli.sft_model import sft_model

    return sft_model(settings, Path(out), live, json)


def _small(asked: Asked, out: str | None, live: bool | None, json: bool) -> Outcome:
    run = resolve(asked).config
    if run.scale.warm_start.kind != "sft":
        raise InputError("scale.warm_start.kind", run.scale.warm_start.kind, "sft: nothing else is a warm start")
    from scalerl.cli.train import check_installed

    check_installed()
    from scalerl.folder import check_writable, refuse_existing

    if out is not None:
        refuse_existing(Path(out))
        check_writable(Path(out))  # now, not after minutes of training
    policy, point, wall_s = _warm_up(run, live)
    if out is not None:
        _copy(policy.folder, Path(out))
    document = _document(run, policy, point, out, wall_s)
    return Outcome(to_json(document) if json else text_of(_lines(document)))


def _warm_up(run: RunConfig, live: bool | None) -> tuple[LoadedPolicy, EvalPoint, float]:
    """The policy, its pass rate, and the time that took."""
    from scalerl.cli.live import view_for
    from scalerl.compute import Ledger
    from scalerl.pipeline.assemble import ground
    from scalerl.pipeline.computing import computing
    from scalerl.pipeline.evaluate import judged
    from scalerl.policy.load import load_policy

    started = time.monotonic()
    view = view_for(run, live)
    with computing(run), view.shown():
        policy = load_policy(run, None, view.preparing)
        evaluator = ground(run, policy.tokenizer).evaluator(policy.model, 0)
        weights = {name: parameter.detach() for name, parameter in policy.model.named_parameters()}
        point = judged(evaluator.evaluate(weights, 0, Ledger(), lambda *_: None)[0])
    return policy, point, time.monotonic() - started


def _copy(folder: Path, out: Path) -> None:
    """The whole folder or nothing."""
    from scalerl.folder import complete_folder

    with complete_folder(out) as partial:
        for file in folder.iterdir():
            shutil.copyfile(file, partial / file.name)


def _document(run: RunConfig, policy: LoadedPolicy, point: EvalPoint, out: str | None, wall_s: float) -> Document:
    return {
        "folder": str(policy.folder) if out is None else out,
        "cached": str(policy.folder),
        "parameters": sum(parameter.numel() for parameter in policy.model.parameters()),
        "steps": getattr(run.scale.warm_start, "steps", None),
        "pass_rate": point.pass_rate,
        "standard_error": point.standard_error,
        "problems": point.num_problems,
        "samples": point.num_samples,
        "wall_s": wall_s,
    }


def _lines(document: Document) -> list[str]:
    from scalerl import numbers
    from scalerl.cli.screen import duration

    error = document["standard_error"]
    rate = f"{document['pass_rate']:.3f}" + ("" if error is None else f" +- {error:.3f}")
    size, steps = numbers.amount(document["parameters"]), f"{document['steps']:,} steps of warm start"
    return [
        f"Policy    {document['folder']}",
        f"Size      {size} parameters, {steps}, {duration(document['wall_s'])}",
        f"Pass rate {rate} on {document['problems']:,} held-out problems x {document['samples']:,} answers",
    ]
