"""A trainer that is not ours: GRPO with TRL, on a CPU, in seconds. `study.toml` beside it drives it.

    python train.py --lr 3e-3 --group 4 --seed 0 --steps 12 --out OUT

The policy is an untrained Llama of two layers that writes digits; the reward is the share of even ones, so the curve
starts near .5. What makes it a good citizen of a study is the same for every trainer:

- the same arguments give the same curve (`seed`);
- OUT is its own, and called again with more steps it goes on from the newest checkpoint in there;
- it leaves a log that scalerl can read, here TRL's trainer_state.json, with held-out evaluations (`eval_reward`),
  one of them before the first step;
- it ends with a code other than 0 when something is wrong.

Needs TRL (written for 1.16), which is no dependency of scalerl: pip install trl
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import datasets
import tokenizers
import transformers
import trl

EVALUATE_EVERY = 4


def main() -> None:
    asked = arguments()
    transformers.set_seed(asked.seed)
    prompts = [{"prompt": f"{i % 10}{i // 10 % 10}{i // 100}"} for i in range(1000)]
    trainer = trl.GRPOTrainer(
        model=policy(),
        reward_funcs=share_of_even_digits,
        args=settings(asked),
        processing_class=tokenizer(),
        train_dataset=datasets.Dataset.from_list(prompts[32:]),
        eval_dataset=datasets.Dataset.from_list(prompts[:32]),
    )
    trainer.train(resume_from_checkpoint=any(Path(asked.out).glob("checkpoint-*")))
    trainer.save_state()  # trainer_state.json in OUT itself, with the evaluation after the last step


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--group", type=int, required=True, help="rollouts for each prompt")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def settings(asked: argparse.Namespace) -> trl.GRPOConfig:
    return trl.GRPOConfig(
        output_dir=asked.out,
        seed=asked.seed,
        learning_rate=asked.lr,
        lr_scheduler_type="constant",  # a schedule that knows the last step could not be made longer
        num_generations=asked.group,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=16,
        max_completion_length=6,
        max_steps=asked.steps,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=EVALUATE_EVERY,
        eval_on_start=not any(Path(asked.out).glob("checkpoint-*")),
        save_steps=EVALUATE_EVERY,
        save_total_limit=2,
        report_to="none",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
    )


def share_of_even_digits(completions: list[str], **_: Any) -> list[float]:
    return [sum(char in "02468" for char in text) / max(1, len(text)) for text in completions]


def policy() -> transformers.LlamaForCausalLM:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=12,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=32,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=1,
        )
    )


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    """One token for each digit."""
    names = {name: i for i, name in enumerate(["<pad>", "<eos>", *"0123456789"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(names, unk_token="<pad>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    made.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


if __name__ == "__main__":
    main()
