"""What several rows at one compute become."""

from pathlib import Path

import pytest

from scalerl.readers import read_table
from scalerl.series import Series, StartValue


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "run.csv"
    file.write_text("step,y,n\n20,.4,10\n10,.1,10\n10,.4,30\n30,.6,\n20,.2,10\n10,.5,10\n")
    return file


def points(series: Series) -> list[tuple[float, float]]:
    return list(zip(series.compute.tolist(), series.value.round(9).tolist(), strict=True))


def test_mean_is_weighted_by_n(path: Path) -> None:
    (series,) = read_table(path, duplicates="mean")
    assert points(series) == [(10, 0.36), (20, 0.3), (30, 0.6)]
    assert series.n is not None
    assert series.n.tolist() == [50, 20, 10]


def test_mean_without_n(path: Path) -> None:
    (series,) = read_table(path, duplicates="mean", n="none")
    assert points(series) == [(10, 0.333333333), (20, 0.3), (30, 0.6)]
    assert series.n is None


def test_last_row_of_the_file_wins(path: Path) -> None:
    (series,) = read_table(path, duplicates="last")
    assert points(series) == [(10, 0.5), (20, 0.2), (30, 0.6)]


def test_seeds_take_turns(path: Path) -> None:
    seeds = read_table(path, duplicates="seeds")
    assert [s.name for s in seeds] == ["run#1", "run#2", "run#3"]
    assert [points(s) for s in seeds] == [[(10, 0.1), (20, 0.4), (30, 0.6)], [(10, 0.4), (20, 0.2)], [(10, 0.5)]]


def test_seeds_share_a_start_given_once(tmp_path: Path) -> None:
    file = tmp_path / "run.csv"
    file.write_text("step,y\n0,.05\n10,.1\n10,.2\n20,.3\n20,.4\n")
    first, second = read_table(file, duplicates="seeds")
    assert first.start == second.start == StartValue(0.05)


def test_seeds_keep_their_own_starts(tmp_path: Path) -> None:
    file = tmp_path / "run.csv"
    file.write_text("step,y\n0,.05\n0,.06\n10,.1\n10,.2\n")
    first, second = read_table(file, duplicates="seeds")
    assert (first.start, second.start) == (StartValue(0.05), StartValue(0.06))


def test_without_duplicates_the_choice_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "run.csv"
    file.write_text("step,y\n10,.1\n20,.3\n")
    assert read_table(file, duplicates="seeds") == read_table(file)
