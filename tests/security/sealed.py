"""Runs `scalerl` commands in a process that cannot make a socket. Started by `test_no_network` as a program.

    python sealed.py < commands.json         [{"cd": FOLDER, "arguments": [...]}, ...]; {"code": ...} runs Python

Two seals, put on before anything of scalerl is imported. An audit hook notes every name that is looked up, and every
socket that Python code makes, connects or binds, of any family. Below it the kernel (seccomp) refuses the system call
`socket` to everybody in the process and to what it starts, compiled code too: such a call ends the process with SIGSYS.
The answer is JSON on the last line: the exit code of each command, and what the hook has noted.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import platform
import struct
import sys
from typing import Any

_SOCKET = {"x86_64": 41, "aarch64": 198}
"""Number of the system call."""
_WATCHED = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.")
_HARMLESS = {"socket.gethostname"}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000


def kernel_seal() -> bool:
    """Forbid `socket` for good; False where that cannot be had."""
    number = _SOCKET.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return False
    program = b"".join(
        struct.pack("=HBBI", *step)
        for step in ((_LOAD, 0, 0, 0), (_EQUAL, 0, 1, number), (_RETURN, 0, 0, _KILL), (_RETURN, 0, 0, _ALLOW))
    )
    buffer = ctypes.create_string_buffer(program, len(program))
    described = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(_PR_SET_SECCOMP, _FILTER, described, 0, 0) == 0)


def main() -> None:
    tried: list[str] = []

    def hook(event: str, arguments: Any) -> None:
        if event.startswith(_WATCHED) and event not in _HARMLESS:
            tried.append(f"{event} {arguments!r:.100}")
            raise PermissionError(f"no network here: {event}")

    commands = json.load(sys.stdin)
    sealed = kernel_seal()
    sys.addaudithook(hook)
    results = [_run(command) for command in commands]
    sys.stdout.write(json.dumps({"sealed": sealed, "tried": tried, "results": results}) + "\n")


def _run(command: dict[str, Any]) -> dict[str, Any]:
    os.chdir(command["cd"])
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if "code" in command:
            exec(command["code"], {"__name__": "sealed"})
            code = 0
        else:
            from scalerl.cli import main as scalerl

            code = scalerl(command["arguments"])
    return {"code": code, "out": out.getvalue()[-2000:], "err": err.getvalue()[-2000:]}


if __name__ == "__main__":
    main()
