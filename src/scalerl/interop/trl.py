"""A recipe as TRL's GRPOConfig: for `trl grpo --config FILE`, or as keyword arguments of the class.

Called through `export`. Fields and formulas were read in the source of TRL 1.16.0 (`trl/trainer/grpo_config.py`,
`grpo_trainer.py`); each function below is one axis of the recipe.
"""

from __future__ import annotations

import math
from typing import Any

from scalerl.config import RunConfig
from scalerl.config import recipe as axes
from scalerl.config.policy import PretrainedModel
from scalerl.config.run import PenaltyRange
from scalerl.interop.exported import Axis, Exported, Settings

VERSION = "1.16.0"
_OVER_ALL = "an average over all tokens of the batch"


def export_trl(run: RunConfig) -> Exported:
    recipe = run.recipe
    found = (
        _loss(recipe),
        _kl(recipe.kl_coefficient),
        _reward(recipe),
        _aggregation(recipe),
        _advantage(run),
        _zero_variance(recipe.zero_variance),
        _curriculum(recipe.curriculum),
        _length(run),
        _truncated(recipe),
        _precision(run),
        _asynchrony(run),
    )
    notes = (
        "model_name_or_path, dataset_name and reward_funcs are yours: a column `prompt`, and a function that verifies.",
        "Sizes are those of ONE process: with N of them divide gradient_accumulation_steps and steps_per_generation.",
        "The ratio is against log-probs that the trainer computes once more; that to vLLM's own is corrected apart.",
        "TRL knows no thinking and answer budgets: max_completion_length is their sum.",
        *_budget_note(run),
    )
    return Exported("trl", VERSION, "trl grpo --config FILE", found, _scale(run), notes)


def _loss(recipe: axes.RecipeConfig) -> Axis:
    settings: dict[str, Any] = {"loss_type": _loss_type(recipe)}
    match recipe.loss:
        case axes.Cispo(cap=cap):
            settings |= {"epsilon_high": cap}
            return Axis("loss", f"cispo, cap {cap:g}", f"cispo, epsilon_high {cap:g}", "exact", settings=settings)
        case axes.PpoClip(clip_low=low, clip_high=high):
            settings |= {"epsilon": low, "epsilon_high": high}
            return Axis("loss", f"ppo_clip {low:g}/{high:g}", f"epsilon {low:g}/{high:g}", "exact", settings=settings)
        case axes.Gspo(clip_low=low, clip_high=high):
            settings |= {"importance_sampling_level": "sequence", "epsilon": low, "epsilon_high": high}
            theirs = f"importance_sampling_level sequence, epsilon {low:g}/{high:g}"
            return Axis("loss", f"gspo {low:g}/{high:g}", theirs, "exact", settings=settings)
        case axes.Reinforce():
            settings |= {"epsilon_high": 1.0}
            reason = "there is no loss without ratio; this one's weight is at most 1, and 1 on fresh rollouts"
            return Axis("loss", "reinforce", "cispo, epsilon_high 1", "nearest", reason, settings)


def _kl(coefficient: float) -> Axis:
    """The same k3 estimate; by default TRL weights it by the ratio."""
    settings: Settings = {"beta": coefficient, "use_bias_correction_kl": False}
    return Axis("kl_coefficient", f"{coefficient:g}", f"beta {coefficient:g}", "exact", settings=settings)


def _reward(recipe: axes.RecipeConfig) -> Axis:
    ours = f"{recipe.reward.correct:g}/{recipe.reward.wrong:g}"
    reason = f"let your function return {recipe.reward.correct:g} and {recipe.reward.wrong:g}, None where it failed"
    return Axis("reward", ours, "reward_funcs", "nearest", reason)


def _aggregation(recipe: axes.RecipeConfig) -> Axis:
    ours, kind = recipe.aggregation, _loss_type(recipe)
    steps = _steps_together(recipe.asynchrony)
    if kind == "grpo" or (ours == "token" and steps == 1):
        return Axis("aggregation", ours, f"loss_type {kind}", "exact")
    if ours == "token":
        reason = f"a step is divided by the mean number of tokens of the {steps} that are generated together"
    elif ours == "prompt":
        reason = f"no average within a prompt's group; {_OVER_ALL}: prompts with long answers count more"
    else:
        reason = f"loss_type cispo has {_OVER_ALL} only"
    return Axis("aggregation", ours, f"loss_type {kind}", "nearest", reason)


