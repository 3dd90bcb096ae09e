"""JSONL logs: what they say, what makes them logs, and what damage costs.

verl's lines are as `FileLogger` in verl/utils/tracking.py (volcengine/verl) writes them: `{"step": 1, "data": {...}}`,
with orjson, which writes NaN as null.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from scalerl.readers.logs.json_log import JsonLog, head_objects, is_json_log
from scalerl.readers.logs.records import Record, Tally

VERL = [
    {"step": 0, "data": {"val-core/openai/gsm8k/acc/mean@1": 0.08}},
    {"step": 1, "data": {"training/global_step": 1, "timing_s/step": 41.5, "perf/total_num_tokens": 90112}},
    {"step": 2, "data": {"training/global_step": 2, "timing_s/step": 40.5, "actor/pg_loss": None,
                         "val-core/openai/gsm8k/acc/mean@1": 0.41}},
]  # fmt: skip


def write(path: Path, objects: list[Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))
    return path


def read(path: Path) -> tuple[list[Record], Tally]:
    tally = Tally()
    return list(JsonLog(path, str(path)).records(tally)), tally


def test_verl(tmp_path: Path) -> None:
    path = write(tmp_path / "verl.jsonl", VERL)
    records, tally = read(path)
    assert [record.step for record in records] == [0, 1, 2]
    assert records[2].values == {
        "training/global_step": 2, "timing_s/step": 40.5, "val-core/openai/gsm8k/acc/mean@1": 0.41,
    }  # fmt: skip
    assert tally.skipped == {}
    assert JsonLog(path, "").kind == "a verl file log (JSONL)"
    assert is_json_log(head_objects(path.read_bytes()))


def test_it_can_be_read_again(tmp_path: Path) -> None:
    log = JsonLog(write(tmp_path / "log", VERL), "")
    assert list(log.records(Tally())) == list(log.records(Tally()))


def test_generic_lines_with_nested_metrics_and_times(tmp_path: Path) -> None:
    objects = [
        {"iteration": 10, "timestamp": "2026-03-01T10:00:00Z", "train": {"loss": 0.5, "kl": 0.01}, "note": "warm"},
        {"iteration": 20, "timestamp": "2026-03-01T10:01:30+00:00", "eval": {"acc": 0.25, "ok": True}, "time": 12.5},
    ]
    records, _ = read(write(tmp_path / "log", objects))
    assert [record.step for record in records] == [10, 20]
    assert records[0].values == {"train/loss": 0.5, "train/kl": 0.01}
    assert records[1].values == {"eval/acc": 0.25, "time": 12.5}  # a small "time" is a duration
    assert records[0].time_s is not None
    assert records[1].time_s == records[0].time_s + 90


@pytest.mark.parametrize("scale", [1, 1000, 10**9])
def test_clocks_in_seconds_or_finer(tmp_path: Path, scale: int) -> None:
    objects = [{"_step": i, "_timestamp": (1_770_000_000 + i) * scale, "a": 1.0, "b": 2.0} for i in (1, 2)]
    records, _ = read(write(tmp_path / "log", objects))
    assert [record.time_s for record in records] == [1_770_000_001, 1_770_000_002]
    assert records[0].values == {"a": 1.0, "b": 2.0}


def test_a_line_without_the_step_belongs_to_the_one_before(tmp_path: Path) -> None:
    objects: list[Any] = [{"lr": 1e-6}, {"step": 5}, {"loss": 1.0}, {"eval/acc": 0.5}, {"step": 6, "loss": 0.9}]
    records, tally = read(write(tmp_path / "log", objects))
    assert [(record.step, dict(record.values)) for record in records] == [
        (5, {"loss": 1.0}), (5, {"eval/acc": 0.5}), (6, {"loss": 0.9}),
    ]  # fmt: skip
    assert tally.skipped == {"lines without a step, before the first step": 1}


def test_the_step_is_the_field_that_most_lines_have(tmp_path: Path) -> None:
    objects: list[Any] = [{"step": 99, "load": 1.0}] + [{"train/global_step": i, "loss": 1.0} for i in range(1, 4)]
    records, _ = read(write(tmp_path / "log", objects))
    assert [record.step for record in records] == [99, 1, 2, 3]  # the lone line has no other step than its own


def test_no_steps_at_all(tmp_path: Path) -> None:
    records, _ = read(write(tmp_path / "log", [{"a": 1.0}, {"b": 2.0}]))
    assert [record.step for record in records] == [None, None]


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"step": 1, "a": NaN, "b": -Infinity, "c": 1' + "0" * 400 + ', "d": "0.5", "e": [1], "f": null}\n')
    (record,), _ = read(path)
    assert str(record.values) == "{'a': nan, 'b': -inf, 'c': inf}"


LINES = [json.dumps({"step": i, "a": i / 10, "b": 1.0}).encode() for i in range(1, 5)]


@pytest.mark.parametrize(
    ("data", "steps", "skipped"),
    [
        (b"\n".join([*LINES[:3], LINES[3][:-4]]), [1, 2, 3], {"torn last lines": 1}),
        (b"\n".join(LINES), [1, 2, 3, 4], {}),  # no line end, but the object is closed
        (b"\n".join([LINES[0], b'{"step": 2, "a":', b"%%%", LINES[2], b""]), [1, 3], {"broken lines": 2}),
        (b"\n".join([LINES[0], LINES[1] + LINES[2], LINES[3], b""]), [1, 2, 3, 4], {}),
        (b"\n".join([LINES[0], LINES[1][:20] + LINES[2], LINES[3], b""]), [1, 3, 4], {"broken lines": 1}),
        (b"\n".join([b"INFO: " + LINES[0], LINES[1] + b" trailing", b""]), [1, 2], {"broken lines": 1}),
        (b"\n".join([LINES[0], b"[1, 2]", b"7", b"\xff\xfe\x80", b""]), [1], {"broken lines": 3}),
        (b"\n".join([LINES[0], b'{"a":' * 100_000, LINES[1], b""]), [1, 2], {"broken lines": 1}),
        (b"", [], {}),
    ],
)  # fmt: skip
def test_damage_costs_the_damaged_line(tmp_path: Path, data: bytes, steps: list[int], skipped: dict[str, int]) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    records, tally = read(path)
    assert [record.step for record in records] == steps
    assert tally.skipped == skipped


def test_a_piece_of_a_broken_object_is_not_taken_for_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"step": 1, "data": {"acc": 0.9}, "more\n{"step": 2, "data": {"acc": 0.5}}\n')
    records, tally = read(path)
    assert [(record.step, record.values) for record in records] == [(2, {"acc": 0.5})]
    assert tally.skipped == {"broken lines": 1}


def test_not_utf8_inside_a_text_keeps_the_metrics_and_inside_a_name_loses_that_metric(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"step": 1, "text": "caf\xe9", "a": 1.0}\n{"step": 2, "\xe9": 5.0, "a": 2.0}\n')
    records, tally = read(path)
    assert [dict(record.values) for record in records] == [{"a": 1.0}, {"a": 2.0}]
    assert tally.skipped == {"metrics whose name is not UTF-8": 1}


TABLES: list[list[dict[str, Any]]] = [
    [],
    [{"x": 1, "y": 2}],
    [{"step": 1, "pass_rate": 0.1}, {"step": 2, "pass_rate": 0.2}],
    [{"step": 1, "pass_rate": 0.1, "n": 100, "seed": 1, "lr": 1e-6}],  # full rows that the strict reader understands
    [{"compute": 1, "value": 0.1}, {"compute": 2}],  # its complaint about line 2 is the right answer
    [{"step": i % 3, "seed": i // 3, "a": 0.1, "b": 0.1} for i in range(9)],  # several curves, told apart by --by
    [{"prompt": "2+2", "answer": "4"}],
]  # fmt: skip
LOGS: list[list[dict[str, Any]]] = [
    [{"step": 1, "data": {"acc": 0.5}}],
    [{"step": 1, "metrics": {"acc": 0.5}, "timestamp": 1.7e9}],
    [{"step": 1, "loss": 0.5}, {"step": 1, "acc": 0.5}],
    [{"loss": 0.5, "lr": 1.0, "epoch": 0.1}, {"eval_acc": 0.3}],
    [{"global_step": i, "loss": 0.5, "kl": 0.1, "entropy": 2.0} for i in range(3)],
]


@pytest.mark.parametrize("objects", TABLES)
def test_a_table_stays_a_table(objects: list[dict[str, Any]]) -> None:
    assert not is_json_log(objects)


@pytest.mark.parametrize("objects", LOGS)
def test_a_log_is_a_log(objects: list[dict[str, Any]]) -> None:
    assert is_json_log(objects)


def test_the_head_of_a_file_is_enough(tmp_path: Path) -> None:
    head = write(tmp_path / "log", VERL).read_bytes()[:-10]
    assert head_objects(b"garbage\n" + head) == VERL[:2]
    assert head_objects(b"chatter\n" * 4 + head) == []
