"""Accuracy on pairs that can be checked by hand (`pairs/*.toml`): no false positive, at most 2 % false negatives."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from scalerl.verify import Verdict, build_verifier

FOLDER = Path(__file__).with_name("pairs")
KINDS = ("exact", "number", "choice", "math")
MOST_MISSED = 0.02

Judged = list[tuple[str, str, str, Verdict]]


def _pairs(kind: str) -> list[list[str]]:
    pairs: list[list[str]] = tomllib.loads((FOLDER / f"{kind}.toml").read_text(encoding="utf-8"))["pairs"]
    return pairs


@pytest.fixture(scope="module")
def judged() -> Callable[[str], Judged]:
    found: dict[str, Judged] = {}

    def judge(kind: str) -> Judged:
        if kind not in found:
            verifier = build_verifier(kind)  # type: ignore[arg-type]
            rows = [(reference, text, said) for reference, text, said in _pairs(kind)]
            found[kind] = [(*row, verifier.verify(row[1], row[0])) for row in rows]
            verifier.close()
        return found[kind]

    return judge


def test_there_are_enough_pairs() -> None:
    rows = [tuple(pair) for kind in KINDS for pair in _pairs(kind)]
    assert len(rows) >= 500
    assert {said for _, _, said in rows} == {"correct", "wrong", "none"}
    assert sum(said == "correct" for _, _, said in rows) >= 300
    assert sum(said == "wrong" for _, _, said in rows) >= 150


@pytest.mark.parametrize("kind", KINDS)
def test_no_false_positive(kind: str, judged: Callable[[str], Judged]) -> None:
    assert [row for row in judged(kind) if row[3].correct and row[2] != "correct"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_few_false_negatives(kind: str, judged: Callable[[str], Judged]) -> None:
    equal = [row for row in judged(kind) if row[2] == "correct"]
    missed = [row for row in equal if not row[3].correct]
    assert len(missed) <= MOST_MISSED * len(equal), missed


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_is_judged(kind: str, judged: Callable[[str], Judged]) -> None:
    assert [row for row in judged(kind) if not row[3].judged] == []
    assert [row for row in judged(kind) if row[2] == "none" and row[3].status != "unparsable"] == []


@pytest.mark.parametrize(
    ("found", "wanted", "tolerance", "absolute", "status"),
    [
        ("3.14", "3.14159", 0.0, 0.0, "wrong"), ("3.14", "3.14159", 1e-3, 0.0, "correct"),
        ("101", "100", 0.01, 0.0, "correct"), ("101.1", "100", 0.01, 0.0, "wrong"),
        ("0.01", "0", 0.5, 0.0, "wrong"), ("0.01", "0", 0.0, 0.02, "correct"),
        ("-0.01", "0", 0.0, 0.02, "correct"), ("50.4%", "0.5", 0.01, 0.0, "correct"),
    ],
)  # fmt: skip
def test_tolerances(found: str, wanted: str, tolerance: float, absolute: float, status: str) -> None:
    verifier = build_verifier("number", tolerance=tolerance, absolute_tolerance=absolute)
    assert verifier.verify(found, wanted).status == status


def test_a_large_letter_beside_the_small_one_is_another() -> None:
    """math-verify makes all letters small, so `R - r` would be 0."""
    ring, verifier = r"\pi(R^2-r^2)", build_verifier("math", workers=1)
    for text in (r"\pi(R-r)(R+r)", r"\pi R^2-\pi r^2", r"-\pi(r^2-R^2)"):
        assert verifier.verify(rf"\boxed{{{text}}}", ring).correct, text
    for text in ("0", r"\pi(r^2-R^2)", r"\pi(R^2-R^2)"):
        assert verifier.verify(rf"\boxed{{{text}}}", ring).status == "wrong", text
    assert verifier.verify(r"\boxed{r_1-R_1}", "R_1-r_1").status == "wrong"
    assert verifier.verify(r"\boxed{x^2/2+c}", r"\frac{x^2}{2}+C").correct
    verifier.close()


@pytest.mark.parametrize("kind", ["math", "number"])
def test_a_decimal_without_its_nought(kind: str) -> None:
    verifier = build_verifier(kind)  # type: ignore[arg-type]
    for text in (r"\boxed{.5}", "The answer is .5.", "So it is $.5$"):
        assert verifier.verify(text, "0.5").correct, text
        assert verifier.verify(text, "5").status == "wrong", text
    assert verifier.verify(r"\boxed{0.5}", ".5").correct
    assert verifier.verify(r"\boxed{5}", ".5").status == "wrong"
    if kind == "math":
        assert verifier.verify(r"\boxed{.5x}", r"\frac{x}{2}").correct
        assert verifier.verify(r"\boxed{.5x}", "5x").status == "wrong"
    verifier.close()


@pytest.mark.parametrize(("kind", "one", "other"), [("math", "18", "20"), ("number", "18", "20"), ("choice", "A", "B")])
def test_an_answer_that_is_not_the_one(kind: str, one: str, other: str) -> None:
    verifier = build_verifier(kind)  # type: ignore[arg-type]
    assert verifier.verify(f"The answer is not {one}, it is {other}.", one).status == "wrong"
    assert verifier.verify(f"The answer is not {one}, it is {other}.", other).correct


@pytest.mark.parametrize("kind", ["math", "number"])
def test_repeating_decimals(kind: str) -> None:
    verifier = build_verifier(kind)  # type: ignore[arg-type]
    for one, other in ((r"0.\overline{3}", r"\frac{1}{3}"), (r"-1.1\overline{6}", "-7/6"), (r".\bar{21}", "7/33")):
        assert verifier.verify(rf"\boxed{{{one}}}", other).correct, one
        assert verifier.verify(rf"\boxed{{{other}}}", one).correct, one
    assert verifier.verify(r"\boxed{0.3}", r"0.\overline{3}").status == "wrong"
    assert verifier.verify(r"\boxed{0.\overline{3}}", r"0.\overline{03}").status == "wrong"
    verifier.close()


@pytest.mark.parametrize(
    ("kind", "reference", "objection"),
    [
        ("exact", " ", "empty"), ("number", "many", "no number"), ("number", "1 or 2", "several numbers"),
        ("choice", "Paris", "no letter"), ("math", "", "empty"), ("exact", "x", None), ("number", "#### 7", None),
        ("choice", "(B)", None), ("math", "x^2", None),
    ],
)  # fmt: skip
def test_references_that_cannot_be_used(kind: str, reference: str, objection: str | None) -> None:
    verifier = build_verifier(kind)  # type: ignore[arg-type]
    assert verifier.objection(reference) == objection
    if objection not in {None, "empty"}:
        assert verifier.verify("7", reference).status == "error"
