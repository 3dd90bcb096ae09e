"""Any damage to a text log: what can be read is read, and nothing but an InputError is ever raised."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from scalerl.errors import InputError
from scalerl.readers.logs.console import ConsoleLog, is_console_log
from scalerl.readers.logs.csv_log import CsvLog, head_rows, is_csv_log
from scalerl.readers.logs.hugging_face import TrainerStateLog, is_trainer_state
from scalerl.readers.logs.json_log import JsonLog, head_objects, is_json_log
from scalerl.readers.logs.records import Log, Record, Tally
from scalerl.readers.logs.text_lines import head_lines

STEPS = range(60)
VERL = "".join(f"(TaskRunner pid=1) step:{i} - a/b:{i / 10} - timing_s/step:np.float64(3.5) - c:1e-06\n" for i in STEPS)
JSONL = "".join(
    json.dumps({"step": i, "data": {"a": i / 10, "text": "caf\u00e9 {"}}, ensure_ascii=False) + "\n" for i in STEPS
)
CSV = "step,a,b,eval_acc,note\n" + "".join(f'{i},{i / 10},1,{"" if i % 5 else 0.5},"x,y"\n' for i in STEPS)
TRL = Path(__file__).parent / "data"

FORMATS: dict[str, tuple[bytes, Callable[[Path, str], Log]]] = {
    "verl": (VERL.encode(), ConsoleLog),
    "jsonl": (JSONL.encode(), JsonLog),
    "csv": (CSV.encode(), CsvLog),
    "trainer state": ((TRL / "trl_trainer_state.json").read_bytes(), TrainerStateLog),
    "trl console": ((TRL / "trl_console.log").read_bytes(), ConsoleLog),
}


def damage(data: bytes, chance: random.Random) -> bytes:
    """A few stretches cut, doubled, overwritten, or filled with noise."""
    broken = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(broken) + 1)
        length = chance.choice([1, 3, 40, 500])
        noise = bytes(chance.randrange(256) for _ in range(length))
        stretch = broken[start : start + length]
        broken[start : start + length] = chance.choice(
            [b"", noise, bytes(length), 2 * stretch, b'{"' + stretch, b"\r\n"]
        )
    return bytes(broken)


def read(make: Callable[[Path, str], Log], path: Path) -> tuple[list[Record], Tally]:
    tally = Tally()
    try:
        return list(make(path, "log").records(tally)), tally
    except InputError:
        return [], tally


@pytest.mark.parametrize("name", FORMATS)
def test_damage_costs_little_and_raises_nothing(tmp_path: Path, name: str) -> None:
    data, make = FORMATS[name]
    path = tmp_path / "log"
    path.write_bytes(data)
    whole, tally = read(make, path)
    assert not tally.skipped
    assert len(whole) >= 10
    chance = random.Random(name)
    for _ in range(150):
        path.write_bytes(damage(data, chance))
        records, tally = read(make, path)
        assert tally.skipped or len(records) >= len(whole) / 2
        assert all(isinstance(value, float) for record in records for value in record.values.values())


RECOGNISERS: dict[str, Callable[[bytes], bool]] = {
    "verl": lambda head: is_console_log(head_lines(head)),
    "jsonl": lambda head: is_json_log(head_objects(head)),
    "csv": lambda head: is_csv_log(*head_rows(head)),
    "trainer state": is_trainer_state,
    "trl console": lambda head: is_console_log(head_lines(head)),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_log_is_mostly_recognised_and_nothing_is_raised(name: str) -> None:
    data, _ = FORMATS[name]
    chance = random.Random(name)
    heads = [damage(data, chance)[: chance.randrange(len(data) // 2, len(data))] for _ in range(100)]
    answers = {other: [recognise(head) for head in heads] for other, recognise in RECOGNISERS.items()}
    assert sum(answers[name]) > 70


@pytest.mark.parametrize(
    ("what", "one"),
    [
        ("broken lines", "1 broken line"),
        ("torn last entries of log_history", "1 torn last entry of log_history"),
        ("cells that are not numbers", "1 cell that is not a number"),
        ("rows with a wrong number of cells", "1 row with a wrong number of cells"),
        ("records that are no events", "1 record that is no event"),
    ],
)
def test_one_loss_is_said_in_the_singular(what: str, one: str) -> None:
    tally = Tally()
    tally.skip(what, "line 1")
    assert tally.notes() == [f"skipped {one} (first: line 1)"]
    tally.skip(what, "line 2")
    assert tally.notes() == [f"skipped 2 {what} (first: line 1)"]
