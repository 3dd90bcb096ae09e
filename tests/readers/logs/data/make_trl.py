"""Makes the two files of TRL in this folder, in an environment with TRL 1.16 (nothing here is installed by our extras).

    python make_trl.py SCRATCH 7 2>&1 | tee -a SCRATCH/console.log     # stops after step 7, as a crash would
    python make_trl.py SCRATCH 0 2>&1 | tee -a SCRATCH/console.log     # goes on from checkpoint-4 to step 12

Then SCRATCH/out/checkpoint-12/trainer_state.json and SCRATCH/console.log are the files (machine paths taken out). The
policy is an untrained Llama of two layers that draws digits; the reward is the share of even ones. Steps are made slow,
as real ones are, so that the progress bar is drawn at each.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any


def reward_even(completions: list[str], **_: Any) -> list[float]:
    time.sleep(0.3)
    return [sum(c in "02468" for c in text) / max(1, len(text)) for text in completions]


def tokenizer() -> Any:
    tokenizers: Any = importlib.import_module("tokenizers")
    transformers: Any = importlib.import_module("transformers")
    names = ["<pad>", "<eos>", *"0123456789"]
    model = tokenizers.models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<pad>")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    made.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


def policy() -> Any:
    transformers: Any = importlib.import_module("transformers")
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=12, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=32, pad_token_id=0, eos_token_id=1, bos_token_id=None,
        )
    )  # fmt: skip


def trainer(scratch: Path, stop_after: int) -> Any:
    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    transformers: Any = importlib.import_module("transformers")
    transformers.set_seed(0)

    class Crash(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - not ours
            if state.global_step == stop_after:
                raise RuntimeError("out of luck")

    settings = trl.GRPOConfig(
        output_dir=str(scratch / "out"), use_cpu=True, bf16=False, gradient_checkpointing=False, seed=0,
        per_device_train_batch_size=8, per_device_eval_batch_size=8, num_generations=4, max_completion_length=6,
        learning_rate=3e-3, max_steps=12, logging_steps=2, save_steps=4, eval_strategy="steps", eval_steps=4,
        eval_on_start=stop_after > 0, report_to="none", dataloader_pin_memory=False,
    )  # fmt: skip
    prompts = [{"prompt": f"{i % 10}{i // 10 % 10}"} for i in range(64)]
    return trl.GRPOTrainer(
        model=policy(), reward_funcs=reward_even, args=settings, processing_class=tokenizer(), callbacks=[Crash()],
        train_dataset=datasets.Dataset.from_list(prompts), eval_dataset=datasets.Dataset.from_list(prompts[:4]),
    )  # fmt: skip


if __name__ == "__main__":
    folder, stop = Path(sys.argv[1]), int(sys.argv[2])
    trainer(folder, stop).train(resume_from_checkpoint=stop == 0)
