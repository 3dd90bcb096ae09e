"""`scalerl plan`: the answer as text, JSON and picture, and one line for everything that cannot be planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalerl.config import load_run
from scalerl.runs import RunDirectory

from .conftest import Run

SMALL = ("plan", "--params", "1e9", "--batch", "4x4", "--length", "300", "--simulate", "6", "--k", "2")
HUGE = ("plan", "--params", "405e9", "--length", "300")
FIXED = (*SMALL, "--split", "2:2")


def test_a_split_as_json(run: Run) -> None:
    ran = run(*FIXED, "--price", "2", "--steps", "1000", "--json")
    found = ran.document
    best = found["best"]
    assert (best["generating"], best["training"], best["kind"], best["k"]) == (2, 2, "pipeline", 2)
    assert best["gpu_hours_per_step"] == pytest.approx(4 * best["step_s"] / 3600)
    assert found["budget"]["cost"] == pytest.approx(2 * 1000 * best["gpu_hours_per_step"])
    assert found["splits"] is None
    assert found["assumptions"]["training_efficiency"] == 0.35
    assert sum(best["ages"]) == pytest.approx(1.0)
    assert "no GPU was measured" in ran.err


def test_the_best_split_for_a_person(run: Run) -> None:
    ran = run(*SMALL, "--gpus", "4")
    assert ran.code == 0, ran.err
    assert "best" in ran.out
    assert "no GPU was measured" in " ".join(ran.out.split())
    assert "Age of the trained tokens" in ran.out
    assert "NVIDIA H100 datasheet" in " ".join(ran.out.split())
    assert "generators write tokens" in ran.out


def test_modes_side_by_side(run: Run, tmp_path: Path) -> None:
    ran = run(*FIXED, "--compare", "--plot", tmp_path / "plan.png")
    assert ran.code == 0, ran.err
    assert "PipelineRL-2" in ran.out
    assert "PPO-off-policy-2" in ran.out
    assert "sync" in ran.out
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_a_page(run: Run, tmp_path: Path) -> None:
    assert run(*FIXED, "--plot", tmp_path / "plan.html").code == 0
    page = (tmp_path / "plan.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert "GPU-hours of a step" in page


def test_assumptions_can_be_set(run: Run) -> None:
    slow = run(*FIXED, "--set", "training_efficiency=0.01", "--set", "bandwidth=1e12", "--json").document
    fast = run(*FIXED, "--json").document
    assert slow["assumptions"]["training_efficiency"] == 0.01
    assert slow["device"]["bandwidth"] == 1e12
    assert slow["best"]["step_s"] > 1.05 * fast["best"]["step_s"]


def test_a_curve_becomes_dates_and_money(run: Run, one: Path) -> None:
    ran = run(*FIXED, "--curve", one, "--price", "3", "--start", "2027-01-01", "--target", "0.6",
              "--curve-gpu-hours-per-step", "2", "--steps", "4000", "--json")  # fmt: skip
    points = ran.document["milestones"]
    assert points[-1]["compute"] == pytest.approx(8000)
    assert points[-1]["bill"]["steps"] == pytest.approx(4000)
    assert points[-1]["value"] > points[0]["value"]
    assert points[0]["date"] >= "2027-01-01"
    assert ran.document["target"]["bill"]["cost"] > 0
    text = run(*FIXED, "--curve", one, "--start", "2027-01-01").out
    assert "2027-" in text
    assert "promises" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan",), "nothing to plan; allowed: --params"),
        (("plan", "--params", "1e9", "--gpus", "4"), "no length; allowed: --length"),
        (SMALL, "no GPUs; allowed: --gpus, or --split G:T"),
        ((*SMALL, "--gpus", "0"), "--gpus: got '0'; allowed: a whole number, 1 or more"),
        ((*SMALL, "--gpus", "4", "--split", "3:2"), "--split does not add up: got '3:2 = 5'; allowed: 4 GPUs in all"),
        ((*SMALL, "--split", "4"), "--split: got '4'; allowed: best, or GPUs"),
        ((*SMALL, "--split", "0:4"), "--split: got '0'; allowed: a whole number, 1 or more"),
        ((*FIXED, "--max-length", "100"), "--length is above --max-length"),
        ((*FIXED, "--interrupt", "500:700"), "--interrupt: got '500:700'; allowed: LOW up to HIGH, below --max-length"),
        ((*FIXED, "--price", "-1"), "--price: got '-1'; allowed: a finite number above zero"),
        ((*FIXED, "--hardware", "tpu"), "--hardware: got 'tpu'; allowed: a100, h100"),
        ((*FIXED, "--batch", "48"), "--batch: got '48'; allowed: PROMPTSxROLLOUTS"),
        ((*FIXED, "--batch", "48x1"), "--batch: got '1'; allowed: a whole number, 2 or more"),
        ((*FIXED, "--mode", "sync"), "--k with --mode sync"),
        ((*FIXED, "--set", "speed=3"), "--set: got 'speed=3'; allowed: KEY=VALUE with one of bandwidth_efficiency"),
        ((*FIXED, "--budget", "7 moons"), "--budget: got '7 moons'; allowed: \"100k gpu-hours\""),
        ((*FIXED, "--budget", "100 usd"), "--budget in money without --price"),
        ((*FIXED, "--budget", "5 days", "--steps", "3"), "--budget and --steps together"),
        ((*FIXED, "--target", "0.5"), "--target without a curve"),
        ((*FIXED, "--start", "soon"), "--start: got 'soon'; allowed: a date such as 2027-01-31"),
        ((*FIXED, "--active-params", "2e9"), "--active-params: got '2e9'; allowed: at most --params, 1e9"),
        ((*HUGE, "--split", "16:8"), "h100: GPUs that train: got 8; allowed: at least 90"),
        ((*HUGE, "--gpus", "50"), "--gpus: got 50; allowed: at least 106"),
        (("plan", "--like", "nowhere"), "nowhere"),
        ((*FIXED, "--like", "run"), "--like does not go with --params, --length"),
        ((*FIXED, "--plot", "plan.doc"), "--plot: got 'plan.doc'"),
    ],
)  # fmt: skip
def test_bad_input(run: Run, arguments: tuple[str, ...], message: str) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert message in ran.err


@pytest.mark.parametrize(
    ("text", "steps"), [("40 gpu-hours", None), ("10 days", None), ("100 usd", None), ("1e9 tokens", None), ("7", 7.0)]
)
def test_budgets(run: Run, text: str, steps: float | None) -> None:
    found = run(*FIXED, "--budget", text, "--price", "2", "--json").document
    per_step = found["best"]["gpu_hours_per_step"]
    expected = {"40 gpu-hours": 40 / per_step, "10 days": 864_000 / found["best"]["step_s"], "100 usd": 50 / per_step}
    if (wanted := steps or expected.get(text)) is not None:
        assert found["budget"]["steps"] == pytest.approx(wanted)
    assert found["budget"]["steps"] > 0


def test_like_a_run(run: Run, tmp_path: Path) -> None:
    """Everything takes as long as in the run; what is asked instead is another batch."""
    config = load_run("scalerl", "laptop", overrides=['scale.launcher.kind="local"']).config
    with RunDirectory.hold(tmp_path / "measured", config, resume=False) as directory:
        for step in range(1, 40):
            directory.metrics.append(measured_line(step))
    same = run("plan", "--like", tmp_path / "measured", "--simulate", "20", "--json").document
    assert same["best"]["step_s"] == pytest.approx(same["measured"]["step_s"], rel=0.05)
    assert (same["device"], same["assumptions"]) == (None, None)
    half = run("plan", "--like", tmp_path / "measured", "--simulate", "20", "--batch", "8x16", "--json").document
    assert half["best"]["step_s"] == pytest.approx(same["best"]["step_s"] / 2, rel=0.1)
    wide = run("plan", "--like", tmp_path / "measured", "--simulate", "20", "--gpus", "4")
    assert "best" in wide.out
    assert "measured" in wide.out
    assert "no GPU was measured" not in " ".join(wide.out.split())


def test_like_a_run_on_its_own_devices(run: Run, tmp_path: Path) -> None:
    """As many as it had, split as they were; others only if they are asked for. It is said which."""
    overrides = ['scale.launcher.kind="ray"', "scale.launcher.generators=3", "scale.launcher.trainers=2"]
    config = load_run("scalerl", "laptop", overrides=overrides).config
    with RunDirectory.hold(tmp_path / "measured", config, resume=False) as directory:
        for step in range(1, 40):
            directory.metrics.append(measured_line(step))
    like = ("plan", "--like", tmp_path / "measured", "--simulate", "9")
    own = run(*like, "--json").document
    assert (own["best"]["generating"], own["best"]["training"], own["splits"]) == (3, 2, None)
    assert (own["measured"]["generating"], own["measured"]["training"]) == (3, 2)
    assert "like a measured run, on its own 5 devices" in " ".join(run(*like).out.split())
    best = run(*like, "--split", "best", "--json").document
    assert {one["generating"] + one["training"] for one in best["splits"]} == {5}
    assert "on 2 devices (the run had 3:2)" in " ".join(run(*like, "--gpus", "2").out.split())
    assert "on 3 devices (the run had 3:2)" in " ".join(run(*like, "--split", "2:1").out.split())


@pytest.mark.parametrize("columns", ["80", "40"])
def test_no_figure_is_cut(run: Run, one: Path, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ran = run(*SMALL, "--gpus", "4", "--compare", "--curve", one, "--price", "3", "--steps", "4000")
    assert ran.code == 0, ran.err
    assert "\u2026" not in ran.out
    tables = [line for line in ran.out.splitlines() if "%" in line and "." in line]
    assert len(tables) > 5
    if columns == "80":
        assert max(len(line) for line in ran.out.splitlines()) <= 80


def measured_line(step: int) -> dict[str, Any]:
    """The generator is never idle: 9,000 tokens take .2 s; the trainer trains for .1 s and waits for the rest."""
    roles = {"generation": (0.2, 9000), "training": (0.2, 11000), "evaluation": (0.0, 0)}
    ledger = {role: {"device_s": s * step, "flops": 1e9 * step, "tokens": n * step} for role, (s, n) in roles.items()}
    values = {"effective_rollouts": 256, "mean_length": 34.0, "max_length": 40.0, "age_mean": 2.0}
    return {"step": step, "wall_s": 0.2 * step, "generator_idle": 0.0, "trainer_idle": 0.5, "ledger": ledger, **values}
