"""An evaluation of which no answer could be judged: missing from the curve, said, and the run goes on; for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalerl.cli import main
from scalerl.compute import Ledger, Usage
from scalerl.config import RunConfig
from scalerl.errors import GuardError, InputError
from scalerl.pipeline import evaluate
from scalerl.pipeline.observe import Silent
from scalerl.pipeline.records import point_from_line, point_line
from scalerl.pipeline.session import train
from scalerl.pipeline.types import EvalPoint, Group, Unjudged
from scalerl.readers import read_table
from scalerl.runs import RunDirectory, summarise
from scalerl.runs.events import Event
from scalerl.runs.verify import verify
from scalerl.verify import Verdict

MakeRun = Callable[..., RunConfig]


class Ears(Silent):
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.points: list[EvalPoint] = []

    def noticed(self, event: Event) -> None:
        self.events.append(event)

    def evaluated(self, point: EvalPoint) -> None:
        self.points.append(point)


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`blind(2, 4)`: the verifier fails for every answer of the evaluations of these steps."""

    def make(*steps: int) -> None:
        real = evaluate.write_all

        def write_all(generator: Any, requests: Sequence[Any], watch: Any) -> tuple[list[Group], Usage]:
            groups, usage = real(generator, requests, watch)
            failed = groups[0].rollouts[0].versions[0] in steps
            lost = [replace(group, verdicts=(Verdict("error"),) * len(group.verdicts)) for group in groups]
            return lost if failed else groups, usage

        monkeypatch.setattr(evaluate, "write_all", write_all)

    return make


def test_it_is_missing_and_said_and_the_run_goes_on(
    make_run: MakeRun, cache: Path, tmp_path: Path, blind: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    blind(2)
    ears, place = Ears(), tmp_path / "run"
    result = train(make_run(), place, cache=cache, observer=ears)
    assert (result.reason, result.step) == ("budget", 6)
    assert [point.step for point in result.points] == [point.step for point in ears.points] == [0, 4, 6]
    lines = RunDirectory.open(place).evals.read()
    assert [(line["step"], line["pass_rate"] is None, line["num_judged"] == 0) for line in lines] == [
        (0, False, False), (2, True, True), (4, False, False), (6, False, False),
    ]  # fmt: skip
    spent = [line["ledger"]["evaluation"]["tokens"] for line in lines]
    assert spent == sorted(set(spent)), "the evaluation was paid for all the same"
    (event,) = ears.events
    assert (event.name, event.step, event.values) == ("unjudged", 2, {"set": "held_out"})
    assert event.message.endswith("at step 2 could be judged; the point is missing, not zero")
    assert [finding.message for finding in verify(place).findings if finding.level == "error"] == []
    (series,) = read_table(place)
    assert (len(series), series.start is not None) == (2, True)
    assert main(["runs", "show", str(place)]) == 0
    assert "could be judged" in " ".join(capsys.readouterr().out.split())


def test_so_many_in_a_row_stop_the_run_and_it_goes_on_once_the_verifier_works(
    make_run: MakeRun, cache: Path, tmp_path: Path, blind: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, place = make_run(), tmp_path / "run"
    with monkeypatch.context():
        blind(2, 4)
        words = r"the evaluation at step 4 could be judged, the last of 2 in a row; .* the run was stopped and saved"
        with pytest.raises(GuardError, match=words):
            train(run, place, cache=cache)
    monkeypatch.undo()
    found = summarise(place)
    assert (found.state, found.reason, found.step, found.checkpoints[-1]) == ("interrupted", "guard", 4, 4)
    assert [point.step for point in train(run, place, cache=cache, resume=True).points] == [0, 6]


def test_the_number_in_a_row_is_an_option_and_survives_a_resume(
    make_run: MakeRun, cache: Path, tmp_path: Path, blind: Callable[..., None]
) -> None:
    blind(2, 4, 6)
    first, stop = tmp_path / "first", "scale.guards.unjudged_in_a_row=3"
    assert train(make_run(stop, "scale.budget.amount=4"), first, cache=cache).step == 4
    with pytest.raises(GuardError, match="the last of 3 in a row"):
        train(make_run(stop, "scale.budget.amount=8"), first, cache=cache, resume=True)
    assert summarise(first).step == 6


def test_at_step_0_it_is_one_line_before_anything_was_spent(
    make_run: MakeRun, cache: Path, tmp_path: Path, blind: Callable[..., None]
) -> None:
    blind(0)
    with pytest.raises(InputError, match=r"^step 0: no answer of the evaluation could be judged; allowed: a verifier"):
        train(make_run(), tmp_path / "run", cache=cache)
    directory = RunDirectory.open(tmp_path / "run")
    assert (directory.metrics.read(), directory.evals.read()) == ([], [])


def test_its_line_is_read_again() -> None:
    point = Unjudged(
        20, 2, 0.0, 7.5, Ledger(), {}, downstream={"a": Unjudged(20, 2, 0.5, 3.0, Ledger(), {}), "b": None}
    )
    assert point_from_line(point_line(point, 1.0)) == point
