"""`scalerl compare`, `decide` and `backtest`, and the pictures of every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl.cli.decide import EXIT_CODES

from .conftest import Run, curve, write


def test_compare(run: Run, one: Path, two: Path) -> None:
    document = run("compare", one, two, "--json").document
    assert {"schema", "reference", "level", "margin", "ranking", "pairs", "curves"} == set(document)
    assert document["reference"] == "one"
    assert document["ranking"] == ["one", "two"]
    (pair,) = document["pairs"]
    assert (pair["reference"], pair["challenger"]) == ("one", "two")
    assert pair["verdict"] == "moves the ceiling"
    assert pair["winner"] == "one"
    assert pair["ceiling"]["high"] < 0
    assert [found["files"] for found in document["curves"]] == [[str(one)], [str(two)]]


def test_compare_reference(run: Run, one: Path, two: Path) -> None:
    document = run("compare", one, two, "--reference", "two", "--json").document
    assert document["reference"] == "two"
    assert document["pairs"][0]["challenger"] == "one"
    assert document["pairs"][0]["ceiling"]["low"] > 0


def test_compare_margin_and_level(run: Run, one: Path, two: Path) -> None:
    usual = run("compare", one, two, "--json").document
    other = run("compare", one, two, "--margin", 0.4, "--level", 0.95, "--json").document
    assert (usual["margin"], usual["level"]) == (0.02, 0.8)
    assert (other["margin"], other["level"]) == (0.4, 0.95)
    assert other["pairs"][0]["verdict"] != "moves the ceiling"
    width = [pair["ceiling"]["high"] - pair["ceiling"]["low"] for pair in (usual["pairs"][0], other["pairs"][0])]
    assert width[1] > width[0]


def test_compare_reading_and_fitting_options(run: Run, long: Path, tmp_path: Path) -> None:
    options = ("--x", "cost", "--y", "score", "--n", "answers", "--by", "run", "--from", 60, "--until", 5000)
    document = run("compare", long, *options, "--floor", 0.2, "--ceiling", 0.8, "--json").document
    assert document["ranking"] is not None
    for found in document["curves"]:
        assert found["ceiling"]["value"] == 0.8
        assert found["floor"]["value"] == 0.2
        assert (found["window"]["from"], found["window"]["until"]) == (60, 5000)


def test_compare_seeds(run: Run, one: Path, repeated: Path) -> None:
    document = run("compare", one, repeated, "--duplicates", "seeds", "--json").document
    assert [found["seeds"] for found in document["curves"]] == [1, 2]


def test_decide(run: Run, one: Path) -> None:
    document = run("decide", one, "--budget", "20k", "--json").document
    assert document["decision"]["budget"] == 20000
    assert document["decision"]["action"] in EXIT_CODES
    assert document["question"] == "value"
    assert {"schema", "name", "ceiling", "diagnostics", "points", "window", "files"} <= set(document)
    assert run("decide", one, "--json").document["decision"]["budget"] == 12000


def test_decide_delta(run: Run, one: Path) -> None:
    easy, hard = (run("decide", one, "--delta", delta, "--json").document["decision"] for delta in (0.001, 0.2))
    assert easy["probability"] > hard["probability"]
    assert hard["action"] == "STOP"


def test_decide_question(run: Run, one: Path) -> None:
    """Before the bend the ceiling is unknown: a question about it cannot be answered, one about the value can."""
    early = ("decide", one, "--until", 400, "--delta", 0.02, "--json")
    value = run(*early).document
    ceiling = run(*early, "--question", "ceiling").document
    assert value["decision"]["action"] == "SCALE"
    assert ceiling["question"] == "ceiling"
    assert ceiling["decision"]["action"] == "NEED MORE DATA"


def test_decide_several(run: Run, one: Path, two: Path) -> None:
    document = run("decide", one, two, "--json").document
    assert [found["name"] for found in document["curves"]] == ["one", "two"]
    together = run("decide", one, two, "--as-seeds", "--json").document
    assert together["seeds"] == 2


def _falling(path: Path) -> Path:
    compute, value = curve(0.7, 300, 1, points=30)
    return write(path, compute, [v if i < 24 else v - 0.07 * (i - 23) for i, v in enumerate(value)])


def test_exit_codes_tell_the_decision(run: Run, one: Path, tmp_path: Path) -> None:
    falling = _falling(tmp_path / "falling.csv")
    compute, value = curve(0.7, 600, 1)
    few = write(tmp_path / "few.csv", compute[::4], value[::4])
    calls = {
        "SCALE": (one, "--until", 400, "--delta", 0.02),
        "STOP": (one, "--delta", 0.2),
        "NEED MORE DATA": (few,),
        "UNSTABLE": (falling,),
    }
    for action, arguments in calls.items():
        assert run("decide", *arguments, "--json").document["decision"]["action"] == action
        ran = run("decide", *arguments, "--exit-code")
        assert ran.code == EXIT_CODES[action]
        assert action in ran.out
    assert len({2, 130, *EXIT_CODES.values()}) == 6
    assert EXIT_CODES["SCALE"] == 0


def test_backtest(run: Run, one: Path, two: Path) -> None:
    document = run("backtest", one, two, "--json").document
    assert {"schema", "level", "summary", "scores", "files", "example", "citation", "notes"} == set(document)
    assert {score["share"] for score in document["scores"]} == {0.3, 0.5}
    assert {score["curve"] for score in document["scores"]} == {"one", "two"}
    assert len(document["scores"]) == 2 * len(document["summary"])
    first = document["summary"][0]
    mine = [s for s in document["scores"] if (s["share"], s["method"]) == (first["share"], first["method"])]
    assert first["count"] == 2
    assert first["mean_error"] == pytest.approx(sum(abs(score["error"]) for score in mine) / 2)
    assert first["coverage"] == sum(score["inside"] for score in mine) / 2
    assert first["crps"] == pytest.approx(sum(score["crps"] for score in mine) / 2)


def test_backtest_shares_and_level(run: Run, one: Path) -> None:
    usual = run("backtest", one, "--shares", "0.4", "--json").document
    wide = run("backtest", one, "--shares", "0.4", "--level", 0.95, "--json").document
    assert [score["share"] for score in usual["scores"]] == [0.4] * len(usual["summary"])
    assert wide["level"] == 0.95
    assert wide["scores"][0]["high"] - wide["scores"][0]["low"] > usual["scores"][0]["high"] - usual["scores"][0]["low"]


def test_backtest_reads_like_fit(run: Run, long: Path) -> None:
    columns = ("--x", "cost", "--y", "score", "--n", "answers", "--by", "run")
    document = run("backtest", long, *columns, "--shares", 0.5, "--json").document
    assert {score["curve"] for score in document["scores"]} == {"red", "blue"}
    assert run("backtest", "--example", "scalerl-8b", "--shares", 0.5, "--json").document["example"] == "scalerl-8b"


SIGNATURES = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!DOCTYPE html>"}


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_plot(suffix: str, run: Run, one: Path, two: Path) -> None:
    for command in (["fit", one, "--budget", "20k", "--target", 0.6], ["fit", one, two], ["compare", one, two]):
        ran = run(*command, "--json", "--plot", f"out.{suffix}")
        assert ran.code == 0, ran.err
        picture = Path(f"out.{suffix}")
        assert picture.read_bytes()[:200].lstrip().lower().startswith(SIGNATURES[suffix].lower())
        assert "schema" in ran.document
        picture.unlink()


def test_plot_of_a_backtest(run: Run, one: Path) -> None:
    assert run("backtest", one, "--shares", 0.5, "--plot", "out.png").code == 0
    assert Path("out.png").read_bytes().startswith(SIGNATURES["png"])


def test_plot_makes_its_folder_and_replaces_a_file(run: Run, one: Path) -> None:
    Path("new").mkdir()
    Path("new/out.svg").write_text("old")
    assert run("fit", one, "--plot", "new/out.svg").code == 0
    assert Path("new/out.svg").read_bytes().startswith(SIGNATURES["svg"])
    assert run("fit", one, "--plot", "newer/deep/out.svg").code == 0
    assert Path("newer/deep/out.svg").is_file()
    assert [path.name for path in Path("new").iterdir()] == ["out.svg"]


def test_decide_reads_and_fits_like_fit(run: Run, long: Path, repeated: Path, tmp_path: Path) -> None:
    columns = ("--x", "cost", "--y", "score", "--n", "answers", "--by", "run")
    options = ("--from", 60, "--until", 5000, "--floor", 0.2, "--level", 0.9)
    for found in run("decide", long, *columns, *options, "--json").document["curves"]:
        assert (found["x"], found["y"], found["level"]) == ("cost", "score", 0.9)
        assert (found["window"]["from"], found["window"]["until"]) == (60, 5000)
        assert found["floor"] == {"value": 0.2, "low": None, "high": None}
    assert run("decide", repeated, "--duplicates", "seeds", "--json").document["seeds"] == 2
    assert run("decide", "--example", "scalerl-8b", "--json").document["window"]["from"] == 1500


@pytest.mark.parametrize("command", ["decide", "compare", "backtest"])
def test_bounds_of_every_command(command: str, run: Run, tmp_path: Path) -> None:
    files = []
    for seed, ceiling in enumerate((0.7, 0.5)):
        compute, value = curve(ceiling, 600, seed)
        files.append(write(tmp_path / f"percent{seed}.csv", compute, [100 * v for v in value], start=20))
    arguments = [command, *files, *(["--shares", 0.5] if command == "backtest" else [])]
    assert run(*arguments).code == 2
    document = run(*arguments, "--bounds", "0,100", "--json").document
    if command == "backtest":
        assert 40 < document["scores"][0]["value"] < 100
    else:
        assert abs(document["curves"][0]["ceiling"]["value"] - 70) < 5


def test_duplicates_of_backtest(run: Run, repeated: Path) -> None:
    scores = {
        choice: run("backtest", repeated, "--shares", 0.5, "--duplicates", choice, "--json").document["scores"]
        for choice in ("mean", "seeds")
    }
    assert len(scores["seeds"]) == 2 * len(scores["mean"])
