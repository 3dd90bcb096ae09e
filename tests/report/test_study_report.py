"""The report of a study as Markdown, page and figure: the answer first, nothing invented, every name harmless."""

from __future__ import annotations

import base64
import copy
import hashlib
import re
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from tests.study.simulated import curves_of_study, folder_of

from scalerl.curves.results import Estimate
from scalerl.report.study_downstream import labelled
from scalerl.report.study_figures import study_figure, write_study_figure
from scalerl.report.study_markdown import study_markdown
from scalerl.report.study_page import study_page
from scalerl.report.study_words import findings
from scalerl.study.gather import gather
from scalerl.study.replay import replay_results
from scalerl.study.results import results_document, rounded

EVIL = "<img src=x onerror=alert(1)>|`{{body}}`"
ANSWERS = (
    "The ceiling is raised by better and lowered by worse.",
    "Only the speed moves: slower with slow.",
    "No difference shown: twin.",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = folder_of(tmp_path_factory.mktemp("study") / "one", curves_of_study())
    folder.add_decision({"rung": 0.5, "cell": "worse", "action": "stop", "probability": 0.001, "reason": "hopeless"})
    folder.add_decision({"action": "seeds", "seeds": {"twin": [3]}, "freed": 7.0, "reason": "freed compute"})
    found = results_document(gather(folder))
    return found | {"replay": rounded(asdict(replay_results(found)))}


def renamed(results: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """The same study with a cell that is called something else."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return new if value == old else value

    changed: dict[str, Any] = walk(copy.deepcopy(results))
    return changed


def test_the_answer_comes_first(results: dict[str, Any]) -> None:
    assert tuple(findings(results)) == ANSWERS
    for text in (study_markdown(results), study_page(results)):
        places = [text.index(words) for words in ANSWERS]
        assert places == sorted(places)
        assert places[-1] < text.index("Curves" if "<html" in text else "## Choices")


def test_a_value_that_differs_while_the_ceiling_is_open_is_said(results: dict[str, Any]) -> None:
    verdicts = {"better": "higher at equal compute", "worse": "lower at equal compute"}
    choices = [one | {"verdict": verdicts.get(one["cell"], one["verdict"])} for one in results["choices"]]
    changed = results | {"choices": choices}

    assert findings(changed)[0] == "No choice is shown to move the ceiling."
    assert findings(changed)[2] == (
        "At equal compute the value is higher with better; lower with worse; by ceiling or by speed is not shown."
    )
    page = study_page(changed)
    assert '<span class="verdict" data-kind="raises">higher at equal compute</span>' in page
    assert '<span class="verdict" data-kind="lowers">lower at equal compute</span>' in page


@pytest.mark.parametrize(
    "words",
    [
        "twin in the paper", "What came", "Truncated, last", "could not be shown any more", "hopeless", "twin: seed 3",
        "counts as equal" , "choice = worse", "The paper&#x27;s rule", "OUTSIDE" , "Which choice moves the ceiling?",
    ],
)  # fmt: skip
def test_the_page_has_every_part(results: dict[str, Any], words: str) -> None:
    outside = copy.deepcopy(results)
    outside["extrapolation"]["rows"][0]["inside"] = False
    assert words in study_page(outside)


def test_the_page_draws_an_interval_for_each_choice_and_a_curve_for_each_cell(results: dict[str, Any]) -> None:
    page = study_page(results)

    assert len(re.findall('<svg class="strip"', page)) == 2 * len(results["choices"])
    assert len(re.findall('<svg class="cell-chart"', page)) == len(results["cells"]) - 1
    points = sum(len(seed["curve"]["value"]) for cell in results["cells"] for seed in cell["seeds"])
    base_points = sum(len(seed["curve"]["value"]) for seed in results["cells"][0]["seeds"])
    assert page.count("<circle") == points - base_points + (len(results["cells"]) - 1) * base_points


def test_the_page_loads_nothing_and_only_its_own_script_runs(results: dict[str, Any]) -> None:
    page = study_page(results)

    script = page.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert page.count("<script") == 1
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")
    assert "{{" not in page


def test_a_name_stays_a_name(results: dict[str, Any]) -> None:
    evil = renamed(results, "worse", EVIL)

    page, text = study_page(evil), study_markdown(evil)

    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "<img" not in text
    assert all(line.count(" | ") <= 8 for line in text.splitlines())
    assert study_figure(evil).get_suptitle() == "Study simulated"


def test_an_unfinished_study_says_so_at_the_top(results: dict[str, Any]) -> None:
    open_ = copy.deepcopy(results)
    open_["jobs"] |= {"missing": 12, "failed": 1, "failures": [{"cell": "slow", "seed": 1, "error": "exit code 3"}]}

    for text in (study_markdown(open_), study_page(open_)):
        assert text.index("Unfinished: 12 of 16 jobs have not ended.") < text.index(ANSWERS[0])
        assert "1 job has failed and is left out." in text
        assert "seed 1: exit code 3" in text


def test_a_study_without_curves_can_be_reported(tmp_path: Path) -> None:
    curves = curves_of_study(("base", "twin"))
    every = [(cell, seed) for cell in curves for seed in (0, 1, 2)]
    empty = results_document(gather(folder_of(tmp_path / "study", curves, unfinished=every)))

    assert "Nothing can be compared yet" in study_page(empty)
    assert "Nothing can be compared yet" in study_markdown(empty)
    assert write_study_figure(empty, tmp_path / "empty.png").stat().st_size > 0


def test_the_figure_is_the_same_each_time(results: dict[str, Any], tmp_path: Path) -> None:
    first = write_study_figure(results, tmp_path / "a.svg").read_bytes()

    assert write_study_figure(results, tmp_path / "b.svg").read_bytes() == first
    figure = study_figure(results)
    axes = [one for part in figure.subfigs for one in part.axes]
    assert [one.get_xlabel() for one in axes[:2]] == [
        "difference of the ceiling, 80 % interval",
        "difference of the exponent, 80 % interval",
    ]
    assert [one.get_title(loc="left") for one in axes[2:6]] == ["twin", "worse", "better", "slow"]


def test_markdown_tables_have_as_many_cells_as_heads(results: dict[str, Any]) -> None:
    lines = study_markdown(results).splitlines()
    heads = [index - 1 for index, line in enumerate(lines) if line.startswith("| ---")]
    assert len(heads) >= 6
    for head in heads:
        for row in takewhile(lambda line: line.startswith("|"), lines[head:]):
            assert row.replace("\\|", "").count("|") == lines[head].count("|")


def test_names_beside_points_do_not_cover_each_other() -> None:
    def end(cell: str, x: float, y: float) -> tuple[str, Estimate, Estimate]:
        return cell, Estimate(x), Estimate(y)

    crowd = [end("a", 0.70, 0.90), end("b", 0.701, 0.901), end("c", 0.702, 0.902), end("far", 0.5, 0.4)]
    names = labelled(crowd)
    assert "far" in names
    assert len(names & {"a", "b", "c"}) == 1
    assert labelled([end("one", 0.5, 0.5)]) == {"one"}
    assert labelled([]) == set()
