"""Config: what a run computes, as frozen models, TOML layers, and operations on whole configs.

    from scalerl.config import load_run
    resolved = load_run("qwen_dapo", "laptop", overrides=["recipe.loss.clip_high=0.28"])
    resolved.config.recipe.loss, resolved.changes

`recipe` (the algorithm) and `scale` (sizes, task, machine) are independent layers; `RunConfig` is both and a seed.
No torch here.
"""

from scalerl.config.load import Resolved, diff, digest, flatten, from_json, load_run, patch, to_dict, to_json
from scalerl.config.recipe import RecipeConfig
from scalerl.config.run import InterruptionWindow, LengthLimits, PenaltyRange, RunConfig, resolve_length
from scalerl.config.scale import ScaleConfig, Tokens

__all__ = [
    "InterruptionWindow",
    "LengthLimits",
    "PenaltyRange",
    "RecipeConfig",
    "Resolved",
    "RunConfig",
    "ScaleConfig",
    "Tokens",
    "diff",
    "digest",
    "flatten",
    "from_json",
    "load_run",
    "patch",
    "resolve_length",
    "to_dict",
    "to_json",
]
