"""The options that only `scalerl sft` has; most of them mean something with `--model` only.

Used by `sft`; the others are in `options`. What the values mean is `scalerl.supervised`'s business.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from scalerl.cli import options

REAL = "With --model: a real model on chat traces"

Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="DIR", rich_help_panel=REAL,
        help="Train this Hugging Face folder (or hub name) on --data in the place of a small policy on made-up traces.",
    ),
]  # fmt: skip
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data", metavar="FILE", rich_help_panel=REAL,
        help="JSONL or Parquet with messages (or conversations), or with prompt and completion; repeatable.",
    ),
]  # fmt: skip
HeldOut = Annotated[
    list[str] | None,
    typer.Option(
        "--held-out", metavar="FILE", rich_help_panel=REAL,
        help="Traces whose loss is measured and never trained on; repeatable. --set held_out_share=0.02 takes a share.",
    ),
]  # fmt: skip
Epochs = Annotated[
    int | None,
    typer.Option("--epochs", metavar="N", rich_help_panel=REAL, help="Times that every trace is seen. Default: 2."),
]
LearningRate = Annotated[
    float | None,
    typer.Option("--learning-rate", metavar="X", rich_help_panel=REAL, help="At its highest. Default: 2e-5."),
]
BatchTokens = Annotated[
    int | None,
    typer.Option("--batch-tokens", metavar="N", rich_help_panel=REAL, help="Tokens of one step. Default: 65536."),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens", metavar="N", rich_help_panel=REAL,
        help="Longest trace. Default: the context of the model, at most 16384.",
    ),
]  # fmt: skip
TooLong = Annotated[
    Literal["error", "skip"] | None,
    typer.Option("--too-long", rich_help_panel=REAL, help="Longer traces: end, or leave them out. Default: error."),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="DIR", rich_help_panel=options.OUT,
        help="The folder of the policy. Without --model: a copy of the one in the cache.",
    ),
]  # fmt: skip
Dtype = Annotated[
    Literal["float32", "bfloat16"] | None,
    typer.Option(
        "--dtype", rich_help_panel=REAL,
        help="Of passes and result; the weights in training are float32. Default: float32.",
    ),
]  # fmt: skip
