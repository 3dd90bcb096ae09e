"""A recipe as a config of verl's PPO trainer: a YAML file on top of verl's own `ppo_trainer`.

Called through `export`. Keys and formulas were read in verl 0.9.1 (`verl/trainer/config`, `trainer/ppo/core_algos.py`,
`trainer/ppo/v1`); each function below is one axis of the recipe.
"""

from __future__ import annotations

import math
from typing import Any

from scalerl.config import RunConfig
from scalerl.config import recipe as axes
from scalerl.config.policy import PretrainedModel
from scalerl.config.run import PenaltyRange
from scalerl.interop.exported import Axis, Exported, Settings

VERSION = "0.9.1"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
NO_DUAL_CLIP = 1e9
"""verl also clips the loss of negative advantages (clip_ratio_c); so far out it does nothing."""

_AVERAGES = {"sample": "seq-mean-token-mean", "token": "token-mean", "prompt": "token-mean"}
_PRELUDE: Settings = {"hydra.searchpath": ["pkg://verl.trainer.config"], "defaults": ["ppo_trainer", "_self_"]}


def export_verl(run: RunConfig) -> Exported:
    recipe = run.recipe
    found = (
        _loss(recipe.loss),
        _kl(recipe.kl_coefficient),
        _reward(recipe),
        _aggregation(recipe.aggregation),
        _advantage(run),
        _zero_variance(recipe.zero_variance),
        _curriculum(recipe.curriculum),
        _length(run),
        _truncated(recipe.truncated),
        _precision(recipe.precision),
        _asynchrony(run),
    )
    notes = (
        "model.path, data.train_files, data.val_files and reward.custom_reward_function are yours.",
        "GPUs (trainer.nnodes, n_gpus_per_node, rollout.tensor_model_parallel_size) depend on your machines.",
        "rollout_correction.bypass_mode makes the ratio the one of ours: trainer now against the sampler's log-prob.",
        "verl knows no thinking and answer budgets: data.max_response_length is their sum.",
        *_budget_note(run),
    )
    command = "python -m verl.trainer.main_ppo --config-path DIR --config-name NAME"
    return Exported("verl", VERSION, command, found, _scale(run), notes, _PRELUDE)


def _loss(loss: axes.Loss) -> Axis:
    mode, low, high = f"{ACTOR}.policy_loss.loss_mode", f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high"
    match loss:
        case axes.Cispo(cap=cap):
            settings: dict[str, Any] = {mode: "cispo", low: 1.0, high: cap - 1.0}
            theirs = f"cispo, clip_ratio_low 1, clip_ratio_high {cap - 1:g}"
            return Axis("loss", f"cispo, cap {cap:g}", theirs, "exact", settings=settings)
        case axes.PpoClip(clip_low=below, clip_high=above):
            settings = {mode: "vanilla", low: below, high: above, f"{ACTOR}.clip_ratio_c": NO_DUAL_CLIP}
            theirs = f"vanilla, clip_ratio {below:g}/{above:g}, no dual clip"
            return Axis("loss", f"ppo_clip {below:g}/{above:g}", theirs, "exact", settings=settings)
        case axes.Gspo(clip_low=below, clip_high=above):
            settings = {mode: "gspo", low: below, high: above}
            return Axis(
                "loss", f"gspo {below:g}/{above:g}", f"gspo, clip_ratio {below:g}/{above:g}", "exact", settings=settings
            )
        case axes.Reinforce():
            return Axis("loss", "reinforce", "gpg", "exact", settings={mode: "gpg"})


def _kl(coefficient: float) -> Axis:
    settings: dict[str, Any] = {f"{ACTOR}.use_kl_loss": coefficient > 0, "algorithm.use_kl_in_reward": False}
    if coefficient:
        settings |= {f"{ACTOR}.kl_loss_coef": coefficient, f"{ACTOR}.kl_loss_type": "low_var_kl"}
    theirs = f"kl_loss_coef {coefficient:g}, low_var_kl" if coefficient else "use_kl_loss false"
    return Axis("kl_coefficient", f"{coefficient:g}", theirs, "exact", settings=settings)


def _reward(recipe: axes.RecipeConfig) -> Axis:
    ours = f"{recipe.reward.correct:g}/{recipe.reward.wrong:g}"
    reason = (
        f"let your function return {recipe.reward.correct:g} and {recipe.reward.wrong:g}; a failed verifier has to "
    )
    reason += "return something, too"
    settings: Settings = {
        "reward.custom_reward_function.path": "your_rewards.py",
        "reward.custom_reward_function.name": "compute_score",
    }
    return Axis("reward", ours, "reward.custom_reward_function", "nearest", reason, settings)


