"""Problems from a dataset with a prompt and an answer in each row, judged by one of `scalerl.verify`.

The dataset is read once, when the task is made, so everything that is wrong with what is used is said before anything
starts. A prompt belongs to one split by its content, and one that occurs twice is one problem. Held-out problems may
also come from a file of their own; the training file then loses every prompt that is in it. Where only the first so
many problems are wanted, reading ends with the last of them, and what follows is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

from scalerl.errors import InputError
from scalerl.readers.cells import shorten
from scalerl.tasks.answers import final_answer
from scalerl.tasks.data.layouts import LAYOUTS
from scalerl.tasks.options import (
    check_at_least,
    check_between,
    check_choice,
    check_flag,
    check_optional_whole,
    check_text,
    check_whole,
)
from scalerl.tasks.pools import Draft, ListedPool, split_of
from scalerl.tasks.problem import SPLITS, Problem, Problems, Settings, Split
from scalerl.tasks.records import AUTO, Columns, Record, open_records
from scalerl.verify import KINDS, OPTIONS, Kind, Verdict, Verifier, build_verifier

MOST_LOOKED_AT = 2_000_000
"""Different prompts that are read beyond twice those asked for: they are kept in memory."""


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """The problems of a file."""

    kind: ClassVar[str] = "file"

    path: str
    """A file (JSONL, Parquet, Arrow), a folder of them, or hub:NAME[@REVISION][:CONFIG[:SPLIT]]."""
    held_out_path: str | None = None
    """Held-out problems, with the same columns; None: a share of `path` is held out."""
    layout: str = "plain"
    """What the columns mean: plain (prompt_key, answer_key), a name in `data.layouts`, or auto to recognise it."""
    prompt_key: str = "prompt"
    """Column of the prompt, or a dotted key; a layout has its own."""
    answer_key: str = "answer"
    """Column of the answer (for `code`, of the unit tests), or a dotted key; a layout has its own."""
    skip_unusable: bool = False
    """Leave out rows that cannot be used, and second answers to one prompt, instead of refusing the file."""
    verifier: Kind | Literal["auto"] = "auto"
    """How an answer is judged: exact (text), number, choice (letters), math (math-verify) or code (unit tests). auto:
    as the layout says; plain: exact."""
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
    whole: bool = False
    """Every problem is held out, and there is nothing to train on: for sets that are only measured."""

    def __post_init__(self) -> None:
        for option in ("path", "prompt_key", "answer_key"):
            check_text(option, getattr(self, option))
        if self.held_out_path is not None:
            check_text("held_out_path", self.held_out_path)
        check_choice("layout", self.layout, (*LAYOUTS, AUTO))
        check_flag("skip_unusable", self.skip_unusable)
        self._check_verifier()
        check_flag("thinking", self.thinking)
        check_optional_whole("train_problems", self.train_problems, 1)
        check_optional_whole("held_out_problems", self.held_out_problems, 1)
        check_between("held_out_share", self.held_out_share, 0, 1)
        assert self._verifier is not None  # one that cannot work here is refused now
        self._check_whole()
        assert self._pools  # reads the file now

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

    def _check_whole(self) -> None:
        check_flag("whole", self.whole)
        for option in ("held_out_path", "train_problems"):
            if self.whole and getattr(self, option) is not None:
                raise InputError(f"task.{option}", getattr(self, option), "none with task.whole: nothing is trained on")

    def _check_verifier(self) -> None:
        check_choice("verifier", self.verifier, (*KINDS, AUTO))
        check_at_least("tolerance", self.tolerance, 0)
        check_at_least("absolute_tolerance", self.absolute_tolerance, 0)
        check_at_least("timeout_s", self.timeout_s, 0.01)
        check_whole("workers", self.workers, 0)
        check_whole("memory_mb", self.memory_mb, 32)
        check_flag("run_model_code_without_sandbox", self.run_model_code_without_sandbox)
        usual = {option.name: option.default for option in fields(self)}
        for name, kinds in OPTIONS.items():
            if getattr(self, name) != usual[name] and self.judged_by not in kinds:
                allowed = f"only with verifier {' or '.join(kinds)}, not {self.judged_by}"
                raise InputError(f"task.{name}", getattr(self, name), allowed)

    @cached_property
    def judged_by(self) -> Kind:
        """The verifier that the user named, or the natural one of the layout."""
        if self.verifier != "auto":
            return self.verifier
        if self.layout == "plain":
            return "exact"
        with open_records(self.path, self._columns) as records:
            return records.verifier

    @property
    def _columns(self) -> Columns:
        return Columns(self.layout, self.prompt_key, self.answer_key)

    @cached_property
    def _verifier(self) -> Verifier:
        options: dict[str, Any] = {name: getattr(self, name) for name in OPTIONS}
        return build_verifier(self.judged_by, **options)

    @cached_property
    def _pools(self) -> dict[Split, ListedPool]:
        if self.whole:
            every = self._filled((("held_out", draft) for draft in self._drafts(self.path)), ("held_out",))
            return {"train": ListedPool([]), "held_out": self._cut("held_out", every["held_out"])}
        if self.held_out_path is None:
            drafts = self._drafts(self.path)
            pools = self._filled((split_of(draft.canonical, self.held_out_share), draft) for draft in drafts)
        else:
            kept = list(self._drafts(self.held_out_path))
            known = {draft.canonical for draft in kept}
            pools = self._filled(("held_out", draft) for draft in kept)
            others = (draft for draft in self._drafts(self.path) if draft.canonical not in known)
            pools["train"] = self._filled((("train", draft) for draft in others), ("train",))["train"]
        return {split: self._cut(split, pools[split]) for split in SPLITS}

    def _filled(
        self, drafts: Iterable[tuple[Split, Draft]], splits: Sequence[Split] = SPLITS
    ) -> dict[Split, list[Problem]]:
        """Problems in the order of the file, until there are as many as are wanted."""
        pools: dict[Split, list[Problem]] = {split: [] for split in splits}
        for split, draft in drafts:
            pool, wanted = pools[split], self._wanted[split]
            if wanted is None or len(pool) < wanted:
                pool.append(draft.placed(self.name, split, len(pool)))
            if all(len(found) == self._wanted[each] for each, found in pools.items()):
                break
        return pools

    @property
    def _wanted(self) -> dict[Split, int | None]:
        return {"train": self.train_problems, "held_out": self.held_out_problems}

    def _drafts(self, path: str) -> Iterator[Draft]:
        """Each prompt once; two answers to one prompt are an error, or the first one counts."""
        seen: dict[str, Record] = {}
        refused: InputError | None = None
        for record in self._records(path):
            problem = record if isinstance(record, InputError) else self._problem(record, seen)
            if problem is None:
                continue
            if isinstance(problem, Draft):
                self._refuse_too_many(len(seen), path)
                yield problem
            elif self.skip_unusable:
                refused = refused or problem
            else:
                raise problem
        if not seen:
            what = "no problems in the file" + ("" if refused is None else f" that can be used (the first: {refused})")
            raise InputError(what, allowed="at least one", where=path)

    def _records(self, path: str) -> Iterator[Record | InputError]:
        with open_records(path, self._columns) as records:
            yield from records.read(tables=self.judged_by == "code")

    def _problem(self, record: Record, seen: dict[str, Record]) -> Draft | InputError | None:
        """A new problem; None for one that is known; or why it is none."""
        objection = self._verifier.objection(record.answer)
        if objection:
            what = f"an answer that the verifier {self.judged_by} cannot use ({objection})"
            return InputError(what, record.answer[:60], where=record.where)
        first = seen.setdefault(record.prompt, record)
        if first is record:
            return Draft(record.prompt, record.answer, canonical(record.prompt))
        if first.answer == record.answer:
            return None
        allowed = f"{shorten(first.answer)!r}, as in {first.where}, or another prompt"
        return InputError("a second answer to one prompt", shorten(record.answer), allowed, record.where)

    def _refuse_too_many(self, looked_at: int, path: str) -> None:
        wanted = self._wanted["train"]
        most = MOST_LOOKED_AT + 2 * ((wanted or 0) + (self._wanted["held_out"] or 0))
        if looked_at <= most:
            return
        if wanted is None and not self.whole:
            allowed = "task.train_problems: the first so many are used, and the rest is not read"
        else:
            allowed = "a larger held_out_share, a held_out_path, or a smaller file"
        raise InputError("too many problems to keep in memory", f"more than {most:,}", allowed, path)

    def _cut(self, split: Split, problems: list[Problem]) -> ListedPool:
        wanted = self._wanted[split]
        if not problems or (wanted is not None and wanted > len(problems)):
            what = f"too few {split.replace('_', '-')} problems"
            instead = "" if self.whole else "; another held_out_share, or a held_out_path"
            allowed = f"at most {len(problems)}{instead}"
            where = self.held_out_path if split == "held_out" and self.held_out_path else self.path
            raise InputError(what, wanted or 1, allowed, where)
        return ListedPool(problems)


def canonical(prompt: str) -> str:
    """Spacing and case do not make another problem."""
    return " ".join(prompt.split()).casefold()
