"""The options that the commands of a study share, and the study that they ask for.

Used by `study` and the `study_*` commands. What a study means is `scalerl.config.study`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalerl.cli.budget import parse_budget
from scalerl.cli.options import WHAT, WHERE
from scalerl.cli.places import number
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.config.study import StudyConfig

BUDGET_KEYS = ("scale.budget.unit", "scale.budget.amount")

StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="leave_one_out, recipes, forward, batch, rollouts_per_prompt, generation_length, model_size, clip_high, "
        "k, or a .toml file.",
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="N,...", rich_help_panel=WHAT, help="Seeds of every cell. Default: the study's."),
]
BaseSets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", rich_help_panel=WHAT,
        help="Change one value of the base, and so of every cell that does not set it; repeatable.",
    ),
]  # fmt: skip
StudyBudget = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="TEXT", rich_help_panel=WHAT,
        help="Of each job: '500 steps', '2e13 flops', '5M tokens', '1.5 device-hours'; of a command: {budget}. "
        "Default: the study's.",
    ),
]  # fmt: skip
StudyOut = Annotated[
    str | None,
    typer.Option("--out", metavar="DIR", rich_help_panel=WHERE, help="The folder of the study. Default: studies/NAME."),
]


def asked_study(study: str, seeds: str | None, sets: list[str] | None, budget: str | None) -> StudyConfig:
    """The study with what the options change."""
    from scalerl.config.layers import parse_override
    from scalerl.config.study import CommandTrainer, changed, load_study

    config = load_study(study)
    values: dict[str, Any] = {".".join(path): value for path, value in map(parse_override, sets or ())}
    amount = None
    if budget is not None and isinstance(config.runner, CommandTrainer):
        amount = _free_number(budget)
    elif budget is not None:
        values |= _budget_values(budget, values)
    numbers = None if seeds is None else parse_seeds(seeds)
    return changed(config, seeds=numbers, base=values, command_budget=amount)


def parse_seeds(text: str) -> list[int]:
    """`0,1,2`: distinct whole numbers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(map(int, parts))) < len(parts):
        raise InputError("--seeds", text, "distinct whole numbers of at least 0, such as 0,1,2")
    return [int(part) for part in parts]


def _budget_values(text: str, sets: dict[str, Any]) -> dict[str, Any]:
    both = [key for key in sets if key.startswith("scale.budget")]
    if both:
        raise InputError(f"{both[0]} is given twice", f"--budget {text} and --set", "one of the two")
    given = parse_budget(text)
    return dict(zip(BUDGET_KEYS, (given.unit, given.amount), strict=True))


def _free_number(text: str) -> float:
    amount = number("--budget", text)
    if not 0 < amount < float("inf"):
        raise InputError("--budget", text, "a number above zero: the command's {budget}")
    return amount
