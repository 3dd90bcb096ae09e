"""Rows as problems in the making: a prompt and an answer, with file and line for messages.

Called by `files` and by `data.survey`. Where rows come from is known by `data.open`, what their columns mean by
`data.layouts`; here the two meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scalerl.errors import InputError
from scalerl.tasks.data.cells import Key, answer_text, has_key, key_of, prompt_text
from scalerl.tasks.data.layouts import KNOWN, LAYOUTS, PLAIN, PROMPTS, Layout, natural_verifier, recognise
from scalerl.tasks.data.open import open_rows
from scalerl.tasks.data.rows import Row, Rows
from scalerl.verify import Kind

AUTO = "auto"
PROMPT_KEY, ANSWER_KEY = "prompt", "answer"
"""What the keys are when nobody says anything; a layout other than plain then takes its own."""


@dataclass(frozen=True)
class Columns:
    """How a user wants the columns to be read."""

    layout: str = "plain"
    """A name in `LAYOUTS`, or auto."""
    prompt_key: str = PROMPT_KEY
    answer_key: str = ANSWER_KEY


@dataclass(frozen=True)
class Record:
    """One row."""

    prompt: str
    answer: str
    number: int
    """Of its line or row."""
    where: str
    """File and line (or row), for messages."""


@dataclass(frozen=True)
class Records:
    """An open dataset whose layout is known."""

    rows: Rows
    layout: Layout
    prompt: Key
    answer: Key | None
    """None: only the prompts are wanted."""
    verifier: Kind
    """The natural one."""

    def read(self, *, tables: bool = False) -> Iterator[Record | InputError]:
        """Every row; one that cannot be used is the error that says why, with its line.

        `tables`: an answer may also be a list or a table, which becomes JSON.
        """
        for number, row in self.rows.read(self._columns()):
            where = f"{self.rows.label}, {self.rows.unit} {number}"
            if isinstance(row, InputError):
                yield row
                continue
            try:
                yield Record(self._prompt(row), self._answer(row, tables=tables), number, where)
            except InputError as error:
                yield InputError(error.what, error.value, error.allowed, where)

    def _prompt(self, row: Row) -> str:
        return self.layout.prompt_of(prompt_text(self.prompt.cell(row), self.prompt), row)

    def _answer(self, row: Row, *, tables: bool) -> str:
        if self.answer is None:
            return ""
        return answer_text(self.layout.answer_of(self.answer.cell(row), row), self.answer, tables=tables)

    def _columns(self) -> list[str]:
        beside = [name for name in self.layout.beside if name in self.rows.columns]
        keys = [self.prompt] if self.answer is None else [self.prompt, self.answer]
        return list(dict.fromkeys([*(key.column for key in keys), *beside]))


@contextmanager
def open_records(path: str | Path, columns: Columns) -> Iterator[Records]:
    """Open a dataset, and settle its layout; an error lists the columns that it has."""
    with open_rows(path) as rows:
        first = _first(rows)
        layout = _layout(rows, columns, first)
        prompt = _key(rows, columns.prompt_key, PROMPT_KEY, layout.prompts, "prompt_key", layout)
        answer = _key(rows, columns.answer_key, ANSWER_KEY, layout.answers, "answer_key", layout)
        yield Records(rows, layout, prompt, answer, natural_verifier(layout, answer.cell(first)))


@contextmanager
def open_prompts(path: str | Path, columns: Columns) -> Iterator[Records]:
    """The same for the prompts alone: an evaluation file may have its answers anywhere, or none."""
    with open_rows(path) as rows:
        layout = recognise(rows.columns, _first(rows)) or PLAIN
        known = [name for name in (columns.prompt_key, *layout.prompts, *PROMPTS) if has_key(rows.columns, name)]
        if not known:
            allowed = f"{', '.join(PROMPTS)}, or the prompt_key of the dataset; it has {', '.join(rows.columns[:30])}"
            raise InputError("no column with prompts", allowed=allowed, where=rows.label)
        yield Records(rows, layout, key_of(rows.columns, known[0], "prompt_key", rows.label), None, layout.verifier)


def _first(rows: Rows) -> Row:
    return rows.first([name for name in rows.columns if name in KNOWN and rows.columns.count(name) == 1])


def _layout(rows: Rows, columns: Columns, first: Row) -> Layout:
    if columns.layout != AUTO:
        return LAYOUTS[columns.layout]
    if columns.prompt_key != PROMPT_KEY and columns.answer_key != ANSWER_KEY:
        return PLAIN
    found = recognise(rows.columns, first)
    if found is None:
        names = ", ".join(rows.columns[:30])
        allowed = f"prompt_key and answer_key with two of {names}; or one of the layouts {', '.join(LAYOUTS)}"
        raise InputError("no known layout", allowed=allowed, where=rows.label)
    return found


def _key(rows: Rows, given: str, usual: str, own: Sequence[str], option: str, layout: Layout) -> Key:
    """What the user named; else the layout's own key; else the usual one."""
    if given != usual or layout is PLAIN:
        return _asked(rows, given, option, layout)
    for text in (*own, usual):
        if has_key(rows.columns, text):
            return key_of(rows.columns, text, option, rows.label)
    what = f"no column of layout {layout.name} for {option}"
    allowed = f"{' or '.join(dict.fromkeys(own))}, or {option} with one of {', '.join(rows.columns[:30])}"
    raise InputError(what, allowed=allowed, where=rows.label)


def _asked(rows: Rows, given: str, option: str, layout: Layout) -> Key:
    try:
        return key_of(rows.columns, given, option, rows.label)
    except InputError as error:
        other = recognise(rows.columns, _first(rows))
        if layout is not PLAIN or other is None or other is PLAIN:
            raise
        allowed = f"{error.allowed}; or layout {other.name}, which fits these columns"
        raise InputError(error.what, error.value, allowed, error.where) from None
