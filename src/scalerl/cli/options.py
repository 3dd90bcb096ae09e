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
Restarts = Literal["replace", "continue"]
Question = Literal["value", "ceiling"]
Launcher = Literal["inline", "local", "ray"]
Form = Literal["html", "md", "png", "svg", "pdf", "json"]

READ, FIT, ASK, OUT = "What to read", "How to fit", "What to ask", "Output"
WHAT, WHERE = "What to train", "Where and how"

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        help="A table (CSV, JSONL, Parquet), a run directory, or another trainer's log; each is one curve.",
    ),
]
Example = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=READ, help="Use a curve that comes with scalerl (scalerl-8b)."),
]
X = Annotated[
    str | None,
    typer.Option(
        "--x",
        metavar="COL",
        rich_help_panel=READ,
        help="Column or metric of compute; guessed from usual names. Of a log also: steps, tokens, hours.",
    ),
]
Y = Annotated[
    str | None,
    typer.Option(
        "--y",
        "--metric",
        metavar="COL",
        rich_help_panel=READ,
        help="Column or metric of the value; guessed from usual names.",
    ),
]
N = Annotated[
    str | None,
    typer.Option(
        "--n",
        metavar="COL|N",
        rich_help_panel=READ,
        help="Column with the number of answers behind a value, or that number.",
    ),
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
Gpus = Annotated[
    str | None,
    typer.Option(
        "--gpus", metavar="N", rich_help_panel=READ, help="Compute of a log in GPU-hours: its seconds times N GPUs."
    ),
]
Params = Annotated[
    str | None,
    typer.Option(
        "--params", metavar="N", rich_help_panel=READ, help="Compute of a log in FLOPs: its tokens x 8 x N parameters."
    ),
]
GpuHoursPerStep = Annotated[
    str | None,
    typer.Option(
        "--gpu-hours-per-step", metavar="H", rich_help_panel=READ, help="Compute of a log in GPU-hours: steps times H."
    ),
]
RestartsName = Annotated[
    Restarts,
    typer.Option(
        "--restarts", rich_help_panel=READ,
        help="When the steps of a log begin anew: the later part replaces the earlier, or counts on from it.",
    ),
]  # fmt: skip
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

ListMetrics = Annotated[
    bool,
    typer.Option("--list", metavar="", rich_help_panel=OUT, help="Show every metric with its range, and nothing else."),
]
CurveFile = Annotated[
    str | None,
    typer.Option("--to", metavar="OUT", rich_help_panel=OUT, help="Write the curve: .csv, .jsonl or .parquet."),
]
Json = Annotated[
    bool, typer.Option("--json", metavar="", rich_help_panel=OUT, help="Print one JSON document instead of text.")
]
Plot = Annotated[
    str | None,
    typer.Option(metavar="OUT", rich_help_panel=OUT, help="Write a picture: .png, .svg, .pdf, or .html to explore."),
]
Title = Annotated[
    str | None, typer.Option("--title", metavar="TEXT", rich_help_panel=OUT, help="Of the report. Default: the runs.")
]
ReportFormat = Annotated[
    Form | None,
    typer.Option("--format", rich_help_panel=OUT, help="Of the report. Default: by the ending of -o, or html."),
]
ReportFile = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", metavar="OUT", rich_help_panel=OUT,
        help="The file to write. Default: report.html; md and json go to standard output.",
    ),
]  # fmt: skip
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
        help="Sizes, task and machine: laptop, study, paper_8b, or a .toml file. Default: laptop.",
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
Suites = Annotated[
    list[str] | None,
    typer.Option(
        "--suite", metavar="NAME[=FILE]", rich_help_panel=WHAT,
        help="Measure on it too: aime24, aime25, math500 (from the hub, or from your FILE), or a .toml file of sets; "
        "repeatable.",
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
        help="inline: one process, the same curve bit for bit. local: a generator and a trainer process. ray: actors "
        "of a Ray cluster.",
    ),
]  # fmt: skip
Trainers = Annotated[
    str | None,
    typer.Option(
        "--trainers", metavar="N", rich_help_panel=WHERE,
        help="Processes that train together (FSDP2); needs --launcher local or ray. Default: the scale's, 1.",
    ),
]  # fmt: skip
Generators = Annotated[
    str | None,
    typer.Option(
        "--generators", metavar="N", rich_help_panel=WHERE,
        help="Actors that write rollouts; needs --launcher ray. Default: the scale's, 1.",
    ),
]  # fmt: skip
Address = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="TEXT", rich_help_panel=WHERE,
        help="The Ray cluster: auto, or HOST:PORT. Default: one of its own on this machine.",
    ),
]  # fmt: skip
Patience = Annotated[
    str | None,
    typer.Option(
        "--patience", metavar="S", rich_help_panel=WHERE,
        help="With --address: seconds to wait for room, also on nodes that may still join. Default: 10, and none for "
        "what no node has.",
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

WATCH, ALERT = "How to watch", "When to end, whom to tell"
Watched = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET",
        help="A run directory, a folder of runs (new ones appear by themselves), a table, or another trainer's log.",
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDR", rich_help_panel=WATCH,
        help="Address to listen on. Any but the loopback one needs a token: one is made and shown if none is given.",
    ),
]  # fmt: skip
Port = Annotated[str, typer.Option("--port", metavar="N", rich_help_panel=WATCH, help="0 takes any free one.")]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="T", rich_help_panel=WATCH, envvar="SCALERL_TOKEN",
        help="What a browser must know to see the page. Others on this machine see options, not the environment.",
    ),
]  # fmt: skip
Every = Annotated[
    str, typer.Option("--every", metavar="S", rich_help_panel=WATCH, help="Seconds between two looks at the files.")
]
NoPage = Annotated[
    bool, typer.Option("--no-page", metavar="", rich_help_panel=WATCH, help="Serve nothing: for scripts.")
]
OpenPage = Annotated[
    bool, typer.Option("--open", metavar="", rich_help_panel=WATCH, help="Open the page in a browser.")
]
UntilDecided = Annotated[
    bool,
    typer.Option(
        "--until-decided", metavar="", rich_help_panel=ALERT,
        help="End when every run is decided. Exit code: 0 SCALE, 10 STOP, 12 UNSTABLE (the highest of all runs), "
        "11 when the runs are over, or the time is, and it is still open.",
    ),
]  # fmt: skip
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="S", rich_help_panel=ALERT, help="End after so many seconds.")
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(
        "--webhook", metavar="URL", rich_help_panel=ALERT, envvar="SCALERL_WEBHOOK",
        help="POST a JSON object there when a decision changes.",
    ),
]  # fmt: skip
