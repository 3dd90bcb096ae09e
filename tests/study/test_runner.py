"""The two runners: what they start, and what they make of what is left; and the process under its keeper."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl import portable
from scalerl.config import load_run, to_dict
from scalerl.config.study import load_study
from scalerl.config.study_parts import CommandTrainer
from scalerl.errors import InputError
from scalerl.runs import RunDirectory
from scalerl.study import own_runner
from scalerl.study.command_runner import CommandRunner, fill
from scalerl.study.jobs import Job
from scalerl.study.own_runner import OwnRunner, budget_text
from scalerl.study.plan import plan
from scalerl.study.process import Child, end_worker, last_words, start_child, worker_of
from scalerl.study.runner import open_runner

from .stand_in import study

WAIT_S = 20.0


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def _code(child: Child) -> int:
    _until(lambda: child.poll() is not None)
    code = child.poll()
    assert code is not None
    return code


def _python(place: Path, text: str) -> Child:
    return start_child([sys.executable, "-S", "-c", text], place, "a test")


def test_output_and_exit_code(tmp_path: Path) -> None:
    assert _code(_python(tmp_path, "print('one'); print('two  words\\n'); raise SystemExit(5)")) == 5
    assert last_words(tmp_path) == "two words"
    assert _code(_python(tmp_path, "pass")) == 0
    assert last_words(tmp_path) is None  # what an earlier start said is not this one's
    assert (tmp_path / "output.txt").read_text().count("== scalerl study: a test") == 2


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    assert _code(start_child(["no-such-trainer", "--lr", "1"], tmp_path, "a test")) == 127
    assert last_words(tmp_path) == "no-such-trainer: cannot be started (No such file or directory)"


def test_a_signal_is_told_from_an_exit_code(tmp_path: Path) -> None:
    assert _code(_python(tmp_path, "import os; os.kill(os.getpid(), 9)")) == 128 + 9


SAVES = """
import signal, sys, time
def save(*_):
    open({saved!r}, "w").write("saved")
    sys.exit(7)
