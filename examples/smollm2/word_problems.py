"""Word problems for SmolLM2: a file to train on by RL, chat traces for the SFT before it, and others to measure on.

    python examples/smollm2/word_problems.py --out smollm2

    smollm2/problems.jsonl   prompt and answer: sums and differences of three numbers in a short story
    smollm2/traces.jsonl     messages: other problems of the same kind, solved step by step between <think> and </think>
    smollm2/retold.jsonl     prompt and answer, for suite.toml: the same sums and differences in another story
    smollm2/longer.jsonl     prompt and answer, for suite.toml: the same stories with three changes in the place of two
    smollm2/shared.jsonl     the same: two people, one of whom has more or less than the other; how many together?

A share of the steps in the traces is wrong on purpose, and carried on: the model learns form and skill, and uses them
unreliably. RL then has something to improve. No problem of the traces is in the problems.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path

NAMES = ("Ann", "Ben", "Carla", "Dev", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jonas")
THINGS = ("apples", "books", "coins", "eggs", "marbles", "nuts", "pens", "shells", "stamps", "stones")
MORE = ("finds {n} more", "buys {n} more", "is given {n} more")
LESS = ("loses {n}", "gives away {n}", "sells {n}")
LARGEST = 40
Problem = tuple[str, tuple[int, ...]]


def problem(rng: random.Random) -> Problem:
    """A story, and its start with two changes, the second of which may be a loss."""
    start, first, second = (rng.randint(2, LARGEST) for _ in range(3))
    changes = [first, second if rng.random() < 0.5 else -second]
    if start + sum(changes) < 0:
        changes[1] = second
    words = [rng.choice(MORE if change > 0 else LESS).format(n=abs(change)) for change in changes]
    name, thing = rng.choice(NAMES), rng.choice(THINGS)
    story = f"{name} has {start} {thing}. {name} {words[0]} and {words[1]}. How many {thing} does {name} have?"
    return story, (start, changes[0], changes[1])


def retold(rng: random.Random) -> Problem:
    """The numbers of a problem in words that are in no other."""
    _, (start, first, second) = problem(rng)
    place, thing = rng.choice(("shed", "cellar", "garage")), rng.choice(("bricks", "lamps", "ropes", "tins"))
    last = f"{abs(second)} {'are brought' if second > 0 else 'are taken out'}"
    story = f"There are {start} {thing} in the {place}. First {first} are brought, then {last}."
    return f"{story} How many {thing} are in the {place} now?", (start, first, second)


def longer(rng: random.Random) -> Problem:
    """One change more than in training, a gain."""
    story, numbers = problem(rng)
    last = rng.randint(2, LARGEST)
    told, _, question = story.rpartition(". ")
    name = told.partition(" ")[0]
    return f"{told}. Then {name} {rng.choice(MORE).format(n=last)}. {question}", (*numbers, last)


def shared(rng: random.Random) -> Problem:
    """Two steps of another kind: what the second person has, and both together."""
    first, second = rng.sample(NAMES, 2)
    start, apart = rng.randint(2, LARGEST), rng.randint(1, LARGEST)
    change = -apart if apart < start and rng.random() < 0.5 else apart
    thing, word = rng.choice(THINGS), "more" if change > 0 else "fewer"
    story = f"{first} has {start} {thing}. {second} has {abs(change)} {word} than {first}."
    return f"{story} How many {thing} do they have together?", (start, start, change)


def trace(rng: random.Random, numbers: tuple[int, ...], wrong: float) -> str:
    """The steps one by one, each of them wrong with this probability."""
    total, *changes = numbers
    steps = []
    for change in changes:
        after = total + change
        if rng.random() < wrong:
            after = max(0, after + rng.choice((-10, -2, -1, 1, 2, 10)))
        steps.append(f"{total} {'+' if change > 0 else '-'} {abs(change)} = {after}")
        total = after
    return f"<think>{'. '.join(steps)}.</think>{total}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--problems", type=int, default=3000)
    parser.add_argument("--traces", type=int, default=600)
    parser.add_argument("--others", type=int, default=100, help="problems of each file for suite.toml")
    parser.add_argument("--wrong", type=float, default=0.25, help="share of wrong steps in the traces")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    items = distinct(problem, options.problems + options.traces, rng)
    options.out.mkdir(parents=True, exist_ok=True)
    write_problems(options.out / "problems.jsonl", items[: options.problems])
    with (options.out / "traces.jsonl").open("w") as file:
        for story, numbers in items[options.problems :]:
            told = trace(rng, numbers, options.wrong)
            messages = [{"role": "user", "content": story}, {"role": "assistant", "content": told}]
            file.write(json.dumps({"messages": messages}) + "\n")
    for draw in (retold, longer, shared):
        name = draw.__name__
        own = random.Random(f"{name} {options.seed}")  # so that they change nothing about the others
        write_problems(options.out / f"{name}.jsonl", distinct(draw, options.others, own))


def distinct(draw: Callable[[random.Random], Problem], count: int, rng: random.Random) -> list[Problem]:
    """So many different stories."""
    found: dict[str, tuple[int, ...]] = {}
    while len(found) < count:
        found.setdefault(*draw(rng))
    return list(found.items())


def write_problems(path: Path, items: list[Problem]) -> None:
    with path.open("w") as file:
        for story, numbers in items:
            file.write(json.dumps({"prompt": story, "answer": sum(numbers)}) + "\n")


if __name__ == "__main__":
    main()
