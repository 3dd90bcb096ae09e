"""`scalerl report`: every format, where it goes, and what our own runs add."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalerl.config import load_run
from scalerl.runs import RunDirectory

from .conftest import Run, curve, write


def document_of(file: Path) -> Any:
    found = re.search(r'id="document">(.*?)</script>', file.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def ledger(step: int) -> dict[str, dict[str, float]]:
    used = {"device_s": 0.3 * step, "flops": 2e9 * step, "tokens": 9000 * step}
    return dict.fromkeys(("generation", "training", "evaluation"), used)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A finished run of ours: 30 evaluations over 600 steps, and metrics of every step."""
    steps = np.arange(0, 601, 20)
    value = 0.28 + 0.6 / (1 + (95 / np.maximum(steps, 1e-9)) ** 1.1)
    value += 0.01 * np.random.default_rng(3).standard_normal(steps.size)
    with RunDirectory.hold(tmp_path / "runs" / "mine", load_run().config) as run:
        for step, rate in zip(steps.tolist(), value.tolist(), strict=True):
            measured = {"step": step, "pass_rate": rate, "num_judged": 1024}
            run.evals.append(measured | {"ledger": ledger(step), "wall_s": 1.0})
        for step in range(1, 601):
            told = {"step": step, "entropy": 1.0 / step, "age_mean": 1.0}
            run.metrics.append(told | {"ledger": ledger(step), "wall_s": 1.0})
        run.finish("budget", 600)
    return run.path


def test_a_page_of_one_curve(run: Run, one: Path) -> None:
    done = run("report", one, "--budget", "20k", "--target", "0.65", "-o", "page.html")
    assert done.code == 0, done.err
    assert done.out.startswith("Report: page.html (1 run, ")
    document = document_of(Path("page.html"))
    assert document["title"] == "one"
    (unit,) = document["runs"][0]["units"]
    assert (unit["key"], unit["budget"]) == ("gpu_hours", 20_000.0)
    assert unit["fit"]["targets"][0]["target"] == 0.65
    assert 5 <= len(unit["history"]) <= 12
    assert {moment["budget"] for moment in unit["history"]} == {20_000.0}
    assert document["comparison"] is None


def test_the_command_in_the_page_makes_it_again(run: Run, one: Path, two: Path) -> None:
    given = ["report", one, two, "--until", "80%", "--reference", "two", "--title", "a 'b'", "-o", "page.html"]
    assert run(*given).code == 0
    first = document_of(Path("page.html"))
    words = shlex.split(first["command"])
    assert words[0] == "scalerl"
    Path("page.html").unlink()
    assert run(*words[1:]).code == 0
    again = document_of(Path("page.html"))
    assert {**first, "created": ""} == {**again, "created": ""}
    assert first["comparison"]["gpu_hours"]["reference"] == "two"


def test_the_default_is_a_page_in_this_folder(run: Run, one: Path) -> None:
    assert run("report", one).out.startswith("Report: report.html")
    assert document_of(Path("report.html"))["command"].startswith("scalerl report ")


def test_the_example_brings_its_advice(run: Run) -> None:
    done = run("report", "--example", "scalerl-8b", "--format", "json")
    assert "the example recommends" in done.err
    (found,) = done.document["runs"]
    assert found["source"] == "example scalerl-8b"
    assert found["units"][0]["fit"]["citation"]


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_pictures(form: str, run: Run, one: Path, two: Path) -> None:
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert run("report", one, "-o", f"one.{form}").code == 0
    assert run("report", one, two, "--budget", "9k", "-o", f"two.{form}").code == 0
    for name in ("one", "two"):
        assert Path(f"{name}.{form}").read_bytes().startswith(begins[form])


def test_text_goes_to_standard_output_or_a_file(run: Run, one: Path) -> None:
    shown = run("report", one, "--format", "md").out
    assert shown.startswith("# one\n")
    assert "**" in shown
    assert run("report", one, "--format", "md", "-o", "notes.txt").code == 0
    assert Path("notes.txt").read_text().startswith("# one\n")
    assert run("report", one, "-o", "one.json").code == 0
    assert json.loads(Path("one.json").read_text())["schema"] == 1