signal.signal(signal.SIGTERM, save)
open({ready!r}, "w").close()
time.sleep(60)
"""


def _saving(place: Path) -> Child:
    return _python(place, SAVES.format(saved=str(place / "saved"), ready=str(place / "ready")))


def test_stop_lets_it_save(tmp_path: Path) -> None:
    child = _saving(tmp_path)
    _until((tmp_path / "ready").exists)
    assert child.poll() is None
    assert worker_of(tmp_path) is not None
    child.stop()
    assert _code(child) == 7
    assert (tmp_path / "saved").read_text() == "saved"
    assert worker_of(tmp_path) is None


def test_kill_ends_all_that_it_started(tmp_path: Path) -> None:
    child = _python(
        tmp_path,
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'], close_fds=False)\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\ntime.sleep(60)",
    )
    _until((tmp_path / "ready").exists)
    child.kill()
    assert _code(child) == 128 + 9
    _until(lambda: worker_of(tmp_path) is None)


def test_one_process_for_each_job(tmp_path: Path) -> None:
    child = _saving(tmp_path)
    with pytest.raises(InputError, match=r"the job is in use: got 'process .*one process at a time"):
        _python(tmp_path, "pass")
    child.kill()
    assert _code(_python(tmp_path, "pass")) == 0


PARENT = """
import sys, time
from pathlib import Path
from scalerl.study.process import start_child
start_child([sys.executable, "-S", "-c", sys.argv[2]], Path(sys.argv[1]), "a test")
time.sleep(60)
"""


def _orphan(place: Path) -> None:
    """A trainer whose parent is killed as soon as the trainer is ready."""
    script = SAVES.format(saved=str(place / "saved"), ready=str(place / "ready"))
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(place), script])
    _until((place / "ready").exists)
    parent.kill()
    parent.wait()


def test_a_trainer_notices_that_its_parent_was_killed(tmp_path: Path) -> None:
    _orphan(tmp_path)
    _until((tmp_path / "saved").exists)
    _until(lambda: worker_of(tmp_path) is None)


def test_a_trainer_without_keeper_is_ended(tmp_path: Path) -> None:
    """Even when the keeper is killed, the lock says that somebody works there, and who."""
    child = _saving(tmp_path)
    _until((tmp_path / "ready").exists)
    held = worker_of(tmp_path)
    assert held is not None
    assert held.pid is not None
    os.kill(held.pid, signal.SIGKILL)
    assert _code(child) == 128 + 9
    assert worker_of(tmp_path) == held
    end_worker(tmp_path, patience_s=0.1)
    assert (tmp_path / "saved").exists()
    assert worker_of(tmp_path) is None


def test_names_are_filled_in_part_by_part() -> None:
    values = {"a.b": 3e-5, "text": "two words; rm", "flag": True, "list": [1, 2]}
    assert fill("{a.b} {{x}} {flag}", values) == "3e-05 {x} true"
    assert fill("--name={text}", values) == "--name=two words; rm"
    assert fill("{list}", values) == "[1, 2]"
    assert fill("{a.b:.2e}", values) == "3.00e-05"


def test_a_command_gets_its_values(tmp_path: Path) -> None:
    shown = "import json, sys; json.dump(sys.argv[1:], open(sys.argv[-1] + '/seen.json', 'w'))"
    trainer = CommandTrainer(
        kind="command", command=f'{sys.executable} -S -c "{shown}" {{word}} {{seed}} {{budget}} {{share}} {{out}}',
        budget=30.0, log="{out}/seen.json",
    )  # fmt: skip
    job = Job("cell", 4, "0" * 64, {"parameters": {"word": "it's two"}})
    assert _code(CommandRunner(trainer).start(job, tmp_path, 0.5)) == 0
    assert json.loads((tmp_path / "run/seen.json").read_text()) == ["it's two", "4", "15", "0.5", str(tmp_path / "run")]


def _command_job(tmp_path: Path, **others: Any) -> tuple[CommandRunner, Job]:
    config = study(tmp_path, {"low": {"ceiling": 0.4}}, **others)
    runner = open_runner(config)
    assert isinstance(runner, CommandRunner)
    return runner, plan(config).jobs[0]


def test_the_log_of_a_command(tmp_path: Path) -> None:
    runner, job = _command_job(tmp_path)
    with pytest.raises(InputError, match=r"log\.csv: the command left no log"):
        runner.curve(job, tmp_path)
    assert _code(runner.start(job, tmp_path, 0.25)) == 0
    (series,) = runner.curve(job, tmp_path)
    assert (len(series), series.compute[-1], series.name) == (10, 10, "base, seed 0")


@pytest.mark.parametrize("resumes", [True, False])
def test_what_an_earlier_start_left(tmp_path: Path, resumes: bool) -> None:
    appends = "import sys; open(sys.argv[1] + '/log.csv', 'a').write('step,acc\\n1,0.5\\n')"
    trainer = CommandTrainer(
        kind="command", command=f'{sys.executable} -S -c "{appends}" {{out}}', log="{out}/log.csv", resumes=resumes
    )
    job = Job("cell", 0, "0" * 64, {"parameters": {}})
    for _ in range(3):
        assert _code(CommandRunner(trainer).start(job, tmp_path, 1.0)) == 0
    assert len((tmp_path / "run" / "log.csv").read_text().splitlines()) == (6 if resumes else 2)
    assert (tmp_path / "run.before").exists() is not resumes


def test_a_log_that_cannot_be_used(tmp_path: Path) -> None:
    runner, job = _command_job(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "log.csv").write_text("step,pass_rate\n1,2.5\n")
    with pytest.raises(InputError, match=r"log\.csv, line 2"):
        runner.curve(job, tmp_path)


def test_what_a_command_must_have(tmp_path: Path) -> None:
    runner, job = _command_job(tmp_path)
    runner.check([job], True)
    for command, prune, words in (("train {seed} {out}", True, "--prune.*{budget} or {share}"),
                                  ("train {budget} {out}", False, "{seed}: there are several")):  # fmt: skip
        trainer = CommandTrainer(kind="command", command=command)
        with pytest.raises(InputError, match=words):
            CommandRunner(trainer).check([job, Job("base", 1, "1", {})], prune)


def _own_job() -> Job:
    run = load_run("scalerl", "laptop", overrides=["scale.budget.amount=100", "scale.evaluation.every=20"]).config
    return Job("base", 0, "0" * 64, {"config": to_dict(run)})


def test_a_share_of_the_budget_ends_with_an_evaluation() -> None:
    scale = _own_job().settings["config"]["scale"]
    assert [budget_text(scale, share) for share in (0.2, 0.3, 0.7, 0.95, 1.0)] == [
        "20.0 steps", "40.0 steps", "80.0 steps", "100.0 steps", "100.0 steps",
    ]  # fmt: skip
    scale["budget"] = {"unit": "device_hours", "amount": 3.0}
    assert budget_text(scale, 0.5) == "1.5 device-hours"


def _usage(step: int) -> dict[str, Any]:
    used = {"device_s": float(step), "flops": 1e6 * step, "tokens": 10 * step}
    return {"generation": used, "training": used, "evaluation": used}


def test_our_own_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, runner = _own_job(), OwnRunner("steps")
    called: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(own_runner, "start_child", lambda command, _, __, env: called.append((command, env)))
    runner.start(job, tmp_path, 0.3)
    command, environment = called[0]
    assert command[-8:] == [
        "scalerl", "train", "--out", str(tmp_path / "run"), "--resume", "--no-live", "--budget", "40.0 steps",
    ]  # fmt: skip
    assert environment["OMP_NUM_THREADS"] == "1"
    assert runner.progress(job, tmp_path).share == 0.0
    run = RunDirectory.open(tmp_path / "run")
    assert to_dict(run.config) == job.settings["config"]
    run.evals.append({"step": 0, "pass_rate": 0.1, "num_judged": 8, "ledger": _usage(0)})
    run.metrics.append({"step": 40, "ledger": _usage(40), "wall_s": 9.0})
    run.evals.append({"step": 40, "pass_rate": 0.25, "num_judged": 8, "ledger": _usage(40)})
    seen = runner.progress(job, tmp_path)
    assert (seen.share, seen.value, seen.wall_s) == (0.4, 0.25, 9.0)
    (series,) = runner.curve(job, tmp_path)
    assert (series.compute.tolist(), series.value.tolist(), series.name) == ([40], [0.25], "base, seed 0")


def test_a_portable_job_is_started_with_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[dict[str, str]] = []
    monkeypatch.setattr(own_runner, "start_child", lambda *arguments: called.append(arguments[3]))
    for place, setting in enumerate(("scale.launcher.portable=false", "scale.launcher.portable=true")):
        config = to_dict(load_run("scalerl", "study", overrides=[setting]).config)
        (tmp_path / str(place)).mkdir()
        OwnRunner().start(Job("base", 0, "0" * 64, {"config": config}), tmp_path / str(place), 1.0)
    plain, settled = called
    assert not portable.ENVIRONMENT.keys() & plain.keys()
    assert portable.ENVIRONMENT.items() <= settled.items()


def test_nothing_is_started_for_a_run_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, runner = _own_job(), OwnRunner()
    called: list[object] = []
    monkeypatch.setattr(own_runner, "start_child", lambda *arguments: called.append(arguments))
    runner.start(job, tmp_path, 0.3)
    run = RunDirectory.open(tmp_path / "run")
    run.metrics.append({"step": 40, "ledger": _usage(40), "wall_s": 9.0})
    run.finish("interrupted", 40)
    runner.start(job, tmp_path, 0.3)  # the last evaluation is missing
    assert len(called) == 2
    run.finish("budget", 40)
    assert runner.start(job, tmp_path, 0.35).poll() == 0
    assert len(called) == 2
    runner.start(job, tmp_path, 0.5)
    assert len(called) == 3


def test_the_example_with_trl() -> None:
    """TRL is not installed here; what can be checked without it is that study and script agree."""
    folder = Path(__file__).parents[2] / "examples/study_trl"
    config = load_study(folder / "study.toml")
    jobs = plan(config).jobs
    open_runner(config).check(jobs, True)
    assert [(job.cell, job.seed) for job in jobs] == [
        ("base", 0), ("third_of_the_rate", 0), ("base", 1), ("third_of_the_rate", 1),
    ]  # fmt: skip
    assert isinstance(config.runner, CommandTrainer)
    script = (folder / "train.py").read_text()
    asked = set(re.findall(r'add_argument\("(--\w+)"', script))
    assert asked == {word for word in config.runner.command.split() if word.startswith("--")}
