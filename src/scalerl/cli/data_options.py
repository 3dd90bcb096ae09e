"""The options of `scalerl data`. Numbers come in as text, as in `options`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Layout = Literal["auto", "plain", "polaris", "dapo", "gsm8k", "math", "deepcoder", "taco", "verl", "trl"]
Verifier = Literal["exact", "number", "choice", "math", "code"]

READ, CHECK = "What to read", "What to check"

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="JSONL, Parquet or Arrow; a folder of them, or of datasets.save_to_disk; or hub:NAME[:CONFIG[:SPLIT]].",
    ),
]
LayoutName = Annotated[
    Layout,
    typer.Option("--layout", rich_help_panel=READ, help="What the columns mean; auto recognises it by the columns."),
]
PromptKey = Annotated[
    str,
    typer.Option("--prompt-key", metavar="KEY", rich_help_panel=READ, help="Column of the prompt, or a dotted key."),
]
AnswerKey = Annotated[
    str,
    typer.Option("--answer-key", metavar="KEY", rich_help_panel=READ, help="Column of the answer, or a dotted key."),
]
Rows = Annotated[
    str | None, typer.Option("--rows", metavar="N", rich_help_panel=READ, help="Look at the first N only.")
]
Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against", metavar="FILE", rich_help_panel=CHECK,
        help="An evaluation set that must not be in the data; repeatable. Any of the forms of FILE; its prompts are in "
        "--prompt-key, prompt, problem or question.",
    ),
]  # fmt: skip
Ngram = Annotated[
    str, typer.Option("--ngram", metavar="N", rich_help_panel=CHECK, help="Words in a row that make a leak.")
]
HeldOutShare = Annotated[
    str,
    typer.Option(
        "--held-out-share", metavar="S", rich_help_panel=CHECK,
        help="The task's held_out_share: near-copies are looked for across this split of the file.",
    ),
]  # fmt: skip
VerifierName = Annotated[
    Verifier | None,
    typer.Option("--verifier", rich_help_panel=CHECK, help="Who judges the answers. Default: as the layout says."),
]
Checked = Annotated[
    str,
    typer.Option(
        "--check", metavar="N", rich_help_panel=CHECK,
        help="Reference answers, drawn at random, that are verified against themselves.",
    ),
]  # fmt: skip
TokenizerFolder = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", metavar="DIR", rich_help_panel=CHECK,
        help="Count tokens with the tokenizer.json of this checkpoint. Default: words.",
    ),
]  # fmt: skip
