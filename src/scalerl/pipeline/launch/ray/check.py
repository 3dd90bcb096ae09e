"""Is this cluster fit for a run? What Ray sees, whether the versions agree, and one step of a run from end to end.

Called by `scalerl cluster-check`. Every check is tried, and says in one line what it found; the first one that fails
ends them, because those after it need it.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalerl.config import RunConfig
from scalerl.errors import ScaleRLError
from scalerl.pipeline.engines.open import check_engine
from scalerl.pipeline.launch.ray.cluster import Cluster
from scalerl.pipeline.launch.ray.drive import bundles_of, connected, train_on_cluster
from scalerl.pipeline.observe import Silent
from scalerl.runs.provenance import version_of

ALIKE = ("python", "scalerl", "torch", "ray", "transformers")
"""What must be the same everywhere: objects are pickled between machines."""
_ENGINE = "vllm"
"""Also, where it generates; for GPUs and for CPUs it has two names."""


@dataclass(frozen=True)
class Finding:
    """One check."""

    name: str
    ok: bool
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


class Probe:
    """An actor that says what is installed where it runs."""

    def describe(self) -> dict[str, str | None]:
        return installed()


def installed() -> dict[str, str | None]:
    engine = version_of(_ENGINE) or version_of(f"{_ENGINE}-cpu")
    found = {"python": platform.python_version()} | {name: version_of(name) for name in ALIKE[1:]}
    return found | {_ENGINE: engine and engine.partition("+")[0]}


def check_cluster(
    run: RunConfig,
    address: str | None,
    tell: Callable[[Finding], None],
    patience_s: float | None = None,
    notice: Callable[[str], None] = lambda _: None,
) -> bool:
    """Tell of each check as it is done; whether all are well. `run` is the smoke run: a step or two. `notice` hears
    what is waited for, `patience_s` at most."""
    try:
        check_engine(run)
    except ScaleRLError as error:
        tell(Finding("engine", ok=False, text=str(error)))
        return False
    try:
        with connected(address, run, notice, patience_s) as cluster:
            own = "one of its own on this machine" if address is None else f"at {address}"
            tell(Finding("cluster", ok=True, text=f"Ray {installed()['ray']}, {own}; {_nodes(cluster)}"))
            versions = _versions(cluster, run)
            tell(versions)
            if not versions.ok:
                return False
            places = f"{len(bundles_of(run))} actors have their places"
            tell(Finding("places", ok=True, text=places, values={"bundles": bundles_of(run)}))
            smoke = _smoke(cluster, run)
            tell(smoke)
            return smoke.ok
    except ScaleRLError as error:
        tell(Finding("cluster", ok=False, text=str(error)))
        return False


def _nodes(cluster: Cluster) -> str:
    nodes = cluster.nodes()
    each = "; ".join(
        f"{node.address}: {node.resources.get('CPU', 0):g} CPU, {node.resources.get('GPU', 0):g} GPU" for node in nodes
    )
    return f"{len(nodes)} node{'s' if len(nodes) != 1 else ''} ({each})"


def _versions(cluster: Cluster, run: RunConfig) -> Finding:
    alike = ALIKE if run.scale.generator.engine != _ENGINE else (*ALIKE, _ENGINE)
    here = installed()
    there = cluster.ask_every_node(Probe, "describe")
    problems = []
    for address, found in there.items():
        if isinstance(found, ScaleRLError):
            problems.append(f"{address}: {found}")
            continue
        differing = [f"{name} {found[name]}, here {here[name]}" for name in alike if found[name] != here[name]]
        problems += [f"{address} has {text}" for text in differing]
    if problems:
        return Finding("versions", ok=False, text="; ".join(problems))
    same = ", ".join(f"{name} {here[name]}" for name in alike)
    return Finding("versions", ok=True, text=f"the same on every node: {same}", values={"here": here})


def _smoke(cluster: Cluster, run: RunConfig) -> Finding:
    """A run in a folder that is gone afterwards; the engine starts in it, and weights go round once."""
    lost: list[str] = []
    with tempfile.TemporaryDirectory(prefix="scalerl-check-") as folder:
        try:
            result = train_on_cluster(
                cluster, run, Path(folder) / "run", _Listening(lost), cache=Path(folder) / "cache"
            )
        except ScaleRLError as error:
            return Finding("smoke run", ok=False, text=str(error))
    engine, launcher = run.scale.generator.engine, run.scale.launcher
    text = f"{result.step} steps with {launcher.trainers} trainer(s) and {launcher.generators} generator(s) ({engine})"
    return Finding("smoke run", ok=not lost, text="; ".join([text, *lost]))


class _Listening(Silent):
    """Deaths count."""

    def __init__(self, lost: list[str]) -> None:
        self._lost = lost

    def preparing(self, progress: object) -> None: ...

    def notice(self, text: str) -> None:
        self._lost.append(text)
