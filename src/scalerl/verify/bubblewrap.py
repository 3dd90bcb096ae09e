"""The bubblewrap command, and a probe that says exactly what fails.

Called by `programs` when a verifier of code is made. User namespaces may be switched off by the kernel, a container or
AppArmor, and limits may be granted but not held, so the probe tries the real thing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from scalerl.errors import InputError
from scalerl.verify.sandbox import Limits, Sandbox, is_root

NOBODY = 65534
"""Root is exempt from limits on processes, even in a sandbox: so it becomes nobody first."""
TMP_BYTES = 64 << 20

_PACKAGE = Path(__file__).parents[1]
_PROBE_S = 30
_ALLOWED = (
    "a working bubblewrap (scripts/install_bubblewrap.sh, or apt-get install bubblewrap), or "
    "task.run_model_code_without_sandbox = true, which lets the programs do whatever you can"
)
_PROBE = """
import json, os, socket
wrong = []
if {name for _, name in socket.if_nameindex()} - {"lo"}:
    wrong.append("the network is not cut off")
for place in ("/", "/usr"):
    try:
        open(os.path.join(place, "scalerl-probe"), "w")
        wrong.append(place + " can be written")
    except OSError:
        pass
try:
    bytearray(200 << 20)
    wrong.append("the limit on memory does not hold")
except MemoryError:
    pass
try:
    for _ in range(50):
        if os.fork() == 0:
            os.read(0, 1) or __import__("time").sleep(5)
            os._exit(0)
    wrong.append("the limit on processes does not hold")
except OSError:
    pass
print(json.dumps(wrong))
"""


@cache
def bubblewrap() -> Sandbox:
    """The sandbox of this machine, or one line that says why there is none."""
    program = shutil.which("bwrap")
    if program is None:
        raise _refusal("the command bwrap is not installed")
    reasons = []
    for python in _pythons():
        sandbox = Sandbox(_command(program, python), _options())
        reason = _failure(sandbox) or _leak(sandbox)
        if reason is None:
            return sandbox
        reasons.append(f"{python}: {reason}")
    raise _refusal("; ".join(reasons) or "there is no Python that it can show")


def _refusal(reason: str) -> InputError:
    return InputError(f"the verifier code needs a sandbox ({reason})", allowed=_ALLOWED)


def _pythons() -> list[str]:
    """This Python, and the system's: root's own folder is closed to nobody."""
    found = [str(Path(sys.executable).resolve()), shutil.which("python3", path="/usr/bin:/usr/local/bin") or ""]
    return list(dict.fromkeys(path for path in found if path))


def _options() -> dict[str, object]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if is_root() else {}


def _command(program: str, python: str) -> tuple[str, ...]:
    """Only what a Python needs is shown: no /proc, no /sys, no home, nothing of this package."""
    words = [program, "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    shown = [Path("/usr")]
    prefix = Path(python).parents[1]
    if not prefix.is_relative_to("/usr"):
        shown.append(prefix)
    for place in shown:
        words += ["--ro-bind", str(place), str(place)]
    for place in (Path(name) for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64")):
        if place.is_symlink():
            words += ["--symlink", str(place.readlink()), str(place)]
        else:
            words += ["--ro-bind-try", str(place), str(place)]
    for name in ("/etc/ld.so.cache", "/nix/store"):
        words += ["--ro-bind-try", name, name]
    if any(_PACKAGE.is_relative_to(place) for place in shown):
        words += ["--tmpfs", str(_PACKAGE)]
    for name in ("/dev/null", "/dev/zero", "/dev/urandom"):
        words += ["--dev-bind", name, name]
    words += ["--size", str(TMP_BYTES), "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/"]  # noqa: S108
    return (*words, "--", python)


def _failure(sandbox: Sandbox) -> str | None:
    """What bubblewrap or Python says instead of starting; None: it starts."""
    try:
        done = subprocess.run(  # noqa: S603  # bwrap with a list of our own
            [*sandbox.command, "-I", "-S", "-c", "pass"], check=False, capture_output=True, text=True, cwd="/",
            timeout=_PROBE_S, env={}, **sandbox.options,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return str(error).partition("\n")[0]
    lines = done.stderr.strip().splitlines()
    return None if done.returncode == 0 else (lines[-1] if lines else f"it ends with code {done.returncode}")


def _leak(sandbox: Sandbox) -> str | None:
    """What the sandbox lets through; None: nothing that was tried."""
    session = sandbox.session(_PROBE, Limits(cpu_s=_PROBE_S / 4, memory_mb=128))
    try:
        outcome = session.run({"stdin": ""})
    finally:
        session.close()
    if outcome.status != "finished":
        return f"a program in it ends as {outcome.status}: {outcome.detail}"
    wrong = json.loads(outcome.output)
    return ", ".join(wrong) if wrong else None
