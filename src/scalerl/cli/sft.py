"""`scalerl sft`: the warm start on its own: a small policy, trained on noisy solution traces.

Called by the typer application. `scalerl train` does the same by itself before step 0 and finds the result in the same
cache; this command shows the policy, measures it, and can copy it out.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scalerl.cli import options
from scalerl.cli.output import Outcome, text_of, to_json
from scalerl.cli.settings import Asked, resolve
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.cli.output import Document
    from scalerl.config import RunConfig
    from scalerl.pipeline.types import EvalPoint
    from scalerl.policy.load import LoadedPolicy


def sft(
    scale: options.Scale = None,
    config: options.ConfigFile = None,
    sets: options.Sets = None,
    seed: options.Seed = None,
    out: options.PolicyFolder = None,
    live: options.LiveView = None,
    json: options.Json = False,
) -> Outcome:
    """Warm up a small policy by supervised training (or find it in the cache), and measure it on held-out problems."""
    run = resolve(Asked(scale=scale, config=config, sets=tuple(sets or ()), seed=seed)).config
    if run.scale.warm_start.kind != "sft":
        raise InputError("scale.warm_start.kind", run.scale.warm_start.kind, "sft: nothing else is a warm start")
    from scalerl.cli.train import check_installed

    check_installed()
    from scalerl.folder import refuse_existing

    if out is not None:
        refuse_existing(Path(out))
    policy, point, wall_s = _warm_up(run, live)
    if out is not None:
        _copy(policy.folder, Path(out))
    document = _document(run, policy, point, out, wall_s)
    return Outcome(to_json(document) if json else text_of(_lines(document)))


def _warm_up(run: RunConfig, live: bool | None) -> tuple[LoadedPolicy, EvalPoint, float]:
    """The policy, its pass rate, and the time that took."""
    import torch

    from scalerl.cli.live import view_for
    from scalerl.compute import Ledger
    from scalerl.pipeline.assemble import ground
    from scalerl.policy.load import load_policy

    started, threads = time.monotonic(), torch.get_num_threads()
    view = view_for(run, live)
    torch.set_num_threads(run.scale.launcher.threads)  # the weights depend on it in their last digits
    try:
        with view.shown():
            policy = load_policy(run, None, view.preparing)
            evaluator = ground(run, policy.tokenizer).evaluator(policy.model, 0)
            weights = {name: parameter.detach() for name, parameter in policy.model.named_parameters()}
            point, _ = evaluator.evaluate(weights, 0, Ledger(), lambda *_: None)
    finally:
        torch.set_num_threads(threads)
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
