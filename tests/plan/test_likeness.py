"""Rates from a run directory: what was put into its metrics comes out again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import load_run
from scalerl.config.recipe import Asynchrony, PpoOffPolicy, Sync
from scalerl.errors import InputError
from scalerl.plan import simulate
from scalerl.plan.likeness import UPDATE_TOKENS, like
from scalerl.runs import RunDirectory

DECODE_S, TRAIN_S, OTHER_S, WALL_S = 2e-5, 1e-5, 0.02, 0.4
"""Of a token, of a token, of a step, of a step."""
LENGTH, PROMPT, EFFECTIVE = 34.0, 10, 192


def line(step: int, evaluated: int = 0) -> dict[str, Any]:
    """A step in which the trainer waits for what is left of WALL_S, and the generator is never idle."""
    generated = round(256 * LENGTH + 16 * PROMPT)
    trained = round(EFFECTIVE * (LENGTH + PROMPT))
    waited_s = WALL_S - OTHER_S - trained * TRAIN_S
    ledger = {
        "generation": {"device_s": step * generated * DECODE_S, "flops": 4e9 * step, "tokens": generated * step},
        "training": {"device_s": step * (trained * TRAIN_S + waited_s), "flops": 1e6 * step, "tokens": trained * step},
        "evaluation": {"device_s": 3.0 * evaluated, "flops": 0.0, "tokens": 0},
    }  # fmt: skip
    values = {"effective_rollouts": EFFECTIVE, "mean_length": LENGTH, "max_length": 42.0, "age_mean": 3.0}
    shares = {"generator_idle": 0.0, "trainer_idle": waited_s / WALL_S}
    return {"step": step, "wall_s": step * WALL_S, **values, **shares, "ledger": ledger}


def write(path: Path, lines: list[dict[str, Any]], launcher: str = "local", *, engine: str = "embedded") -> Path:
    overrides = [f'scale.launcher.kind="{launcher}"', f'scale.generator.engine="{engine}"']
    config = load_run("scalerl", "laptop", overrides=overrides).config
    with RunDirectory.hold(path, config, resume=False) as run:
        for each in lines:
            run.metrics.append(each)
    return path


def test_rates_come_back(tmp_path: Path) -> None:
    found = like(write(tmp_path / "run", [line(step) for step in range(1, 40)]))
    tokens = EFFECTIVE * (LENGTH + PROMPT)
    assert found.rates.train_s(256 * (LENGTH + PROMPT), 0) == pytest.approx(tokens * TRAIN_S)
    assert found.rates.update_s == pytest.approx(UPDATE_TOKENS * found.rates.trained_token_s)
    assert found.rates.send_s == pytest.approx(OTHER_S)
    assert found.rates.decode_s(256) / 256 < DECODE_S  # the rest is in the steps that read prompts
    assert found.rates.step_s > 10 * found.rates.row_s
    assert found.question.prompt_length == PROMPT
    assert found.question.lengths.mean() == pytest.approx(LENGTH, rel=0.02)
    assert found.rates.trained_share == pytest.approx(EFFECTIVE / 256)
    assert found.measured.step_s == pytest.approx(WALL_S)
    assert found.measured.steps == 20  # 39 lines, less a run-in of 18 and the first of a pair


def test_the_generator_is_the_limit_and_so_it_is_in_the_simulation(tmp_path: Path) -> None:
    found = like(write(tmp_path / "run", [line(step) for step in range(1, 40)]))
    outcome = simulate(found.question, rates=found.rates, fleet=found.fleet(found.question), steps=30)
    assert outcome.step_s == pytest.approx((256 * LENGTH + 16 * PROMPT) * DECODE_S, rel=0.03)
    assert outcome.trainer_idle > 0.3
    assert outcome.generator_idle < 0.01


def test_rows_that_begin_together_are_cheaper_as_measured_by_step_costs(tmp_path: Path) -> None:
    found = like(write(tmp_path / "run", [line(step) for step in range(1, 40)]))

    def token_s(asynchrony: Asynchrony) -> float:
        question = replace(found.question, asynchrony=asynchrony)
        outcome = simulate(question, rates=found.rates, fleet=found.fleet(question), steps=30)
        return outcome.step_s * (1 - outcome.generator_idle) / outcome.tokens_per_step

    refilled = token_s(found.question.asynchrony)
    assert token_s(Sync(kind="sync")) / refilled == pytest.approx(0.80, abs=0.05)
    assert token_s(PpoOffPolicy(kind="ppo_off_policy", k=4)) / refilled == pytest.approx(0.85, abs=0.05)


def test_vllm_reads_prompts_beside_the_rows_that_write(tmp_path: Path) -> None:
    lines = [line(step) for step in range(1, 40)]
    found = like(write(tmp_path / "run", lines, engine="vllm"))
    assert found.rates.prompts_s == 0
    assert found.rates.row_s > like(write(tmp_path / "embedded", lines)).rates.row_s


def test_more_trainers_share_the_passes(tmp_path: Path) -> None:
    found = like(write(tmp_path / "run", [line(step) for step in range(1, 40)]))
    wide = found.question.split(3, 2)
    assert found.rates_for(wide).trained_token_s == pytest.approx(found.rates.trained_token_s / 2)
    assert found.rates_for(wide).update_s == found.rates.update_s
    assert found.fleet(wide).generators == 3


def test_evaluations_are_found(tmp_path: Path) -> None:
    lines = [line(step, evaluated=step // 10) for step in range(1, 60)]
    for each in lines:
        each["wall_s"] += 3.0 * (each["step"] // 10)
    found = like(write(tmp_path / "run", lines))
    assert found.rates.evaluation_s == pytest.approx(3.0)
    assert found.rates.evaluation_every == 10


def test_runs_that_say_nothing(tmp_path: Path) -> None:
    lines = [line(step) for step in range(1, 40)]
    with pytest.raises(InputError, match="the launcher of the run: got 'inline'"):
        like(write(tmp_path / "inline", lines, "inline"))
    with pytest.raises(InputError, match=r"steps of the run: got 20; allowed: more than 26"):
        like(write(tmp_path / "short", lines[:20]))
    with pytest.raises(InputError, match=r"steps of the run: got 5; allowed: more than 26"):  # not even its run-in
        like(write(tmp_path / "shorter", lines[:5]))
