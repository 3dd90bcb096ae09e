"""One process's part of a supervised training: steps, measurements, log and checkpoints, from wherever it stands.

Used by `train`, which decides where things lie and what the result is. How a step is made is `learner`'s business.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from scalerl.errors import InputError
from scalerl.folder import complete_folder, replace_file
from scalerl.pipeline import checkpoint
from scalerl.pipeline.types import Snapshot
from scalerl.policy.pretrained import read_model
from scalerl.policy.processor import spare_broken_units
from scalerl.policy.tiny import save_policy
from scalerl.runs.layout import CHECKPOINTS, METRICS
from scalerl.runs.provenance import describe_session
from scalerl.runs.store import Records
from scalerl.supervised.corpus import Corpora
from scalerl.supervised.learner import Learner
from scalerl.supervised.plan import Step, plan_steps
from scalerl.supervised.rows import keeps_apart
from scalerl.supervised.settings import USUAL_ROW_TOKENS, SftSettings

MARKER, RUN = "sft.json", "run.json"
_PART = "sft"

End = Literal["finished", "interrupted"]


@dataclass(frozen=True)
class Progress:
    """Where the training stands."""

    step: int
    steps: int
    loss: float | None = None
    """Mean of the last step's learnt tokens, in nats; None before the first."""
    held_out_loss: float | None = None
    """The newest one; None where nothing is held out."""
    tokens: int = 0
    """Seen so far, those of prompts included."""
    learnt_tokens: int = 0
    wall_s: float = 0.0
    """Of all sessions together."""


class Watcher(Protocol):
    """Who is told what happens."""

    def reading(self, num_traces: int) -> None: ...
    def notice(self, text: str) -> None: ...
    def started(self, progress: Progress) -> None: ...
    def stepped(self, progress: Progress) -> None: ...
    def evaluated(self, progress: Progress) -> None: ...


