"""Keeps one trainer: runs a command, and stops it when whoever started the keeper is gone.

Started by `process` as a script in a session of its own (never imported, so only the standard library is used):

    keeper.py LOCK_DESCRIPTOR GRACE_SECONDS COMMAND ARGUMENT ...

Its standard input is a pipe that nobody writes to. The pipe's end means that the other side wants the command to stop,
or was killed, even by kill -9: then every process of the session is asked to end (SIGTERM), and after the grace made
to. The lock is inherited by the command, so that it is held for as long as either of them lives.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading

CANNOT_START = 127
KILLED = 128
"""Added to the number of the signal that ended the command, as shells do."""


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is the command's."""
    lock, grace_s, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    os.pwrite(lock, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stay)  # a handler, not SIG_IGN: the command would inherit that
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(lock,))  # noqa: S603  # the user's own
    except OSError as error:
        sys.stderr.write(f"{command[0]}: cannot be started ({error.strerror})\n")
        return CANNOT_START
    threading.Thread(target=_stop_when_alone, args=(child, grace_s), daemon=True).start()
    code = child.wait()
    os.killpg(0, signal.SIGTERM)  # whatever the command left behind
    return code if code >= 0 else KILLED - code


def _stay(*_: object) -> None:
    """The keeper ends when its command has ended."""


def _stop_when_alone(child: subprocess.Popen[bytes], grace_s: float) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.killpg(0, signal.SIGTERM)
    try:
        child.wait(timeout=grace_s)
    except subprocess.TimeoutExpired:
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
