"""Are packages of this environment known to be vulnerable? `make check` asks; needs pip-audit (extra dev).

pip-audit looks up every installed package at a service: the Python package index, or OSV. Whether the service can tell
is tried first, with a release that everybody knows to be vulnerable: without a connection, or behind a mirror that has
packages and no advisories, the answer would be that all is well. Then this says in one line that nothing was audited,
and does not fail. It fails on a finding, unless the finding stands in KNOWN with the reason why it stays.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any
from urllib.request import Request, urlopen

KNOWN: dict[str, str] = {}
"""Advisory (PYSEC-..., GHSA-... or CVE-...) -> why it cannot be mended here, and why it does not hurt."""

_CANARY = ("pillow", "9.0.0")
_TIMEOUT_S = 15.0


def main() -> int:
    if importlib.util.find_spec("pip_audit") is None:
        print("audit: pip-audit is missing: pip install -e '.[dev]'")
        return 1
    service = next((name for name, asks in SERVICES.items() if _answers(asks)), None)
    if service is None:
        print(f"audit: NOTHING WAS AUDITED: no vulnerability service can be reached ({', '.join(SERVICES)})")
        return 0
    report = _audit(service)
    if report is None:
        print(f"audit: NOTHING WAS AUDITED: the vulnerability service failed ({service})")
        return 0
    lines, code = judged(report, KNOWN)
    print("\n".join(f"audit: {line}" for line in lines))
    return code


def judged(report: Mapping[str, Any], known: Mapping[str, str]) -> tuple[list[str], int]:
    """What to say about pip-audit's report, and the exit code."""
    packages = report["dependencies"]
    asked = [one for one in packages if "skip_reason" not in one]
    found = [(one, advisory) for one in asked for advisory in one["vulns"]]
    new = [(one, advisory) for one, advisory in found if not _names(advisory) & set(known)]
    lines = [_line(one, advisory) for one, advisory in new]
    for one, advisory in found:
        lines += [f"{one['name']}: {name}, known: {known[name]}" for name in sorted(_names(advisory) & set(known))]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    if skipped:
        lines.append(f"not known to the service: {', '.join(sorted(skipped))}")
    lines.append(f"{len(asked)} packages, {len(new)} findings that are not in KNOWN (scripts/audit.py)")
    return lines, 1 if new else 0


def _names(advisory: Mapping[str, Any]) -> set[str]:
    return {advisory["id"], *advisory.get("aliases", [])}


def _line(package: Mapping[str, Any], advisory: Mapping[str, Any]) -> str:
    fixed = ", ".join(advisory.get("fix_versions", [])) or "no release yet"
    return f"{package['name']} {package['version']}: {', '.join(sorted(_names(advisory)))}; mended in {fixed}"


def _audit(service: str) -> dict[str, Any] | None:
    """pip-audit's report; None when it could not be made."""
    options = ["--format", "json", "--progress-spinner", "off", "--skip-editable", "--timeout", str(round(_TIMEOUT_S))]
    command = [sys.executable, "-m", "pip_audit", *options, "--vulnerability-service", service]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "dependencies" in found else None


def _answers(asks: Callable[[], Any]) -> bool:
    """Whether a service knows the vulnerable release to be one."""
    try:
        return bool(asks())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _ask_pypi() -> Any:
    name, version = _CANARY
    with urlopen(f"https://pypi.org/pypi/{name}/{version}/json", timeout=_TIMEOUT_S) as answer:
        return json.load(answer)["vulnerabilities"]


def _ask_osv() -> Any:
    name, version = _CANARY
    asked = json.dumps({"package": {"name": name, "ecosystem": "PyPI"}, "version": version}).encode()
    with urlopen(Request("https://api.osv.dev/v1/query", asked), timeout=_TIMEOUT_S) as answer:
        return json.load(answer)["vulns"]


SERVICES: dict[str, Callable[[], Any]] = {"pypi": _ask_pypi, "osv": _ask_osv}
"""As pip-audit calls them -> how to try them."""


if __name__ == "__main__":
    sys.exit(main())