def _loss_type(recipe: axes.RecipeConfig) -> str:
    """TRL has surrogate and average in one word; grpo and dapo have the same surrogate."""
    if isinstance(recipe.loss, axes.Cispo | axes.Reinforce):
        return "cispo"
    return "grpo" if recipe.aggregation == "sample" else "dapo"


def _advantage(run: RunConfig) -> Axis:
    match run.recipe.advantage.normalisation:
        case "none":
            return Axis("advantage", "none", "scale_rewards none", "exact", settings={"scale_rewards": "none"})
        case "prompt":
            rollouts = run.scale.batch.rollouts
            less = 1 - math.sqrt((rollouts - 1) / rollouts)
            reason = f"divides by n - 1 and adds 1e-4: {less:.0%} smaller with {rollouts} rollouts"
            return Axis("advantage", "prompt", "scale_rewards group", "nearest", reason, {"scale_rewards": "group"})
        case "batch":
            reason = "the deviation of all rewards generated together, not centred, groups of equal rewards included"
            ours = f"batch, over {run.recipe.advantage.std_over}"
            return Axis("advantage", ours, "scale_rewards batch", "nearest", reason, {"scale_rewards": "batch"})


def _zero_variance(choice: str) -> Axis:
    if choice == "keep":
        return Axis("zero_variance", "keep", "always kept", "exact")
    reason = "their advantages are zero, but they count in averages and in the batch deviation"
    return Axis("zero_variance", "drop", "kept", "nearest", reason)


def _curriculum(curriculum: axes.Curriculum) -> Axis:
    if isinstance(curriculum, axes.NoPositiveCurriculum):
        reason = "no field for a curriculum: solved problems come again in every epoch"
        ours = f"no_positive, from {curriculum.threshold:g} on"
        return Axis("curriculum", ours, "shuffle_dataset", "missing", reason, {"shuffle_dataset": True})
    return Axis("curriculum", "uniform", "shuffle_dataset", "exact", settings={"shuffle_dataset": True})


def _length(run: RunConfig) -> Axis:
    match run.recipe.length, run.length:
        case axes.Interruption(), _:
            reason = "no field ends the thinking: responses run into max_completion_length and have no answer"
            return Axis("length", "interruption", "", "missing", reason)
        case axes.LengthPenalty(), PenaltyRange(max_tokens=most, cache_tokens=cache):
            theirs = f"get_soft_overlong_punishment(max_completion_len={most}, soft_punish_cache={cache})"
            reason = "a reward function to pass in Python; it punishes wrong answers too"
            return Axis("length", "penalty", theirs, "nearest", reason)
        case _:
            return Axis("length", "none", "none", "exact")


def _truncated(recipe: axes.RecipeConfig) -> Axis:
    mask = recipe.truncated == "mask"
    settings: Settings = {"mask_truncated_completions": mask}
    theirs = f"mask_truncated_completions {str(mask).lower()}"
    if mask and _loss_type(recipe) == "grpo":
        reason = "they have no loss, but count as rollouts in the average of loss_type grpo"
        return Axis("truncated", "mask", theirs, "nearest", reason, settings)
    return Axis("truncated", recipe.truncated, theirs, "exact", settings=settings)


def _precision(run: RunConfig) -> Axis:
    wanted = run.recipe.precision
    trainer, generator = wanted.fp32_head_trainer, wanted.fp32_head_generator
    ours = f"FP32 head: trainer {_word(trainer)}, generator {_word(generator)}"
    settings: Settings = {"cast_lm_head_to_fp32": trainer}
    theirs = f"cast_lm_head_to_fp32 {str(trainer).lower()}"
    apart = run.scale.generator.engine == "vllm"
    if (apart and not generator) or (not apart and trainer == generator):
        if not trainer:
            return Axis("precision", ours, theirs, "exact", settings=settings)
        reason = "only for models whose embeddings are not tied to the head"
        return Axis("precision", ours, theirs, "nearest", reason, settings)
    reason = "vLLM's head stays as it is" if apart else "without vLLM the generator is the trainer's model"
    return Axis("precision", ours, theirs, "nearest", reason, settings)


