"""Event files are written by torch's SummaryWriter, read back, then damaged as disks and crashes do it."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from scalerl.errors import InputError, MissingDependencyError
from scalerl.readers.logs.crc32c import crc32c, crc32c_of_windows
from scalerl.readers.logs.records import Record, Tally
from scalerl.readers.logs.tensorboard import TensorBoardLog, find_event_files, find_event_logs, is_event_file

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

STEPS = 40


def write(folder: Path, *, steps: range = range(STEPS), start_s: float = 1000.0, new_style: bool = False) -> Path:
    """A run of one minute a step, with two metrics; returns its event file."""
    from torch.utils.tensorboard import SummaryWriter

    before = set(find_event_files(folder))
    with SummaryWriter(str(folder)) as writer:
        for step in steps:
            time_s = start_s + 60 * step
            writer.add_scalar("val/accuracy", step / 100, step, walltime=time_s, new_style=new_style)
            writer.add_scalar("loss", 1 / (step + 1), step, walltime=time_s, new_style=new_style)
    (path,) = set(find_event_files(folder)) - before
    return path


def read(*paths: Path) -> tuple[list[Record], Tally]:
    tally = Tally()
    return list(TensorBoardLog(paths, "log").records(tally)), tally


def steps_of(records: list[Record]) -> list[float | None]:
    return [record.step for record in records]


@pytest.mark.parametrize("new_style", [False, True])
def test_both_styles_of_scalars(tmp_path: Path, new_style: bool) -> None:
    records, tally = read(write(tmp_path, new_style=new_style))
    assert steps_of(records) == list(range(STEPS))
    assert records[7].values == {"val/accuracy": pytest.approx(0.07), "loss": pytest.approx(1 / 8)}
    assert records[7].time_s == 1000 + 60 * 7
    assert not tally.skipped


def test_every_number_type_of_a_tensor(tmp_path: Path) -> None:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.scalar.metadata import create_summary_metadata
    from tensorboard.util.tensor_util import make_tensor_proto
    from torch.utils.tensorboard import SummaryWriter

    metadata = create_summary_metadata("", "")
    with SummaryWriter(str(tmp_path)) as writer:
        for kind in (np.float16, np.float64, np.int32, np.int64):
            tensor = make_tensor_proto(kind(3))
            value = Summary.Value(tag=kind.__name__, tensor=tensor, metadata=metadata)
            writer._get_file_writer().add_summary(Summary(value=[value]), 1)
        value = Summary.Value(tag="pair", tensor=make_tensor_proto([1.0, 2.0]), metadata=metadata)
        writer._get_file_writer().add_summary(Summary(value=[value]), 1)
    records, _ = read(*find_event_files(tmp_path))
    assert [record.values for record in records] == [{"float16": 3, "float64": 3, "int32": 3, "int64": 3}]


def test_not_finite_values_stay(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("a", math.nan, 1)
        writer.add_scalar("b", math.inf, 1)
    (record,), _ = read(*find_event_files(tmp_path))
    assert math.isnan(record.values["a"])
    assert record.values["b"] == math.inf


def test_what_is_no_scalar_is_passed_over(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_text("prompt", "a text of some length " * 200, 1)
        writer.add_histogram("lengths", np.arange(500.0), 1)
        writer.add_scalar("reward", 0.5, 1)
    records, tally = read(*find_event_files(tmp_path))
    assert [record.values for record in records] == [{"reward": 0.5}]
    assert not tally.skipped


def test_a_metric_that_comes_again_or_later_starts_a_record(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("loss", 1.0, 5, walltime=10.0)
        writer.add_scalar("loss", 2.0, 5, walltime=10.1)
        writer.add_scalar("val/accuracy", 0.5, 5, walltime=400.0)
    records, _ = read(*find_event_files(tmp_path))
    assert [record.values for record in records] == [{"loss": 1.0}, {"loss": 2.0}, {"val/accuracy": 0.5}]
    assert [record.time_s for record in records] == [10.0, 10.1, 400.0]


def test_restarts_are_sessions_in_the_order_of_their_first_events(tmp_path: Path) -> None:
    late = write(tmp_path / "a", steps=range(20, 30), start_s=90_000)
    early = write(tmp_path / "b", steps=range(25), start_s=1000)
    # the names of event files hold the second in which they were made, which here is no guide
    late_first = sorted([late, early])
    from tensorboard.compat.proto.event_pb2 import Event  # the version event has the real time: make it the log's

    for path, time_s in ((late, 90_000.0), (early, 1000.0)):
        _set_first_time(path, Event, time_s)
    records, _ = read(*late_first)
    assert steps_of(records) == [*range(25), *range(20, 30)]
    assert {record.session for record in records[:25]} == {0}
    assert {record.session for record in records[25:]} == {1}


def _set_first_time(path: Path, event_type: type, time_s: float) -> None:
    """Rewrite the first record with tensorboard's own writer."""
    import io

    from tensorboard.summary.writer.record_writer import RecordWriter

    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    event = event_type.FromString(data[12 : 12 + length])  # type: ignore[attr-defined]
    event.wall_time = time_s
    first = io.BytesIO()
    RecordWriter(first).write(event.SerializeToString())
    path.write_bytes(first.getvalue() + data[16 + length :])


