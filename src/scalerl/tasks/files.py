"""Problems from a JSONL or Parquet file with a prompt and an answer in each row.

The file is read once, when the task is made, so everything that is wrong with it is said before anything starts. A
prompt belongs to one split by its content, and one that occurs twice is one problem. Held-out problems may also come
from a file of their own; the training file then loses every prompt that is in it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, get_args

from scalerl.errors import InputError
from scalerl.tasks.answers import any_number, boxed, final_answer
from scalerl.tasks.options import (
    check_at_least,
    check_between,
    check_choice,
    check_flag,
    check_optional_whole,
    check_text,
)
from scalerl.tasks.pools import Draft, ListedPool, deal
from scalerl.tasks.problem import SPLITS, Problem, Problems, Settings, Split, Verdict
from scalerl.tasks.records import read_records

Comparison = Literal["exact", "numeric"]


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """The problems of a file."""

    kind: ClassVar[str] = "file"

    path: str
    """The file."""
    held_out_path: str | None = None
    """A file of held-out problems, with the same columns; None: a share of `path` is held out."""
    prompt_key: str = "prompt"
    """Column or key of the prompt."""
    answer_key: str = "answer"
    """Column or key of the answer."""
    comparison: Comparison = "exact"
    """exact: the same text, spaces aside. numeric: the last number is the same number. Both prefer a \\boxed{...}."""
    tolerance: float = 1e-6
    """Largest relative difference of two numbers that count as the same."""
    thinking: bool = True
    """The answer is what follows </think>, and a completion without it has none. False: the policy does not think."""
    train_problems: int | None = None
    """Use only the first so many; None: all."""
    held_out_problems: int | None = None
    """Use only the first so many; None: all."""
    held_out_share: float = 0.1
    """Share of the problems that is held out, unless `held_out_path` names them."""

    def __post_init__(self) -> None:
        for option in ("path", "prompt_key", "answer_key"):
            check_text(option, getattr(self, option))
        if self.held_out_path is not None:
            check_text("held_out_path", self.held_out_path)
        check_choice("comparison", self.comparison, get_args(Comparison))
        check_at_least("tolerance", self.tolerance, 0)
        check_flag("thinking", self.thinking)
        check_optional_whole("train_problems", self.train_problems, 1)
        check_optional_whole("held_out_problems", self.held_out_problems, 1)
        check_between("held_out_share", self.held_out_share, 0, 1)
        assert all(self._pools[split].size for split in SPLITS)  # reads the file now

    @property
    def name(self) -> str:
        return self.kind

    @property
    def settings(self) -> Settings:
        return {"kind": self.kind, **asdict(self)}

    def problems(self, split: Split) -> Problems:
        return self._pools[split]

    def verify(self, problem: Problem, completion: str) -> Verdict:
        answer = final_answer(completion, thinking=self.thinking)
        if isinstance(answer, Verdict):
            return answer
        return self._numeric(problem, answer) if self.comparison == "numeric" else _exact(problem, answer)

    def _numeric(self, problem: Problem, answer: str) -> Verdict:
        found, wanted = any_number(answer), any_number(problem.answer)
        if found is None or wanted is None:
            return Verdict("unparsable", "no number in the answer")
        near = abs(found - wanted) <= Fraction(self.tolerance) * max(Fraction(1), abs(wanted))
        return Verdict("correct" if near else "wrong")

    @cached_property
    def _pools(self) -> dict[Split, ListedPool]:
        if self.held_out_path is None:
            dealt = deal(self.name, self._drafts(self.path), self.held_out_share)
        else:
            kept = self._drafts(self.held_out_path)
            known = {draft.canonical for draft in kept}
            train = [draft for draft in self._drafts(self.path) if draft.canonical not in known]
            dealt = {
                "train": [draft.placed(self.name, "train", i) for i, draft in enumerate(train)],
                "held_out": [draft.placed(self.name, "held_out", i) for i, draft in enumerate(kept)],
            }
        wanted = {"train": self.train_problems, "held_out": self.held_out_problems}
        return {split: self._cut(split, dealt[split], wanted[split]) for split in SPLITS}

    def _drafts(self, path: str) -> list[Draft]:
        """Each prompt once; two answers to one prompt are an error."""
        drafts: dict[str, Draft] = {}
        places: dict[str, str] = {}
        for record in read_records(path, self.prompt_key, self.answer_key):
            if self.comparison == "numeric" and any_number(record.answer) is None:
                raise InputError("the answer is not a number", record.answer, "numbers, or exact", record.where)
            draft = Draft(record.prompt, record.answer, _canonical(record.prompt))
            first = drafts.setdefault(record.prompt, draft)
            places.setdefault(record.prompt, record.where)
            if first.answer != draft.answer:
                allowed = f"{first.answer!r}, as in {places[record.prompt]}, or another prompt"
                raise InputError("a second answer to one prompt", draft.answer, allowed, record.where)
        if not drafts:
            raise InputError("no problems in the file", allowed="at least one", where=path)
        return list(drafts.values())

    def _cut(self, split: Split, problems: list[Problem], wanted: int | None) -> ListedPool:
        if not problems or (wanted is not None and wanted > len(problems)):
            what = f"too few {split.replace('_', '-')} problems"
            allowed = f"at most {len(problems)}; another held_out_share, or a held_out_path"
            where = self.held_out_path if split == "held_out" and self.held_out_path else self.path
            raise InputError(what, wanted or 1, allowed, where)
        return ListedPool(problems[:wanted])


def _exact(problem: Problem, answer: str) -> Verdict:
    same = " ".join(boxed(answer).split()) == " ".join(boxed(problem.answer).split())
    return Verdict("correct" if same else "wrong")


def _canonical(prompt: str) -> str:
    """Spacing and case do not make another problem."""
    return " ".join(prompt.split()).casefold()
