"""Writes real logs of the Trainer of transformers: `python tiny_trainer.py FOLDER`, a few seconds on one core.

Started by test_hugging_face.py and test_console.py in a process of its own, because what is tested is also what the
Trainer prints. The model is one weight; six steps, logged every second one, evaluated and saved every third.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": ((self.weight * x - labels) ** 2).mean()}


class Points(Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, at: int) -> dict[str, Tensor]:
        if at >= len(self):
            raise IndexError
        return {"x": torch.tensor([float(at)]) / 24, "labels": torch.tensor([float(at)]) / 12}

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return (self[at] for at in range(len(self)))


def train(folder: Path, *, bar: bool) -> None:
    set_seed(0)
    settings = TrainingArguments(
        output_dir=str(folder), use_cpu=True, max_steps=6, logging_steps=2, save_steps=3, eval_steps=3,
        eval_strategy="steps", per_device_train_batch_size=8, per_device_eval_batch_size=12, learning_rate=0.1,
        report_to="none", dataloader_pin_memory=False, disable_tqdm=not bar,
    )  # fmt: skip
    trainer = Trainer(model=Line(), args=settings, train_dataset=Points(), eval_dataset=Points())
    trainer.train()


if __name__ == "__main__":
    out = Path(sys.argv[1])
    train(out / "bar", bar=True)
    with (out / "printed.log").open("w") as stream, redirect_stdout(stream):
        train(out / "plain", bar=False)