def _asynchrony(run: RunConfig) -> Axis:
    steps = _steps_together(run.recipe.asynchrony)
    settings: Settings = {"num_iterations": 1, "steps_per_generation": steps * run.scale.batch.prompts}
    match run.recipe.asynchrony:
        case axes.Sync() | axes.Pipeline(k=0):
            return Axis("asynchrony", "sync", "steps_per_generation = one step", "exact", settings=settings)
        case axes.PpoOffPolicy(k=k):
            return Axis(
                "asynchrony", f"ppo_off_policy, k {k}", f"steps_per_generation = {k} steps", "exact", settings=settings
            )
        case axes.Pipeline(k=k):
            reason = (
                f"generation waits for training; no rollout is older than {k} steps either way. TRL's experimental "
            )
            reason += "AsyncGRPOTrainer runs ahead, without loss_type, scale_rewards and most of the fields here"
            theirs = f"steps_per_generation = {k + 1} steps"
            return Axis("asynchrony", f"pipeline, k {k}", theirs, "nearest", reason, settings)


def _steps_together(asynchrony: axes.Asynchrony) -> int:
    """Steps whose rollouts are generated at once."""
    match asynchrony:
        case axes.Sync():
            return 1
        case axes.PpoOffPolicy(k=k):
            return k
        case axes.Pipeline(k=k):
            return k + 1


def _scale(run: RunConfig) -> Settings:
    scale, optimiser = run.scale, run.scale.optimiser
    model = scale.model
    settings = {
        "model_name_or_path": model.name if isinstance(model, PretrainedModel) else "YOUR-MODEL",
        "dataset_name": "YOUR-DATASET",
        "reward_funcs": ["your_rewards.verify"],
        "output_dir": "trl-run",
        "dtype": model.dtype,
        "bf16": model.dtype == "bfloat16",
        "per_device_train_batch_size": scale.batch.rollouts,
        "gradient_accumulation_steps": scale.batch.prompts,
        "num_generations": scale.batch.rollouts,
        "max_completion_length": scale.tokens.response,
        "temperature": scale.sampling.temperature,
        "top_p": 1.0,
        "top_k": 0,
        "learning_rate": optimiser.learning_rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": optimiser.warmup_steps,
        "adam_beta1": optimiser.betas[0],
        "adam_beta2": optimiser.betas[1],
        "adam_epsilon": optimiser.eps,
        "weight_decay": optimiser.weight_decay,
        "max_grad_norm": optimiser.grad_clip,
        "gradient_checkpointing": scale.trainer.gradient_checkpointing,
        "disable_dropout": True,
        "save_steps": scale.checkpoint_every,
        "seed": run.seed,
        "use_vllm": scale.generator.engine == "vllm",
    }
    if scale.generator.engine == "vllm":
        vllm = scale.generator.vllm
        settings |= {"vllm_mode": "colocate", "vllm_max_model_length": scale.tokens.context}
        settings |= {"vllm_importance_sampling_mode": "token_truncate"}
        settings |= {"vllm_tensor_parallel_size": vllm.tensor_parallel}
        settings |= {"vllm_gpu_memory_utilization": vllm.gpu_memory_share}
    if scale.budget.unit == "steps":
        settings["max_steps"] = int(scale.budget.amount)
    if scale.lora.rank:
        settings |= {"use_peft": True, "lora_r": scale.lora.rank, "lora_alpha": round(scale.lora.alpha)}
        settings |= {"lora_target_modules": [*scale.lora.targets] or "all-linear"}
    return settings


def _budget_note(run: RunConfig) -> list[str]:
    budget = run.scale.budget
    if budget.unit == "steps":
        return []
    return [f"The budget of {budget.amount:g} {budget.unit} has no field: set max_steps or num_train_epochs."]


def _word(flag: bool) -> str:
    return "yes" if flag else "no"