def _aggregation(ours: str) -> Axis:
    settings: Settings = {f"{ACTOR}.loss_agg_mode": _AVERAGES[ours]}
    if ours == "prompt":
        reason = "no average within a prompt's group: prompts with long answers count more"
        return Axis("aggregation", ours, "token-mean", "nearest", reason, settings)
    return Axis("aggregation", ours, _AVERAGES[ours], "exact", settings=settings)


def _advantage(run: RunConfig) -> Axis:
    estimator, divided = "algorithm.adv_estimator", "algorithm.norm_adv_by_std_in_grpo"
    match run.recipe.advantage.normalisation:
        case "none":
            settings: dict[str, Any] = {estimator: "grpo", divided: False}
            return Axis("advantage", "none", "grpo without std", "exact", settings=settings)
        case "prompt":
            rollouts = run.scale.batch.rollouts
            less = 1 - math.sqrt((rollouts - 1) / rollouts)
            reason = f"divides by n - 1: {less:.0%} smaller with {rollouts} rollouts"
            return Axis("advantage", "prompt", "grpo", "nearest", reason, {estimator: "grpo", divided: True})
        case "batch":
            reason = "its deviation counts every token, so that long rollouts count more, and it centres once more"
            ours = f"batch, over {run.recipe.advantage.std_over}"
            settings = {estimator: "reinforce_plus_plus_baseline"}
            return Axis("advantage", ours, "reinforce_plus_plus_baseline", "nearest", reason, settings)


def _zero_variance(choice: str) -> Axis:
    enable = "algorithm.filter_groups.enable"
    if choice == "keep":
        return Axis("zero_variance", "keep", "filter_groups off", "exact", settings={enable: False})
    reason = "dropped groups are replaced by new ones, so that the batch keeps its size and costs more"
    settings: Settings = {enable: True, "algorithm.filter_groups.metric": "reward"}
    return Axis("zero_variance", "drop", "filter_groups", "nearest", reason, settings)


def _curriculum(curriculum: axes.Curriculum) -> Axis:
    settings: Settings = {"data.shuffle": True}
    if isinstance(curriculum, axes.NoPositiveCurriculum):
        reason = "no key for a curriculum: solved problems come again in every epoch"
        ours = f"no_positive, from {curriculum.threshold:g} on"
        return Axis("curriculum", ours, "data.shuffle", "missing", reason, settings)
    return Axis("curriculum", "uniform", "data.shuffle", "exact", settings=settings)


def _length(run: RunConfig) -> Axis:
    match run.recipe.length, run.length:
        case axes.Interruption(), _:
            reason = "no key ends the thinking: responses run into max_response_length and have no answer"
            return Axis("length", "interruption", "", "missing", reason)
        case axes.LengthPenalty(), PenaltyRange(max_tokens=most, cache_tokens=cache):
            buffer = "reward.reward_kwargs.overlong_buffer_cfg"
            settings: Settings = {
                "reward.reward_manager.name": "dapo",
                "reward.reward_kwargs.max_resp_len": most,
                f"{buffer}.enable": True,
                f"{buffer}.len": cache,
                f"{buffer}.penalty_factor": 1.0,
                f"{buffer}.log": True,
            }
            reason = "it punishes wrong answers too"
            return Axis("length", "penalty", "reward manager dapo, overlong buffer", "nearest", reason, settings)
        case _:
            return Axis("length", "none", "none", "exact")


def _truncated(choice: str) -> Axis:
    if choice == "keep":
        return Axis("truncated", "keep", "always kept", "exact")
    return Axis("truncated", "mask", "", "missing", "cut-off responses stay in the loss")


def _precision(wanted: axes.Precision) -> Axis:
    trainer, generator = wanted.fp32_head_trainer, wanted.fp32_head_generator
    ours = f"FP32 head: trainer {_word(trainer)}, generator {_word(generator)}"
    key = f"{ROLLOUT}.engine_kwargs.vllm.hf_overrides.head_dtype"
    settings: Settings = {key: "float32"} if generator else {}
    theirs = "vLLM's hf_overrides" if generator else ""
    if trainer:
        reason = "no key for the trainer's head, which stays in the dtype of its passes"
        return Axis("precision", ours, theirs, "nearest" if generator else "missing", reason, settings)
    return Axis("precision", ours, theirs or "default heads", "exact", settings=settings)


