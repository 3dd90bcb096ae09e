"""The audit of dependencies: it fails on findings, and says so when it could not look."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import URLError

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit.py"
ADVISORY = {"id": "PYSEC-2026-1", "aliases": ["CVE-2026-1"], "fix_versions": ["1.1"]}
REPORT = {
    "dependencies": [
        {"name": "good", "version": "1.0", "vulns": []},
        {"name": "bad", "version": "1.0", "vulns": [ADVISORY]},
        {"name": "own", "skip_reason": "not found"},
    ]
}


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    return module


def fail(*_: Any) -> Any:
    raise URLError("no such host")


def test_a_finding_fails(audit: ModuleType) -> None:
    lines, code = audit.judged(REPORT, {})
    assert code == 1
    assert lines == [
        "bad 1.0: CVE-2026-1, PYSEC-2026-1; mended in 1.1",
        "not known to the service: own",
        "2 packages, 1 findings that are not in KNOWN (scripts/audit.py)",
    ]


def test_a_known_finding_is_said_with_its_reason(audit: ModuleType) -> None:
    lines, code = audit.judged(REPORT, {"CVE-2026-1": "we do not call it"})
    assert code == 0
    assert lines[0] == "bad: CVE-2026-1, known: we do not call it"


def answer_without_advisories() -> Any:
    return {"info": {}}["vulnerabilities"]


@pytest.mark.parametrize("asks", [fail, list, answer_without_advisories])
def test_a_service_that_cannot_tell_is_one_line_and_no_failure(
    audit: ModuleType, asks: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "SERVICES", {"pypi": asks, "osv": asks})
    monkeypatch.setattr(audit, "_audit", lambda _: pytest.fail("asked all the same"))
    assert audit.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "audit: NOTHING WAS AUDITED: no vulnerability service can be reached (pypi, osv)"


def test_the_service_that_answers_is_asked(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "SERVICES", {"pypi": fail, "osv": lambda: [ADVISORY]})
    monkeypatch.setattr(audit, "_audit", lambda service: REPORT if service == "osv" else None)
    assert audit.main() == 1
    assert "audit: bad 1.0" in capsys.readouterr().out


def test_a_service_that_breaks_down_later(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "SERVICES", {"pypi": lambda: [ADVISORY]})
    monkeypatch.setattr(audit, "_audit", lambda _: None)
    assert audit.main() == 0
    assert "NOTHING WAS AUDITED" in capsys.readouterr().out


def test_every_known_finding_has_a_reason(audit: ModuleType) -> None:
    assert all(len(reason) > 20 for reason in audit.KNOWN.values())
