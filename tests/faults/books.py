"""What must be true of a run directory, read without any of the code that wrote it.

`complaints` for a run that has ended, `kept` for what a dead process left behind, `difference` for two runs that should
be the same; `verified` is what `scalerl runs verify` thinks of either. Each returns texts: nothing to complain of is an
empty list. Used by the tests and the campaigns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from .small import PROMPTS, K, Small

Line = dict[str, Any]
_TIMES = {"wall_s", "device_s", "time"}


@dataclass(frozen=True)
class Kept:
    """What is safe on the disk at some moment."""

    step: int
    """Of the newest checkpoint that is whole; 0: there is none."""
    metrics: bytes
    """The lines up to that step."""
    steps_since: int
    """Complete lines after it: they will be made again."""


def complaints(folder: Path, run: Small) -> list[str]:
    """Of a run that has ended."""
    metrics, evals = lines(folder / "metrics.jsonl"), lines(folder / "evals.jsonl")
    found = _steps(metrics, evals, run) + _groups(metrics) + _ledger(metrics, evals) + _evaluations(folder, evals)
    found += [text for one in checkpoints(folder) for text in damage(one)]
    found += _newest(folder, run, metrics)
    stopped = json.loads((folder / "stopped.json").read_text())
    if (stopped["reason"], stopped["step"]) != ("budget", run.steps):
        found.append(f"it ended with {stopped}")
    return found


def verified(folder: Path) -> list[str]:
    """Errors that `scalerl runs verify` finds, also in what a killed process has left."""
    from scalerl.runs.verify import verify

    if not (folder / "config.json").is_file():
        return []
    found = [finding for finding in verify(folder).findings if finding.level == "error"]
    return [f"runs verify: {finding.check}: {finding.message}" for finding in found]


def kept(folder: Path) -> Kept:
    """What the newest whole checkpoint holds, and how much has been logged since."""
    whole = [one for one in checkpoints(folder) if not damage(one)]
    if not whole:
        return Kept(0, b"", num_lines(folder / "metrics.jsonl"))
    state = json.loads((whole[-1] / "state.json").read_text())
    offset = state["parts"]["session"]["offsets"]["metrics"]
    content = (folder / "metrics.jsonl").read_bytes()
    return Kept(state["step"], content[:offset], len(content[offset:].split(b"\n")) - 1)


def lost(folder: Path, before: Kept) -> list[str]:
    """What was safe then and is not there now."""
    found = []
    if not (folder / "metrics.jsonl").read_bytes().startswith(before.metrics):
        found.append(f"lines up to step {before.step} have changed")
    if (now := kept(folder).step) < before.step:
        found.append(f"the newest checkpoint was of step {before.step}, now {now}")
    return found


def difference(folder: Path, reference: Path) -> list[str]:
    """Between two runs that computed the same: everything but clocks, bit for bit."""
    found = []
    for name in ("metrics.jsonl", "evals.jsonl"):
        one, other = (_timeless(lines(place / name)) for place in (folder, reference))
        found += [
            f"{name}: step {a['step']} differs: {_changed(a, b)}" for a, b in zip(one, other, strict=False) if a != b
        ]
        if len(one) != len(other):
            found.append(f"{name}: {len(one)} lines, not {len(other)}")
    wanted = {path.name: path.read_bytes() for path in (reference / "evals").iterdir()}
    if any((folder / "evals" / name).read_bytes() != content for name, content in wanted.items()):
        found.append("results by problem differ")
    one, other = checkpoints(folder)[-1], checkpoints(reference)[-1]
    for name in ("model.safetensors", "parts/trainer.safetensors"):  # the feed's has cells that nobody reads again
        wanted_tensors = _tensors(other / name)
        if wanted_tensors is None or _tensors(one / name) != wanted_tensors:
            found.append(f"{name} of the last checkpoint differs")
    return found


def checkpoints(folder: Path) -> list[Path]:
    """Those with a marker, oldest first; of one step the replacement last."""
    marked = [marker.parent for marker in folder.glob("checkpoints/step-*/complete.json")]
    return sorted(one for one in marked if one.name.removesuffix(".next").removeprefix("step-").isdigit())


def damage(checkpoint: Path) -> list[str]:
    """Files that are not what the marker says."""
    try:
        files = json.loads((checkpoint / "complete.json").read_bytes())["files"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        return [f"{checkpoint.name}/complete.json is damaged"]
    return [f"{checkpoint.name}/{name} is damaged" for name, digest in files if _digest(checkpoint / name) != digest]


def lines(file: Path) -> list[Line]:
    """Every line, the last one too: an error where one is torn."""
    return [json.loads(line) for line in file.read_bytes().decode().split("\n")[:-1]] if file.exists() else []


def num_lines(file: Path) -> int:
    """Complete ones."""
    return file.read_bytes().count(b"\n") if file.exists() else 0


def read_json(file: Path) -> Any:
    return json.loads(file.read_bytes())


def group_numbers(metrics: list[Line]) -> list[int]:
    """Admission numbers of everything that was trained, in that order."""
    return [number for line in metrics for number in _numbers(line["groups"])]


def _steps(metrics: list[Line], evals: list[Line], run: Small) -> list[str]:
    found = []
    if (steps := [line["step"] for line in metrics]) != list(range(1, run.steps + 1)):
        found.append(f"steps in metrics.jsonl: {steps}")
    if (steps := [line["step"] for line in evals]) != run.evaluated:
        found.append(f"steps in evals.jsonl: {steps}")
    found += [f"step {line['step']}: age {line['age_max']}" for line in metrics if not 0 <= (line["age_max"] or 0) <= K]
    return found


def _groups(metrics: list[Line]) -> list[str]:
    numbers = group_numbers(metrics)
    found = [f"group {number} was trained twice" for number in sorted(numbers) if numbers.count(number) > 1]
    return found + [f"group {number} is lost" for number in range(len(metrics) * PROMPTS) if number not in numbers]


def _ledger(metrics: list[Line], evals: list[Line]) -> list[str]:
    """It never falls, every step costs something, and an evaluation has the ledger of its step."""
    found = []
    for role, unit in ((role, unit) for role in ("generation", "training") for unit in ("flops", "tokens", "device_s")):
        spent = [line["ledger"][role][unit] for line in metrics]
        found += [f"ledger: {role} {unit} falls from {a} to {b}" for a, b in pairwise(spent) if b < a]
    by_step: dict[int, Line] = {line["step"]: line["ledger"] for line in metrics}
    for line in evals:
        own = by_step[line["step"]] if line["step"] in by_step else line["ledger"]
        if any(line["ledger"][role] != own[role] for role in ("generation", "training")):
            found.append(f"ledger: the evaluation of step {line['step']} has another one")
    spent = [line["ledger"]["evaluation"]["tokens"] for line in evals]
    return found + [f"ledger: evaluation falls from {a} to {b}" for a, b in pairwise(spent) if b <= a]


def _evaluations(folder: Path, evals: list[Line]) -> list[str]:
    found = []
    for line in evals:
        file = folder / "evals" / f"step-{line['step']:06d}.json"
        if not file.is_file():
            found.append(f"{file.name} is missing")
            continue
        problems = json.loads(file.read_text())["problems"].values()
        rates = [one["correct"] / one["judged"] for one in problems if one["judged"]]
        if abs(sum(rates) / len(rates) - line["pass_rate"]) > 1e-12:
            found.append(f"{file.name} has another pass rate")
    return found


def _newest(folder: Path, run: Small, metrics: list[Line]) -> list[str]:
    """The last checkpoint is of the last step, and accounts for every group that was ever admitted."""
    state = json.loads((checkpoints(folder)[-1] / "state.json").read_text())
    buffer = state["parts"]["feed"]["buffer"]
    waiting = {item["index"] for item in buffer["requests"]} | _packed(buffer)
    accounted = sorted(waiting | set(group_numbers(metrics)))
    found = [] if state["step"] == run.steps else [f"the last checkpoint is of step {state['step']}"]
    if accounted != list(range(buffer["admitted"])):
        found.append(f"{buffer['admitted']} groups were admitted, accounted for: {accounted}")
    return found


def _packed(buffer: Line) -> set[int]:
    """Numbers of the complete groups that wait, wherever they stand in what was packed."""
    return {item["request"]["index"] for item in buffer["groups"]}


def _numbers(text: str) -> Iterator[int]:
    """Of "0-2,5"."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in _TIMES}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _changed(one: Line, other: Line) -> str:
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return ", ".join(f"{key} {one.get(key)} / {other.get(key)}" for key in keys)


def _tensors(file: Path) -> dict[str, bytes] | None:
    """What a file of safetensors holds; None: it is not there, or broken. The random state of torch, which each process
    begins with one of its own and no run uses, is left out."""
    content = file.read_bytes() if file.is_file() else b""
    if len(content) < 8:
        return None
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    places = {name: item["data_offsets"] for name, item in header.items() if name not in {"__metadata__", "torch_rng"}}
    return {name: content[start + first : start + last] for name, (first, last) in places.items()}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "missing"
