"""Hugging Face's `trainer_state.json`: what the Trainer of transformers, and with it TRL, saves in each checkpoint.

Called by `open`. The file is one JSON object whose list `log_history` has an entry for every time something was logged:
`step`, `epoch` and metrics under the trainer's own names (`reward`, `eval_reward`, `num_tokens`, ...). Entries are
decoded one by one, so that the file is never in memory as a whole and a damaged one yields what is complete.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scalerl.plain_file import check_readable
from scalerl.readers.logs.fields import Recorder
from scalerl.readers.logs.records import Record, Tally
from scalerl.readers.logs.text_lines import LONGEST_LINE_BYTES, blocks

FILE = "trainer_state.json"
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_GLOBAL_STEP = re.compile(r'"global_step"\s*:\s*(\d{1,15})(?!\d)')
_NEXT_ENTRY = re.compile(r"\}\s*,\s*\{")
_DECODER = json.JSONDecoder()
_ENOUGH = 1 << 20
"""An entry that cannot be decoded with so many characters at hand is broken, not just cut off by the block."""
_HEAD_BYTES = 1 << 16


def is_trainer_state(head: bytes) -> bool:
    """By content: an object with a list called `log_history`."""
    text = head.decode(errors="replace")
    return text.lstrip("\ufeff \t\r\n").startswith("{") and _HISTORY.search(text) is not None


def find_trainer_states(folder: Path) -> list[Path]:
    """The trainer states of one training run, that with the most steps first.

    They are in the folder itself or in its `checkpoint-N` folders; each holds the whole history up to its step.
    """
    found = [folder / FILE, *folder.glob(f"checkpoint-*/{FILE}")]
    steps = {path: step for path in found if (step := _reached(path)) is not None}
    return sorted(steps, key=lambda path: (-steps[path], path.parent != folder))


def trainer_state_log(folder: Path, label: str) -> TrainerStateLog | None:
    """The newest trainer state of a folder; None when there is none. `kind` says how many there were."""
    found = find_trainer_states(folder)
    if not found:
        return None
    newest, others = found[0], len(found) - 1
    place = newest.relative_to(folder)
    return TrainerStateLog(newest, label, f"{place}, the newest of {others + 1}" if others else str(place))


class TrainerStateLog:
    """`Log` of one trainer_state.json."""

    name: str | None = None

    def __init__(self, path: str | Path, label: str, detail: str = "") -> None:
        self.label = label
        self.kind = "a Hugging Face trainer state" + (f" ({detail})" if detail else "")
        self._path = Path(path)

    def records(self, tally: Tally) -> Iterator[Record]:
        recorder = Recorder("step")
        for entry in _entries(_text(blocks(self._path, self.label, tally)), tally):
            record = recorder.record(entry)
            if record is not None:
                yield record


class _Buffer:
    """Text that is read on when more of it is needed, and forgotten when it is used up."""

    def __init__(self, text: Iterator[str]) -> None:
        self._more = text
        self.text = ""

    def extend(self) -> bool:
        """False at the end of the file."""
        piece = next(self._more, None)
        self.text += piece or ""
        return piece is not None

    def drop(self, count: int) -> None:
        self.text = self.text[count:]


def _entries(text: Iterator[str], tally: Tally) -> Iterator[dict[str, Any]]:
    buffer = _Buffer(text)
    if not _find_history(buffer):
        tally.skip("files without a log_history", "the beginning")
        return
    count = 0
    while _to_next_entry(buffer, tally, count):
        count += 1
        entry, end = _decode(buffer)
        if end is None:
            tally.skip("torn last entries of log_history", f"entry {count:,}")
            return
        if entry is None:
            tally.skip("broken entries of log_history", f"entry {count:,}")
        else:
            yield entry
        buffer.drop(end)


def _find_history(buffer: _Buffer) -> bool:
    while (found := _HISTORY.search(buffer.text)) is None:
        if len(buffer.text) > LONGEST_LINE_BYTES or not buffer.extend():
            return False
    buffer.drop(found.end())
    return True


def _to_next_entry(buffer: _Buffer, tally: Tally, count: int) -> bool:
    """Move to the brace that opens an entry; False at the end of the list, or of a file that ends before that."""
    while True:
        at = re.search(r"[{\]]", buffer.text)
        if at is not None:
            buffer.drop(at.start())
            return at.group() == "{"
        buffer.drop(len(buffer.text))
        if not buffer.extend():
            tally.skip("torn ends of log_history", f"after entry {count:,}")
            return False


def _decode(buffer: _Buffer) -> tuple[dict[str, Any] | None, int | None]:
    """The entry at the start of the buffer and where it ends: None for the entry if broken, for the end if torn off."""
    while True:
        try:
            entry, end = _DECODER.raw_decode(buffer.text)
        except (ValueError, RecursionError):
            if len(buffer.text) < _ENOUGH and buffer.extend():
                continue
            following = _NEXT_ENTRY.search(buffer.text, 1)
            if following is not None:
                return None, following.start() + 1
            if len(buffer.text) > LONGEST_LINE_BYTES or not buffer.extend():
                return None, None
        else:
            return entry, end


def _text(data: Iterator[bytes]) -> Iterator[str]:
    """Bytes that are not UTF-8 become U+FFFD: a number with one is broken, a text with one is not needed."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for block in data:
        yield decoder.decode(block)


def _reached(path: Path) -> int | None:
    """The step of a trainer state, from its first lines or else its folder's name; None when it is no trainer state."""
    try:
        check_readable(path)
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return None
    text = head.decode(errors="replace")
    found = _GLOBAL_STEP.search(text) or re.search(r"checkpoint-(\d{1,15})$", str(path.parent))
    if not is_trainer_state(head):
        return None
    return 0 if found is None else int(found.group(1))
