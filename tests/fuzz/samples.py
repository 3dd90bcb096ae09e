"""Valid inputs of every kind, small, for the fuzz targets to start from: made here, or taken from the test data.

Binary logs are written with the libraries that own the formats.
"""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from scalerl.readers.logs.crc32c import crc32c, masked

TESTS = Path(__file__).parents[1]
PRESETS = TESTS.parent / "src" / "scalerl" / "presets"
STEPS = range(8)


def rate(step: int) -> float:
    return round(0.2 + 0.5 * step / (step + 4), 4)


def files(folder: Path, pattern: str, most: int = 1 << 14) -> list[bytes]:
    """Whole lines of small files."""
    return [_lines(path.read_bytes(), most) for path in sorted(folder.glob(pattern))]


def _lines(data: bytes, most: int) -> bytes:
    return data if len(data) <= most else data[: data.rfind(b"\n", 0, most) + 1]


@cache
def tables() -> Sequence[bytes]:
    """CSV and its relatives, the exports of W&B, sparse logs."""
    points = [(100 * step, rate(step)) for step in STEPS]
    csv = "".join(f"{x},{y}\n" for x, y in points)
    wide = "".join(f"{x}\t{y}\t64\t{'ab'[i % 2]}\n" for i, (x, y) in enumerate(points))
    sparse = "".join(f"{s},{0.1 * s},{'' if s % 2 else rate(s)},{s}e9\n" for s in STEPS)
    chart = "".join(f'"{s}","{rate(s)}","{rate(s)}","{rate(s)}"\n' for s in STEPS)
    return [
        f"gpu_hours,pass_rate\n{csv}".encode(),
        csv.replace(",", ";").encode(),
        f"flops\taccuracy\tn\tseed\n{wide}".encode(),
        f"step,loss,val/accuracy,flops\n{sparse}".encode(),
        f'"Step","run a - acc","run a - acc__MIN","run a - acc__MAX"\n{chart}'.encode(),
        b'compute,value\n1,"0.5"\n2,"0.6\n"\n',
        b"\xef\xbb\xbfx|y\n1|0.1\n2|0.2\n3|0.3\n",
    ]


@cache
def lines() -> Sequence[bytes]:
    """JSONL: a table, verl's file log, a home-made log, a history of W&B, records of several seeds."""

    def text(records: Sequence[Any]) -> bytes:
        return "".join(json.dumps(record) + "\n" for record in records).encode()

    stamp = 1_750_000_000.5
    return [
        text([{"tokens": 1000 * s, "pass_rate": rate(s), "n": 128, "run": "ab"[s % 2]} for s in STEPS]),
        text([{"step": s, "data": {"val-core/gsm8k/acc/mean@1": rate(s), "timing_s/step": 4.5}} for s in STEPS]),
        text([{"step": s, "time": "2026-01-31T12:00:00Z", "loss": 0.1} | ({"eval_acc": rate(s)} if s % 2 else {})
              for s in STEPS]),
        text([{"_step": s, "_timestamp": stamp + s, "_runtime": s, "val/acc": rate(s)} for s in STEPS]),
        text([{"global_step": s, "metrics": {"eval": {"pass@1": rate(s)}, "tokens": 9}} for s in (0, 1, 2, 1, 2, 3)]),
    ]  # fmt: skip


@cache
def trainer_states() -> Sequence[bytes]:
    history = [
        {"step": s, "epoch": s / 8, "reward": rate(s), "eval_reward": rate(s), "num_tokens": 10 * s} for s in STEPS
    ]
    state = {"epoch": 1.0, "global_step": 8, "log_history": history, "max_steps": 8}
    return [json.dumps(state).encode(), *files(TESTS / "readers/logs/data", "*state.json")]


@cache
def consoles() -> Sequence[bytes]:
    """verl, TRL, OpenRLHF, slime, prime-rl and plain pairs."""
    ray = "\x1b[36m(TaskRunner pid=4321)\x1b[0m "
    verl = [f"{ray}step:{s} - actor/lr:1e-06 - timing_s/step:41.5 - val-core/x/acc/mean@1:np.float64({rate(s)})"
            for s in STEPS]  # fmt: skip
    before = [f"2026-03-01 10:0{s}:00 INFO Global step {s}: {{'policy_loss': 0.1, 'reward': tensor({rate(s)})}}"
              for s in STEPS]  # fmt: skip
    pairs = [f"Step {s} | Reward: {rate(s)} | Time: 3.2s | Val Acc: {rate(s)}" for s in STEPS]
    plain = [f"iteration: {s}, eval_acc: {rate(s)}, loss={1 / (s + 1):.3f}" for s in STEPS]
    bars = [f"\r{' ' * 40}\r{{'loss': '0.1', 'eval_reward': {rate(s)}, 'epoch': 0.{s}}}\r {s}%|##  | {s}/8 [00:00<?]"
            for s in STEPS]  # fmt: skip
    texts = ["\n".join(some) + "\n" for some in (verl, before, pairs, plain, bars)]
    return [*(text.encode() for text in texts), *files(TESTS / "readers/logs/data", "*.log", 1 << 12)]