def test_a_run_of_ours_has_units_panels_and_provenance(run: Run, own: Path) -> None:
    done = run("report", own, "--until", "60%", "--budget", "end", "--format", "json")
    (found,) = done.document["runs"]
    assert [unit["key"] for unit in found["units"]] == ["flops", "tokens", "device_hours", "steps"]
    assert [unit["name"] for unit in found["units"]] == ["FLOPs", "tokens", "device-hours", "steps"]
    flops, *others = found["units"]
    for unit in others:  # the same budget and window, in another unit
        assert unit["budget"] / unit["fit"]["window"]["last"] == pytest.approx(
            flops["budget"] / flops["fit"]["window"]["last"]
        )
        assert unit["fit"]["points"] == flops["fit"]["points"]
    assert found["state"] == "finished"
    assert found["provenance"]["recipe"] == "scalerl"
    titles = [panel["title"] for panel in found["panels"]]
    assert titles == ["Entropy", "Age of the rollouts"]
    assert all(len(line["x"]) <= 400 for panel in found["panels"] for line in panel["lines"])
    assert any("evaluation is not counted" in note for note in found["notes"])


def test_a_run_under_way_is_forecast_to_its_end(run: Run, own: Path) -> None:
    (own / "stopped.json").unlink()
    config = json.loads((own / "config.json").read_text())["config"]
    assert config["scale"]["budget"] == {"unit": "steps", "amount": 700.0}
    (found,) = run("report", own, "--format", "json").document["runs"]
    budgets = {unit["key"]: unit["budget"] for unit in found["units"]}
    assert budgets["steps"] == pytest.approx(700.0)
    assert budgets["tokens"] == pytest.approx(2 * 9000 * 700.0)
    assert found["state"] == "stopped"  # nobody holds its lock


def test_several_runs_of_ours_are_compared_in_every_unit(run: Run, own: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(own, tmp_path / "runs" / "other")
    document = run("report", own, tmp_path / "runs" / "other", "--format", "json").document
    assert set(document["comparison"]) == {"flops", "tokens", "device_hours", "steps"}
    assert len({found["id"] for found in document["runs"]}) == 2


def test_one_bad_curve_does_not_spoil_the_report(run: Run, one: Path, tmp_path: Path) -> None:
    compute, value = curve(0.7, 600, 1)
    few = write(tmp_path / "few.csv", compute[:3], value[:3])
    done = run("report", one, few, "--format", "json")
    assert "no forecast for few" in done.err
    by_name = {found["name"]: found for found in done.document["runs"]}
    assert "too few points" in by_name["few"]["problem"]
    assert by_name["few"]["units"][0]["fit"] is None
    assert len(by_name["few"]["units"][0]["points"]["compute"]) == 3
    alone = run("report", few)
    assert alone.code == 2
    assert "too few points" in alone.err
    assert not Path("report.html").exists()


def test_names_from_files_are_text(run: Run, one: Path) -> None:
    name = "<img src=x onerror=alert(1)>.csv"
    Path(name).write_bytes(one.read_bytes())
    assert run("report", name, "-o", "page.html").code == 0
    assert "<img" not in Path("page.html").read_text()
    assert document_of(Path("page.html"))["runs"][0]["name"] == name.removesuffix(".csv")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "page.gif"], ["-o", "page.gif", ".html", "--format"]),
        (["--format", "png", "-o", "page.svg"], ["-o", "page.svg", ".png"]),
        (["--format", "gif"], ["gif"]),
        (["-o", "."], ["-o"]),
        (["-o", "one.csv/x.html"], ["-o", "not a folder"]),
        (["--reference", "nobody"], ["--reference", "nobody", "one"]),
        (["--budget", "0"], ["--budget"]),
    ],
)
def test_bad_options_are_one_line(arguments: list[str], words: list[str], run: Run, one: Path) -> None:
    done = run("report", one, *arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err
    assert sorted(file.name for file in Path().iterdir()) == ["one.csv"]
