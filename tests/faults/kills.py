"""Runs that are killed with SIGKILL at random moments and go on, until they end: one run, and what came of it.

A plan follows from its number alone: the launcher, how often and who is killed, and when. The moments: some time after
a step was logged; some milliseconds after a file appeared; or at the n-th operation that writes, which is the same on
every machine. A run that ends before it was ever struck begins again with the next strike. After the last kill it goes
on undisturbed, and the books are checked. Used by the tests and by `python -m tests.faults`.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from . import books
from .nursery import Call, Nursery, wait_for
from .small import Small

Victim = Literal["trainer", "generator", "both", "group"]

_SEEN = (
    "lock", "config.json", "provenance.json.*.partial", "evals/step-*.json", "evals.jsonl", "metrics.jsonl",
    "checkpoints/step-*.partial", "checkpoints/step-*.partial/model.safetensors", "checkpoints/step-000002",
    "checkpoints/step-000004", "checkpoints/step-*.next", "stopped.json*",
)  # fmt: skip
"""Files whose appearance is a moment to strike at."""


@dataclass(frozen=True)
class Strike:
    """One kill."""

    victim: Victim
    after_s: float = 0.0
    """Since the start, the step, or the appearance of the file."""
    step: int = 0
    """The line of metrics.jsonl that is waited for; 0: none."""
    seen: str | None = None
    write: int = 0
    """The operation that the trainer does not survive; 0: none."""


@dataclass(frozen=True)
class Plan:
    """What happens to a run."""

    number: int
    launcher: str
    fresh: bool
    """In processes that are started from nothing, as a user would."""
    wanted: int
    """Kills after which it is left alone."""
    strikes: tuple[Strike, ...]
    """One after the other; not all hit."""


@dataclass(frozen=True)
class Ground:
    """What is known of an undisturbed run."""

    folder: Path
    span_s: float
    writes: int


@dataclass
class Outcome:
    """One line of the log."""

    plan: Plan
    kills: list[str] = field(default_factory=list)
    """Those that hit: who, when, and what the newest checkpoint and the log were then."""
    missed: int = 0
    """Strikes that came after the end of the session."""
    sessions: int = 0
    steps_again: int = 0
    """Steps that were logged, not yet saved, and made again."""
    partials: int = 0
    """Files that a dead process left behind and nobody has removed."""
    wrong: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {"campaign": "kills", "number": self.plan.number, **asdict(self)}


def plan_of(number: int, grounds: dict[str, Ground], fresh: bool = False) -> Plan:
    """Seeded by the number."""
    rng = random.Random(f"kills {number}")
    launcher = "inline" if number % 5 in {1, 3} else "local"
    ground = grounds[launcher]
    wanted = rng.choice((1, 1, 2, 2, 3))
    return Plan(number, launcher, fresh, wanted, tuple(_strike(rng, launcher, ground, fresh) for _ in range(8)))


def undisturbed(nursery: Nursery, folder: Path, run: Small) -> Ground:
    """A run that nobody touches: how long it takes, how often it writes, and what it computes."""
    log = nursery.folder / f"writes-{run.launcher}.json"
    counting = ("writes", {"root": str(folder / "counted"), "log": str(log)})
    counted = nursery.run(run.begin("counted"), folder, tampering=[counting])
    assert counted.code == 0, counted.err
    started = time.monotonic()  # the policy at step 0 lies in the cache by now
    ran = nursery.run(run.begin("run"), folder)
    assert ran.code == 0, ran.err
    return Ground(folder / "run", time.monotonic() - started, len(books.read_json(log)))


def torture(nursery: Nursery, folder: Path, plan: Plan, ground: Ground) -> Outcome:
    """The whole story of one run."""
    run, outcome, started = Small(plan.launcher), Outcome(plan), time.monotonic()
    calls: list[Call] = []
    safe: list[books.Kept] = []
    for strike in plan.strikes:
        if len(safe) == plan.wanted:
            break
        calls.append(_session(nursery, folder, run, plan, strike))
        if _hit(calls[-1], folder / "run", strike, outcome):
            safe.append(books.kept(folder / "run"))
            outcome.wrong += books.verified(folder / "run")
            outcome.steps_again += safe[-1].steps_since
        else:
            outcome.missed += 1
            if safe:
                break
            shutil.rmtree(folder / "run")
    if not (folder / "run" / "stopped.json").exists():
        calls.append(nursery.start(_arguments(run, folder), folder, fresh=plan.fresh))
        if (code := calls[-1].wait()) != 0:
            outcome.wrong.append(f"the last session ended with code {code}: {calls[-1].err[-300:]}")
    outcome.sessions = len(calls)
    outcome.wrong += _judged(folder / "run", run, ground, safe) + _left(calls)
    outcome.partials = len(list((folder / "run").rglob("*.partial")))
    outcome.wall_s = round(time.monotonic() - started, 3)
    return outcome


def _strike(rng: random.Random, launcher: str, ground: Ground, fresh: bool) -> Strike:
    alone: tuple[Victim, ...] = ("trainer", "group")
    victim = rng.choice(alone if launcher == "inline" else ("trainer", "generator", "generator", "both", "group"))
    kind = rng.choice(("time", "seen", "write"))
    if kind == "seen":
        return Strike(victim, rng.choice((0.0, rng.uniform(0, 0.03))), seen=rng.choice(_SEEN))
    if kind == "write" and not fresh:
        return Strike(rng.choice(alone), write=rng.randint(1, ground.writes))
    step = rng.randrange(Small().steps)
    wait_s = ground.span_s / Small().steps + (5.0 if fresh and step == 0 else 0.0)  # imports take seconds
    return Strike(victim, rng.uniform(0, wait_s), step)


def _session(nursery: Nursery, folder: Path, run: Small, plan: Plan, strike: Strike) -> Call:
    tampering: Sequence[tuple[str, dict[str, Any]]] = ()
    if strike.write:
        deed = "kill_group" if strike.victim == "group" else "kill"
        tampering = [("writes", {"root": str(folder / "run"), "at": strike.write, "deed": deed})]
    return nursery.start(_arguments(run, folder), folder, tampering=tampering, fresh=plan.fresh)


def _arguments(run: Small, folder: Path) -> list[str]:
    """A run that had not even a config begins again."""
    return run.go_on("run") if (folder / "run" / "config.json").is_file() else run.begin("run")


def _hit(call: Call, folder: Path, strike: Strike, outcome: Outcome) -> bool:
    """Strike, and wait for the end of the session. False: it was over before."""
    began = time.monotonic()
    if strike.write:
        code = call.wait()
    else:
        _wait_for_the_moment(call, folder, strike)
        sent = call.send(signal.SIGKILL, strike.victim)
        code = call.wait()
        if not sent and code != 0:
            outcome.wrong.append(f"it ended with code {code} before it was killed: {call.err[-300:]}")
    after_s = time.monotonic() - began
    if code == 0:
        return False
    if strike.victim == "generator" and code != -signal.SIGKILL:
        outcome.wrong += _wrong_words(call, code)
    elif code != -signal.SIGKILL:
        outcome.wrong.append(f"killed {strike.victim}, and it ended with code {code}: {call.err[-300:]}")
    left = books.kept(folder)
    when = strike.seen or (f"write {strike.write}" if strike.write else f"step {strike.step}")
    state = f"saved {left.step}, logged {left.steps_since} more"
    outcome.kills.append(f"{strike.victim} at {when}, after {after_s:.2f} s, {state}")
    return True


def _wrong_words(call: Call, code: int) -> list[str]:
    """A trainer that lost its generator says so in one line."""
    lines = call.err.splitlines()
    words = "the generator process was killed by SIGKILL"
    good = code == 2 and lines and lines[-1].startswith("scalerl: error: ") and words in lines[-1]
    return [] if good and "Traceback" not in call.err else [f"code {code}, and it said {call.err[-500:]!r}"]


def _wait_for_the_moment(call: Call, folder: Path, strike: Strike) -> None:
    if strike.victim == "generator":  # it is not there from the beginning
        wait_for(lambda: not call.running() or "generator" in call.group().values(), pause_s=0.001)
    if strike.step:
        wait_for(lambda: not call.running() or books.num_lines(folder / "metrics.jsonl") >= strike.step, pause_s=0.001)
    if strike.seen is not None:
        known = set(folder.glob(strike.seen))
        new: Callable[[], bool] = lambda: bool(set(folder.glob(strike.seen or "")) - known)  # noqa: E731
        wait_for(lambda: not call.running() or new(), pause_s=0.0002)
    wait_for(lambda: not call.running(), strike.after_s, pause_s=0.001)


def _judged(folder: Path, run: Small, ground: Ground, safe: list[books.Kept]) -> list[str]:
    try:
        wrong = books.complaints(folder, run) + books.verified(folder)
        wrong += [text for one in safe for text in books.lost(folder, one)]
        wrong += [f"{one.steps_since} steps were not yet saved" for one in safe if one.steps_since > run.save_every]
        if run.launcher == "inline":
            wrong += books.difference(folder, ground.folder)
    except (OSError, ValueError, KeyError, IndexError) as error:
        return [f"the run cannot be read: {error!r}"]
    return wrong


def _left(calls: list[Call]) -> list[str]:
    found = [text for call in calls for text in call.leftovers()]
    for call in calls:
        call.clear()
    return [f"left behind: {text}" for text in found]
