"""What a step costs by what is in it, of the embedded engine and of the trainer: the ratios behind `plan --like`.

    python benchmarks/step_costs.py       # two minutes on one core; exit code 1 when a model misses its limit

The policy of the `laptop` scale. It writes in six patterns: rows refilled one by one, as in a pipeline; whole batches
that begin together, as when generator and trainer take turns; one, four and fewer batches at a time. And it is trained
with five sizes of batch. All take turns, so that the machine's moods meet all of them. Fitted to the mean processor
times of a step:

    engine    a step + so much for each row + so much where prompts are read
    trainer   a step + so much for each token

Reading stands for more than itself: rows that begin one after the other share less text with others of their group, and
all rows look back as far as the longest. Printed beside the measured times, limit 10 %. The ratios are `STEP_ROWS`,
`PROMPTS_ROWS` and `UPDATE_TOKENS` of scalerl.plan.likeness. benchmarks/results/step_costs.json keeps it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls

from scalerl.config import load_run
from scalerl.pipeline.assemble import ground
from scalerl.pipeline.trainer import Trainer
from scalerl.pipeline.types import Group
from scalerl.plan.likeness import PROMPTS_ROWS, STEP_ROWS, UPDATE_TOKENS
from scalerl.policy.load import LoadedPolicy, load_policy

RESULTS = Path(__file__).parent / "results" / "step_costs.json"
LIMIT = 0.10
STEPS_IN_TURN, RUN_IN = 15, 60


class Case(Protocol):
    """Something that makes steps."""

    @property
    def features(self) -> tuple[str, ...]:
        """What a step has; the first is the step itself."""

    @property
    def steps(self) -> list[tuple[float, ...]]:
        """Seconds of each, and its features."""

    def go(self) -> None:
        """A few more."""


class Writing:
    """A generator of its own. `groups`: under way all the time if refilled, otherwise at the beginning of a round."""

    features: tuple[str, ...] = ("step", "row", "prompts")

    def __init__(self, policy: LoadedPolicy, groups: int, rollouts: int, *, refilled: bool) -> None:
        run = load_run("scalerl", "laptop", overrides=[f"scale.batch.rollouts={rollouts}"]).config
        base = ground(run, policy.tokenizer)
        self._generator, self._source = base.generator(policy.model, 0), base.source()
        self._groups, self._refilled, self._next = groups, refilled, 0
        self.written: list[Group] = []
        self.steps: list[tuple[float, ...]] = []
        """Seconds, 1, rows that wrote, and whether prompts were read."""
        for _ in range(RUN_IN):
            self._step()
        self.steps.clear()

    def go(self) -> None:
        for _ in range(STEPS_IN_TURN):
            self._step()

    def _step(self) -> None:
        missing = self._groups - self._generator.num_pending
        if self._refilled or missing == self._groups:
            for _ in range(missing):
                request = self._source.next_request(self._next)
                assert request is not None
                self._generator.submit(request)
                self._next += 1
        rows = self._generator._engine._rows.num_rows  # type: ignore[attr-defined]
        started = time.process_time()
        step = self._generator.advance()
        self.steps.append((time.process_time() - started, 1, rows, step.usage.tokens > rows))
        self.written = [*self.written, *step.groups][-self._groups :]


class Training:
    """A trainer of its own, which makes the same step again and again."""

    features: tuple[str, ...] = ("step", "token")

    def __init__(self, policy: LoadedPolicy, groups: list[Group]) -> None:
        run = load_run("scalerl", "laptop").config
        self._groups = groups
        self._trainer = Trainer(deepcopy(policy.model), ground(run, policy.tokenizer).recipe, run, None)
        self.steps: list[tuple[float, ...]] = []
        """Seconds, 1, tokens that were trained on."""
        self.go()
        self.steps.clear()

    def go(self) -> None:
        started = time.process_time()
        result = self._trainer.step(self._groups, 0, 1_000_000)
        self.steps.append((time.process_time() - started, 1, result.tokens))


def fitted(cases: Mapping[str, Case]) -> tuple[NDArray[np.float64], list[dict[str, Any]]]:
    """The cost of each feature in seconds, and a row for each case with its error."""
    means = np.array([np.mean(case.steps, axis=0) for case in cases.values()])
    measured, features = means[:, 0], means[:, 1:]
    costs, _ = nnls(features / measured[:, None], np.ones(len(measured)))
    errors = features @ costs / measured - 1
    names = next(iter(cases.values())).features
    print(f"\n{'':<32} {'step':>8} " + " ".join(f"{name:>8}" for name in names[1:]) + "    model")
    rows = []
    for name, mean, error in zip(cases, means.tolist(), errors.tolist(), strict=True):
        rest = " ".join(f"{value:>8.2f}" if value < 1 else f"{value:>8.0f}" for value in mean[2:])
        print(f"{name:<32} {mean[0] * 1e3:>6.2f}ms {rest} {error:>+8.1%}")
        rows.append({"case": name, "step_s": mean[0], **dict(zip(names[1:], mean[2:], strict=True)), "error": error})
    return costs, rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    policy = load_policy(load_run("scalerl", "laptop").config, None, None)
    writing = {
        "refilled, 9 batches of 16 x 16": Writing(policy, 144, 16, refilled=True),
        "refilled, 9 batches of 8 x 16": Writing(policy, 72, 16, refilled=True),
        "together, 16 x 16": Writing(policy, 16, 16, refilled=False),
        "together, 4 times 16 x 16": Writing(policy, 64, 16, refilled=False),
        "together, 8 x 8": Writing(policy, 8, 8, refilled=False),
        "together, 4 x 8": Writing(policy, 4, 8, refilled=False),
    }
    of_16, of_8 = (writing[name].written for name in ("refilled, 9 batches of 16 x 16", "together, 8 x 8"))
    training = {
        "trained, 12 x 16": Training(policy, of_16[:12]),
        "trained, 16 x 16": Training(policy, of_16[:16]),
        "trained, 8 x 16": Training(policy, of_16[:8]),
        "trained, 8 x 8": Training(policy, of_8[:8]),
        "trained, 4 x 8": Training(policy, of_8[:4]),
    }
    for _ in range(arguments.rounds):
        cases: list[Case] = [*writing.values(), *training.values()]
        for case in cases:
            case.go()
    (step_s, row_s, prompts_s), engine = fitted(writing)
    (update_s, token_s), trainer = fitted(training)
    ratios = {"step_rows": step_s / row_s, "prompts_rows": prompts_s / row_s, "update_tokens": update_s / token_s}
    used = {"step_rows": STEP_ROWS, "prompts_rows": PROMPTS_ROWS, "update_tokens": UPDATE_TOKENS}
    print(f"\na row {row_s * 1e6:.1f} us, a trained token {token_s * 1e6:.1f} us")
    for name, value in ratios.items():
        print(f"{name:<14} {value:>5.0f}   used: {used[name]:>4.0f}")
    worst = max(abs(row["error"]) for row in (*engine, *trainer))
    print(f"largest error {worst:.1%}, limit {LIMIT:.0%}{'' if worst <= LIMIT else '  MISSED'}")
    machine = {"python": platform.python_version(), "machine": platform.machine(), "load": os.getloadavg()[0]}
    document = {
        "machine": machine, "engine": engine, "trainer": trainer, "row_s": row_s, "token_s": token_s, **ratios,
        "used": used, "largest_error": worst, "limit": LIMIT, "met": worst <= LIMIT,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
