"""Every option of the command line: its name, its place in `--help`, and what it means.

Used by the command modules as parameter types. Numbers come in as text, because `checks` reads them its own way
(`50k`, `inf`, `none`) and words its own errors. No value is checked here.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Law = Literal["sigmoid", "power", "loglinear", "flat"]
Method = Literal["varpro", "paper"]
Duplicates = Literal["mean", "last", "seeds"]
Question = Literal["value", "ceiling"]
Launcher = Literal["inline", "local"]

READ, FIT, ASK, OUT = "What to read", "How to fit", "What to ask", "Output"
WHAT, WHERE = "What to train", "Where and how"

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="CSV, JSONL, Parquet or a run directory; each is one curve (more with --by)."),
]
Example = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=READ, help="Use a curve that comes with scalerl (scalerl-8b)."),
]
X = Annotated[
    str | None,
    typer.Option("--x", metavar="COL", rich_help_panel=READ, help="Column of compute; guessed from usual names."),
]
Y = Annotated[
    str | None,
    typer.Option("--y", metavar="COL", rich_help_panel=READ, help="Column of the value; guessed from usual names."),
]
N = Annotated[
    str | None,
    typer.Option("--n", metavar="COL", rich_help_panel=READ, help="Column with the number of answers behind a value."),
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="COL", rich_help_panel=READ, help="Column that names the curve a row belongs to."),
]
Repeats = Annotated[
    Duplicates | None,
    typer.Option(
        "--duplicates", rich_help_panel=READ,
        help="What several rows at one compute are: average them, keep the last, or several seeds. Default: an error.",
    ),
]  # fmt: skip
Bounds = Annotated[
    str,
    typer.Option(metavar="LOW,HIGH|none", rich_help_panel=READ, help="Range a value can have; none for mean rewards."),
]
AsSeeds = Annotated[
    bool,
    typer.Option(
        "--as-seeds",
        metavar="",
        rich_help_panel=READ,
        help="All curves given are seeds of one recipe: fit them as one.",
    ),
]

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="C",
        rich_help_panel=FIT,
        help="Leave out points before this compute, or share of the last compute: 10%.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="C",
        rich_help_panel=FIT,
        help="Hold out points after this compute, or share of the last compute: 50%; inf: none.",
    ),
]
Floor = Annotated[
    str | None,
    typer.Option(
        metavar="measured|free|V", rich_help_panel=FIT,
        help="Value at zero compute: the row at compute 0, a free parameter, or a number. "
        "Default: measured where there is such a row, otherwise free.",
    ),
]  # fmt: skip
Ceiling = Annotated[
    str | None,
    typer.Option(metavar="V", rich_help_panel=FIT, help="Fix the ceiling (to compare exponents)."),
]
LawName = Annotated[Law, typer.Option("--law", rich_help_panel=FIT, help="The law to fit.")]
MethodName = Annotated[
    Method,
    typer.Option("--method", rich_help_panel=FIT, help="varpro: ours, with intervals. paper: the paper's grid search."),
]
Level = Annotated[str, typer.Option(metavar="P", rich_help_panel=FIT, help="Probability that an interval holds.")]

Budgets = Annotated[
    list[str] | None,
    typer.Option(
        "--budget", metavar="C", rich_help_panel=ASK,
        help="Forecast the value at this compute, e.g. 1e5 or 100k; a share of the last: 200%; the end of the curve: "
        "end. Repeatable. Default: 2x, 4x and 10x of the last.",
    ),
]  # fmt: skip
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="C", rich_help_panel=ASK, help="Compute in question, e.g. 100k, 200% of the last, or end. Default: 2x."
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="V", rich_help_panel=ASK, help="Compute needed to reach this value; repeatable."),
]
Delta = Annotated[
    str | None,
    typer.Option(
        metavar="V", rich_help_panel=ASK, help="Smallest gain worth the budget. Default: 0.03 of the value's range."
    ),
]
QuestionName = Annotated[
    Question,
    typer.Option(
        "--question", rich_help_panel=ASK,
        help="value: is the gain at the budget worth it? ceiling: the same, but only if the ceiling is known.",
    ),
]  # fmt: skip
Reference = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=ASK, help="Curve to compare the others with. Default: the first."),
]
Margin = Annotated[
    str | None,
    typer.Option(
        metavar="V", rich_help_panel=ASK, help="Ceilings this close count as equal. Default: 0.02 of the value's range."
    ),
]
Shares = Annotated[
    str,
    typer.Option(
        metavar="S,...", rich_help_panel=ASK, help="Shares of each curve to fit, 0.3 or 30%; the rest is forecast."
    ),
]

Json = Annotated[
    bool, typer.Option("--json", metavar="", rich_help_panel=OUT, help="Print one JSON document instead of text.")
]
Plot = Annotated[
    str | None,
    typer.Option(metavar="OUT", rich_help_panel=OUT, help="Write a picture: .png, .svg, .pdf, or .html to explore."),
]
ExitCode = Annotated[
    bool,
    typer.Option(
        "--exit-code", metavar="", rich_help_panel=OUT,
        help="Tell the decision by exit code: 0 SCALE, 10 STOP, 11 NEED MORE DATA, 12 UNSTABLE (2: bad input).",
    ),
]  # fmt: skip

Recipe = Annotated[
    str | None,
    typer.Option(
        "--recipe", metavar="NAME", rich_help_panel=WHAT,
        help="The algorithm: scalerl, base, deepseek_grpo, qwen_dapo, magistral, minimax_m1, dr_grpo, gspo, "
        "or a .toml file. Default: scalerl.",
    ),
]  # fmt: skip
Scale = Annotated[
    str | None,
    typer.Option(
        "--scale", metavar="NAME", rich_help_panel=WHAT,
        help="Sizes, task and machine: laptop, paper_8b, or a .toml file. Default: laptop.",
    ),
]  # fmt: skip
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", rich_help_panel=WHAT, help="TOML with the tables recipe and scale, and seed."
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", rich_help_panel=WHAT,
        help="Change one value, e.g. recipe.loss.cap=8; repeatable. --dry-run lists the keys.",
    ),
]  # fmt: skip
Seed = Annotated[
    str | None,
    typer.Option("--seed", metavar="N", rich_help_panel=WHAT, help="Of everything random. Default: 0."),
]
TrainBudget = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="TEXT", rich_help_panel=WHAT,
        help="When to end: '500 steps', '2e13 flops', '5M tokens' or '1.5 device-hours'. Default: the scale's.",
    ),
]  # fmt: skip
LauncherName = Annotated[
    Launcher | None,
    typer.Option(
        "--launcher", rich_help_panel=WHERE,
        help="inline: one process, the same curve bit for bit. local: a generator and a trainer process.",
    ),
]  # fmt: skip
OutFolder = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="DIR", rich_help_panel=WHERE, help="The run directory. Default: runs/RECIPE-SCALE-seedN."
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", metavar="", rich_help_panel=WHERE,
        help="Go on with the run in --out, with its own config; a larger --budget may be given.",
    ),
]  # fmt: skip
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        metavar="",
        rich_help_panel=OUT,
        help="Show the config, what was changed, the size; start nothing.",
    ),
]
LiveView = Annotated[
    bool | None,
    typer.Option(
        "--live/--no-live", rich_help_panel=OUT,
        help="A live view on standard error, or plain lines. Default: live on a terminal.",
    ),
]  # fmt: skip
PolicyFolder = Annotated[
    str | None,
    typer.Option("--out", metavar="DIR", rich_help_panel=OUT, help="Copy the policy into this new folder."),
]