@cache
def parquets() -> Sequence[bytes]:
    import pyarrow as pa
    from pyarrow import parquet

    def written(columns: dict[str, list[Any]]) -> bytes:
        data = io.BytesIO()
        parquet.write_table(pa.table(columns), data, compression="none")
        return data.getvalue()

    steps, rates = list(STEPS), [rate(step) for step in STEPS]
    return [
        written({"flops": [1e9 * s for s in steps], "pass_rate": rates, "seed": ["a"] * len(steps)}),
        written(
            {"step": steps, "loss": rates, "val/acc": [r if i % 2 else None for i, r in enumerate(rates)], "t": rates}
        ),
        written({"_step": steps, "_timestamp": rates, "_runtime": rates, "val/acc": rates}),
    ]


@cache
def arrows() -> Sequence[bytes]:
    import pyarrow as pa
    from pyarrow import ipc, parquet

    table = pa.table({"prompt": ["1 + 1?", "2 + 2?"], "answer": ["2", "4"], "extra": [[1], None]})
    found = []
    for open_one in (ipc.new_file, ipc.new_stream):
        data = io.BytesIO()
        with open_one(data, table.schema) as writer:
            writer.write_table(table)
        found.append(data.getvalue())
    data = io.BytesIO()
    parquet.write_table(table, data, compression="none")
    return [*found, data.getvalue()]


@cache
def databases() -> Sequence[bytes]:
    """MLflow's tables as far as they are read, in small pages."""
    database = sqlite3.connect(":memory:")
    database.executescript(
        """
        PRAGMA page_size = 512;
        CREATE TABLE experiments (experiment_id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name TEXT, experiment_id INTEGER, lifecycle_stage TEXT,
                           start_time INTEGER);
        CREATE TABLE metrics (run_uuid TEXT, timestamp INTEGER, step INTEGER, key TEXT, value REAL, is_nan INTEGER);
        INSERT INTO experiments VALUES (1, 'e');
        """
    )
    database.executemany("INSERT INTO runs VALUES (?, ?, 1, 'active', 1)", [("u1", "a"), ("u2", "b")])
    points = [(run, 1000 * s, s, "val/acc", rate(s), 0) for run, s in product(("u1", "u2"), STEPS)]
    database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", points)
    database.commit()
    return [database.serialize()]


def event_frame(payload: bytes) -> bytes:
    """A TFRecord frame with the right checksums."""
    length = struct.pack("<Q", len(payload))
    return length + _checksum(length) + payload + _checksum(payload)


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", int(masked(crc32c([data]))[0]))


def wandb_file(messages: Sequence[bytes]) -> bytes:
    """A transaction log of whole messages, each in a frame of its own."""
    data = b":W&B" + b"\0\0\0"
    for message in messages:
        room = (1 << 15) - len(data) % (1 << 15)
        if room < 7 + len(message):
            data += b"\0" * room
        checksum = zlib.crc32(message, zlib.crc32(b"\1"))
        data += struct.pack("<IHB", checksum, len(message), 1) + message
    return data


def joined(messages: Sequence[bytes]) -> bytes:
    """Messages with their lengths, for a target that frames them itself."""
    return b"".join(struct.pack("<H", len(message)) + message for message in messages)


def divided(data: bytes, longest: int = 4000, most: int = 200) -> list[bytes]:
    """What `joined` made, or whatever else."""
    found: list[bytes] = []
    while len(data) > 2 and len(found) < most:
        length = min(int.from_bytes(data[:2], "little"), longest)
        found.append(data[2 : 2 + length])
        data = data[2 + length :]
    return found


@cache
def events() -> Sequence[bytes]:
    """Events of TensorBoard, in both styles of scalars."""
    proto: Any = import_module("tensorboard.compat.proto.event_pb2")
    tensors: Any = import_module("tensorboard.util.tensor_util")
    metadata: Any = import_module("tensorboard.plugins.scalar.metadata")
    made = [proto.Event(wall_time=1.0, file_version="brain.Event:2")]
    for step in STEPS:
        event = proto.Event(wall_time=60.0 * step, step=step)
        event.summary.value.add(tag="val/accuracy", simple_value=rate(step))
        value = event.summary.value.add(tag="loss", metadata=metadata.create_summary_metadata("loss", ""))
        value.tensor.CopyFrom(tensors.make_tensor_proto(0.5))
        made.append(event)
    return [event.SerializeToString() for event in made]


@cache
def histories() -> Sequence[bytes]:
    """Messages of a W&B run."""
    proto: Any = import_module("wandb.proto.wandb_internal_pb2")
    run = proto.Record()
    run.run.run_id, run.run.display_name = "abc", "my run"
    made = [run]
    for step in STEPS:
        record = proto.Record()
        record.history.step.num = step
        for name, value in (("val/acc", str(rate(step))), ("_timestamp", f"{60.0 * step}"), ("h", '{"_type": "x"}')):
            record.history.item.add(key=name, value_json=value)
        record.history.item.add(nested_key=["a", "b"], value_json="1")
        made.append(record)
    return [record.SerializeToString() for record in made]
