"""The pages about other trainers' logs: every command is run on a log that the tracker's own library wrote.

The logs have the metrics that the pages name; what is not written by a library has the shape of the trainer's source
(see tests/readers/logs).
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalerl.cli import main

PAGES = sorted((Path(__file__).parent.parent / "docs" / "sources").glob("*.md"))
EVERY = 10
STEPS = range(301)


def commands() -> list[str]:
    lines = [
        line.strip() for page in PAGES for line in page.read_text().splitlines() if line.startswith("    scalerl ")
    ]
    return sorted(set(lines))


def value(step: int) -> float:
    noise = 0.005 * np.random.default_rng(step).standard_normal()
    return float(0.2 + 0.45 / (1 + (80 / max(step, 1e-9)) ** 1.3) + noise)


def metrics(step: int, held_out: str, seconds: str) -> dict[str, float]:
    return {seconds: 30.0, "reward": 0.5} | ({held_out: value(step)} if step % EVERY == 0 else {})


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    verl = [(step, metrics(step, "val-core/openai/gsm8k/acc/mean@1", "timing_s/step")) for step in STEPS]
    (root / "verl.jsonl").write_text("".join(json.dumps({"step": s, "data": m}) + "\n" for s, m in verl))
    words = [f"step:{s} - " + " - ".join(f"{name}:{v}" for name, v in m.items()) for s, m in verl]
    (root / "verl.log").write_text("".join(f"(TaskRunner pid=7) {line}\n" for line in words))
    generic = [{"step": step, **metrics(step, "eval/acc", "step_time")} for step in STEPS]
    (root / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in generic))
    history = [{"step": step, "epoch": step / 300, **metrics(step, "eval_reward", "step_time")} for step in STEPS]
    (root / "out").mkdir()
    state = {"epoch": 1.0, "global_step": 300, "log_history": history}
    (root / "out" / "trainer_state.json").write_text(json.dumps(state, indent=2))
    _tensorboard(root / "runs" / "tb")
    _mlflow(root)
    with pytest.MonkeyPatch.context() as patch:
        _wandb(root, patch)
    return root


def _tensorboard(folder: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for step in STEPS:
            for name, number in metrics(step, "validation/accuracy", "timing/train/total_step_time").items():
                writer.add_scalar(name, number, step)


def _wandb(root: Path, patch: pytest.MonkeyPatch) -> None:
    import wandb

    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        patch.setenv(name, str(root / "wandb-home"))
    patch.setenv("WANDB_SILENT", "true")
    patch.setenv("WANDB_ERROR_REPORTING", "false")
    settings = wandb.Settings(x_disable_stats=True, x_disable_meta=True, silent=True, console="off")
    run: Any = wandb.init(mode="offline", project="p", dir=str(root), settings=settings)
    for step in STEPS:
        run.log(metrics(step, "eval/all/avg_score", "timing/step"), step=step)
    run.finish()
    wandb.teardown()


def _mlflow(root: Path) -> None:
    """MLflow's file store as it lies on disk: a folder for the run, a text file for each metric."""
    held_out = "val-core/openai/gsm8k/acc/mean_at_1"
    run = root / "mlruns" / "0" / "RUN_ID"
    for name in (held_out, "timing_s/step", "reward"):
        path = run / "metrics" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [(step, metrics(step, held_out, "timing_s/step").get(name)) for step in STEPS]
        path.write_text("".join(f"{1000 * step} {number} {step}\n" for step, number in rows if number is not None))
    (run / "meta.yaml").write_text("run_id: RUN_ID\nrun_name: first\nlifecycle_stage: active\n")


def test_every_source_has_its_commands() -> None:
    assert {page.stem for page in PAGES} >= {"mlflow", "tables", "tensorboard", "trl", "verl", "wandb"}
    for page in PAGES:
        assert "    scalerl read" in page.read_text(), page.name
        assert "    scalerl fit" in page.read_text(), page.name


@pytest.mark.parametrize("command", commands())
def test_command(
    command: str, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for entry in logs.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    code = main(words[1:])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    if "--to" in words:
        table = (tmp_path / words[words.index("--to") + 1]).read_text().splitlines()
        assert table[0].startswith("gpu_hours,")
        assert len(table) == 1 + len(STEPS) // EVERY + 1
        assert float(table[-1].split(",")[0]) == pytest.approx(300 * 30 * 8 / 3600)
    if words[1] == "fit":
        assert "SCALE" in printed.out or "STOP" in printed.out or "NEED MORE DATA" in printed.out


def test_the_database_of_mlflow_is_named_on_its_page() -> None:
    page = next(page for page in PAGES if page.stem == "mlflow").read_text()
    assert "mlflow.db#" in page
