"""Weights over wires: whole, in order, to each generator by itself, and one that dies takes nobody with it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch
from torch import Tensor

from scalerl.pipeline.wire import End, Exchange, Receiving

CPU = torch.device("cpu")


def weights(value: float) -> dict[str, Tensor]:
    """Of several dtypes and shapes, one that is no block in memory, and more than a socket takes at once."""
    return {
        "matrix": torch.full((700, 500), value),
        "turned": torch.arange(12.0).reshape(3, 4).t() + value,
        "half": torch.full((5,), value, dtype=torch.bfloat16),
        "number": torch.tensor(value),
        "nothing": torch.empty(0, 3),
    }


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def live(end: End, pipe: Connection) -> None:
    """A generator in a process of its own: it asks when it is told to, and dies when it is told to."""
    wire = Receiving(End.of(end.plain()), 1, CPU)
    while pipe.recv() == "ask":
        came = wire.receive()
        pipe.send(None if came is None else (came[0], {name: tensor.clone() for name, tensor in came[1]}))
    os._exit(9)


def test_each_gets_the_newest_and_the_death_of_one_is_its_own() -> None:
    exchange = Exchange("127.0.0.1", 1, "gloo")
    exchange.publish(weights(1.0), version=1)
    context = get_context("spawn")
    generators = []
    for _ in range(2):
        wire, (here, there) = exchange.lay(), context.Pipe()
        process = context.Process(target=live, args=(wire.end, there), daemon=True)
        process.start()
        generators.append((wire, here, process))
    for wire, pipe, _ in generators:
        wire.answer()
        pipe.send("ask")
    for _, pipe, _ in generators:
        version, found = pipe.recv()
        assert version == 1
        assert_equal(found, weights(1.0))

    (dead, dying, process), (wire, pipe, other) = generators
    dying.send("die")
    process.join()
    mine = weights(3.0)
    exchange.publish(weights(2.0), version=2)
    exchange.publish(mine, version=3)
    mine["matrix"].zero_()  # the next step
    dead.answer()
    dead.cut()
    for expected in (3, None):
        wire.answer()
        pipe.send("ask")
        came = pipe.recv()
        if expected is None:
            assert came is None  # nothing is newer than what it has
        else:
            assert came[0] == expected
            assert_equal(came[1], weights(3.0))
    pipe.send("die")
    other.join()
    wire.cut()


def test_every_process_of_a_generator_gets_everything() -> None:
    """As the workers of vLLM with tensor parallelism do."""
    exchange = Exchange("127.0.0.1", 2, "gloo")
    exchange.publish(weights(5.0), version=7)
    wire = exchange.lay()
    wire.answer()

    def receive(rank: int) -> tuple[int, dict[str, Tensor]]:
        came = Receiving(wire.end, rank, CPU).receive()
        assert came is not None
        return came[0], dict(came[1])

    with ThreadPoolExecutor(2) as workers:
        for version, found in workers.map(receive, (1, 2)):
            assert version == 7
            assert_equal(found, weights(5.0))
    wire.cut()


def test_an_end_survives_being_written_down() -> None:
    exchange = Exchange("127.0.0.1", 2, "gloo")
    exchange.publish(weights(1.0), version=1)
    end = exchange.lay().end
    assert End.of(end.plain()) == end
    assert end.size == 3
    assert exchange.lay().end.name != end.name


def test_what_is_being_sent_is_not_written_over() -> None:
    """Memory is used again, but not under the hands of a slow generator."""
    exchange = Exchange("127.0.0.1", 1, "gloo")
    exchange.publish(weights(1.0), version=1)
    with exchange.newest() as (version, slow):
        for later in (2, 3, 4):
            exchange.publish(weights(float(later)), version=later)
        assert version == 1
        assert_equal(dict(zip(weights(0.0), slow, strict=True)), weights(1.0))
    with exchange.newest() as (version, newest):
        assert version == 4
        assert_equal(dict(zip(weights(0.0), newest, strict=True)), weights(4.0))


def test_memory_is_used_again() -> None:
    exchange = Exchange("127.0.0.1", 1, "gloo")
    places = set()
    for version in range(1, 7):
        exchange.publish(weights(float(version)), version)
        with exchange.newest() as (_, tensors):
            places.add(tensors[0].data_ptr())
    assert len(places) == 2  # the newest, and the one before
    exchange.publish({"matrix": torch.ones(4)}, 7)  # another policy
    with exchange.newest() as (_, tensors):
        assert [tensor.tolist() for tensor in tensors] == [[1.0] * 4]


def test_tensors_that_are_borrowed_come_in_the_same_memory() -> None:
    exchange = Exchange("127.0.0.1", 1, "gloo")
    exchange.publish(weights(1.0), version=1)
    wire = exchange.lay()
    receiving: Receiving | None = None
    places = set()
    for version in (1, 2, 3):
        wire.answer()
        receiving = receiving or Receiving(wire.end, 1, CPU)
        came = receiving.receive(borrowed=True)
        assert came is not None
        found = dict(came[1])
        assert_equal(found, weights(float(version)))
        places.add(found["matrix"].data_ptr())
        exchange.publish(weights(float(version + 1)), version=version + 1)
    assert len(places) == 1
    wire.cut()
