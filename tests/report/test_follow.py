"""Following runs that change under our eyes: new points, restarts, files that vanish, are torn, or not there yet."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalerl.curves import fit
from scalerl.errors import InputError
from scalerl.readers import read_curves
from scalerl.report import beside
from scalerl.report import follow as module
from scalerl.report.board import Board
from scalerl.report.follow import GONE, Follower
from scalerl.report.followed import Followed, Ways
from scalerl.report.own_run import other_units
from scalerl.report.targets import Targets, ends_in_a_line
from scalerl.runs.events import Event

from .runs import begin, evaluate, pass_rate, table

WAYS = Ways(
    read=lambda path: read_curves([path]),
    units=other_units,
    fit=lambda name, seeds: fit(seeds, name=name),
    budget=lambda _: None,
)


class Eyes:
    """A follower that looks at each step, and what its board shows."""

    def __init__(self, *targets: Path, ways: Ways = WAYS) -> None:
        self.board = Board({"schema": 1})
        self.decisions: list[tuple[str, str, str | None]] = []
        self.troubles: list[tuple[str, str]] = []
        self.follower = Follower(
            Targets(tuple(map(str, targets))), ways, self.board, every_s=0.0,
            changed=self._changed, troubled=lambda path, problem: self.troubles.append((path, problem)),
        )  # fmt: skip

    def _changed(self, run: Followed, made: dict[str, Any], before: str | None) -> None:
        self.decisions.append((run.name, made["action"], before))

    def look(self, most: int = 1000) -> Any:
        """Work until nothing is left, also at two more looks, and return the runs shown."""
        idle = 0
        for _ in range(most):
            idle = 0 if self.follower.step() else idle + 1
            if idle == 3:
                return self.shown
        raise AssertionError("it never comes to rest")

    @property
    def shown(self) -> Any:
        return json.loads(self.board.document())["runs"]

    def messages(self, act: Callable[[], Any]) -> list[Any]:
        """What listeners hear during `act`, step by step."""
        seen, found = self.board.number, []
        act()
        while self.follower.step():
            news = self.board.news(seen, 0.0)
            if news is not None:
                seen = news.number
                found.append(json.loads(news.data))
        return found


def count(run: Any, unit: int = 0) -> int:
    return len(run["units"][unit]["points"]["compute"])


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def test_a_run_of_ours_in_every_unit(tmp_path: Path) -> None:
    begin(tmp_path / "run", range(0, 400, 20))
    (run,) = Eyes(tmp_path / "run").look()
    assert (run["name"], run["state"], run["problem"]) == ("run", "stopped", None)
    assert [unit["key"] for unit in run["units"]] == ["flops", "tokens", "device_hours", "steps"]
    assert all(count(run, unit) == 19 for unit in range(4))
    assert all(unit["fit"]["ceiling"]["value"] > 0.5 for unit in run["units"])
    assert "Entropy" in [panel["title"] for panel in run["panels"]]
    assert run["units"][3]["budget"] == 760.0  # twice what there is: the decision is about that
    assert run["units"][0]["history"][-1]["budget"] == pytest.approx(2e12, rel=0.01)  # the end of its own budget


def test_an_alarm_is_shown(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", range(0, 400, 20))
    eyes = Eyes(tmp_path / "run")
    assert eyes.look()[0]["events"] == []
    event = Event.now(380, "alarm", "alarm ratio at step 380", alarm="ratio")
    run.events.append(event.to_line())
    evaluate(run, 400)
    assert [one for message in eyes.messages(lambda: None) for one in message["runs"] if "events" in one] != []
    (found,) = eyes.shown[0]["events"]
    assert (found["step"], found["name"], found["message"]) == (380, "alarm", "alarm ratio at step 380")


def test_a_point_is_shown_before_it_is_fitted(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", range(0, 400, 20))
    eyes = Eyes(tmp_path / "run")
    eyes.look()
    first, *rest = eyes.messages(lambda: evaluate(run, 400))
    assert count(first["runs"][0]) == 20
    assert "fit" not in first["runs"][0]["units"][0]  # the fit before it stays, until the next is made
    fits = [unit["fit"] for message in rest for one in message["runs"] for unit in one["units"] if "fit" in unit]
    assert [fit["points"] for fit in fits] == [20, 20, 20, 20]
    assert eyes.messages(lambda: None) == []


def test_steps_without_an_evaluation_move_the_panels_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PANELS_S", 0.0)
    monkeypatch.setattr(beside, "BACK_OFF", 0.0)
    run = begin(tmp_path / "run", range(0, 400, 20))
    eyes = Eyes(tmp_path / "run")
    (before,) = eyes.look()
    fits = dict(eyes.follower.runs[0].fits)
    run.metrics.append({"step": 381, "entropy": 0.5, "wall_s": 1.0, "ledger": run.metrics.read()[-1]["ledger"]})
    (after,) = eyes.look()
    (entropy,) = [panel for panel in after["panels"] if panel["title"] == "Entropy"]
    assert entropy["lines"][0]["x"][-1] == 381
    assert after["units"] == before["units"]
    assert all(eyes.follower.runs[0].fits[key] is fit for key, fit in fits.items())


def test_steps_without_an_evaluation_do_not_have_the_curve_read_again(tmp_path: Path) -> None:
    reads = []

    def read(path: str) -> Any:
        reads.append(path)
        return read_curves([path])

    run = begin(tmp_path / "run", range(0, 400, 20))
    eyes = Eyes(tmp_path / "run", ways=replace(WAYS, read=read))
    eyes.look()
    run.metrics.append({"step": 381, "entropy": 0.5, "wall_s": 1.0, "ledger": run.metrics.read()[-1]["ledger"]})
    eyes.look()
    assert len(reads) == 1
    evaluate(run, 400)
    assert count(eyes.look()[0]) == 20
    assert len(reads) == 2


def test_long_metrics_are_read_piece_by_piece_after_the_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with millions of steps holds up neither its own curve nor other runs."""
    monkeypatch.setattr(beside, "PIECE_BYTES", 1000)
    begin(tmp_path / "long", range(0, 4000, 20))
    begin(tmp_path / "short", range(0, 40, 20))
    eyes = Eyes(tmp_path)
    while not eyes.follower.settled:
        eyes.follower.step()
    long, _ = eyes.shown
    assert long["units"][0]["fit"]["points"] == 199
    assert [panel["lines"][0]["x"][-1] < 100 for panel in long["panels"]] == [True]
    long, short = eyes.look()
    assert long["panels"][0]["lines"][0]["x"][-1] == 3980
    assert short["panels"][0]["lines"][0]["x"][-1] == 20


