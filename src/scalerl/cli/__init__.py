"""The `scalerl` command: runs one subcommand and turns what happened into output and an exit code.

Called by the `scalerl` entry point and by `python -m scalerl`. A command computes everything first and returns an
`Outcome`; only then is something printed. So an error leaves nothing behind but one line on stderr. Only commands that
take minutes show their progress on stderr before.

Exit codes: 0 done, 1 the output could not be written (a full disk), 2 bad input, 130 interrupted, 141 the reader of
our output went away. `scalerl decide --exit-code`, `scalerl watch --until-decided`, `scalerl study run` and `scalerl
runs verify` add their own (see `decide.py`, `study_run.py`, `runs.py`). What a command does is not known here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TextIO

from scalerl import unwaited
from scalerl.errors import PortableError, ScaleRLError, StorageError
from scalerl.folder import DISK
from scalerl.portable import start_again
from scalerl.redaction import without_secrets

BAD_OUTPUT, BAD_INPUT, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line given (default: this process's) and return the exit code."""
    if argv is not None:
        return _ended(argv)
    code = _ended(sys.argv[1:], whole_process=True)
    unwaited.end(code)
    return code


def _ended(argv: Sequence[str], *, whole_process: bool = False) -> int:
    try:
        return _run(argv, whole_process=whole_process)
    except BrokenPipeError:
        _silence_stdout()
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(argv: Sequence[str], *, whole_process: bool) -> int:
    """`whole_process`: it may be started again, because nobody else lives in it."""
    from typer import TyperException

    from scalerl.cli.app import build
    from scalerl.cli.output import Outcome

    try:
        result = build().main(args=list(argv), prog_name="scalerl", standalone_mode=False)
    except TyperException as error:
        return _refuse(f"{error.format_message()} (see: scalerl --help)")
    except PortableError as error:
        if whole_process:
            start_again()
        return _refuse(str(error))
    except StorageError as error:
        return _refuse(str(error), BAD_OUTPUT)
    except ScaleRLError as error:
        return _refuse(str(error))
    except OSError as error:  # a disk that fails where nobody thought of it: temporary files, say
        if error.errno not in DISK:
            raise
        return _refuse(f"{error.filename or 'a file'}: {error.strerror}; what was saved before is kept", BAD_OUTPUT)
    if not isinstance(result, Outcome):  # --help and --version have printed by themselves
        sys.stdout.flush()
        return int(result or 0)
    try:
        _write(sys.stderr, "".join(f"scalerl: note: {_one_line(note)}\n" for note in result.notes))
        _write(sys.stdout, result.text)
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence_stdout()
        return _refuse(f"cannot write the output: {error.strerror}", BAD_OUTPUT)
    return result.code


def _refuse(message: str, code: int = BAD_INPUT) -> int:
    _write(sys.stderr, f"scalerl: error: {_one_line(message)}\n")
    return code


def _one_line(text: str) -> str:
    """One printable line, whatever a file name or a cell of a table holds, and without keys that were in it."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(without_secrets(text).split()))


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None or not text:  # None: started with this stream closed
        return
    if isinstance(stream, TextIOWrapper):  # a terminal that cannot show a character gets "?" instead of a crash
        stream.reconfigure(errors="replace")
    stream.write(text)
    stream.flush()


def _silence_stdout() -> None:
    """Nobody reads any more: keep the interpreter from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
