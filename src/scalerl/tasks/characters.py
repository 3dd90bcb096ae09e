"""The characters that generated tasks are written in, and the markers around thinking.

Used by the generated tasks, by their tests, and by the tokenizer of the small policies. One fixed vocabulary for all
of them, so that a policy warmed up on one task can be trained on another.
"""

from __future__ import annotations

THINK = "<think>"
END_THINK = "</think>"

TASK_CHARACTERS = "0123456789+-*=;,>:()"
"""Enough for the prompt and the completion of every generated task."""

PRINTABLE_CHARACTERS = "\n" + "".join(map(chr, range(0x20, 0x7F)))
"""Printable ASCII and the line end: for small policies on tasks in words."""
