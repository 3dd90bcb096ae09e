"""The README and the docs say nothing that does not work: their commands and their Python are run as they stand.

With three exceptions, because they take minutes: a command that trains is run with --dry-run, which checks everything
about its options, a warm start is shortened, and watching ends by itself. All are run for real in tests/cli. What needs
a Ray cluster is run in tests/pipeline/cluster.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from scalerl.cli import main
from scalerl.config import load_run
from scalerl.runs import RunDirectory

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    lines = [
        line.strip() for page in PAGES for line in page.read_text().splitlines() if line.startswith("    scalerl ")
    ]
    return sorted({line for line in lines if not line.startswith("scalerl cluster-check")})


def curve(ceiling: float) -> tuple[np.ndarray, np.ndarray]:
    compute = np.linspace(500.0, 40_000.0, 40)
    noise = 0.004 * np.random.default_rng(3).standard_normal(compute.size)
    return compute, 0.28 + (ceiling - 0.28) / (1 + (6000 / compute) ** 1.4) + noise


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, ceiling in (("run", 0.62), ("baseline", 0.60), ("candidate", 0.68)):
        rows = "".join(f"{c},{v}\n" for c, v in zip(*curve(ceiling), strict=True))
        (tmp_path / f"{name}.csv").write_text("gpu_hours,pass_rate\n0,0.28\n" + rows)
    (tmp_path / "verl.jsonl").write_text(verl_log())
    for name in ("gsm8k", "dapo", "evaluation"):
        shutil.copy(ROOT / "tests" / "data" / f"{name}.jsonl", tmp_path)
    finished_run(tmp_path / "runs" / "scalerl-laptop-seed0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCALERL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def verl_log() -> str:
    """As verl's file logger leaves it, with an evaluation at every step."""
    name = "val-core/openai/gsm8k/acc/mean@1"
    rows = [{"step": s, "data": {name: v, "timing_s/step": 60.0}} for s, v in enumerate(curve(0.62)[1].tolist(), 1)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def finished_run(path: Path) -> None:
    """As `scalerl train` leaves it, with an evaluation every 20 of 500 steps."""
    steps = np.arange(0, 501, 20)
    value = 0.28 + 0.6 / (1 + (95 / np.maximum(steps, 1e-9)) ** 1.1)
    value += 0.01 * np.random.default_rng(3).standard_normal(steps.size)
    with RunDirectory.hold(path, load_run().config) as run:
        for step, rate in zip(steps.tolist(), value.tolist(), strict=True):
            used = {"device_s": 0.3 * step, "flops": 2e9 * step, "tokens": 9000 * step}
            ledger = dict.fromkeys(("generation", "training", "evaluation"), used)
            counts = {"num_problems": 256, "num_samples": 4, "num_judged": 1024}
            measured = {"standard_error": 0.02, "truncation_rate": 0.02, "mean_length": 30.0}
            downstream = {"downstream/harder": 0.7 * rate, "downstream/harder/num_judged": 512}
            downstream |= {"part/goals": 0.8 * rate, "part/goals/num_judged": 256}
            line = {"step": step, "pass_rate": rate, **counts, **measured, "ledger": ledger, "wall_s": 1.0}
            run.evals.append({**line, **downstream})
            run.metrics.append({"step": step, "ledger": ledger, "wall_s": 1.0})
        run.finish("budget", 500)


def affordable(words: list[str]) -> list[str]:
    """The command, or its short form where it would take minutes."""
    if words[1] == "train":
        return [*words, "--dry-run"]
    if words[1] == "sft":
        return [*words, "--set", "scale.warm_start.steps=5", "--set", "scale.evaluation.problems=8"]
    if words[1] == "watch":
        return [*words, "--timeout", "2", "--no-page"]
    return words


def test_there_are_commands_to_run() -> None:
    assert len(commands()) >= 7


@pytest.mark.parametrize("command", commands())
def test_command(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)
    code = main(affordable(words)[1:])
    printed = capsys.readouterr()
    assert code in ({0, 10, 11, 12} if {"--exit-code", "--until-decided"} & {*words} else {0}), printed.err
    assert printed.out
    if "--plot" in words:
        assert (folder / words[words.index("--plot") + 1]).stat().st_size > 1000


def test_python_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    gpu_hours, pass_rate = curve(0.62)
    exec(code, {"gpu_hours": gpu_hours, "pass_rate": pass_rate})
    printed = capsys.readouterr().out
    assert "ceiling" in printed
    assert "Decision(" in printed


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").glob("*/*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", page.read_text())
    assert all((page.parent / link).exists() for link in links if "://" not in link)
