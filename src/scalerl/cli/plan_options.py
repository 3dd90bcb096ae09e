"""The options of `scalerl plan`. Numbers come in as text, as in `options`; `plan_checks` reads them."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Mode = Literal["pipeline", "ppo_off_policy", "sync"]

SIZE, PIPE, MONEY, SIM = "Model and machine", "Batch and pipeline", "Time and money", "Simulation"


def _option(name: str, metavar: str, panel: str, text: str) -> object:
    return typer.Option(name, metavar=metavar, rich_help_panel=panel, help=text)


PlanParams = Annotated[str | None, _option("--params", "N", SIZE, "Parameters of the policy, e.g. 8e9 or 8B.")]
ActiveParams = Annotated[
    str | None, _option("--active-params", "N", SIZE, "Of a mixture of experts: parameters that a token uses.")
]
PlanGpus = Annotated[
    str | None,
    _option("--gpus", "N", SIZE, "GPUs in all. Default: what --split adds up to; with --like, as in the run."),
]
Hardware = Annotated[
    str | None, _option("--hardware", "NAME", SIZE, "a100, h100, h200, b200, gb200 or cpu-core. Default: h100.")
]
Split = Annotated[
    str | None,
    _option(
        "--split",
        "best|G:T",
        SIZE,
        "GPUs that generate and that train, e.g. 64:16; best: search for it. Default: best; with --like and no --gpus, "
        "as in the run.",
    ),
]
PerGenerator = Annotated[
    str | None,
    _option(
        "--gpus-per-generator", "N", SIZE, "GPUs that hold one copy of the policy. Default: as few as it fits into."
    ),
]
LikeRun = Annotated[
    str | None,
    _option(
        "--like",
        "RUN",
        SIZE,
        "Take times and lengths from a run directory (launcher local or ray) instead of a datasheet.",
    ),
]
PlanSets = Annotated[
    list[str] | None,
    _option(
        "--set", "KEY=VALUE", SIZE, "Change an assumption, e.g. training_efficiency=0.3; repeatable. All are shown."
    ),
]

PlanBatch = Annotated[
    str | None, _option("--batch", "PxR", PIPE, "Prompts times rollouts of each, one step. Default: 48x16.")
]
Length = Annotated[str | None, _option("--length", "N", PIPE, "Mean tokens of a response.")]
MaxLength = Annotated[
    str | None, _option("--max-length", "N", PIPE, "Longer responses are cut off there. Default: twice --length.")
]
Spread = Annotated[str, _option("--spread", "S", PIPE, "Standard deviation of ln length before cutting.")]
Interrupt = Annotated[
    str | None, _option("--interrupt", "LOW:HIGH", PIPE, "Thinking is ended at a random point between these tokens.")
]
PromptLength = Annotated[str, _option("--prompt-length", "N", PIPE, "Tokens of a prompt.")]
PlanMode = Annotated[
    Mode | None,
    typer.Option("--mode", rich_help_panel=PIPE, help="How generating and training overlap. Default: pipeline."),
]
K = Annotated[str | None, _option("--k", "K", PIPE, "Of pipeline and ppo_off_policy. Default: 8.")]
PlanRows = Annotated[
    str | None, _option("--rows", "N", PIPE, "Rollouts that a generator decodes together, at most. Default: 256.")
]
Compare = Annotated[
    bool,
    typer.Option("--compare", metavar="", rich_help_panel=PIPE, help="All three modes side by side, each at its best."),
]

PlanBudget = Annotated[
    str | None,
    _option(
        "--budget", "TEXT", MONEY, "'100k gpu-hours', '5000 steps', '30 days', '2e6 usd', '1e12 tokens', '1e24 flops'."
    ),
]
PlanSteps = Annotated[str | None, _option("--steps", "N", MONEY, "Short for --budget 'N steps'.")]
Price = Annotated[str | None, _option("--price", "P", MONEY, "Of a GPU-hour.")]
Start = Annotated[str | None, _option("--start", "DATE", MONEY, "When it begins, e.g. 2027-01-31. Default: today.")]
CurveFiles = Annotated[
    list[str] | None,
    _option("--curve", "FILE", MONEY, "A curve that scalerl fit takes, to say which pass rate when; repeat for seeds."),
]
CurveExample = Annotated[
    str | None, _option("--example", "NAME", MONEY, "A curve that comes with scalerl (scalerl-8b).")
]
CurveX = Annotated[str | None, _option("--x", "COL", MONEY, "Its compute: GPU-hours, steps, tokens or FLOPs.")]
CurveY = Annotated[str | None, _option("--y", "COL", MONEY, "Its value.")]
CurveHours = Annotated[
    str | None,
    _option(
        "--curve-gpu-hours-per-step", "H", MONEY, "Of the run behind the curve: its GPU-hours are counted as steps."
    ),
]
PlanTarget = Annotated[str | None, _option("--target", "V", MONEY, "With a curve: time and money to reach this value.")]

Simulated = Annotated[str, _option("--simulate", "N", SIM, "Steps to simulate, after a run-in.")]
SimSeed = Annotated[str, _option("--seed", "N", SIM, "Of the lengths.")]
