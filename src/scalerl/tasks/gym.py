"""Any dataset of reasoning-gym, verified by the dataset's own scorer.

reasoning-gym itself runs in another process (`gym_worker` says why) and is never imported here. Problems are drawn from
datasets of `CHUNK` items, one seed after the other, and dealt into splits by the content of the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from scalerl.errors import InputError
from scalerl.tasks.answers import final_answer
from scalerl.tasks.gym_process import GymProcess
from scalerl.tasks.options import check_at_least, check_between, check_flag, check_table, check_text, check_whole
from scalerl.tasks.pools import Draft, ListedPool, split_of
from scalerl.tasks.problem import SPLITS, Problem, Problems, Settings, Split
from scalerl.tasks.seeds import seeded
from scalerl.verify import Verdict

CHUNK = 500
"""Some datasets prepare all their items at once, so there is no asking for a million."""

_AT_ONCE = 50
"""Items asked for in one go: a few of them may take seconds each."""
_MOST_REJECTED = 5000
"""Draws in a row without anything new, after which the dataset is taken to have nothing new."""


@dataclass(frozen=True, kw_only=True)
class GymTask:
    """The problems of one dataset."""

    kind: ClassVar[str] = "reasoning_gym"

    dataset: str
    """Its name in reasoning-gym."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Its own options, such as its dials for difficulty; reasoning-gym checks them."""
    threshold: float = 1.0
    """An answer with at least this score is correct."""
    timeout_s: float = 5.0
    """Longest time to score one answer."""
    thinking: bool = True
    """The answer is what follows </think>, and a completion without it has none. False: the policy does not think."""
    train_problems: int = 2000
    """Distinct problems to train on."""
    held_out_problems: int = 200
    """Distinct problems kept for evaluation."""
    held_out_share: float = 0.1
    """Share of all problems that is never trained on."""
    seed: int = 0
    """Which problems are drawn; whether one is held out does not depend on it."""

    def __post_init__(self) -> None:
        check_text("dataset", self.dataset)
        check_table("options", self.options, without=("seed", "size"))
        check_between("threshold", self.threshold, 0, 1.0 + 1e-9)
        check_at_least("timeout_s", self.timeout_s, 0.001)
        check_flag("thinking", self.thinking)
        check_whole("train_problems", self.train_problems, 1)
        check_whole("held_out_problems", self.held_out_problems, 1)
        check_between("held_out_share", self.held_out_share, 0, 1)
        check_whole("seed", self.seed, 0)
        self._process.start()

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.dataset}"

    @property
    def settings(self) -> Settings:
        return {"kind": self.kind, **asdict(self)}

    def problems(self, split: Split) -> Problems:
        return self._pools[split]

    def verify(self, problem: Problem, completion: str) -> Verdict:
        answer = final_answer(completion, thinking=self.thinking)
        if isinstance(answer, Verdict):
            return answer
        place = problem.metadata
        outcome = self._process.score(place["seed"], CHUNK, place["item"], answer, self.timeout_s)
        if outcome.score is None:
            return Verdict("timeout" if outcome.timed_out else "error", outcome.failure)
        return Verdict("correct" if outcome.score >= self.threshold else "wrong", f"score {outcome.score:g}")

    def close(self) -> None:
        """End the process of reasoning-gym; it also ends with the task, and starts again when it is needed."""
        self._process.close()

    @cached_property
    def _process(self) -> GymProcess:
        return GymProcess(self.dataset, self.options)

    @cached_property
    def _pools(self) -> dict[Split, ListedPool]:
        """Each prompt once, until both pools are full."""
        wanted: dict[Split, int] = {"train": self.train_problems, "held_out": self.held_out_problems}
        pools: dict[Split, list[Problem]] = {split: [] for split in SPLITS}
        seen: set[str] = set()
        rejected = 0
        for draft in self._drafts():
            split = split_of(draft.canonical, self.held_out_share)
            if draft.prompt in seen or len(pools[split]) == wanted[split]:
                rejected += 1
            else:
                pools[split].append(draft.placed(self.name, split, len(pools[split])))
                rejected = 0
            seen.add(draft.prompt)
            if all(len(pools[s]) == wanted[s] for s in SPLITS):
                break
            if rejected > _MOST_REJECTED:
                raise self._too_few({s: len(pools[s]) for s in SPLITS}, wanted)
        return {split: ListedPool(pools[split]) for split in SPLITS}

    def _drafts(self) -> Iterator[Draft]:
        """Items of one chunk after the other, without end."""
        chunk = 0
        while True:
            seed = seeded(self.name, self.seed, chunk).getrandbits(31)
            for first in range(0, CHUNK, _AT_ONCE):
                items = self._process.items(seed, CHUNK, first, first + _AT_ONCE)
                for item, (prompt, answer) in enumerate(items, first):
                    canonical = " ".join(prompt.split()).casefold()
                    yield Draft(prompt, answer, canonical, {"seed": seed, "item": item})
            chunk += 1

    def _too_few(self, found: Mapping[Split, int], wanted: Mapping[Split, int]) -> InputError:
        split: Split = "train" if found["train"] < wanted["train"] else "held_out"
        what = f"the task {self.name!r} has too few distinct {split.replace('_', '-')} problems"
        return InputError(what, wanted[split], f"at most the {found[split]} found")
