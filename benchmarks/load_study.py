"""Studies of ten thousand cells on disk: the part `study` of `load.py`.

Two folders, each as a study leaves it that has finished: one of another trainer's runs (a command and its logs), one of
our own run directories. Nothing is trained: the files are written as the trainers would have. Ten thousand cells with
one seed; and 500 cells with three, which are to be planned in one second and looked at in two. Seconds are of processor
time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from load_rows import ONE_THREAD, Row, memory_mb, rows_of, run, shown
from load_server import evaluation, metrics_text, suffixes

if TYPE_CHECKING:
    from scalerl.study.folder import StudyFolder
    from scalerl.study.jobs import Job

CELLS, QUICK_CELLS, FEW, REPORTED = 10_000, 200, 500, 30
STEPS, EVERY = 100, 5
RUNNING = 50
PEAK_MB = 1500.0
PLAN_S, STATUS_S = 1.0, 2.0
"""Of 500 cells with three seeds, without the start of Python."""
SLOWER = 2.0
"""How many times as long as 500 cells a cell may take among ten thousand."""
COMMAND = """
name = "many"
seeds = {seeds}
[base.set]
ceiling = 0.5
[[sweeps]]
key = "ceiling"
values = {values}
[runner]
kind = "command"
command = "train --ceiling {{ceiling}} --seed {{seed}} --out {{out}} --budget {{budget}}"
log = "{{out}}/log.csv"
budget = 100.0
"""
OWN = """
name = "many"
seeds = {seeds}
[[sweeps]]
key = "scale.optimiser.learning_rate"
values = {values}
"""
KINDS = {"another trainer's": COMMAND, "our own": OWN}


def measure(folder: Path, quick: bool) -> list[Row]:
    few, many = (FEW // 10, QUICK_CELLS) if quick else (FEW, CELLS)
    rows: list[Row] = []
    for kind in KINDS:
        small = written(folder / f"few-{kind.split()[0]}", kind, few - 1, 3)
        large = written(folder / f"many-{kind.split()[0]}", kind, many, 1)
        first, all_ = (_apart("look", path) for path in (small, large))
        rows += shown(_rows(f"{few} cells x 3 seeds, {kind} runs", first, PLAN_S, STATUS_S))
        rows += shown(_rows(f"{many:,} cells, {kind} runs", all_, PLAN_S * many / few, STATUS_S * many / few))
        cells = {"plan": few, "status while it runs": 3 * few, "read": 3 * few}  # a plan is made cell by cell
        rows += shown(
            [
                Row(f"{what}: one of {many:,} against one of {count:,}",
                    (all_[what] / (many + 1)) / (first[what] / count), "times", SLOWER)
                for what, count in cells.items()
            ]
        )  # fmt: skip
        rows += shown(_commands(f"{many:,} cells, {kind} runs", large))
    return rows + shown(_report(folder, REPORTED // 10 if quick else REPORTED))


def _rows(name: str, found: dict[str, float], plan_s: float, status_s: float) -> list[Row]:
    limits = {"plan": plan_s, "status": status_s, "status while it runs": status_s, "read": None}
    rows = [Row(f"{name}: {what}", found[what], "s", limit) for what, limit in limits.items()]
    return [*rows, Row(f"{name}: peak memory", found["peak_mb"], "MB", PEAK_MB)]


def _commands(name: str, path: Path) -> list[Row]:
    study = path.with_suffix(".toml")
    commands: dict[str, tuple[str | Path, ...]] = {
        "study plan": ("study", "plan", study),
        "study plan --json": ("study", "plan", study, "--json"),
        "study plan --out FOLDER": ("study", "plan", study, "--out", path, "--json"),
        "study status": ("study", "status", path),
    }
    limits = dict.fromkeys(commands, 60.0) | {"study status": 40.0}
    return [
        row
        for what, words in commands.items()
        for row in rows_of(f"{name}: {what}", run(*words), seconds=limits[what], peak_mb=PEAK_MB)
    ]


def _report(folder: Path, cells: int) -> list[Row]:
    """With its fits, about ten for each cell, and so of few cells only."""
    path = written(folder / "reported", "our own", cells - 1, 3)
    ran = run("study", "report", path, "-o", path / "report.html")
    return rows_of(f"{cells} cells x 3 seeds: study report", ran, seconds=5 + 3.0 * cells, peak_mb=PEAK_MB)


def _apart(what: str, path: Path) -> dict[str, float]:
    command = [sys.executable, __file__, what, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | ONE_THREAD)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def look(path: Path) -> dict[str, float]:
    """Plan, status, status while some jobs run, and the reading part of the report."""
    from scalerl.config.study import load_study
    from scalerl.runs.lock import locked
    from scalerl.study.folder import LOCK, StudyFolder
    from scalerl.study.gather import gather
    from scalerl.study.plan import plan
    from scalerl.study.runner import open_runner
    from scalerl.study.status import study_status

    found: dict[str, float] = {}
    began = time.process_time()
    planned = plan(load_study(path.with_suffix(".toml")))
    found["plan"] = time.process_time() - began
    began = time.process_time()
    folder = StudyFolder.open(path)
    runner = open_runner(folder.config)
    status = study_status(folder, runner)
    found["status"] = time.process_time() - began
    assert status.counts == {"finished": len(planned.jobs)}
    busy = folder.plan.jobs[-RUNNING:]
    with ExitStack() as held:
        held.enter_context(folder.hold())
        for job in busy:
            folder.clear_outcome(job)
            held.enter_context(locked(folder.job_path(job) / LOCK))
        began = time.process_time()
        assert study_status(folder, runner).counts["running"] == len(busy)
        found["status while it runs"] = time.process_time() - began
    for job in busy:
        folder.write_outcome(job, _finished())
    began = time.process_time()
    gathered = gather(folder, runner)
    found["read"] = time.process_time() - began
    assert sum(map(len, gathered.curves.values())) == len(planned.jobs)
    return found | {"peak_mb": memory_mb()}


def written(path: Path, kind: str, cells: int, seeds: int) -> Path:
    """The study as a file, and the folder that it would have left."""
    values = [round(1e-5 * (1 + i / cells), 12) for i in range(cells)]
    text = KINDS[kind].format(seeds=list(range(seeds)), values=json.dumps(values))
    path.with_suffix(".toml").write_text(text)
    _apart("write", path)
    return path


def write(path: Path) -> dict[str, float]:
    from scalerl.config.study import load_study
    from scalerl.study.folder import StudyFolder

    os.fsync = _forget  # ten files for each job; what is measured is reading them
    folder = StudyFolder.create_or_open(path, load_study(path.with_suffix(".toml")))
    log = "".join(_log_lines())
    ends = suffixes(97, STEPS)
    metrics = "".join(metrics_text(step, ends[step % 97]) for step in range(1, STEPS + 1))
    evals = "".join(_eval_line(step, folder.plan.jobs[0]) for step in range(0, STEPS + 1, EVERY))
    for job in folder.plan.jobs:
        _write_job(folder, job)
        place = folder.run_path(job)
        place.mkdir()
        if "config" not in job.settings:
            (place / "log.csv").write_text(log)
            continue
        _write_run(place, job, evals, metrics)
    return {"jobs": len(folder.plan.jobs)}


def _forget(fd: object) -> None:
    """What an fsync does here."""


def _write_job(folder: StudyFolder, job: Job) -> None:
    from scalerl.study.reached import Reached, write_reached

    folder.write_job(job)
    place = folder.job_path(job)
    write_reached(place, Reached(1.0, 60.0, 0.5))
    folder.output_path(job).write_text("== scalerl study: a job\nstep 100\n")
    (place / "lock").write_text("")
    folder.write_outcome(job, _finished())


def _write_run(place: Path, job: Job, evals: str, metrics: str) -> None:
    config = {"format": 1, "identity": job.identity, "config": job.settings["config"]}
    (place / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (place / "evals.jsonl").write_text(evals)
    (place / "metrics.jsonl").write_text(metrics)
    (place / "stopped.json").write_text(json.dumps({"reason": "budget", "step": STEPS, "ended": ""}) + "\n")


def _eval_line(step: int, job: Job) -> str:
    """With the downstream sets that the run has."""
    point = evaluation(0, step)
    sets = job.settings["config"]["scale"]["evaluation"]["downstream"] if "config" in job.settings else ()
    for name in sets:
        point |= {f"downstream/{name}": point["pass_rate"], f"downstream/{name}/num_judged": 500}
    return json.dumps(point) + "\n"


def _log_lines() -> list[str]:
    points = [evaluation(0, step) for step in range(EVERY, STEPS + 1, EVERY)]
    return ["step,pass_rate\n", *(f"{one['step']},{one['pass_rate']:.5f}\n" for one in points)]


def _finished() -> Any:
    from scalerl.study.jobs import Outcome

    return Outcome("finished", 1.0)


if __name__ == "__main__":
    print(json.dumps({"look": look, "write": write}[sys.argv[1]](Path(sys.argv[2]))))