class Session:
    """One process's part of a training."""

    def __init__(
        self,
        settings: SftSettings,
        work: Path,
        source: Path,
        tokenizer: PreTrainedTokenizerBase,
        corpora: Corpora,
        watcher: Watcher,
    ) -> None:
        self._settings, self._work, self._tokenizer = settings, work, tokenizer
        self._corpora, self._watcher = corpora, watcher
        self._metrics = Records(work / METRICS)
        saved = checkpoint.load_newest(work / CHECKPOINTS)
        if settings.dtype == "bfloat16":
            spare_broken_units()
        model = _read(source if saved is None else saved.policy)
        packed = self._agree(model)
        row_tokens = _row_tokens(settings, corpora) if packed else 1
        self._steps: list[Step] = plan_steps(
            corpora.train.lengths, row_tokens=row_tokens, batch_tokens=settings.batch_tokens,
            epochs=settings.epochs, seed=settings.seed,
        )  # fmt: skip
        self._learner = Learner(model, settings, corpora, row_tokens, len(self._steps))
        self.progress = Progress(0, len(self._steps))
        if saved is None:
            self._metrics.truncate(0)  # lines of a session that ended before its first checkpoint
        else:
            self._restore(saved)
        self._before_s, self._since_s = self.progress.wall_s, time.monotonic()

    def run(self, should_stop: Callable[[], bool]) -> End:
        """Steps until the last, with evaluations and checkpoints on the way."""
        self._watcher.started(self.progress)
        if self.progress.step == 0:
            self._evaluate({"step": 0})
        while self.progress.step < len(self._steps):
            self._step()
            last = self.progress.step == len(self._steps)
            stop = should_stop() and not last
            if stop or last or self.progress.step % self._settings.checkpoint_every == 0:
                self._save()
            if stop:
                return "interrupted"
        return "finished"

    def publish(self, out: Path) -> None:
        """The result, whole or not at all."""
        model = self._learner.model.to(getattr(torch, self._settings.dtype))
        with complete_folder(out) as partial:
            save_policy(partial, model, self._tokenizer)
            shutil.copyfile(self._metrics.path, partial / METRICS)
            (partial / MARKER).write_text(json.dumps(self.record, indent=2) + "\n", encoding="utf-8")

    @property
    def record(self) -> dict[str, Any]:
        tally, train = self._corpora.tally, self._corpora.train
        return {
            "settings": self._settings.model_dump(mode="json"),
            "traces": {
                "read": tally.num_traces, "documents": len(train), "too_long": tally.num_long,
                "turn_by_turn": tally.num_split, "tokens": len(train.tokens), "learnt_tokens": train.num_learnt,
                "held_out": 0 if self._corpora.held_out is None else len(self._corpora.held_out),
                "digest": train.digest,
            },
            "measured": vars(self.progress) | {"rows": sum(map(len, self._steps))},
            "session": describe_session(),
        }  # fmt: skip

    def _step(self) -> None:
        done = self._learner.step(self._steps[self.progress.step], self.progress.step + 1)
        self.progress = replace(
            self.progress,
            step=self.progress.step + 1,
            loss=done.loss,
            tokens=self.progress.tokens + done.tokens,
            learnt_tokens=self.progress.learnt_tokens + done.learnt_tokens,
            wall_s=self._before_s + time.monotonic() - self._since_s,
        )
        line = {"step": self.progress.step, "loss": done.loss, "learning_rate": done.rate, "grad_norm": done.norm}
        line |= {"epoch": self._settings.epochs * self.progress.step / len(self._steps)}
        line |= {name: getattr(self.progress, name) for name in ("tokens", "learnt_tokens", "wall_s")}
        every = self._settings.evaluate_every or max(1, len(self._steps) // 10)
        if self.progress.step % every == 0 or self.progress.step == len(self._steps):
            self._evaluate(line)
        else:
            self._metrics.append(line)
        self._watcher.stepped(self.progress)

    def _evaluate(self, line: dict[str, Any]) -> None:
        """Measure, and write the line with what came out."""
        value = self._learner.held_out_loss()
        if value is not None:
            self.progress = replace(self.progress, held_out_loss=value)
            line = line | {"held_out_loss": value}
            self._watcher.evaluated(self.progress)
        if len(line) > 1:
            self._metrics.append(line)

    def _save(self) -> None:
        values = {"progress": vars(self.progress), "metrics": self._metrics.offset()}
        parts = {_PART: Snapshot(values, self._learner.state())}
        root = self._work / CHECKPOINTS
        checkpoint.save(root, self.progress.step, parts, model=self._learner.model, tokenizer=self._tokenizer)

    def _restore(self, saved: checkpoint.Checkpoint) -> None:
        part = saved.parts[_PART]
        self._learner.restore(dict(part.tensors))
        self._metrics.truncate(part.values["metrics"])
        self.progress = Progress(**part.values["progress"])

    def _agree(self, model: PreTrainedModel) -> bool:
        """Whether documents are packed: as when the training began, on the same traces; decided now if it is new."""
        digest = self._corpora.train.digest
        file = self._work / RUN
        if file.is_file():
            known = json.loads(file.read_text(encoding="utf-8"))
            if known["traces"] != digest:
                allowed = f"the same files as before, or another --out (without {self._work})"
                raise InputError("the traces have changed since the training began", allowed=allowed)
            return bool(known["packed"])
        packed = keeps_apart(model)
        if not packed:
            kind = model.config.model_type
            self._watcher.notice(f"one trace at a time: a model of type {kind} does not keep packed traces apart")
        known = {"settings": self._settings.identity, "traces": digest, "packed": packed}
        replace_file(file, json.dumps(known, indent=2) + "\n")
        return packed


def _read(folder: Path) -> PreTrainedModel:
    model: Any = read_model(folder, torch.float32)  # `to` is wrapped in a way that hides its types
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    model.eval()
    assert isinstance(model, PreTrainedModel)
    return model


def _row_tokens(settings: SftSettings, corpora: Corpora) -> int:
    """A row is at most a step: a small batch is not made larger by packing."""
    usual = min(USUAL_ROW_TOKENS, settings.batch_tokens)
    return settings.row_tokens or max(usual, int(corpora.train.lengths.max()))
