"""Every check of a run directory: a run as it should be passes them all, one damaged in one way fails that one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.runs import RunDirectory, layout
from scalerl.runs.verify import check_free, find_runs, verify
from scalerl.runs.verify_findings import Finding
from scalerl.runs.verify_groups import Trained, parse_ranges
from scalerl.runs.verify_lines import LONGEST_BYTES, read_lines

from .tiny_run import STEPS, copy, edit, tiny_config, train_tiny

Damage = Callable[[Path], object]
Records = list[dict[str, Any]]
DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return copy(whole, tmp_path)


def findings(run: Path, check: str) -> list[Finding]:
    return [finding for finding in verify(run).findings if finding.check == check]


def worst(run: Path, check: str) -> Finding:
    order = ("ok", "warning", "error")
    return max(findings(run, check), key=lambda finding: order.index(finding.level))


def test_a_run_as_it_should_be(whole: Path) -> None:
    found = verify(whole)
    assert (found.level, found.held_by, found.name) == ("ok", None, "run")
    words = {finding.check: finding.message for finding in found.findings}
    assert words["steps"] == f"1 to {STEPS}, without a gap"
    assert words["evals"] == "4 evaluations, the last at step 6"
    assert words["groups"] == f"{2 * STEPS} groups, each trained once"
    assert words["ages"].endswith("the bound is 8")
    assert words["ending"] == f"budget, at step {STEPS}"
    assert words["results"] == "4 files agree with their lines"
    assert "every digest is right" in words["checkpoint 4"]
    assert "every digest is right" in words["checkpoint 6"]
    assert found.to_dict()["errors"] == found.to_dict()["warnings"] == 0


def metrics(change: Callable[[Records], object]) -> Damage:
    return lambda run: edit(run / layout.METRICS, change)


def evals(change: Callable[[Records], object]) -> Damage:
    return lambda run: edit(run / layout.EVALS, change)


def put(number: int, **values: Any) -> Callable[[Records], None]:
    def change(records: Records) -> None:
        records[number].update(values)

    return change


def book(number: int, role: str, **values: float) -> Callable[[Records], None]:
    def change(records: Records) -> None:
        records[number]["ledger"][role].update(values)

    return change


def swap(records: Records) -> None:
    records[1], records[2] = records[2], records[1]


def line(name: str, number: int, content: bytes) -> Damage:
    def damage(run: Path) -> None:
        lines = (run / name).read_bytes().splitlines(keepends=True)
        lines[number] = content
        (run / name).write_bytes(b"".join(lines))

    return damage


def results(step: int, change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(run: Path) -> None:
        file = run / layout.EVALUATIONS / f"{layout.step_name(step)}.json"
        saved = json.loads(file.read_bytes())
        change(saved)
        file.write_text(json.dumps(saved), encoding="utf-8")

    return damage


def one_more_correct(saved: dict[str, Any]) -> None:
    problem = next(one for one in saved["problems"].values() if one["correct"] < one["judged"])
    problem["correct"] += 1


def text(name: str, content: str) -> Damage:
    return lambda run: (run / name).write_text(content, encoding="utf-8")


def link(name: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to("../elsewhere")

    return damage


def changed_config(run: Path) -> None:
    saved = json.loads((run / layout.CONFIG).read_bytes())
    saved["config"]["seed"] = 99
    (run / layout.CONFIG).write_text(json.dumps(saved), encoding="utf-8")


CASES: list[tuple[str, Damage, str, str]] = [
    ("config", text(layout.CONFIG, "{"), "error", "broken JSON"),
    ("config", lambda run: (run / layout.CONFIG).unlink(), "error", "missing"),
    ("config", changed_config, "error", "changed by hand"),
    ("provenance", text(layout.PROVENANCE, "[]"), "error", "broken provenance"),
    ("provenance", lambda run: (run / layout.PROVENANCE).unlink(), "warning", "missing"),
    ("provenance", text(layout.PROVENANCE, '{"sessions": [{}]}'), "warning", "without its beginning"),
    ("provenance", text(layout.PROVENANCE, '{"sessions": [1]}'), "error", "broken provenance"),
    ("provenance", text(layout.PROVENANCE, DEEP), "error", "broken provenance"),
    ("ending", lambda run: (run / layout.STOPPED).unlink(), "warning", "cut off"),
    ("ending", text(layout.STOPPED, DEEP), "error", "broken JSON"),
    ("ending", text(layout.STOPPED, '{"reason": ["budget"], "step": 6}'), "error", "no reason, or no step"),
    ("ending", text(layout.STOPPED, "{"), "error", "broken JSON"),
    ("ending", text(layout.STOPPED, '{"reason": "bored", "step": 6}'), "error", "no reason, or no step"),
    ("ending", text(layout.STOPPED, '{"reason": "budget", "step": 5}'), "warning", "there is a step 6"),
    ("ending", text(layout.STOPPED, '{"reason": "budget", "step": 7}'), "error", "the last line is of step 6"),
    ("metrics", line(layout.METRICS, 2, b"{broken\n"), "error", "line 3: broken JSON"),
    ("metrics", line(layout.METRICS, 2, b"[]\n"), "error", "line 3: not a JSON object"),
    ("metrics", line(layout.METRICS, 2, b"\xff\xfe\n"), "error", "line 3: broken JSON"),
    ("metrics", metrics(put(2, step="3")), "error", "line 3: no step"),
    ("metrics", metrics(put(2, step=True)), "error", "line 3: no step"),
    ("metrics", metrics(put(2, ledger={})), "error", "line 3: no ledger"),
    ("metrics", metrics(book(2, "training", flops=-1.0)), "error", "line 3: no ledger"),
    ("steps", metrics(lambda records: records.pop(2)), "error", "step 4 after step 2"),
    ("steps", metrics(swap), "error", "step 3 after step 1"),
    ("steps", metrics(lambda records: records.insert(2, records[2])), "error", "step 3 after step 3"),
    ("ledger", metrics(book(2, "generation", tokens=0)), "error", "tokens of generation falls at step 3"),
    ("ledger", metrics(book(1, "training", flops=1e15)), "error", "the evaluation of step 2 has another ledger"),
    ("ledger", metrics(book(3, "evaluation", device_s=1e9)), "error", "is booked, but there was none"),
    ("ledger", metrics(put(3, wall_s=0.0)), "error", "wall_s falls or is no number at step 4"),
    ("evaluations", evals(lambda records: records.pop(1)), "error", "no evaluation of step 2, although step 3"),
    ("evaluations", evals(put(-1, step=7)), "error", "an evaluation of step 7, but the last step is 6"),
    ("evals", line(layout.EVALS, 1, b"{broken\n"), "error", "line 2: broken JSON"),
    ("evals", evals(put(1, step=0)), "error", "line 2: step 0 after step 0"),
    ("evals", evals(put(1, pass_rate=1.5)), "error", "line 2: pass rate 1.5"),
    ("evals", evals(put(1, pass_rate=10**400)), "error", "line 2: pass rate 1000000"),
    ("evals", evals(put(1, standard_error="x")), "error", "line 2: standard_error is x"),
    ("ages", metrics(put(3, age_max=9)), "error", "a token of age 9 at step 4"),
    ("groups", metrics(put(3, groups="0-1")), "error", "group 0 is trained a second time at step 4"),
    ("groups", metrics(put(3, groups="6-7,9-8")), "error", "no list of groups"),
    ("groups", metrics(put(3, groups="6")), "error", "1 groups at step 4, not 2"),
    ("groups", metrics(put(3, groups="1000-1001")), "error", "were admitted by step 6"),
    ("groups", metrics(put(5, groups="12-13")), "error", "2 groups were left out"),
    ("results", lambda run: (run / layout.EVALUATIONS / "step-000002.json").unlink(), "error", "missing"),
    ("results", text(f"{layout.EVALUATIONS}/step-000002.json", "{"), "error", "broken results"),
    ("results", text(f"{layout.EVALUATIONS}/step-000002.json", DEEP), "error", "broken results"),
    ("results", results(2, lambda saved: saved.update(num_samples=float("inf"))), "error", "broken results"),
    ("results", results(2, lambda saved: saved.update(num_samples=0)), "error", "impossible counts"),
    ("results", results(2, one_more_correct), "error", "pass_rate is"),
    ("results", results(2, lambda saved: saved["problems"].popitem()), "error", "num_problems is 7 by its counts"),
    ("results", text(f"{layout.EVALUATIONS}/step-000008.json", "{}"), "warning", "1 more files than evaluations"),
    ("events", text(layout.EVENTS, "{}\n"), "error", "line 1: no time, step, event or message"),
    ("events", text(layout.EVENTS, "nonsense\n"), "error", "line 1: broken JSON"),
    ("leftovers", text("metrics.jsonl.1a2b.partial", ""), "warning", "metrics.jsonl.1a2b.partial"),
    ("leftovers", lambda run: (run / layout.CHECKPOINTS / "step-000008.x.partial").mkdir(), "warning", "left behind"),
    ("leftovers", text("notes.txt", "mine"), "warning", "no run has written: notes.txt"),
    ("leftovers", link(layout.LOCK), "error", "a link, not a file"),
    ("leftovers", link(layout.EVENTS), "error", "a link, not a file"),
    ("leftovers", lambda run: (run / layout.CHECKPOINTS / "step-000002.damaged").mkdir(), "ok", "set aside"),
]


@pytest.mark.parametrize(
    ("check", "damage", "level", "words"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_damage_is_found_by_its_check(run: Path, check: str, damage: Damage, level: str, words: str) -> None:
    damage(run)
    found = worst(run, check)
    assert (found.level, words in found.message) == (level, True), found
    assert found.todo or level == "ok" or check == "provenance"


@pytest.mark.parametrize("name", [layout.METRICS, layout.EVALS, layout.EVENTS])
def test_a_torn_last_line_is_a_warning(run: Path, name: str) -> None:
    with (run / name).open("ab") as stream:
        stream.write(b'{"step": 7, "pa')
    found = verify(run)
    assert found.level == "warning"
    (torn,) = [finding for finding in found.findings if "torn" in finding.message]
    assert (torn.where, torn.level) == (name, "warning")


def test_what_is_wrong_behind_the_last_checkpoint_of_a_crashed_run_will_be_made_again(run: Path) -> None:
    (run / layout.STOPPED).unlink()
    with (run / layout.METRICS).open("ab") as stream:
        stream.write(b"\0\0\0\n")
    with (run / layout.EVALS).open("ab") as stream:
        stream.write(b'{"step": 9}\n')
    found = verify(run)
    assert found.level == "warning"
    (lines,) = findings(run, "metrics")
    assert "behind the last checkpoint" in lines.message
    assert lines.todo is not None
    assert "--resume" in lines.todo


def test_a_million_broken_lines_are_one_finding(run: Path) -> None:
    file = run / layout.METRICS
    file.write_bytes(b"x\n" * 1000 + file.read_bytes())
    (found,) = findings(run, "metrics")
    assert found.message == "line 1: broken JSON (Expecting value) (the first of 1,000)"


def test_a_run_that_is_being_written(run: Path) -> None:
    with RunDirectory.hold(run, tiny_config()):
        with (run / layout.METRICS).open("ab") as stream:
            stream.write(b'{"step": 7, "pa')
        (run / layout.CHECKPOINTS / "step-000008.x.partial").mkdir()
        found = verify(run)
        assert found.held_by is not None
        assert found.level == "ok", found.findings
        with pytest.raises(InputError, match="in use"):
            check_free([run])
    check_free([run])


def test_a_run_that_has_not_begun(tmp_path: Path) -> None:
    with RunDirectory.hold(tmp_path / "run", tiny_config()):
        pass
    found = verify(tmp_path / "run")
    assert found.level == "ok"
    assert worst(tmp_path / "run", "ending").message == "it has not begun"


def test_a_file_that_cannot_be_read_is_a_finding(run: Path) -> None:
    (run / layout.EVALS).unlink()
    (run / layout.EVALS).mkdir()
    found = worst(run, "metrics")
    assert (found.level, found.message) == ("error", "cannot be read (Is a directory)")
    assert worst(run, "config").level == "ok"


def test_runs_are_found_below_a_folder_even_without_their_config(run: Path, tmp_path: Path) -> None:
    copy(run, tmp_path / "jobs" / "a")
    (tmp_path / "jobs" / "a" / "run" / layout.CONFIG).write_text("{")
    assert find_runs(tmp_path) == [tmp_path / "jobs" / "a" / "run", run]
    assert find_runs(run) == [run]
    with pytest.raises(InputError, match="no run in or below"):
        find_runs(run / layout.CHECKPOINTS)
    with pytest.raises(InputError, match="no such run directory"):
        find_runs(tmp_path / "nowhere")


def test_a_log_is_read_in_constant_memory(tmp_path: Path) -> None:
    import tracemalloc

    file = tmp_path / "long.jsonl"
    with file.open("wb") as stream:
        for step in range(5_000):
            stream.write(b'{"step": %d, "text": "%s"}\n' % (step, b"x" * 1000))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_lines(file)) == 5_000
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def test_a_line_without_an_end_is_never_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.runs.verify_lines.LONGEST_BYTES", 100)
    file = tmp_path / "log.jsonl"
    file.write_bytes(b'{"a": 1}\n' + b"x" * 1000 + b"\n" + b'{"b": 1}\n' + b"y" * 300)
    lines = list(read_lines(file))
    assert [line.record for line in lines] == [{"a": 1}, None, {"b": 1}, None]
    assert [line.torn for line in lines] == [False, False, False, True]
    assert lines[-1].end == file.stat().st_size
    assert LONGEST_BYTES > 1e6


def numbers(ranges: str) -> Iterator[int]:
    for first, last in parse_ranges(ranges) or []:
        yield from range(first, last + 1)


@pytest.mark.parametrize(
    ("ranges", "twice"),
    [
        (["0-3", "4-7", "8"], None), (["0-3", "8-9", "4-7"], None), (["0-3", "3"], 3), (["5", "0-9"], 5),
        (["0-9", "4"], 4), (["2", "0", "1", "1"], 1),
    ],
)  # fmt: skip
def test_groups_are_counted_once(ranges: list[str], twice: int | None) -> None:
    trained, found = Trained(), None
    for one in ranges:
        for part in parse_ranges(one) or []:
            found = trained.add(part) if found is None else found
    assert found == twice
    if twice is None:
        every = {number for one in ranges for number in numbers(one)}
        assert (trained.num_groups, trained.missing) == (len(every), max(every) + 1 - len(every))


@pytest.mark.parametrize("text", ["", "1-", "a", "3-1", "1,,2", 5, None, "1" * 40])
def test_what_is_no_list_of_groups(text: object) -> None:
    assert parse_ranges(text) is None
