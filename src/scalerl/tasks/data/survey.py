"""Everything `scalerl data inspect` says about a dataset, in one pass and in memory that does not grow with it.

Called by the command line. Rows that cannot be used are counted, not raised: the point is to see all that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from scalerl.errors import InputError
from scalerl.tasks.data.lengths import Lengths, Measure, words
from scalerl.tasks.data.overlap import NGRAM, EvaluationIndex, Texts
from scalerl.tasks.data.reference import ReferenceCheck, Sample
from scalerl.tasks.data.repeats import Repeats
from scalerl.tasks.data.split_leaks import SplitLeaks
from scalerl.tasks.files import FileTask, canonical
from scalerl.tasks.records import ANSWER_KEY, PROMPT_KEY, Columns, Record, Records, open_prompts, open_records
from scalerl.verify import Kind

Progress = Callable[[int, int], None]
Document = dict[str, Any]
SHOWN = 3
BATCH = 256
LONGEST_SHOWN = 400
"""Characters of a sample problem."""


@dataclass(frozen=True)
class Question:
    """What to look at, and how."""

    path: str
    columns: Columns
    verifier: Kind | None = None
    """None: the natural one."""
    against: tuple[str, ...] = ()
    ngram: int = NGRAM
    measure: Measure | None = None
    """How long texts are in tokens; None: in words."""
    held_out_share: float = FileTask.held_out_share
    most_rows: int | None = None
    checked: int = 1000
    """References that are verified against themselves."""


def inspect(question: Question, progress: Progress = lambda *_: None) -> Document:
    """The document of `scalerl data inspect --json`; the text for people is made from it."""
    indexes = [_index(path, question) for path in question.against]
    with open_records(question.path, question.columns) as records, Repeats(question.held_out_share) as repeats:
        kind = question.verifier or records.verifier
        references = ReferenceCheck(kind, question.checked)
        survey = _Survey(question, references, repeats, indexes, _held_out(question, references))
        rows = records.read(tables=kind == "code")
        while batch := list(islice(rows, survey.room())):
            survey.take(batch)
            progress(records.rows.done(), records.rows.num_bytes)
        heading, found = _heading(question, records, kind), survey.document()
        return heading | found | {"task": _task(question, heading, found)}


class _Survey:
    """What is known so far."""

    def __init__(
        self,
        question: Question,
        references: ReferenceCheck,
        repeats: Repeats,
        indexes: Sequence[EvaluationIndex],
        leaks: SplitLeaks,
    ) -> None:
        self._question = question
        self._repeats = repeats
        self._indexes = indexes
        self._leaks = leaks
        self._references = references
        self._kind = references.kind
        self._lengths = {"prompt": Lengths(), "answer": Lengths()}
        self._refusals = Refusals()
        self._samples: Sample[Record] = Sample(SHOWN, "problems")
        self._rows = 0
        self._usable = 0

    def room(self) -> int:
        """How many rows to take next; 0: enough were seen."""
        most = self._question.most_rows
        return BATCH if most is None else min(BATCH, most - self._rows)

    def take(self, batch: Sequence[Record | InputError]) -> None:
        self._rows += len(batch)
        usable = list(self._usable_of(batch))
        self._usable += len(usable)
        prompts = [canonical(record.prompt) for record in usable]
        hashes = [self._repeats.add(p, one.answer, one.number) for p, one in zip(prompts, usable, strict=True)]
        self._measure(usable)
        rows = Texts([record.number for record in usable], prompts, self._question.ngram)
        self._leaks.look(rows, hashes)
        for index in self._indexes:
            index.look(rows)

    def document(self) -> Document:
        found, judged = self._repeats.found(), self._references.judged()
        return {
            "rows": self._rows,
            "usable": self._usable,
            "complete": self._question.most_rows is None or self._rows < self._question.most_rows,
            "unusable": self._refusals.document(),
            "lengths": {name: lengths.document() for name, lengths in self._lengths.items()},
            "duplicates": {
                "distinct": found.distinct, "repeated": found.repeated, "contradicted": found.contradicted,
                "pairs": [asdict(pair) for pair in found.pairs],
            },
            "split": {
                "held_out_share": self._question.held_out_share, "train": found.distinct - found.held_out,
                "held_out": found.held_out, "leaks": self._leaks.document(),
            },
            "against": [_met(index) for index in self._indexes],
            "answers": asdict(judged) | {"statuses": dict(judged.statuses)},
            "samples": [
                {"row": one.number, "prompt": one.prompt[:LONGEST_SHOWN], "answer": one.answer[:LONGEST_SHOWN]}
                for one in self._samples.items()
            ],
        }  # fmt: skip

    def _usable_of(self, batch: Sequence[Record | InputError]) -> Iterator[Record]:
        for record in batch:
            if isinstance(record, InputError):
                self._refusals.add(record.what, record.value, str(record.where))
            elif objection := self._references.objection(record.answer):
                what = f"an answer that the verifier {self._kind} cannot use ({objection})"
                self._refusals.add(what, record.answer, record.where)
            else:
                yield record

    def _measure(self, usable: Sequence[Record]) -> None:
        for record in usable:
            self._references.offer(record.number, record.answer)
            self._samples.offer(record)
        measure = self._question.measure or words
        self._lengths["prompt"].add(measure([record.prompt for record in usable]))
        if self._kind != "code":  # nobody has to write unit tests, and they may be megabytes
            self._lengths["answer"].add(measure([record.answer for record in usable]))


class Refusals:
    """Rows that cannot be used, by reason."""

    SHOWN = 3
    MOST_REASONS = 100

    def __init__(self) -> None:
        self._reasons: dict[str, Document] = {}

    def add(self, what: str, value: object, where: str) -> None:
        if what not in self._reasons and len(self._reasons) >= self.MOST_REASONS:
            what = "another reason"
        reason = self._reasons.setdefault(what, {"reason": what, "count": 0, "examples": []})
        reason["count"] += 1
        if len(reason["examples"]) < self.SHOWN:
            reason["examples"].append({"where": where, "value": None if value is None else str(value)[:80]})

    def document(self) -> list[Document]:
        return sorted(self._reasons.values(), key=lambda reason: -int(reason["count"]))


def _heading(question: Question, records: Records, kind: Kind) -> Document:
    return {
        "file": question.path,
        "bytes": records.rows.num_bytes or None,
        "unit": records.rows.unit,
        "columns": list(records.rows.columns),
        "layout": records.layout.name,
        "prompt_key": str(records.prompt),
        "answer_key": str(records.answer),
        "verifier": kind,
        "counted_in": "words" if question.measure is None else "tokens",
        "ngram": question.ngram,
    }


def _task(question: Question, heading: Document, found: Document) -> Document:
    """What a task needs beside the path to take this dataset."""
    keys = {"prompt_key": (question.columns.prompt_key, PROMPT_KEY)}
    keys |= {"answer_key": (question.columns.answer_key, ANSWER_KEY)}
    plain = heading["layout"] == "plain"
    named = {name: heading[name] for name, (given, usual) in keys.items() if plain or given != usual}
    refused = found["unusable"] or found["duplicates"]["contradicted"]
    share = question.held_out_share
    return (
        {"layout": heading["layout"], **named, "verifier": heading["verifier"]}
        | ({"held_out_share": share} if share != FileTask.held_out_share else {})
        | ({"skip_unusable": True} if refused else {})
    )


def _held_out(question: Question, references: ReferenceCheck) -> SplitLeaks:
    """A first look at the file, which ends with the last held-out problem that is kept."""
    leaks = SplitLeaks(question.held_out_share, question.ngram)
    with open_records(question.path, question.columns) as records:
        rows = islice(records.read(tables=references.kind == "code"), question.most_rows)
        leaks.read_ahead(rows, lambda record: references.objection(record.answer) is None)
    return leaks


def _index(path: str, question: Question) -> EvaluationIndex:
    index, refused = EvaluationIndex(path, question.ngram), None
    with open_prompts(path, question.columns) as records:
        for record in records.read():
            if isinstance(record, Record):
                index.add(record.number, record.prompt)
            else:
                index.found.unreadable += 1
                refused = refused or record
    if refused is not None and not index.found.problems:
        raise InputError(f"no prompt to compare with (the first row: {refused.what})", refused.value, where=path)
    return index


def _met(index: EvaluationIndex) -> Document:
    found = index.found
    same, sharing = index.problems_met()
    return {
        "file": found.label, "problems": found.problems, "short": found.short, "common_ngrams": found.common,
        "unreadable": found.unreadable,
        "same": found.same, "sharing": found.sharing, "problems_met": len(same | sharing), "rows": found.rows,
        "examples": [asdict(meeting) for meeting in found.meetings],
    }  # fmt: skip
