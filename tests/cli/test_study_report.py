"""`scalerl study report`: formats, places, replay, and bad input in one line each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.study.simulated import curves_of_study, folder_of

from scalerl.cli import main
from scalerl.study.results import write_results

CURVES = curves_of_study(("base", "worse"))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = folder_of(tmp_path_factory.mktemp("study") / "one", CURVES, unfinished=[("worse", 2)])
    write_results(folder)
    return folder.path


def test_the_page_goes_into_the_folder_and_what_is_missing_to_stderr(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "report", str(study)]) == 0

    said = capsys.readouterr()
    assert said.out == f"Report: {study / 'report.html'}\n"
    assert "1 of 6 jobs have not ended" in said.err
    assert "lowered by worse" in (study / "report.html").read_text()


def test_json_is_the_results_file(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "report", str(study), "--format", "json"]) == 0

    assert capsys.readouterr().out == (study / "results.json").read_text()


def test_a_published_results_file_is_enough(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "published.json"
    copy.write_bytes((study / "results.json").read_bytes())

    assert main(["study", "report", str(copy), "--replay-prune", "--format", "md", "--title", "Ours"]) == 0

    text = capsys.readouterr().out
    assert text.startswith("# Ours\n")
    assert "## The race, replayed" in text
    assert "would have saved" in text


def test_a_published_file_is_fitted_again_on_demand(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after an update of scalerl: what the old version found is replaced, its curves stay."""
    found = json.loads((study / "results.json").read_text())
    old = json.loads((study / "results.json").read_text())
    old["choices"][0]["verdict"] = "faster"
    old["cells"][1]["joint"]["ceiling"]["value"] = old["extrapolation"]["rows"][0]["low"] = 0.123
    copy = tmp_path / "old.json"
    copy.write_text(json.dumps(old))

    assert main(["study", "report", str(copy), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == old
    assert main(["study", "report", str(copy), "--refit", "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)

    assert again["choices"][0]["verdict"] == "lowers the ceiling"
    assert again["jobs"] == found["jobs"]
    for key in ("cells", "extrapolation", "choices"):
        assert _flat(again[key]) == pytest.approx(_flat(found[key]), rel=1e-6, abs=1e-9)


def _flat(value: object) -> list[float]:
    """Every number in a document."""
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in _flat(value[key])]
    if isinstance(value, list):
        return [number for item in value for number in _flat(item)]
    return [float(value)] if isinstance(value, int | float) else []


def test_a_picture_is_written(study: Path, tmp_path: Path) -> None:
    assert main(["study", "report", str(study), "-o", str(tmp_path / "study.png")]) == 0

    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "not the folder of a study"),
        (["{study}", "-o", "report.docx"], "-o: got 'report.docx'"),
        (["{study}", "--format", "png", "-o", "report.html"], "ending in .png"),
        (["{other}"], "not the results of a study"),
        (["{broken}"], "cannot be read as results"),
    ],
)
def test_bad_input_is_one_line(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tmp_path / "other.json").write_text(json.dumps({"schema": 1}))
    (tmp_path / "broken.json").write_text("{")
    places = {"study": study, "other": tmp_path / "other.json", "broken": tmp_path / "broken.json"}

    assert main(["study", "report", *(text.format(**places) for text in arguments)]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert said.err.count("\n") == 1
