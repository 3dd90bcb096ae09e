"""A log in memory, for tests of what every format shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scalerl.readers.logs.records import Record, Tally


@dataclass
class MemoryLog:
    """A `Log` of given records; `lost` is what it pretends could not be read."""

    all_records: Sequence[Record]
    lost: dict[str, int] = field(default_factory=dict)
    kind: str = "a log in memory"
    label: str = "memory"
    name: str | None = None

    def records(self, tally: Tally) -> Iterator[Record]:
        for what, count in self.lost.items():
            tally.skip(what, "line 1", count)
        tally.read(0, 10)
        yield from self.all_records
        tally.read(10, 10)


def steps(first: int, last: int, *, session: int = 0, value: float | None = None) -> list[Record]:
    """A run: `loss`, `step_time` 2 s and a clock at every step, `val/acc` (value, or step/1000) at every tenth."""
    found = []
    for step in range(first, last + 1):
        values = {"loss": 1 / (step + 1), "step_time": 2.0}
        if step % 10 == 0:
            values["val/acc"] = step / 1000 if value is None else value
        found.append(Record(values, step, 1000.0 * session + 3.0 * step, session))
    return found
