"""Where trainer ranks meet: on the loopback interface, and nothing that is written there is run."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not declared so

from scalerl.errors import InputError, MissingDependencyError, ScaleRLError, StorageError, TrainingError
from scalerl.pipeline.launch.meeting import Arrival, LastWords, Meeting, RankLostError
from scalerl.pipeline.wire import Exchange, Receiving

from .evil import evil_pickle
from .listening import addresses_of_this_process


def test_it_listens_on_the_loopback_interface_alone() -> None:
    before = addresses_of_this_process()
    meeting = Meeting(2)
    opened = addresses_of_this_process() - before
    assert {host for host, _ in opened} == {"127.0.0.1"}
    assert {f"tcp://127.0.0.1:{port}" for _, port in opened} == {meeting.address}


def test_so_does_the_exchange_of_weights_and_its_wires() -> None:
    before = addresses_of_this_process()
    exchange = Exchange("127.0.0.1", 1, "gloo")
    exchange.publish({"weight": torch.ones(3)}, version=1)
    wire = exchange.lay()
    wire.answer()
    came = Receiving(wire.end, 1, torch.device("cpu")).receive()
    assert came is not None
    assert dict(came[1])["weight"].tolist() == [1.0] * 3
    opened = addresses_of_this_process() - before
    assert {host for host, _ in opened} == {"127.0.0.1"}
    assert wire.end.port in {port for _, port in opened}


def test_a_pickle_from_another_user_is_not_loaded(tmp_path: Path) -> None:
    """Whoever can connect can write: the store asks for no password."""
    meeting = Meeting(2)
    stranger = TCPStore("127.0.0.1", int(meeting.address.rpartition(":")[2]), is_master=False)
    mark = tmp_path / "run"
    stranger.set("failures/1", b64encode(evil_pickle(mark)).decode())
    error = meeting.last_words()
    assert isinstance(error, RankLostError)
    assert "cannot be read" in str(error)
    assert not mark.exists()


@pytest.mark.parametrize(
    "error",
    [
        InputError("what", 3, "a number", "file"),
        InputError("a path", "runs/a"),
        MissingDependencyError("ray", "ray"),
        StorageError(28, "No space left on device", "runs/a"),
        TrainingError("the loss is not finite"),
    ],
)
def test_errors_arrive_as_they_were(error: ScaleRLError) -> None:
    meeting = Meeting(2)
    arrival = Arrival(1, 2, meeting.address)
    try:
        raise error
    except ScaleRLError as raised:
        arrival.fail(raised)
    found = meeting.last_words()
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert any("on trainer rank 1" in note for note in getattr(found, "__notes__", []))


def test_any_other_error_is_a_lost_rank() -> None:
    meeting = Meeting(2)
    Arrival(1, 2, meeting.address).fail(ZeroDivisionError("no\nway"))
    found = meeting.last_words()
    assert str(found) == (
        "trainer rank 1 failed (ZeroDivisionError: no); the run can be resumed from its last checkpoint"
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1, 2]", '[1, "OSError", ["x"], "", ""]', "[" * 100_000, "\x80"])
def test_words_of_nobody_are_a_lost_rank(text: str) -> None:
    assert isinstance(LastWords.from_json(text).as_error(), RankLostError)
