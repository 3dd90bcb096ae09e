"""Problems from a JSONL or Parquet file with a prompt and an answer in each row, judged by one of `scalerl.verify`.

The file is read once, when the task is made, so everything that is wrong with it is said before anything starts. A
prompt belongs to one split by its content, and one that occurs twice is one problem. Held-out problems may also come
from a file of their own; the training file then loses every prompt that is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

from scalerl.errors import InputError
from scalerl.tasks.answers import final_answer
from scalerl.tasks.options import (
    check_at_least,
    check_between,
    check_choice,
    check_flag,
    check_optional_whole,
    check_text,
    check_whole,
)
from scalerl.tasks.pools import Draft, ListedPool, deal
from scalerl.tasks.problem import SPLITS, Problem, Problems, Settings, Split
from scalerl.tasks.records import read_records
from scalerl.verify import KINDS, OPTIONS, Kind, Verdict, Verifier, build_verifier


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
    """Column or key of the answer; for `code`, of the unit tests."""
    verifier: Kind = "exact"
    """How an answer is judged: exact (text), number, choice (letters), math (math-verify) or code (unit tests)."""
    tolerance: float = 0.0
    """`number`: largest difference, as a share of the reference."""
    absolute_tolerance: float = 0.0
    """`number`: largest difference, whatever the reference."""
    timeout_s: float = 5.0
    """`math`: processor time for one answer. `code`: for one test."""
    workers: int = 0
    """`math`, `code`: processes at once; 0: one for each core, up to eight."""
    memory_mb: int = 512
    """`code`: memory of a process."""
    run_model_code_without_sandbox: bool = False
    """`code`: run what a model wrote as you, able to read, send and delete whatever you can."""
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
        self._check_verifier()
        check_flag("thinking", self.thinking)
        check_optional_whole("train_problems", self.train_problems, 1)
        check_optional_whole("held_out_problems", self.held_out_problems, 1)
        check_between("held_out_share", self.held_out_share, 0, 1)
        assert self._verifier is not None  # one that cannot work here is refused now
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
        return self.verify_all(problem, [completion])[0]

    def verify_all(self, problem: Problem, completions: Sequence[str]) -> tuple[Verdict, ...]:
        """All rollouts of a problem together: a verifier with several processes judges them side by side."""
        answers = [final_answer(completion, thinking=self.thinking) for completion in completions]
        texts = [answer for answer in answers if isinstance(answer, str)]
        judged = iter(self._verifier.verify_all(texts, problem.answer) if texts else ())
        return tuple(answer if isinstance(answer, Verdict) else next(judged) for answer in answers)

    def close(self) -> None:
        """End the processes of the verifier; they also end with the task, and start again when they are needed."""
        self._verifier.close()

    def _check_verifier(self) -> None:
        check_choice("verifier", self.verifier, KINDS)
        check_at_least("tolerance", self.tolerance, 0)
        check_at_least("absolute_tolerance", self.absolute_tolerance, 0)
        check_at_least("timeout_s", self.timeout_s, 0.01)
        check_whole("workers", self.workers, 0)
        check_whole("memory_mb", self.memory_mb, 32)
        check_flag("run_model_code_without_sandbox", self.run_model_code_without_sandbox)
        for option in fields(self):
            kinds = OPTIONS.get(option.name, KINDS)
            if self.verifier not in kinds and getattr(self, option.name) != option.default:
                allowed = f"only with verifier {' or '.join(kinds)}, not {self.verifier}"
                raise InputError(f"task.{option.name}", getattr(self, option.name), allowed)

    @cached_property
    def _verifier(self) -> Verifier:
        options: dict[str, Any] = {name: getattr(self, name) for name in OPTIONS}
        return build_verifier(self.verifier, **options)

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
        for record in read_records(path, self.prompt_key, self.answer_key, tables=self.verifier == "code"):
            objection = self._verifier.objection(record.answer)
            if objection:
                what = f"an answer that the verifier {self.verifier} cannot use ({objection})"
                raise InputError(what, record.answer[:60], where=record.where)
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


def _canonical(prompt: str) -> str:
    """Spacing and case do not make another problem."""
    return " ".join(prompt.split()).casefold()
