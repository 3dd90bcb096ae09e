"""`scalerl fit`: the JSON document, and an effect of every option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Run, curve, write

KEYS = {
    "schema", "name", "law", "method", "level", "ceiling", "exponent", "midpoint", "floor", "parameters", "forecast",
    "targets", "gains", "decision", "diagnostics", "window", "points", "held_out", "windows", "identified", "x", "y",
    "bounds", "files", "example", "citation", "notes", "seeds", "sse", "r_squared",
}  # fmt: skip


def test_the_document_has_the_promised_keys(run: Run, one: Path) -> None:
    document = run("fit", one, "--until", 3000, "--budget", 12000, "--target", 0.65, "--json").document
    assert set(document) == KEYS
    assert document["schema"] == 1
    for name in ("ceiling", "exponent", "midpoint"):
        estimate = document[name]
        assert set(estimate) == {"value", "low", "high"}
        assert estimate["low"] <= estimate["value"] <= estimate["high"]
    assert document["floor"]["value"] == pytest.approx(0.2)
    assert abs(document["ceiling"]["value"] - 0.7) < 0.05
    assert set(document["forecast"][0]) == {"compute", "value", "low", "high"}
    assert document["forecast"][0]["compute"] == 12000
    assert set(document["targets"][0]) == {"target", "probability", "compute", "low", "high", "message"}
    assert set(document["gains"][0]) == {"compute", "value", "low", "high"}
    assert set(document["decision"]) == {
        "action", "probability", "reason", "budget", "delta", "now", "expected_gain", "extra_compute",
    }  # fmt: skip
    assert document["decision"]["budget"] == 12000
    assert set(document["windows"][0]) == {"from", "until", "points", "ceiling", "exponent", "midpoint"}
    assert (document["x"], document["y"], document["bounds"]) == ("gpu_hours", "pass_rate", [0, 1])
    assert document["files"] == [str(one)]


def test_held_out_points_are_judged(run: Run, one: Path) -> None:
    document = run("fit", one, "--until", 3000, "--json").document
    assert document["window"]["from"] is None
    assert document["window"]["until"] == 3000
    assert document["window"]["last"] <= 3000
    held_out = document["held_out"]
    assert document["points"] + len(held_out) == 24
    assert len(held_out) == 4
    for point in held_out:
        assert set(point) == {"compute", "value", "forecast", "low", "high", "inside"}
        assert point["compute"] > 3000
        assert point["inside"] is (point["low"] <= point["value"] <= point["high"])


def test_several_curves_are_a_list(run: Run, one: Path, two: Path) -> None:
    document = run("fit", one, two, "--json").document
    assert set(document) == {"schema", "curves"}
    assert [found["name"] for found in document["curves"]] == ["one", "two"]
    assert [found["files"] for found in document["curves"]] == [[str(one)], [str(two)]]
    assert document["curves"][0]["ceiling"]["value"] > document["curves"][1]["ceiling"]["value"] + 0.1
    assert all(set(found) == KEYS - {"schema"} for found in document["curves"])


def test_several_curves_of_one_file(run: Run, long: Path) -> None:
    document = run("fit", long, "--x", "cost", "--y", "score", "--by", "run", "--json").document
    assert [found["name"] for found in document["curves"]] == ["red", "blue"]


def test_columns_by_name(run: Run, long: Path) -> None:
    columns = ("--y", "score", "--by", "run", "--json")
    by_cost = run("fit", long, "--x", "cost", *columns).document["curves"][0]
    by_step = run("fit", long, "--x", "step", *columns).document["curves"][0]
    assert (by_cost["x"], by_cost["y"]) == ("cost", "score")
    assert by_cost["window"]["last"] == 6000
    assert by_step["window"]["last"] == 24
    weighted = run("fit", long, "--x", "cost", "--n", "answers", *columns).document["curves"][0]
    assert weighted["sse"] != by_cost["sse"]


def test_as_seeds_fits_all_together(run: Run, tmp_path: Path) -> None:
    files = [write(tmp_path / f"seed{i}.csv", *curve(0.7, 600, i)) for i in (1, 2)]
    document = run("fit", *files, "--as-seeds", "--json").document
    assert document["name"] == "seed"
    assert document["seeds"] == 2
    assert document["points"] == 48
    assert document["files"] == [str(file) for file in files]


def test_duplicates(run: Run, repeated: Path) -> None:
    assert run("fit", repeated).code == 2
    found = {choice: run("fit", repeated, "--duplicates", choice, "--json").document for choice in CHOICES}
    assert {choice: document["points"] for choice, document in found.items()} == CHOICES
    mean, last = (found[choice]["ceiling"]["value"] for choice in ("mean", "last"))
    assert last > mean + 0.005
    assert found["seeds"]["seeds"] == 2


CHOICES = {"mean": 24, "last": 24, "seeds": 48}


def test_from_leaves_out_the_early_points(run: Run, one: Path) -> None:
    document = run("fit", one, "--from", "100", "--json").document
    assert document["window"]["first"] >= 100
    assert document["points"] < 24
    assert document["held_out"] == []


def test_default_budgets_and_gains(run: Run, one: Path) -> None:
    document = run("fit", one, "--json").document
    assert [forecast["compute"] for forecast in document["forecast"]] == [12000, 24000, 60000]
    assert document["decision"]["budget"] == 12000
    assert [gain["compute"] for gain in document["gains"]][:2] == [12000, 24000]


def test_budgets_repeat_and_the_largest_decides(run: Run, one: Path) -> None:
    document = run("fit", one, "--budget", "20k", "--budget", "3e4", "--budget", "1_000", "--json").document
    assert [forecast["compute"] for forecast in document["forecast"]] == [20000, 30000, 1000]
    assert document["decision"]["budget"] == 30000


def test_a_budget_already_passed_is_forecast_but_not_decided(run: Run, one: Path) -> None:
    document = run("fit", one, "--budget", 1000, "--json").document
    assert document["forecast"][0]["compute"] == 1000
    assert document["decision"]["budget"] == 12000


def test_targets(run: Run, one: Path) -> None:
    targets = run("fit", one, "--target", 0.5, "--target", 0.95, "--json").document["targets"]
    assert targets[0]["compute"] < 6000
    assert targets[1]["compute"] is None
    assert "never" in targets[1]["message"]


def test_floor(run: Run, one: Path) -> None:
    floors = {
        choice: run("fit", one, "--floor", choice, "--json").document["floor"] for choice in ("measured", "free", "0.1")
    }
    assert floors["measured"]["value"] == pytest.approx(0.2)
    assert floors["0.1"] == {"value": 0.1, "low": None, "high": None}
    assert floors["free"]["low"] < floors["free"]["high"]
    assert floors["free"]["value"] not in (0.1, 0.2)


def test_ceiling(run: Run, one: Path) -> None:
    document = run("fit", one, "--ceiling", 0.75, "--json").document
    assert document["ceiling"] == {"value": 0.75, "low": None, "high": None}
    assert document["exponent"]["value"] != run("fit", one, "--json").document["exponent"]["value"]


LAWS: dict[str, set[str]] = {
    "sigmoid": {"floor", "ceiling", "exponent", "midpoint"},
    "power": {"ceiling", "exponent", "scale"},
    "loglinear": {"intercept", "slope"},
    "flat": {"level"},
}


@pytest.mark.parametrize("law", LAWS)
def test_law(law: str, run: Run, one: Path) -> None:
    document = run("fit", one, "--law", law, "--json").document
    assert document["law"] == law
    assert set(document["parameters"]) == LAWS[law]
    for name in ("ceiling", "exponent", "midpoint", "floor"):
        assert (document[name] is None) is (name not in LAWS[law])


def test_the_papers_method_has_no_intervals(run: Run, one: Path) -> None:
    document = run("fit", one, "--method", "paper", "--json").document
    assert document["method"] == "paper"
    assert document["ceiling"]["low"] is None
    assert document["forecast"][0]["low"] is None
    assert round(document["ceiling"]["value"] / 0.005, 6).is_integer()


def test_level(run: Run, one: Path) -> None:
    narrow, wide = (run("fit", one, "--level", level, "--json").document for level in (0.5, 0.95))
    assert wide["level"] == 0.95
    assert _width(wide["ceiling"]) > _width(narrow["ceiling"])
    assert _width(wide["forecast"][0]) > _width(narrow["forecast"][0])


def _width(estimate: dict[str, Any]) -> float:
    return float(estimate["high"] - estimate["low"])


def test_bounds(run: Run, tmp_path: Path) -> None:
    compute, value = curve(0.7, 600, 1)
    percent = write(tmp_path / "percent.csv", compute, [100 * v for v in value], start=20)
    assert run("fit", percent).code == 2
    document = run("fit", percent, "--bounds", "0,100", "--delta", 3, "--json").document
    assert document["bounds"] == [0, 100]
    assert abs(document["ceiling"]["value"] - 70) < 5
    rewards = write(tmp_path / "rewards.csv", compute, [v - 1 for v in value], start=-0.8)
    document = run("fit", rewards, "--bounds", "none", "--target", -0.4, "--json").document
    assert document["bounds"] is None
    assert abs(document["ceiling"]["value"] + 0.3) < 0.05


def test_delta(run: Run, one: Path) -> None:
    small, large = (run("fit", one, "--delta", delta, "--json").document["decision"] for delta in (0.001, 0.3))
    assert (small["delta"], large["delta"]) == (0.001, 0.3)
    assert small["probability"] > large["probability"]
    assert large["action"] == "STOP"


def test_example(run: Run) -> None:
    ran = run("fit", "--example", "scalerl-8b", "--until", "50k", "--budget", "100k", "--json")
    document = ran.document
    assert document["example"] == "scalerl-8b"
    assert "2510.13786" in document["citation"]
    assert document["floor"]["value"] == 0.4
    assert document["window"]["from"] == 1500
    assert ran.err.startswith("scalerl: note: the example recommends: ")
    assert "--floor" in ran.err
    assert "--from" in ran.err


def test_options_overrule_the_example(run: Run) -> None:
    ran = run("fit", "--example", "scalerl-8b", "--from", 0, "--until", "inf", "--floor", "0.38", "--json")
    assert ran.err == ""
    assert ran.document["floor"]["value"] == 0.38
    assert ran.document["window"]["first"] == 1328
    assert ran.document["held_out"] == []
