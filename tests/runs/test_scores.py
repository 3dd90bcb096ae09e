"""pass@k and mean@k from results by problem, against counting every choice of answers."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

from scalerl.errors import InputError
from scalerl.runs.scores import Results, Score, p_value, paired_difference, pass_at_k, read_results, usual_ks


def counted(correct: int, judged: int, k: int) -> float:
    """The share of all choices of k answers with a correct one among them."""
    choices = list(combinations([1] * correct + [0] * (judged - correct), k))
    return sum(any(choice) for choice in choices) / len(choices)


@pytest.mark.parametrize("judged", [1, 4, 7])
def test_pass_at_k_is_the_share_of_all_choices(judged: int) -> None:
    for k in range(1, judged + 1):
        for correct in range(judged + 1):
            found = pass_at_k([(correct, judged)], k)
            assert found is not None
            assert found.value == pytest.approx(counted(correct, judged, k))
            assert found.standard_error is None  # of one problem there is none


def test_the_error_is_over_problems_and_problems_with_too_few_answers_are_left_out() -> None:
    found = pass_at_k([(4, 4), (0, 4), (2, 4), (1, 1), (0, 0)], 2)
    assert found is not None
    assert found.num_problems == 3
    assert found.value == pytest.approx((1 + 0 + 5 / 6) / 3)
    assert found.standard_error == pytest.approx(0.3093, abs=1e-4)  # sd of (1, 0, .8333) is .5358; over sqrt 3
    mean = pass_at_k([(4, 4), (0, 4), (2, 4)], 1)
    assert mean is not None
    assert mean.value == pytest.approx(0.5)
    assert mean.standard_error == pytest.approx(0.5 / 3**0.5)


def test_more_answers_than_there_are_say_nothing() -> None:
    assert pass_at_k([(1, 2), (2, 2)], 3) is None
    with pytest.raises(InputError, match=r"k of pass@k: got 0"):
        pass_at_k([(1, 2)], 0)


def test_the_chance_of_a_difference() -> None:
    """Against scipy's own test, and unknown where every problem differs alike."""
    gains = [0.5, 0.0, 0.5, 1.0, -0.5, 0.5, 0.0, 0.5]
    before = Results(2, {str(i): (1, 2) for i in range(8)})
    after = Results(2, {str(i): (1 + round(2 * gain), 2) for i, gain in enumerate(gains)})
    found = paired_difference(before, after)
    assert found is not None
    assert p_value(found) == pytest.approx(ttest_1samp(gains, 0).pvalue)
    assert p_value(Score(0.5, 0.0, 8)) is None
    assert p_value(Score(0.5, None, 1)) is None


def test_usual_ks_end_with_the_number_of_answers() -> None:
    assert usual_ks(1) == (1,)
    assert usual_ks(16) == (1, 2, 4, 8, 16)
    assert usual_ks(10) == (1, 2, 4, 8, 10)


def _file(folder: Path) -> Path:
    problems = {"math/a": {"correct": 1, "judged": 2}, "code/b": {"correct": 2, "judged": 2}}
    sets = {"aime": {"num_samples": 4, "problems": {"x": {"correct": 1, "judged": 4}}}}
    file = folder / "step-000000.json"
    file.write_text(json.dumps({"step": 0, "num_samples": 2, "problems": problems, "downstream": sets}))
    return file


def test_results_have_the_names_of_the_evaluations(tmp_path: Path) -> None:
    found = read_results(_file(tmp_path), ("math", "code"))
    assert list(found) == ["pass_rate", "part/math", "part/code", "downstream/aime"]
    assert found["part/math"].by_problem == {"math/a": (1, 2)}
    assert found["downstream/aime"] == Results(4, {"x": (1, 4)})
    assert read_results(tmp_path / "step-000002.json") == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"problems": {"a": 3}, "num_samples": 1}',
        "[" * 100_000,
        '{"problems": {}, "num_samples": 1e999}',
        '{"problems": {"a": {"correct": 1e999, "judged": 1}}, "num_samples": 1}',
        '{"problems": {"a": {"correct": 3, "judged": 2}}, "num_samples": 4}',
        '{"problems": {"a": {"correct": 0, "judged": 5}}, "num_samples": 4}',
    ],
    ids=lambda text: text[:60],
)
def test_a_broken_file_is_one_line(text: str, tmp_path: Path) -> None:
    file = _file(tmp_path)
    file.write_text(text)
    with pytest.raises(InputError, match="broken results"):
        read_results(file)


def test_versions_are_compared_problem_by_problem() -> None:
    before = Results(4, {"a": (0, 4), "b": (2, 4), "c": (1, 4), "d": (0, 0)})
    after = Results(4, {"a": (2, 4), "b": (4, 4), "d": (4, 4)})
    found = paired_difference(before, after)
    assert found is not None
    assert found.value == pytest.approx(0.5)
    assert found.standard_error == pytest.approx(0.0)
    assert found.num_problems == 2
    assert paired_difference(Results(1, {"a": (1, 1)}), Results(1, {"b": (1, 1)})) is None
