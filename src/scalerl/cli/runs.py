"""`scalerl runs list`, `show` and `verify`: what the run directories on this machine say, and whether it is true.

Called by the typer application. Everything comes from `scalerl.runs`; how it looks is `run_tables` and `verify_tables`.
`verify` has an exit code of its own: 1 when something is wrong.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalerl.cli import options
from scalerl.cli.budget import budget_words
from scalerl.cli.group import command_group
from scalerl.cli.output import Document, Outcome, text_of, to_json

if TYPE_CHECKING:
    from scalerl.config import RunConfig
    from scalerl.runs import RunDirectory, RunSummary

PURPOSE = "List the runs below a folder, show one (state, pass rate, compute, how to go on), verify and repair them."
WRONG = 1
"""Exit code of `verify`: at least one check found an error."""

Root = Annotated[str, typer.Argument(metavar="ROOT", help="Folder to look in, four levels deep.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run directory.")]
Several = Annotated[
    list[str],
    typer.Argument(metavar="RUN", help="Run directories, or folders with runs in them, such as that of a study."),
]
Repair = Annotated[
    bool,
    typer.Option(
        "--repair",
        metavar="",
        help="First repair what can be without losing anything: torn ends, leftovers, damaged checkpoints set aside.",
    ),
]


def build_runs() -> typer.Typer:
    """The group of commands, for the application."""
    return command_group(PURPOSE, {"list": list_, "show": show, "verify": verify})


def list_(root: Root = ".", json: options.Json = False) -> Outcome:
    """List the runs in and below a folder."""
    from scalerl.runs import list_runs

    runs = list_runs(root)
    if json:
        return Outcome(to_json({"root": root, "runs": [run.to_dict() for run in runs]}))
    if not runs:
        return Outcome(f"No runs in or below {root}.\n")
    from scalerl.cli.run_tables import runs_table

    return Outcome(text_of([runs_table(runs)]), tuple(run.problem for run in runs if run.problem is not None))


def show(run: Run, json: options.Json = False) -> Outcome:
    """Show one run: state, settings, evaluations, compute, checkpoints."""
    from scalerl.report.set_results import read_sets
    from scalerl.runs import RunDirectory, read_sessions, summarise
    from scalerl.runs.points import read_points

    directory, summary = RunDirectory.open(run), summarise(run)
    evaluations, resume = read_points(directory), resume_command(summary, directory.config)
    sets, gain = read_sets(directory, evaluations), gain_over_start(directory, evaluations)
    events = directory.events.read()
    if json:
        from scalerl.config import to_dict

        details: Document = {
            "identity": directory.identity,
            "resume": resume,
            "evaluations": evaluations,
            "sets": [asdict(one) for one in sets],
            "gain": gain,
            "events": events,
            "sessions": read_sessions(directory.path),
            "config": to_dict(directory.config),
        }
        return Outcome(to_json(summary.to_dict() | details))
    from scalerl.cli.run_tables import run_page

    return Outcome(text_of([run_page(summary, directory.config, evaluations, gain, sets, events, resume)]))


def verify(runs: Several, repair: Repair = False, json: options.Json = False) -> Outcome:
    """Check what run directories promise: digests, lines, steps, ledger, groups, ages. Exit code 1 if one is broken."""
    from scalerl.runs.verify import check_free, find_runs
    from scalerl.runs.verify import verify as check
    from scalerl.runs.verify_repair import repair as mend

    paths = list(dict.fromkeys(path for name in runs for path in find_runs(name)))
    if repair:
        check_free(paths)
    done = {path: mend(path) if repair else [] for path in paths}
    found = [check(path) for path in paths]
    code = WRONG if any(one.level == "error" for one in found) else 0
    if json:
        documents = [one.to_dict() | {"repairs": done[one.path]} for one in found]
        return Outcome(to_json({"ok": code == 0, "runs": documents}), code=code)
    from scalerl.cli.verify_tables import verify_page

    return Outcome(text_of([verify_page(found, done, repaired=repair)]), code=code)


def gain_over_start(directory: RunDirectory, evaluations: Sequence[Mapping[str, Any]]) -> Document | None:
    """The last held-out evaluation against that of step 0, problem by problem; None where one of them is missing."""
    from scalerl.runs.scores import HELD_OUT, p_value, paired_difference, read_results

    if len(evaluations) < 2 or evaluations[0]["step"] != 0:
        return None
    last = evaluations[-1]["step"]
    before, after = (read_results(directory.evaluation_file(step)).get(HELD_OUT) for step in (0, last))
    found = None if before is None or after is None else paired_difference(before, after)
    if found is None:
        return None
    return {"step": last, **asdict(found), "p_value": p_value(found)}


def resume_command(run: RunSummary, config: RunConfig) -> str | None:
    """How to go on, after the budget is used up with twice as much; None while it runs, or if no problem is left."""
    if run.state == "running" or run.reason == "exhausted":
        return None
    command = f"scalerl train --out {shlex.quote(str(run.path))} --resume"
    if run.state != "finished":
        return command
    budget = config.scale.budget
    more = budget_words(budget.unit, 2 * budget.amount).replace(",", "").lower()
    return f"{command} --budget {shlex.quote(more)}"