def _asynchrony(run: RunConfig) -> Axis:
    prompts, mode = run.scale.batch.prompts, "trainer.v1.trainer_mode"
    sizes = {f"{ACTOR}.ppo_mini_batch_size": prompts, f"{ACTOR}.ppo_epochs": 1, f"{ACTOR}.shuffle": False}
    match run.recipe.asynchrony:
        case axes.Sync() | axes.Pipeline(k=0):
            settings: dict[str, Any] = {mode: "sync", "data.train_batch_size": prompts} | sizes
            return Axis("asynchrony", "sync", "trainer_mode sync", "exact", settings=settings)
        case axes.PpoOffPolicy(k=k):
            settings = {mode: "sync", "data.train_batch_size": k * prompts} | sizes
            theirs = f"train_batch_size = {k} mini-batches"
            if run.recipe.advantage.normalisation == "batch":
                reason = f"the batch deviation is taken over {k} batches together"
                return Axis("asynchrony", f"ppo_off_policy, k {k}", theirs, "nearest", reason, settings)
            return Axis("asynchrony", f"ppo_off_policy, k {k}", theirs, "exact", settings=settings)
        case axes.Pipeline(k=k):
            settings = {
                mode: "separate_async",
                "trainer.v1.separate_async.parameter_sync_step": 1,
                "trainer.v1.sampler.max_off_policy_threshold": k + 1,
                "trainer.v1.sampler.max_off_policy_strategy": "wait",
                "data.train_batch_size": prompts,
            } | sizes
            reason = "the bound is kept by waiting for prompts that reach it, not by admission"
            return Axis("asynchrony", f"pipeline, k {k}", "separate_async", "nearest", reason, settings)


def _scale(run: RunConfig) -> Settings:
    scale, optimiser = run.scale, run.scale.optimiser
    model, optim = scale.model, f"{ACTOR}.optim"
    settings: dict[str, Any] = {
        "actor_rollout_ref.model.path": model.name if isinstance(model, PretrainedModel) else "YOUR-MODEL",
        "actor_rollout_ref.model.enable_gradient_checkpointing": scale.trainer.gradient_checkpointing,
        "data.train_files": ["YOUR-TRAIN.parquet"],
        "data.val_files": ["YOUR-HELD-OUT.parquet"],
        "data.max_prompt_length": scale.tokens.prompt,
        "data.max_response_length": scale.tokens.response,
        "data.seed": run.seed,
        f"{ROLLOUT}.name": "vllm",
        f"{ROLLOUT}.n": scale.batch.rollouts,
        f"{ROLLOUT}.temperature": scale.sampling.temperature,
        f"{ROLLOUT}.top_p": 1.0,
        f"{ROLLOUT}.top_k": -1,
        f"{ROLLOUT}.calculate_log_probs": True,
        f"{ROLLOUT}.dtype": model.dtype,
        f"{ROLLOUT}.tensor_model_parallel_size": scale.generator.vllm.tensor_parallel,
        f"{ROLLOUT}.val_kwargs.n": scale.evaluation.samples,
        f"{ROLLOUT}.val_kwargs.do_sample": True,
        f"{ROLLOUT}.val_kwargs.temperature": scale.evaluation.temperature,
        "algorithm.rollout_correction.bypass_mode": True,
        f"{ACTOR}.fsdp_config.dtype": model.dtype,
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.ppo_max_token_len_per_gpu": scale.trainer.micro_batch_tokens,
        f"{ACTOR}.entropy_coeff": 0,
        f"{ACTOR}.grad_clip": optimiser.grad_clip,
        f"{optim}.lr": optimiser.learning_rate,
        f"{optim}.lr_scheduler_type": "constant",
        f"{optim}.lr_warmup_steps": optimiser.warmup_steps,
        f"{optim}.betas": [*optimiser.betas],
        f"{optim}.weight_decay": optimiser.weight_decay,
        f"{optim}.clip_grad": optimiser.grad_clip,
        f"{optim}.override_optimizer_config.eps": optimiser.eps,
        "trainer.use_v1": True,
        "trainer.test_freq": scale.evaluation.every,
        "trainer.val_before_train": True,
        "trainer.save_freq": scale.checkpoint_every,
    }
    if scale.budget.unit == "steps":
        settings["trainer.total_training_steps"] = int(scale.budget.amount)
    if scale.lora.rank:
        prefix = "actor_rollout_ref.model"
        settings |= {f"{prefix}.lora_rank": scale.lora.rank, f"{prefix}.lora_alpha": round(scale.lora.alpha)}
        settings |= {f"{prefix}.target_modules": [*scale.lora.targets] or "all-linear"}
    return settings


def _budget_note(run: RunConfig) -> list[str]:
    budget = run.scale.budget
    if budget.unit == "steps":
        return []
    what = f"The budget of {budget.amount:g} {budget.unit} has no key"
    return [f"{what}: set trainer.total_training_steps or trainer.total_epochs."]


def _word(flag: bool) -> str:
    return "yes" if flag else "no"
