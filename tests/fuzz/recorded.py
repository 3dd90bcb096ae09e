"""Fuzz targets of what we write ourselves and somebody damaged: run directories, their records, folders of studies."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scalerl.cli.runs import show, verify
from scalerl.config import RunConfig, load_run, patch, to_dict
from scalerl.config.study import load_study
from scalerl.report.own_run import read_own_run
from scalerl.runs import RunDirectory, layout
from scalerl.runs.directory import identity, read_sessions
from scalerl.runs.scores import read_results
from scalerl.runs.status import list_runs, summarise
from scalerl.runs.store import Records, plain
from scalerl.study.folder import StudyFolder

from . import samples
from .readers import read_both
from .target import JSON_WORDS, Run, Target, check_json, each, pack, unpack, write_files

_STEP = "evals/step-000002.json"
_MARKER, _STATE = (f"{layout.CHECKPOINTS}/step-000007/{name}" for name in (layout.COMPLETE, layout.STATE))
_RUN = (
    layout.CONFIG, layout.EVALS, layout.METRICS, layout.EVENTS, layout.PROVENANCE, layout.STOPPED, layout.LOCK, _STEP,
    _MARKER, _STATE,
)  # fmt: skip
_STUDY = ("study.json", "decisions.jsonl", "results.json")
_WORDS = (
    *JSON_WORDS, '"step":', '"ledger":', '"pass_rate":', '"generation":', '"flops":', "\n=== ", '"sessions":',
    '"reason":', '"identity":', '"problems":', '"correct":', '"judged":', '"num_samples":', '"downstream":',
    '"wall_s":', '"event":', '"message":', '"files":', '"parts":', '"offsets":', '"standard_error":', '"part/a":',
)  # fmt: skip


def _make_run(folder: Path) -> Run:
    place = folder / "run"
    place.mkdir(exist_ok=True)
    config = patch(load_run().config, {"scale.budget.unit": "steps", "scale.budget.amount": 10.0})
    usual = json.dumps({"format": 1, "identity": identity(config), "config": to_dict(config)}).encode()

    def run(data: bytes) -> None:
        found = unpack(data, _RUN)
        found[layout.CONFIG] = _identified(found.get(layout.CONFIG)) or usual
        shutil.rmtree(place / layout.CHECKPOINTS, ignore_errors=True)  # what a repair set aside
        write_files(place, found, _RUN)
        each(
            lambda: read_both(place), lambda: check_json(plain(summarise(place).to_dict())), lambda: list_runs(folder),
            lambda: read_own_run(place), lambda: read_sessions(place), lambda: read_results(place / _STEP, ("a",)),
            lambda: RunDirectory.open(place), lambda: RunDirectory.check(place, config, resume=True),
            lambda: show(str(place)), lambda: show(str(place), json=True),
        )  # fmt: skip
        verify([str(place)])  # says whatever is wrong, and never refuses
        verify([str(place)], repair=True, json=True)

    return run


def _identified(text: bytes | None) -> bytes | None:
    """A config that can be read gets the digest that belongs to it: behind a wrong one nothing would be tried."""
    try:
        saved = json.loads(text or b"")
        saved["identity"] = identity(RunConfig.model_validate(saved["config"]))
        return json.dumps(saved).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return text


def _make_records(folder: Path) -> Run:
    """A torn or broken file of records: read, continued, cut."""
    path = folder / "records.jsonl"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        records = Records(path)
        each(records.read, records.last)
        offset = records.offset()
        records.append({"step": float("nan"), "text": "a"})
        assert records.last() == {"step": None, "text": "a"}
        records.truncate(offset)
        assert path.read_bytes() == data[: data.rfind(b"\n") + 1]

    return run


def _make_study(folder: Path) -> Run:
    place = folder / "study"
    place.mkdir(exist_ok=True)

    def run(data: bytes) -> None:
        write_files(place, unpack(data, _STUDY), _STUDY)
        found = StudyFolder.open(place)
        found.decisions()
        for job in found.plan.jobs[:3]:
            found.outcome(job)

    return run


def _runs() -> list[bytes]:
    def record(step: int) -> dict[str, Any]:
        used = {"device_s": 1.5 * step, "flops": 1e9 * step, "tokens": 10 * step}
        ledger = {"generation": used, "training": used, "evaluation": used}
        return {"step": step, "pass_rate": samples.rate(step), "num_judged": 64, "ledger": ledger, "wall_s": 0.5 * step}

    lines = "".join(json.dumps(record(step)) + "\n" for step in samples.STEPS)
    problems = {"num_samples": 4, "problems": {"a/1": {"correct": 1, "judged": 4}}}
    sessions = {
        "sessions": [{"started": "2026-01-01T00:00:00+00:00", "command": ["scalerl"], "packages": {"torch": "2"}}]
    }
    config = load_run().config
    saved = {"format": 1, "identity": identity(config), "config": to_dict(config)}
    files = {
        layout.EVALS: lines, layout.METRICS: lines, layout.PROVENANCE: json.dumps(sessions),
        layout.STOPPED: '{"reason": "budget", "step": 7, "ended": "2026"}', layout.LOCK: '{"pid": 1, "host": "a"}',
        _STEP: json.dumps(problems | {"downstream": {"hard": problems}}),
    }  # fmt: skip
    event = {"time": "2026-01-01T00:00:00+00:00", "step": 3, "event": "alarm", "message": "m", "alarm": "ratio"}
    files[layout.EVENTS] = json.dumps(event) + "\n"
    offsets = {"metrics": len(lines), "evals": len(lines)}
    session = {"offsets": offsets, "ledger": record(samples.STEPS[-1])["ledger"]}
    state = json.dumps({"step": 7, "parts": {"session": session, "feed": {"buffer": {"admitted": 9, "version": 7}}}})
    digest = hashlib.sha256(state.encode()).hexdigest()
    files |= {_STATE: state, _MARKER: json.dumps({"format": 1, "step": 7, "files": {layout.STATE: digest}})}
    last = lines.splitlines()[-1] + "\n"
    one_by_one = [pack({layout.EVALS: last, layout.METRICS: last, name: files[name]}) for name in files]
    return [*one_by_one, pack(files), pack({layout.EVALS: lines, layout.CONFIG: json.dumps(saved)})]


def _studies() -> list[bytes]:
    with TemporaryDirectory() as folder:
        place = Path(folder) / "s"
        StudyFolder.create_or_open(place, load_study("clip_high"))
        return [pack({"study.json": (place / "study.json").read_bytes(), "decisions.jsonl": b'{"rung": 0.3}\n'})]


TARGETS = (
    Target("run-directory", _make_run, _runs, _WORDS, cost=60),
    Target("run-records", _make_records, samples.lines, (*JSON_WORDS, "\n"), cost=3),
    Target("study-folder", _make_study, _studies, (*_WORDS, '"cells":', '"digest":', '"seeds":'), cost=15),
)
