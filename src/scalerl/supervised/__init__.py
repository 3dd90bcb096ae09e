"""Supervised training of real models on chat traces: the stage before RL (`scalerl sft --model`).

    from scalerl.supervised.settings import load_settings
    from scalerl.supervised.train import train_supervised

    files -> `traces` -> `spans` (tokens, and which of them are the assistant's) -> `corpus` -> `plan` (rows and steps)
          -> `rows` (loss of a row) -> `train` (AdamW, checkpoints, log) -> a folder that any tool loads

It stands above the pipeline, whose checkpoints and optimiser state it shares. The warm start of small policies is
another thing and lives in `scalerl.policy`: it makes its traces up.
"""