def test_a_torn_end_loses_only_the_last_record(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    records, tally = read(path)
    assert steps_of(records) == list(range(STEPS))
    assert records[-1].values.keys() == {"val/accuracy"}
    (what,) = tally.skipped
    assert what == "bytes of an unfinished last record"
    assert path.name in tally.first[what]


@pytest.mark.parametrize("keep", [0, 5, 20])
def test_files_that_hardly_began(tmp_path: Path, keep: int) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    records, tally = read(path)
    assert records == []
    assert tally.skipped == ({"bytes of an unfinished last record": keep} if keep else {"empty files": 1})


@pytest.mark.parametrize("place", ["length", "payload"])
def test_reading_goes_on_behind_a_corrupt_record(tmp_path: Path, place: str) -> None:
    path = write(tmp_path)
    data = bytearray(path.read_bytes())
    start, length = 0, int.from_bytes(data[:8], "little")
    while start < len(data) // 2:
        start += 16 + length
        length = int.from_bytes(data[start : start + 8], "little")
    data[start + (1 if place == "length" else 20)] ^= 0xFF
    path.write_bytes(data)
    records, tally = read(path)
    assert sum(len(record.values) for record in records) == 2 * STEPS - 1
    assert steps_of(records) == list(range(STEPS))
    assert tally.skipped == {"damaged bytes": length + 16}
    assert tally.first["damaged bytes"] == f"{path.name}, byte {start + 1:,}"


def test_missing_bytes_and_garbage_in_the_middle(tmp_path: Path) -> None:
    path = write(tmp_path)
    data = path.read_bytes()
    half = len(data) // 2
    garbage = np.random.default_rng(0).bytes(5000)
    path.write_bytes(data[: half - 300] + garbage + data[half:])
    records, tally = read(path)
    assert tally.skipped["damaged bytes"] >= 5000
    assert STEPS - 8 <= len(records) < STEPS
    assert steps_of(records)[-1] == STEPS - 1


def test_garbage_and_zeros_at_the_end(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes() + b"\0" * 4096)
    records, tally = read(path)
    assert len(records) == STEPS
    assert tally.skipped == {"damaged bytes": 4096}


def test_a_second_file_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    records, tally = read(write(tmp_path), tmp_path / "events.out.tfevents.gone")
    assert len(records) == STEPS
    assert tally.skipped == {"files that cannot be read": 1}


def test_nothing_to_read_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file") as caught:
        read(tmp_path / "events.out.tfevents.gone")
    assert "\n" not in str(caught.value)


def test_recognised_by_content(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert is_event_file(path.read_bytes()[:4096])
    assert not is_event_file(b"step,accuracy\n1,0.5\n")
    assert not is_event_file(b"")
    assert not is_event_file(path.read_bytes()[200:4096])


def test_a_damaged_first_record_does_not_hide_the_format(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    assert is_event_file(path.read_bytes()[:4096])
    records, tally = read(path)
    assert len(records) == STEPS
    assert set(tally.skipped) == {"damaged bytes"}


def test_each_folder_is_a_run(tmp_path: Path) -> None:
    write(tmp_path / "seed0")
    write(tmp_path / "seed1", steps=range(3))
    (tmp_path / "seed1" / "notes.txt").write_text("tfevents")
    logs = find_event_logs(tmp_path, "runs/tb")
    assert [(log.label, log.name) for log in logs] == [("runs/tb/seed0", "seed0"), ("runs/tb/seed1", "seed1")]
    assert [len(list(log.records(Tally()))) for log in logs] == [STEPS, 3]
    (alone,) = find_event_logs(tmp_path / "seed1", "runs/tb/seed1")
    assert (alone.label, alone.name) == ("runs/tb/seed1", None)


def test_progress_ends_at_the_size(tmp_path: Path) -> None:
    path = write(tmp_path)
    seen: list[tuple[int, int]] = []
    list(TensorBoardLog([path], "log").records(Tally(lambda done, total: seen.append((done, total)))))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_without_tensorboard_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    with pytest.raises(MissingDependencyError, match=r"scalerl\[tensorboard\]"):
        read(path)


def test_checksums_agree_with_tensorboard() -> None:
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import crc32c as reference

    random = np.random.default_rng(1)
    pieces = [random.bytes(size) for size in (0, 1, 3, 4, 5, 60, 1023, 1024, 1025, 3000)]
    assert crc32c(pieces).tolist() == [reference(piece) for piece in pieces]
    assert crc32c_of_windows(pieces[5], 8).tolist() == [reference(pieces[5][at : at + 8]) for at in range(53)]
