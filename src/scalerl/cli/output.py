"""What the commands print: the JSON documents, as pure functions of results, and the text of the human output.

Used by the command modules. Reads no file, fits nothing, writes nothing. The keys of a document are a promise: `SCHEMA`
grows when one of them changes its meaning or goes away. Unknown is null; NaN and infinity never appear. The document of
one fit is in `scalerl.report.answers`, because reports contain it too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from scalerl.report import answers
from scalerl.report.answers import law_document, plain

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType
    from rich.text import Text

    from scalerl.curves import Fit
    from scalerl.curves.results import Backtest, Comparison, Decision

SCHEMA = 1

Document = answers.Document


@dataclass(frozen=True)
class Outcome:
    """What a command has to say, once all its work is done."""

    text: str
    notes: tuple[str, ...] = ()
    """For stderr, one line each."""
    code: int = 0


def to_json(document: Document) -> str:
    """One JSON document and a newline."""
    return json.dumps(plain({"schema": SCHEMA} | document), indent=2, allow_nan=False) + "\n"


def one_or_many(documents: Sequence[Document]) -> Document:
    """One curve stands at the top level; several are a list under `curves`."""
    return documents[0] if len(documents) == 1 else {"curves": list(documents)}


def decision_document(fit: Fit, decision: Decision, question: str, source: Document) -> Document:
    """`scalerl decide --json` for one curve."""
    return law_document(fit) | {"question": question, "decision": asdict(decision)} | source


def comparison_document(fits: Sequence[Fit], comparison: Comparison, sources: Sequence[Document]) -> Document:
    """`scalerl compare --json`."""
    curves = [law_document(fit) | source for fit, source in zip(fits, sources, strict=True)]
    return comparison.to_dict() | {"curves": curves}


def backtest_document(backtest: Backtest, source: Document) -> Document:
    """`scalerl backtest --json`: a summary by method and share, and every single score."""
    from scalerl.report.words import summaries

    summary = [asdict(row) for row in summaries(backtest)]
    return {"level": backtest.level, "summary": summary, "scores": backtest.to_dict()["scores"]} | source


def picture_line(picture: Path | None) -> list[RenderableType]:
    """Where the picture went, as the last line of the human output."""
    from rich.text import Text

    return [] if picture is None else [Text(f"Picture: {picture}")]


def text_of(parts: Iterable[RenderableType]) -> str:
    """The parts as this terminal shows them, in colour where it has colours."""
    from rich.console import Console

    from scalerl.report.plain import Harmless

    console = Console(highlight=False)
    with console.capture() as capture:
        for part in parts:
            console.print(Harmless(part), crop=False)
    return capture.get()


def unbroken(line: str) -> Text:
    """A line to copy: it runs beyond the edge rather than being broken there."""
    from rich.text import Text

    return Text(line, no_wrap=True, overflow="ignore")
