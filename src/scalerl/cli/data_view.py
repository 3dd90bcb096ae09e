"""How `scalerl data inspect` looks in the terminal: one page from its document. Built with rich, prints nothing.

Called by `data`. Laid out for 80 columns, readable without colour and in ASCII. Prompts and answers are other people's
texts, so they enter as `Text`, never as markup, and on one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.cli.output import unbroken
from scalerl.report.plain import Printable

Document = dict[str, Any]
BAR_WIDTH = 30
MOST_ROWS_NAMED = 12


def data_page(document: Document) -> RenderableType:
    """Everything, the worst news in the middle where the tables are."""
    parts: list[RenderableType] = [_heading(document), _facts(document)]
    parts += _unusable(document)
    parts += [_lengths(document)]
    parts += _repeated(document)
    parts += _across_the_split(document)
    for one in document["against"]:
        parts += _against(one, document)
    if document["usable"]:
        parts += [*_answers(document), _samples(document)]
    parts += [_how_to_train(document)]
    return Printable(Group(*(piece for part in parts for piece in (part, Text("")))))


def _heading(document: Document) -> Text:
    text = Text(numbers.name(document["file"], 70), style="bold")
    rows, usable = document["rows"], document["usable"]
    first = "" if document["complete"] else "the first "
    text.append(f"  {first}{_rows(rows)}, {usable:,} usable", style="not bold")
    return text


def _facts(document: Document) -> Table:
    grid = Table.grid(padding=(0, 2))
    size = document["bytes"]
    split = document["split"]
    rows = {
        "size": numbers.UNKNOWN if size is None else f"{numbers.amount(size)}B",
        "layout": document["layout"],
        "columns": f"prompt in {document['prompt_key']}, answer in {document['answer_key']}",
        "also there": ", ".join(_others(document)) or "nothing",
        "verifier": document["verifier"],
        "split": f"{split['train']:,} to train on, {split['held_out']:,} held out "
        f"(share {split['held_out_share']:g}, each prompt once)",
    }
    for name, value in rows.items():
        grid.add_row(Text(name, style="dim"), Text(numbers.name(value, 300)))
    return grid


def _others(document: Document) -> list[str]:
    used = {document[key].partition(".")[0] for key in ("prompt_key", "answer_key")}
    return [name for name in document["columns"] if name not in used]


def _unusable(document: Document) -> Iterator[RenderableType]:
    if not document["unusable"]:
        return
    table = _table()
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    table.add_column("first", overflow="fold")
    for reason in document["unusable"]:
        first = reason["examples"][0]
        value = "" if first["value"] is None else f": {numbers.name(first['value'], 40)}"
        table.add_row(f"{reason['count']:,}", Text(reason["reason"]), Text(_place(first["where"]) + value))
    yield Group(Text("Rows that cannot be used", style="bold"), table)
    yield Text("A task refuses such a file, or leaves these rows out with skip_unusable = true.", style="dim")


def _lengths(document: Document) -> RenderableType:
    unit, found = document["counted_in"], document["lengths"]
    hint = "" if unit == "tokens" else " (tokens: --tokenizer DIR)"
    if not found["prompt"]:
        return Text("Lengths: nothing to count.")
    title = Text(f"Length of a prompt in {unit}{hint}", style="bold")
    table = _table()
    table.add_column(unit, justify="right", no_wrap=True)
    table.add_column("prompts", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    most = max(one["count"] for one in found["prompt"]["histogram"])
    for one in found["prompt"]["histogram"]:
        label = f"{one['from']:,}" if one["from"] == one["to"] else f"{one['from']:,} to {one['to']:,}"
        bar = Text("=" * round(BAR_WIDTH * one["count"] / most), style="cyan")
        table.add_row(label, f"{one['count']:,}", bar)
    lines = [Text(f"{name}s: {_figures(found[name])}") for name in ("prompt", "answer") if found[name]]
    return Group(title, table, *lines)


def _figures(found: Document) -> str:
    places = ", ".join(f"{name.replace('p', '', 1) + ' %' if name[0] == 'p' else name} {found[name]:,}"
                       for name in ("median", "p90", "p99"))  # fmt: skip
    return f"mean {found['mean']:,.1f}, {places}, longest {found['longest']:,}"


def _repeated(document: Document) -> Iterator[RenderableType]:
    found, unit = document["duplicates"], document["unit"]
    if not found["repeated"]:
        yield Text("Duplicates: none; every prompt occurs once, spacing and case aside.")
        return
    text = Text(f"Duplicates: {_rows(found['repeated'])} with an earlier prompt", style="yellow")
    text.append(f"; {found['distinct']:,} prompts are different.", style="default")
    if found["contradicted"]:
        text.append(f"\nPrompts with two different answers or more: {found['contradicted']:,}.", style="red")
    for pair in found["pairs"]:
        other = ", with another answer" if pair["another_answer"] else ""
        text.append(f"\n  {unit} {pair['again']:,} repeats {unit} {pair['first']:,}{other}", style="dim")
    yield text


def _across_the_split(document: Document) -> Iterator[RenderableType]:
    """Held-out problems that are trained on, as far as words tell."""
    found, ngram = document["split"]["leaks"], document["ngram"]
    if not found["compared"] or not document["split"]["train"]:
        return
    first = "" if found["all_compared"] else "first "
    text = Text(f"Across the split, the {first}{found['compared']:,} held-out problems: ", style="bold")
    if not found["train_rows"]:
        text.append(f"no row to train on is one, or has {ngram} words in a row of one.", style="not bold green")
    else:
        words = (
            f"{found['same']:,} are also trained on, punctuation aside; {found['sharing']:,} more share {ngram} words"
        )
        text.append(f"{words} in a row with what is trained on.", style="not bold red")
    unit = document["unit"]
    for line in [*_met(found, unit, found["train_rows"], f"held-out {unit}"), *_compared(found, ngram)]:
        text.append(f"\n  {line}", style="not bold")
    if found["train_rows"]:
        advice = "Their score may be memory: leave one of each pair out, or hold out a file of its own (held_out_path)."
        text.append(f"\n  {advice}", style="not bold dim")
    yield text


def _against(one: Document, document: Document) -> Iterator[RenderableType]:
    ngram, bad = document["ngram"], one["same"] + one["sharing"]
    text = Text(f"Against {numbers.name(one['file'], 60)}, {one['problems']:,} problems: ", style="bold")
    if not bad:
        text.append(f"no row has one, or {ngram} words in a row of one.", style="not bold green")
    else:
        words = f"whole in {_rows(one['same'])}, by {ngram} words in a row in {one['sharing']:,} more"
        text.append(f"{words}; {one['problems_met']:,} of its problems are met.", style="not bold red")
    for line in [*_met(one, document["unit"], bad), *_compared(one, ngram)]:
        text.append(f"\n  {line}", style="not bold")
    yield text


def _met(one: Document, unit: str, bad: int, problem: str = "problem") -> Iterator[str]:
    """Which rows, and what they share."""
    if bad:
        named = ", ".join(f"{row:,}" for row in one["rows"][:MOST_ROWS_NAMED])
        more = f" and {bad - MOST_ROWS_NAMED:,} more (--json lists up to 1,000)" if bad > MOST_ROWS_NAMED else ""
        yield f"{unit}s {named}{more}"
    for meeting in one["examples"]:
        what = "is" if meeting["whole"] else "shares with"
        yield f"{unit} {meeting['row']:,} {what} {problem} {meeting['problem']:,}: {numbers.name(meeting['words'], 90)}"


def _compared(one: Document, ngram: int) -> Iterator[str]:
    """What the comparison could not see."""
    if one.get("unreadable"):
        yield f"Without a prompt that can be read, and so not compared: {_rows(one['unreadable'])}."
    if one["short"]:
        yield f"Shorter than {ngram} words, and so compared whole: {one['short']:,} of its problems."
    if one["common_ngrams"]:
        words = f"in more than ten of its problems, and so taken for an instruction: {one['common_ngrams']:,}"
        yield f"Left out, n-grams {words}."


def _answers(document: Document) -> Iterator[RenderableType]:
    found = document["answers"]
    if found["note"] is not None:
        yield Text(f"Answers: {found['note']}.")
        return
    right = found["statuses"].get("correct", 0)
    text = Text(f"Answers: {right:,} of {found['checked']:,} verify against themselves with {found['verifier']}")
    text.append("." if right == found["checked"] else ";")
    for one in found["examples"]:
        why = f" ({one['detail']})" if one["detail"] else ""
        line = f"\n  {document['unit']} {one['row']:,}: {one['status']}{why}: {numbers.name(one['answer'], 60)}"
        text.append(line, style="yellow")
    yield text


def _samples(document: Document) -> RenderableType:
    table = _table()
    table.add_column(document["unit"], justify="right", no_wrap=True)
    table.add_column("prompt", overflow="fold", ratio=3)
    table.add_column("answer", overflow="fold", ratio=1)
    for one in document["samples"]:
        prompt, answer = numbers.name(one["prompt"], 200), numbers.name(one["answer"], 80)
        table.add_row(f"{one['row']:,}", Text(prompt), Text(answer))
    return Group(Text("Some problems", style="bold"), table)


def _how_to_train(document: Document) -> RenderableType:
    """Lines that a task takes; a string of JSON is one of TOML, and so is true."""
    if not document["usable"]:
        return Text("There is nothing to train on: no row can be used.", style="bold red")
    task = {"kind": "file", "path": document["file"], **document["task"]}
    lines = [f"    task.{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in task.items()]
    text = Text("To train on it, in the file of a scale:", style="bold")
    return Group(text, *map(unbroken, lines), *_one_sided(document))


def _one_sided(document: Document) -> Iterator[Text]:
    if document["complete"] and not all(document["split"][side] for side in ("train", "held_out")):
        words = (
            "A task needs problems on both sides of the split: another task.held_out_share, or a task.held_out_path."
        )
        yield Text(words, style="yellow")


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _place(where: str) -> str:
    """The line without the file, which is known."""
    return where.rpartition(", ")[2]


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