def test_broken_metrics_end_where_they_are_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "PIECE_BYTES", 1000)
    run = begin(tmp_path / "run", range(0, 400, 20))
    lines = run.metrics.path.read_text().splitlines(keepends=True)
    run.metrics.path.write_text("".join([*lines[:12], "nonsense\n", *lines[12:]]))
    (shown,) = Eyes(tmp_path / "run").look()
    assert 0 < shown["panels"][0]["lines"][0]["x"][-1] < 240
    assert shown["units"][0]["fit"]["points"] == 19


def test_the_past_of_many_runs_is_made_in_the_default_unit_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW", 1)
    begin(tmp_path / "one", range(0, 240, 20))
    begin(tmp_path / "two", range(0, 240, 20), 0.6)
    for run in Eyes(tmp_path).look():
        default, *others = [len(unit["history"]) for unit in run["units"]]
        assert default > 3
        assert others == [1, 1, 1]  # only what was forecast since watching began


def test_the_end_of_a_run_is_noticed(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", range(0, 400, 20))
    eyes = Eyes(tmp_path / "run")
    eyes.look()
    run.finish("budget", 380)
    eyes.follower._known[str(tmp_path / "run")].beside.not_before = 0.0
    assert eyes.look()[0]["state"] == "finished"


def test_a_folder_of_runs_and_those_that_come_later(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    eyes = Eyes(runs)
    (waiting,) = eyes.look()
    assert waiting["id"] == str(runs)
    assert waiting["problem"]
    begin(runs / "first", range(0, 300, 20))
    assert [run["name"] for run in eyes.look()] == ["first"]
    begin(runs / "deep" / "first", range(0, 300, 20), 0.6)
    assert [run["name"] for run in eyes.look()] == ["first", "deep/first"]
    eyes.follower._comparing.wait()
    compared = json.loads(eyes.board.document())["comparison"]["flops"]
    assert set(compared["ranking"]) == {"first", "deep/first"}


def test_a_run_without_evaluations_waits_for_them(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", range(0))
    eyes = Eyes(tmp_path / "run")
    assert "no evaluations yet" in eyes.look()[0]["problem"]
    for step in range(0, 80, 20):
        evaluate(run, step)
    (early,) = eyes.look()
    assert early["problem"] == "3 points so far; a fit needs at least 5 beside step 0"
    assert (count(early), early["units"][0]["fit"]) == (3, None)
    for step in range(80, 400, 20):
        evaluate(run, step)
    (later,) = eyes.look()
    assert later["problem"] is None
    assert later["units"][0]["fit"]["points"] == 19


def test_a_run_that_begins_anew_has_no_past(tmp_path: Path) -> None:
    begin(tmp_path / "run", range(0, 400, 20))
    eyes = Eyes(tmp_path / "run")
    (before,) = eyes.look()
    assert len(before["units"][0]["history"]) > 5
    shutil.rmtree(tmp_path / "run")
    (gone,) = eyes.look()
    assert (gone["warning"], gone["problem"], count(gone)) == (GONE, None, 19)
    assert gone["units"][0]["fit"] == before["units"][0]["fit"]  # what was known stays
    begin(tmp_path / "run", range(0, 160, 20), seed=1)
    (anew,) = eyes.look()
    assert (anew["id"], anew["problem"], count(anew)) == (before["id"], None, 7)
    assert {moment["compute"] for moment in anew["units"][0]["history"]} <= set(anew["units"][0]["points"]["compute"])


def test_a_table_that_grows(tmp_path: Path) -> None:
    path = table(tmp_path / "run.csv", 12)
    eyes = Eyes(path)
    (run,) = eyes.look()
    assert (run["name"], count(run), run["units"][0]["key"]) == ("run", 12, "gpu_hours")
    append(path, f"260,{pass_rate(260):.5f}\n")
    (run,) = eyes.look()
    assert (count(run), run["units"][0]["budget"]) == (13, 520.0)
    moments = run["units"][0]["history"]
    assert [moment["compute"] for moment in moments][-2:] == [240.0, 260.0]
    assert moments[-1]["budget"] == 480.0  # twice what there was when watching began
    append(path, f"500,{pass_rate(500):.5f}\n")
    assert eyes.look()[0]["units"][0]["history"][-1]["budget"] == 1000.0  # the old one is spent


def test_coming_near_a_budget_that_nobody_asked_for_is_no_reason_to_stop(tmp_path: Path) -> None:
    """The gain left up to the budget of the history shrinks to nothing; the decision is about doubling."""
    path = table(tmp_path / "run.csv", 6)
    eyes = Eyes(path)
    eyes.look()
    for compute in range(140, 240, 20):
        append(path, f"{compute},{pass_rate(compute):.5f}\n")
        (run,) = eyes.look()
        decision = run["units"][0]["fit"]["decision"]
        assert decision["budget"] == 2 * compute
        assert decision["action"] != "STOP"


def test_a_budget_that_was_asked_for_is_decided_about(tmp_path: Path) -> None:
    asked = Ways(WAYS.read, WAYS.units, WAYS.fit, lambda _: 1000.0)
    (run,) = Eyes(table(tmp_path / "run.csv", 12), ways=asked).look()
    assert run["units"][0]["fit"]["decision"]["budget"] == run["units"][0]["budget"] == 1000.0


def test_half_a_line_is_not_a_point(tmp_path: Path) -> None:
    path = table(tmp_path / "run.csv", 12)
    eyes = Eyes(path)
    eyes.look()
    append(path, "260,0.7")
    eyes.follower.step()
    assert count(eyes.shown[0]) == 12
    append(path, "1234\n")
    (run,) = eyes.look()
    assert run["units"][0]["points"]["value"][-1] == 0.71234


def test_a_last_line_without_an_end_is_read_once_nothing_follows(tmp_path: Path) -> None:
    path = table(tmp_path / "run.csv", 12, end="")
    eyes = Eyes(path)
    eyes.follower.step()
    assert not eyes.shown
    assert count(eyes.look()[0]) == 12


def test_a_broken_table_keeps_its_points_and_recovers(tmp_path: Path) -> None:
    path = table(tmp_path / "run.csv", 12)
    eyes = Eyes(path)
    eyes.look()
    whole = path.read_text()
    path.write_text(whole + "nonsense\n")
    (broken,) = eyes.look()
    assert "line 15" in broken["warning"]
    assert (count(broken), broken["problem"]) == (12, None)
    assert broken["units"][0]["fit"]["points"] == 12
    assert eyes.follower.runs[0].decision is None
    assert eyes.troubles == [(str(path), broken["warning"])]
    path.write_text(whole + "260,0.7\n")
    (mended,) = eyes.look()
    assert (mended["warning"], count(mended), mended["units"][0]["fit"]["points"]) == (None, 13, 13)


@pytest.mark.parametrize("harm", ["truncated", "replaced", "vanished"])
def test_a_table_that_is_taken_away(tmp_path: Path, harm: str) -> None:
    path = table(tmp_path / "run.csv", 12)
    eyes = Eyes(path)
    eyes.look()
    if harm == "truncated":
        os.truncate(path, 0)
    elif harm == "vanished":
        path.unlink()
    else:
        (tmp_path / "new").write_bytes(b"\x00\x01\x02")
        (tmp_path / "new").replace(path)
    (run,) = eyes.look()
    assert run["warning"]
    assert count(run) == 12
    table(path, 8)
    (run,) = eyes.look()
    assert (run["warning"], run["problem"], count(run)) == (None, None, 8)


def test_a_target_that_is_not_there_yet(tmp_path: Path) -> None:
    eyes = Eyes(tmp_path / "later.csv")
    (waiting,) = eyes.look()
    assert waiting["problem"].startswith("nothing there yet")
    assert eyes.follower.empty_targets == [str(tmp_path / "later.csv")]
    table(tmp_path / "later.csv", 12)
    (run,) = eyes.look()
    assert (run["name"], run["problem"]) == ("later", None)
    assert eyes.follower.empty_targets == []


def test_decisions_are_told_when_they_change(tmp_path: Path) -> None:
    path = table(tmp_path / "run.csv", 6)
    eyes = Eyes(path)
    eyes.look()
    assert eyes.decisions == [("run", "NEED MORE DATA", None)]
    table(path, 60)
    eyes.look()
    assert [decision[1:] for decision in eyes.decisions[1:]] == [("STOP", "NEED MORE DATA")]
    table(path, 61)
    eyes.look()
    assert len(eyes.decisions) == 2


def test_curves_of_one_table_come_and_go(tmp_path: Path) -> None:
    def write(*names: str) -> None:
        rows = [f"{name},{20 * i},{pass_rate(20 * i):.5f}" for name in names for i in range(1, 13)]
        (tmp_path / "all.csv").write_text("run,gpu_hours,pass_rate\n" + "\n".join(rows) + "\n")

    ways = Ways(lambda path: read_curves([path], by="run"), WAYS.units, WAYS.fit, WAYS.budget)
    write("a", "b")
    eyes = Eyes(tmp_path / "all.csv", ways=ways)
    assert [run["name"] for run in eyes.look()] == ["a", "b"]
    write("b", "<img src=x onerror=alert(1)>")
    assert [run["name"] for run in eyes.look()] == ["b", "<img src=x onerror=alert(1)>"]


def test_a_large_log_is_read_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE_BYTES", 10)
    eyes = Eyes(table(tmp_path / "run.csv", 12))
    eyes.follower.step()
    reading = eyes.follower._known[str(tmp_path / "run.csv")].reading
    assert reading is not None
    reading.exception(timeout=30)
    assert count(eyes.look()[0]) == 12


def test_what_takes_long_to_read_is_not_read_at_each_change(tmp_path: Path) -> None:
    now, reads = [0.0], []

    def slow(path: str) -> Any:
        now[0] += 2.0
        reads.append(now[0])
        return read_curves([path])

    path = table(tmp_path / "run.csv", 12)
    ways = Ways(slow, WAYS.units, WAYS.fit, WAYS.budget)
    follower = Follower(Targets((str(path),)), ways, Board({}), every_s=0.0, clock=lambda: now[0])
    for second in range(60):
        now[0] = max(now[0], second)
        append(path, f"{1000 + second},{pass_rate(1000 + second):.5f}\n")
        while follower.step():
            pass
    assert 2 <= len(reads) <= 7


def test_another_trainers_log_is_tailed(tmp_path: Path) -> None:
    """verl writes one JSON object a step; the validation comes every tenth."""
    path, written = tmp_path / "verl.jsonl", iter(range(1, 1000))

    def train(steps: int) -> None:
        for step in (next(written) for _ in range(steps)):
            data = {"actor/lr": 1e-6, "timing_s/step": 30.0, "critic/rewards/mean": 0.5, "actor/entropy": 0.4}
            data |= {} if step % 10 else {"val-core/math/reward/mean@4": pass_rate(2 * step)}
            append(path, json.dumps({"step": step, "data": data}) + "\n")

    ways = Ways(
        lambda path: read_curves([path], y="val-core/math/reward/mean@4", gpus=8.0), WAYS.units, WAYS.fit, WAYS.budget
    )
    train(100)
    eyes = Eyes(path, ways=ways)
    (run,) = eyes.look()
    assert (count(run), run["state"], run["panels"]) == (10, "unknown", [])
    assert run["notes"]
    train(9)
    assert count(eyes.look()[0]) == 10
    train(1)
    (run,) = eyes.look()
    assert run["units"][0]["fit"]["points"] == 11


def test_a_bug_in_a_reader_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the loop nor in the thread of a large log."""

    def read(path: str) -> Any:
        raise ZeroDivisionError(path)

    for limit in (10, 1 << 20):
        monkeypatch.setattr(module, "LARGE_BYTES", limit)
        eyes = Eyes(table(tmp_path / "run.csv", 12), ways=Ways(read, WAYS.units, WAYS.fit, WAYS.budget))
        with pytest.raises(ZeroDivisionError):
            eyes.follower.run(threading.Event())


def test_what_cannot_be_watched() -> None:
    with pytest.raises(InputError, match="standard input cannot be watched"):
        Targets(("-",))
    with pytest.raises(InputError, match="the same target twice"):
        Targets(("a", "b", "a"))


def test_looking_opens_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path / "run", range(0, 100, 20))
    table(tmp_path / "t.csv", 5)
    targets = Targets((str(tmp_path / "run"), str(tmp_path / "t.csv")))
    first = targets.poll()
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail(f"read {self}"))
    assert targets.poll() == first
    assert first[str(tmp_path / "t.csv")].size == (tmp_path / "t.csv").stat().st_size  # type: ignore[union-attr]


def test_other_trainers_runs_below_a_folder(tmp_path: Path) -> None:
    """By the names of their files; nothing is opened, and nothing is looked for inside a run."""
    files = (
        "tb/a/events.out.tfevents.1.host", "tb/a/hparams/events.out.tfevents.2.host", "tb/b/events.out.tfevents.3.x",
        "hf/checkpoint-10/trainer_state.json", "both/trainer_state.json", "both/runs/now/events.out.tfevents.4.h",
        "none/notes.txt", ".hidden/events.out.tfevents.5.h",
    )  # fmt: skip
    for name in files[:2]:
        put(tmp_path / "logs" / name)
    targets = Targets((str(tmp_path / "logs"),))
    assert list(targets.poll()) == [str(tmp_path / "logs/tb/a")]
    for name in files[2:]:
        put(tmp_path / "logs" / name)
    begin(tmp_path / "logs" / "ours", range(0, 100, 20))
    expected = {"tb/a", "tb/b", "hf", "both/runs/now", "ours"}
    assert set(targets.poll()) == {str(tmp_path / "logs" / name) for name in expected}
    assert targets.is_run(str(tmp_path / "logs/ours"))
    assert not targets.is_run(str(tmp_path / "logs/hf"))


def test_trainer_states_below_a_folder_are_followed(tmp_path: Path) -> None:
    for name, best in (("one", 0.6), ("two", 0.7)):
        history = [{"step": step, "eval_accuracy": pass_rate(step, best)} for step in range(20, 400, 20)]
        state = json.dumps({"global_step": 380, "log_history": history})
        put(tmp_path / "out" / name / "checkpoint-380" / "trainer_state.json", state)
    shown = Eyes(tmp_path / "out").look()
    assert sorted(run["name"] for run in shown) == ["one", "two"]
    assert all(run["units"][0]["fit"]["points"] == 19 for run in shown)


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_history_decides_about_the_gain_that_was_asked_for(tmp_path: Path) -> None:
    path = table(tmp_path / "run.csv", 20)
    actions = {}
    for delta in (1e-6, 0.9):
        (run,) = Eyes(path, ways=replace(WAYS, delta=delta)).look()
        unit = run["units"][0]
        assert unit["history"][-1]["action"] == unit["fit"]["decision"]["action"]
        actions[delta] = [moment["action"] for moment in unit["history"]]
    assert set(actions[0.9][-4:]) == {"STOP"}  # the first moments have too few points for any decision
    assert "STOP" not in actions[1e-6]


def test_where_a_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for text, whole in (("", True), ("a\n", True), ("a\nb", False)):
        path.write_text(text)
        stamp = Targets((str(path),)).poll()[str(path)]
        assert stamp is not None
        assert ends_in_a_line(str(path), stamp) is whole
