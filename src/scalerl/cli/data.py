"""`scalerl data inspect`: what is in a dataset, before anything is trained on it.

Called by the typer application. What is found is `scalerl.tasks.data.survey`; how it looks is `data_view`.
"""

from __future__ import annotations

import math

import typer

from scalerl.cli import data_options as data
from scalerl.cli import options
from scalerl.cli.group import command_group
from scalerl.cli.output import Outcome, text_of, to_json
from scalerl.errors import InputError

PURPOSE = "Look at a dataset before training on it: sizes, lengths, duplicates, leaks, answers nobody could give."


def build_data() -> typer.Typer:
    """The group of commands, for the application."""
    return command_group(PURPOSE, {"inspect": inspect})


def inspect(
    file: data.File,
    layout: data.LayoutName = "auto",
    prompt_key: data.PromptKey = "prompt",
    answer_key: data.AnswerKey = "answer",
    rows: data.Rows = None,
    against: data.Against = None,
    ngram: data.Ngram = "13",
    held_out_share: data.HeldOutShare = "0.1",
    verifier: data.VerifierName = None,
    check: data.Checked = "1000",
    tokenizer: data.TokenizerFolder = None,
    json: options.Json = False,
) -> Outcome:
    """Show sizes, lengths, duplicates, leaks from evaluation sets and between the two sides of the split, and what the
    verifier makes of the answers."""
    from scalerl.cli.plan_checks import whole
    from scalerl.cli.reading_bar import reading_bar
    from scalerl.tasks.data.lengths import token_counter
    from scalerl.tasks.data.survey import Question
    from scalerl.tasks.data.survey import inspect as survey
    from scalerl.tasks.records import Columns

    question = Question(
        path=file,
        columns=Columns(layout, prompt_key, answer_key),
        verifier=verifier,
        against=tuple(against or ()),
        ngram=whole("--ngram", ngram, 2),
        held_out_share=_share(held_out_share),
        measure=None if tokenizer is None else token_counter(tokenizer),
        most_rows=None if rows is None else whole("--rows", rows),
        checked=whole("--check", check, 0),
    )
    with reading_bar() as progress:
        document = survey(question, progress)
    if json:
        return Outcome(to_json(document))
    from scalerl.cli.data_view import data_page

    return Outcome(text_of([data_page(document)]))


def _share(text: str) -> float:
    """As a task takes it."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise InputError("--held-out-share", text, "a number between 0 and 1, such as 0.1")
    return value
