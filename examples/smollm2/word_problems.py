"""Word problems for SmolLM2: a file to train on by RL, and chat traces for the SFT before it.

    python examples/smollm2/word_problems.py --out smollm2

    smollm2/problems.jsonl   prompt and answer: sums and differences of three numbers in a short story
    smollm2/traces.jsonl     messages: other problems of the same kind, solved step by step between <think> and </think>

A share of the steps in the traces is wrong on purpose, and carried on: the model learns form and skill, and uses them
unreliably. RL then has something to improve. No problem of the traces is in the problems.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

NAMES = ("Ann", "Ben", "Carla", "Dev", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jonas")
THINGS = ("apples", "books", "coins", "eggs", "marbles", "nuts", "pens", "shells", "stamps", "stones")
MORE = ("finds {n} more", "buys {n} more", "is given {n} more")
LESS = ("loses {n}", "gives away {n}", "sells {n}")
LARGEST = 40
Problem = tuple[str, tuple[int, int, int]]


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


def trace(rng: random.Random, numbers: tuple[int, int, int], wrong: float) -> str:
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
    parser.add_argument("--wrong", type=float, default=0.25, help="share of wrong steps in the traces")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    found: dict[str, tuple[int, int, int]] = {}
    while len(found) < options.problems + options.traces:
        found.setdefault(*problem(rng))
    items = list(found.items())
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "problems.jsonl").open("w") as file:
        for story, numbers in items[: options.problems]:
            file.write(json.dumps({"prompt": story, "answer": sum(numbers)}) + "\n")
    with (options.out / "traces.jsonl").open("w") as file:
        for story, numbers in items[options.problems :]:
            told = trace(rng, numbers, options.wrong)
            messages = [{"role": "user", "content": story}, {"role": "assistant", "content": told}]
            file.write(json.dumps({"messages": messages}) + "\n")


if __name__ == "__main__":
    main()
