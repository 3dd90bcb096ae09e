"""`scalerl cluster-check`: what Ray sees, whether versions agree everywhere, and a run of two steps from end to end.

Called by the typer application. The checks themselves are the pipeline's.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from scalerl.cli import options
from scalerl.cli.output import Outcome, to_json
from scalerl.cli.settings import Asked, resolve
from scalerl.cli.train import check_installed, place_of

if TYPE_CHECKING:
    from scalerl.pipeline.launch.ray.check import Finding

FAILED = 1
SMOKE = (
    'scale.warm_start.kind="none"', "scale.evaluation.problems=8", "scale.evaluation.samples=1",
    "scale.batch.prompts=4", "scale.batch.rollouts=4",
)  # fmt: skip
"""A small run without a warm start: what it learns does not matter."""


def cluster_check(
    address: options.Address = None,
    patience: options.Patience = None,
    trainers: options.Trainers = None,
    generators: options.Generators = None,
    sets: options.Sets = None,
    json: options.Json = False,
) -> Outcome:
    """Look at a Ray cluster before a run: nodes, versions, room for the actors, and two steps of a small run."""
    where = place_of(address, patience)
    check_installed()
    from scalerl.pipeline.launch.ray.cluster import check_address

    check_address(address)
    from scalerl.pipeline.launch.ray.check import check_cluster

    given = {text.partition("=")[0] for text in sets or ()}
    small = tuple(text for text in SMOKE if text.partition("=")[0] not in given)
    asked = Asked(
        sets=(*small, *(sets or ())), budget="2 steps", launcher="ray", trainers=trainers, generators=generators
    )
    findings: list[Finding] = []

    def tell(finding: Finding) -> None:
        findings.append(finding)
        if not json:
            typer.echo(_line(finding), err=True)

    def notice(text: str) -> None:
        if not json:
            typer.echo(f"note: {text}", err=True)

    fine = check_cluster(resolve(asked).config, address, tell, where.patience_s, notice)
    code = 0 if fine else FAILED
    if json:
        return Outcome(to_json({"ok": fine, "findings": [asdict(finding) for finding in findings]}), code=code)
    return Outcome("The cluster is ready.\n" if fine else "The cluster is not ready.\n", code=code)


def _line(finding: Finding) -> str:
    return f"{'ok    ' if finding.ok else 'FAILED'}  {finding.name}: {finding.text}"
