"""`scalerl study report`: what a study has found, as a page, Markdown, JSON or a figure; also while it still runs.

Registered by `study`. It reads the folder of a study (or a results.json that was published), analyses it and writes
nothing but the report.
"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalerl.cli import checks, options
from scalerl.cli.output import Outcome
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.study.results import Document

FORMATS = ("html", "md", "json", "png", "svg", "pdf")
_PICTURES = ("png", "svg", "pdf")
_TEXT = ("md", "json")
"""Without -o these go to standard output."""

StudyFolderPath = Annotated[
    str, typer.Argument(metavar="DIR", help="The folder of a study, or a results.json of one.", show_default=False)
]
ReplayPrune = Annotated[
    bool,
    typer.Option(
        "--replay-prune", metavar="", rich_help_panel=options.ASK,
        help="Race the finished curves again: what --prune would have saved, and whether verdicts would have changed.",
    ),
]  # fmt: skip
Refit = Annotated[
    bool,
    typer.Option(
        "--refit", metavar="", rich_help_panel=options.ASK,
        help="With a results.json: fit its curves again with this version. A folder is always fitted anew.",
    ),
]  # fmt: skip
StudyReportFile = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", metavar="OUT", rich_help_panel=options.OUT,
        help="The file to write. Default: report.html in DIR; md and json go to standard output.",
    ),
]  # fmt: skip


def report(
    directory: StudyFolderPath,
    replay_prune: ReplayPrune = False,
    refit: Refit = False,
    title: options.Title = None,
    kind: options.ReportFormat = None,
    out: StudyReportFile = None,
) -> Outcome:
    """Show what a study has found: which choices move the ceiling, which only the speed, with intervals."""
    form, path = _place(kind, out, Path(directory))
    results = _results(Path(directory), refit=refit)
    if replay_prune:
        results = results | {"replay": _replay(results)}
    notes = _notes(results)
    if form in _PICTURES:
        assert path is not None
        from scalerl.report.study_figures import write_study_figure

        return Outcome(f"Picture: {write_study_figure(results, path, title)}\n", notes)
    text = _rendered(results, form, title)
    if path is None:
        return Outcome(text, notes)
    from scalerl.report import output

    output.write(path, text.encode())
    return Outcome(f"Report: {path}\n", notes)


def _place(kind: str | None, out: str | None, directory: Path) -> tuple[str, Path | None]:
    """The format, and where the report goes; None is standard output."""
    if out is None:
        form = kind or "html"
        if form in _TEXT:
            return form, None
        return form, (directory if directory.is_dir() else directory.parent) / f"report.{form}"
    suffix = Path(out).suffix.lower().removeprefix(".")
    if kind is None and suffix not in FORMATS:
        raise InputError(
            "-o", out, "a file name ending in " + ", ".join(f".{one}" for one in FORMATS) + ", or --format"
        )
    if kind in _PICTURES and suffix != kind:
        raise InputError("-o", out, f"a file name ending in .{kind}, as --format says")
    return kind or suffix, checks.output_path("-o", out, (suffix,))


def _results(path: Path, *, refit: bool) -> Document:
    """The analysis of a folder, or one that was made before."""
    from scalerl.study.folder import StudyFolder
    from scalerl.study.gather import gather
    from scalerl.study.results import refitted, results_document

    if path.is_file():
        return refitted(_published(path)) if refit else _published(path)
    return results_document(gather(StudyFolder.open(path)))


def _published(path: Path) -> Document:
    from scalerl.study.results import SCHEMA

    try:
        found: Any = json_module.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as results of a study ({error})", where=str(path)) from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or "choices" not in found:
        raise InputError("not the results of a study", allowed=f"a results.json of schema {SCHEMA}", where=str(path))
    return found


def _replay(results: Document) -> Document:
    from dataclasses import asdict

    from scalerl.study.replay import replay_results
    from scalerl.study.results import rounded

    replayed: Document = rounded(asdict(replay_results(results)))
    return replayed


def _rendered(results: Document, form: str, title: str | None) -> str:
    if form == "html":
        from scalerl.report.study_page import study_page

        return study_page(results, title)
    if form == "md":
        from scalerl.report.study_markdown import study_markdown

        return study_markdown(results, title)
    from scalerl.study.results import to_text

    return to_text(results)


def _notes(results: Document) -> tuple[str, ...]:
    """What is missing, for standard error: a report that goes to a file should not hide it."""
    from scalerl.report.study_words import missing

    return tuple(missing(results))
