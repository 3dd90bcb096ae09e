"""Transaction logs are written by wandb itself in offline mode, read back, then damaged as disks and crashes do it."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalerl.errors import InputError, MissingDependencyError
from scalerl.readers.logs.records import Record, Tally
from scalerl.readers.logs.wandb_offline import WandbLog, find_wandb_files, find_wandb_logs, is_transaction_log

wandb = pytest.importorskip("wandb")


STEPS = 300
"""Enough for several blocks of 32 KiB."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`wandb.init` offline, with everything that wandb writes below a temporary folder."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
            patch.setenv(name, str(home))
        patch.setenv("WANDB_SILENT", "true")
        patch.setenv("WANDB_ERROR_REPORTING", "false")
        settings = wandb.Settings(x_disable_stats=True, x_disable_meta=True, silent=True, console="off")

        def init(folder: Path, **options: Any) -> Any:
            folder.mkdir(parents=True, exist_ok=True)
            return wandb.init(mode="offline", project="p", dir=str(folder), settings=settings, **options)

        yield init
        wandb.teardown()


def finish(run: Any) -> None:
    """End a run and wandb's process, which may write the last block only after `run.finish()` has returned."""
    run.finish()
    wandb.teardown()


@pytest.fixture(scope="module")
def folder(start: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `wandb/` folder with one long run."""
    folder = tmp_path_factory.mktemp("long")
    run = start(folder, name="my run", id="abc")
    for step in range(STEPS):
        run.log({"val/accuracy": step / 1000, "text": f"{step} " * 50})
    run.log({"table": "a very long text " * 10_000, "last": 1.0})
    finish(run)
    return folder / "wandb"


@pytest.fixture
def path(folder: Path, tmp_path: Path) -> Path:
    """A copy of the long run, to be damaged."""
    (found,) = find_wandb_files(folder)
    return Path(shutil.copy(found, tmp_path))


def read(path: Path) -> tuple[list[Record], Tally]:
    tally = Tally()
    return list(WandbLog(path, "log").records(tally)), tally


def test_everything_of_a_long_run(path: Path) -> None:
    records, tally = read(path)
    assert path.stat().st_size > 5 * 32768
    assert [record.step for record in records] == list(range(STEPS + 1))
    assert [record.values.get("val/accuracy") for record in records[:-1]] == [step / 1000 for step in range(STEPS)]
    assert records[-1].values["last"] == 1.0  # in a message of several blocks
    times = [record.time_s for record in records if record.time_s is not None]
    assert times == sorted(times)
    assert len(times) == len(records)
    assert not tally.skipped


def test_kinds_of_values(start: Any, tmp_path: Path) -> None:
    run = start(tmp_path)
    run.log(
        {
            "val/accuracy": 0.5, "count": 10**30, "nan": math.nan, "inf": -math.inf, "dot.ted": 3,
            "nested": {"a": 1, "b": {"c": 1.5}}, "text": "no", "flag": True, "none": None, "list": [1, 2],
            "histogram": wandb.Histogram([1.0, 2.0]),
        },
        step=7,
    )  # fmt: skip
    finish(run)
    (log,) = find_wandb_logs(tmp_path / "wandb", "log")
    (record,) = log.records(Tally())
    values = dict(record.values)
    assert record.step == 7
    assert math.isnan(values.pop("nan"))
    assert values.pop("_runtime") >= 0
    assert values == {
        "val/accuracy": 0.5, "count": 1e30, "inf": -math.inf, "dot.ted": 3, "nested.a": 1, "nested.b.c": 1.5,
    }  # fmt: skip


def test_the_folder_the_run_and_the_link_are_one_log(folder: Path) -> None:
    for place in (folder, folder / "latest-run", next(folder.glob("offline-run-*"))):
        (log,) = find_wandb_logs(place, "wandb/latest-run")
        assert (log.label, log.name) == ("wandb/latest-run", "my run")
        assert len(list(log.records(Tally()))) == STEPS + 1


def test_a_resumed_run_is_one_log_of_two_sessions(start: Any, tmp_path: Path) -> None:
    for steps in (range(3), range(2, 5)):
        run = start(tmp_path, id="same", resume="allow")
        for step in steps:
            run.log({"reward": step}, step=step)
        finish(run)
    # wandb names folders by the second: make the order plain
    for number, place in enumerate(sorted((tmp_path / "wandb").glob("offline-run-*"), key=_first_time_s)):
        place.rename(place.parent / f"offline-run-2026010{number + 1}_000000-same")
    run = start(tmp_path, id="other")
    run.log({"reward": 9})
    finish(run)
    logs = find_wandb_logs(tmp_path / "wandb", "wandb")
    found = {log.label.rsplit("-", 1)[1]: [(r.session, r.step) for r in log.records(Tally())] for log in logs}
    assert found == {"same": [(0, 0), (0, 1), (0, 2), (1, 2), (1, 3), (1, 4)], "other": [(0, 0)]}


def _first_time_s(place: Path) -> float:
    (file,) = find_wandb_files(place)
    time_s = next(iter(WandbLog(file, "log").records(Tally()))).time_s
    assert time_s is not None
    return time_s


def test_a_run_that_is_still_going(start: Any, tmp_path: Path) -> None:
    run = start(tmp_path)
    for step in range(50):
        run.log({"reward": step})
    (log,) = find_wandb_logs(tmp_path / "wandb", "log")
    early = [record.step for record in log.records(Tally())]
    finish(run)
    assert early == list(range(len(early)))
    assert [record.step for record in log.records(Tally())] == list(range(50))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_cut_off(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    records, tally = read(path)
    assert 10 < len(records) <= STEPS
    assert [record.step for record in records] == list(range(len(records)))
    assert set(tally.skipped) <= {"bytes of an unfinished last message"}
    assert WandbLog(path, "log").name == "my run"


@pytest.mark.parametrize("keep", [0, 3, 7, 20])
def test_files_that_hardly_began(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])
    records, tally = read(path)
    assert records == []
    expected = {0: {"empty files": 1}, 20: {"bytes of an unfinished last message": 13}}
    assert tally.skipped == expected.get(keep, {})


def test_one_flipped_byte_loses_one_message(path: Path) -> None:
    data = bytearray(path.read_bytes())
    at = data.index(b"val/accuracy", len(data) // 4)
    data[at] ^= 0xFF
    path.write_bytes(data)
    records, tally = read(path)
    assert len(records) in {STEPS, STEPS + 1}  # what was hit may have been a summary
    assert set(tally.skipped) == {"damaged bytes"}
    assert tally.skipped["damaged bytes"] < 2000


def test_a_lost_block_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[32768:65536] = np.random.default_rng(0).bytes(32768)
    path.write_bytes(data)
    records, tally = read(path)
    steps = [record.step for record in records]
    assert steps[0] == 0
    assert steps[-1] == STEPS
    assert STEPS / 2 < len(steps) < STEPS
    assert 32768 <= tally.skipped["damaged bytes"] < 40_000


def test_missing_bytes_shift_the_blocks_and_reading_goes_on(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:40_000] + data[41_000:])
    records, tally = read(path)
    steps = [record.step for record in records]
    # a message over the border of two blocks is still whole, so only the place of the damage is lost
    assert STEPS - 10 < len(steps) < STEPS + 1
    assert steps[-1] == STEPS
    assert tally.skipped["damaged bytes"] < 4000


def test_garbage_at_the_end_and_a_broken_header(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(b"???????" + data[7:] + b"\xff" * 500)
    records, tally = read(path)
    assert len(records) == STEPS + 1
    assert tally.skipped == {"damaged bytes": 500}


def test_nothing_to_read_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file") as caught:
        read(tmp_path / "run-gone.wandb")
    assert "\n" not in str(caught.value)


def test_recognised_by_content(path: Path) -> None:
    assert is_transaction_log(path.read_bytes()[:100])
    assert not is_transaction_log(b"step,accuracy\n")


def test_progress_ends_at_the_size(path: Path) -> None:
    seen: list[tuple[int, int]] = []
    list(WandbLog(path, "log").records(Tally(lambda done, total: seen.append((done, total)))))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_without_wandb_the_extra_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb.proto.wandb_internal_pb2", None)
    with pytest.raises(MissingDependencyError, match=r"scalerl\[wandb\]"):
        read(path)
