"""The trainer: equal gradients however a batch is cut, hand-checked metrics, masks, and snapshots."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from scalerl.config import RunConfig
from scalerl.errors import InputError, TrainingError
from scalerl.pipeline.batch import make_batch
from scalerl.pipeline.learner import Learner
from scalerl.pipeline.trainer import StepResult, Trainer, learning_rate
from scalerl.pipeline.types import Group, GroupRequest, Rollout, Snapshot
from scalerl.policy import TinyLlama, TinyMoe
from scalerl.policy.tiny import Shape, new_policy
from scalerl.recipe import recipe_of
from scalerl.tasks import Status, Verdict

MakeRun = Callable[..., RunConfig]
SHAPE = TinyLlama(width=16, layers=2, heads=2, feed_forward=24, context=24)
MOE = TinyMoe(width=16, layers=1, heads=2, feed_forward=24, context=24)
PROMPT = (5, 6, 7)
ROUNDING = 1e-6
"""Of float32 sums in another order: 5e-7 of the whole gradient. Of one parameter, where terms cancel, it depends on the
processor: 1.2e-6 was seen."""


def policy(shape: Shape = SHAPE, seed: int = 0) -> PreTrainedModel:
    return new_policy(shape, seed)[0]


def trainer(run: RunConfig, shape: Shape = SHAPE, reference: PreTrainedModel | None = None) -> Trainer:
    return Trainer(policy(shape), recipe_of(run), run, reference)


def rollout(
    tokens: Sequence[int],
    *,
    injected: Sequence[int] = (),
    version: int = 0,
    truncated: bool = False,
    shift: float = 0.0,
) -> Rollout:
    own = np.array([i not in injected for i in range(len(tokens))])
    logprobs = np.where(own, -2.0 + shift, 0.0).astype(np.float32)
    versions = np.full(len(tokens), version, np.int32)
    return Rollout(np.array(tokens), logprobs, versions, own, truncated, interrupted=bool(injected))


def group(index: int, rollouts: Sequence[Rollout], statuses: Sequence[Status]) -> Group:
    seeds = tuple(range(len(rollouts)))
    request = GroupRequest(index, "train", index, f"p{index}", PROMPT[: 1 + index % 3], seeds, (None,) * len(seeds))
    return Group(request, tuple(rollouts), tuple(map(Verdict, statuses)))


def mixed_batch() -> list[Group]:
    """Six groups of four with uneven lengths, ages 0 to 2, injected tokens in some, ratios on both sides of 1."""
    rng = np.random.default_rng(0)
    groups = []
    for index in range(6):
        rollouts = [
            rollout(
                rng.integers(2, 14, rng.integers(3, 12)).tolist(),
                injected=(1, 2) if i == 0 else (),
                version=int(rng.integers(0, 3)),
                shift=float(rng.normal()) * 0.3,
            )
            for i in range(4)
        ]
        groups.append(group(index, rollouts, ["correct", "wrong", "wrong", "correct" if index % 2 else "unparsable"]))
    return groups


def gradients(run: RunConfig, groups: Sequence[Group], shape: Shape = SHAPE) -> tuple[float, dict[str, Tensor], int]:
    learner, batch = trainer(run, shape), make_batch(groups)
    found = learner.accumulate(batch, recipe_of(run).plan(batch.rollouts))
    grads = {name: p.grad.clone() for name, p in learner.model.named_parameters() if p.grad is not None}
    return found.loss, grads, found.num_micro_batches


def assert_close(first: dict[str, Tensor], second: dict[str, Tensor], relative: float) -> None:
    assert first.keys() == second.keys()
    for name, one in first.items():
        assert (one - second[name]).norm() <= relative * one.norm(), name


def joined(grads: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"of all parameters": torch.cat([grad.flatten() for grad in grads.values()])}


@pytest.mark.parametrize("recipe", ["scalerl", "deepseek_grpo", "qwen_dapo", "gspo", "dr_grpo"])
def test_micro_batches_add_up_to_the_batch(make_run: MakeRun, recipe: str) -> None:
    whole = gradients(make_run("scale.trainer.micro_batch_tokens=100000", recipe=recipe), mixed_batch())
    assert whole[2] == 1
    for tokens in (24, 40, 90):
        pieces = gradients(make_run(f"scale.trainer.micro_batch_tokens={tokens}", recipe=recipe), mixed_batch())
        assert pieces[2] > 2
        assert pieces[0] == pytest.approx(whole[0], rel=1e-5, abs=1e-7)
        assert_close(joined(whole[1]), joined(pieces[1]), ROUNDING)
        assert_close(whole[1], pieces[1], 10 * ROUNDING)


def test_micro_batches_add_up_for_a_mixture_of_experts(make_run: MakeRun) -> None:
    whole = gradients(make_run("scale.trainer.micro_batch_tokens=100000"), mixed_batch(), MOE)
    pieces = gradients(make_run("scale.trainer.micro_batch_tokens=24"), mixed_batch(), MOE)
    assert_close(whole[1], pieces[1], ROUNDING)


@pytest.mark.parametrize("shape", [SHAPE, MOE], ids=["llama", "moe"])
def test_gradient_checkpointing_gives_the_same_gradients(
    make_run: MakeRun, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = gradients(make_run(), mixed_batch(), shape)
    attention, calls = type(policy(shape).model.layers[0].self_attn), []
    forward = attention.forward

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return forward(*arguments, **options)

    monkeypatch.setattr(attention, "forward", counted)
    again = gradients(make_run("scale.trainer.gradient_checkpointing=true"), mixed_batch(), shape)
    assert len(calls) == 2 * shape.layers * again[2]  # forward, and once more in the backward pass
    assert_close(plain[1], again[1], ROUNDING)


def test_mixed_precision_changes_the_gradients_a_little_and_not_the_weights(make_run: MakeRun) -> None:
    plain = gradients(make_run(), mixed_batch())
    mixed = gradients(make_run("scale.trainer.mixed_precision=true"), mixed_batch())
    assert_close(plain[1], mixed[1], 0.1)
    assert not mixed[1]["lm_head.weight"].equal(plain[1]["lm_head.weight"])
    learner = trainer(make_run("scale.trainer.mixed_precision=true"))
    learner.step(mixed_batch(), 2, 2)
    assert all(tensor.dtype == torch.float32 for tensor in learner.weights().values())


def test_the_fp32_head_is_a_switch(make_run: MakeRun) -> None:
    """Under autocast the head is in bfloat16 unless it is told otherwise."""
    switches = [f"recipe.precision.fp32_head_trainer={on}" for on in ("true", "false")]
    first, second = (gradients(make_run("scale.trainer.mixed_precision=true", on), mixed_batch()) for on in switches)
    assert first[0] != second[0]


def two_groups() -> list[Group]:
    """Group 0 is mixed; group 1 is all wrong. One truncated, one interrupted, one whose verifier failed."""
    first = [rollout([3, 4, 1], version=3), rollout([3, 8, 9, 1], injected=(1,), version=5)]
    second = [rollout([4, 4], version=5, truncated=True), rollout([2, 1], version=4)]
    return [group(0, first, ["correct", "wrong"]), group(1, second, ["unparsable", "timeout"])]


def test_every_value_of_a_step(make_run: MakeRun) -> None:
    run = make_run("scale.sampling.temperature=2.0", "scale.optimiser.grad_clip=1e-3")
    learner = trainer(run)
    values = learner.step(two_groups(), version=5, max_age=2).values
    # judged: correct, wrong, unparsable; rewards 1, -1, -1
    assert values["pass_rate"] == pytest.approx(1 / 3)
    assert values["reward"] == pytest.approx(-1 / 3)
    assert (values["effective_prompts"], values["effective_rollouts"]) == (1, 2)
    assert (values["zero_variance_groups"], values["unjudged_rollouts"]) == (1, 1)
    assert (values["truncation_rate"], values["interruption_rate"]) == (0.25, 0.25)
    assert (values["mean_length"], values["max_length"]) == (11 / 4, 4)
    # own tokens: 3 of age 2, 3 of age 0, 2 of age 0, 2 of age 1
    assert (values["age_mean"], values["age_max"]) == ((6 + 2) / 10, 2)
    assert (values["loss_tokens"], values["micro_batches"], values["kl"]) == (6, 1, None)
    assert values["learning_rate"] == pytest.approx(1e-3)

    logprobs, entropies = own_logprobs(policy(), two_groups()[0], temperature=2.0)
    ratios = (torch.cat(logprobs) + 2.0).exp()
    assert values["ratio_mean"] == pytest.approx(float(ratios.mean()), rel=1e-5)
    assert values["ratio_max"] == pytest.approx(float(ratios.max()), rel=1e-5)
    assert values["clipped_fraction"] == float((ratios > 5).float().mean())
    assert values["entropy"] == pytest.approx(float(torch.cat(entropies).mean()), rel=1e-5)
    # CISPO, prompt average over 6 tokens; advantages 1 and -1, divided by the deviation of both
    deviation = 1.0
    terms = [
        sign / deviation * ((logprob + 2.0).exp().clamp(max=5) * logprob).sum()
        for sign, logprob in zip((1, -1), logprobs, strict=True)
    ]
    assert values["loss"] == pytest.approx(float(-sum(terms) / 6), rel=1e-4)
    assert values["grad_norm"] is not None
    assert values["grad_norm"] > 1e-3  # before clipping


def own_logprobs(model: PreTrainedModel, answered: Group, temperature: float) -> tuple[list[Tensor], list[Tensor]]:
    """A plain forward pass, one sequence at a time."""
    logprobs, entropies = [], []
    for rollout_ in answered.rollouts:
        prompt = answered.request.prompt_ids
        sequence = torch.tensor([[*prompt, *rollout_.tokens.tolist()]])
        with torch.no_grad():
            scores = (model(input_ids=sequence).logits[0] / temperature).log_softmax(-1)
        at = torch.from_numpy(rollout_.own.nonzero()[0]) + len(prompt)
        logprobs.append(scores[at - 1, sequence[0, at]])
        entropies.append(-(scores[at - 1].exp() * scores[at - 1]).sum(-1))
    return logprobs, entropies


def test_flops_and_tokens(make_run: MakeRun) -> None:
    """The two rollouts in the loss have inputs of 1 + 2 and 1 + 3 tokens, which look at 6 + 10 positions.

    2 blocks of width 16: 4 x 256 + 3 x 16 x 24 = 2176 each; head 16 x vocabulary."""
    result = trainer(make_run()).step(two_groups(), 5, 2)
    parameters = 2 * 2176 + 16 * policy().config.vocab_size
    assert result.tokens == 7
    assert result.flops == 3 * (2 * parameters * 7 + 4 * 2 * 16 * 16)


def test_injected_tokens_have_no_part_in_the_loss(make_run: MakeRun) -> None:
    groups = mixed_batch()
    nonsense = [
        replace(r, logprobs=np.where(r.own, r.logprobs, np.float32(np.nan)), versions=np.where(r.own, r.versions, -9))
        for r in groups[0].rollouts
    ]
    first = step(make_run(), groups)
    second = step(make_run(), [replace(groups[0], rollouts=tuple(nonsense)), *groups[1:]])
    assert first[0].values == second[0].values
    assert_equal(first[1], second[1])


def step(run: RunConfig, groups: Sequence[Group]) -> tuple[StepResult, Mapping[str, Tensor]]:
    learner = trainer(run)
    return learner.step(groups, 2, 2), learner.weights()


def assert_equal(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    assert all(first[name].equal(second[name]) for name in first)


def test_truncated_rollouts_are_masked_or_kept(make_run: MakeRun) -> None:
    rollouts = [rollout([3, 4, 1]), rollout([5, 9, 1]), rollout([5, 5, 5, 5], truncated=True)]
    groups = [group(0, rollouts, ["correct", "wrong", "wrong"])]
    counts = {}
    for choice in ("mask", "keep"):
        counts[choice] = step(make_run(f'recipe.truncated="{choice}"'), groups)[0].values["loss_tokens"]
    assert counts == {"mask": 6, "keep": 10}


def test_a_step_with_nothing_in_the_loss_changes_nothing(make_run: MakeRun) -> None:
    """But it is a step: its values are there, and say so."""
    learner = trainer(make_run())
    learner.step(mixed_batch(), 2, 2)  # so that AdamW has momentum that could move the weights
    before = {name: tensor.clone() for name, tensor in learner.weights().items()}
    state = dict(learner.snapshot().tensors)
    wrong = [group(0, [rollout([3, 1], version=3), rollout([4, 1], version=3)], ["wrong", "wrong"])]
    result = learner.step(wrong, 3, 2)
    assert_equal(before, learner.weights())
    assert_equal(state, dict(learner.snapshot().tensors))
    assert (result.values["effective_prompts"], result.values["micro_batches"]) == (0, 0)
    assert (result.values["loss"], result.values["grad_norm"], result.values["entropy"]) == (None, None, None)
    assert (result.values["pass_rate"], result.flops, result.tokens) == (0.0, 0.0, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_gone_after_a_step(make_run: MakeRun, dtype: torch.dtype) -> None:
    """They are as large as the policy, and an evaluation or a checkpoint may follow."""
    run = make_run()
    learner = Learner(torch.nn.Module.to(policy(), dtype), recipe_of(run), run)
    batch = make_batch(mixed_batch())
    learner.learn(batch, recipe_of(run).plan(batch.rollouts), 1e-3)
    held = [*learner.model.parameters(), *learner._masters.tensors.values()]
    assert all(tensor.grad is None for tensor in held)


def test_one_step_is_adamw_with_the_paper_settings(make_run: MakeRun) -> None:
    """First update: m / sqrt(v) is the sign of the gradient, so that each weight moves by the rate (eps is 1e-15)."""
    run = make_run("scale.optimiser.weight_decay=0.5", "scale.optimiser.warmup_steps=10")
    learner, before = trainer(run), dict(policy().named_parameters())
    grads = gradients(run, mixed_batch())[1]
    learner.step(mixed_batch(), 2, 2)
    rate = 1e-3 * 3 / 10
    for name, after in learner.weights().items():
        expected = before[name] * (1 - rate * 0.5) - rate * grads[name].sign()
        chosen = grads[name].abs() > 1e-9
        assert torch.allclose(after[chosen], expected[chosen], atol=1e-7), name


def test_the_warm_up_is_linear_and_then_constant(make_run: MakeRun) -> None:
    optimiser = make_run("scale.optimiser.learning_rate=0.4", "scale.optimiser.warmup_steps=4").scale.optimiser
    assert [learning_rate(optimiser, version) for version in range(6)] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    assert learning_rate(optimiser.model_copy(update={"warmup_steps": 0}), 0) == 0.4


def test_a_kl_term_pulls_towards_the_reference(make_run: MakeRun) -> None:
    run = make_run("recipe.kl_coefficient=100.0")
    near = Trainer(policy(), recipe_of(run), run, policy())
    far = Trainer(policy(), recipe_of(run), run, reference := policy(seed=1))
    frozen = {name: tensor.clone() for name, tensor in reference.named_parameters()}
    first, second = (learner.step(mixed_batch(), 2, 2) for learner in (near, far))
    assert first.values["kl"] == pytest.approx(0, abs=1e-6)
    assert second.values["kl"] is not None
    assert second.values["kl"] > 0.1
    later = [far.step(mixed_batch(), 2, 2).values["kl"] or math.nan for _ in range(10)]
    assert later[-1] < second.values["kl"]
    assert_equal(frozen, dict(reference.named_parameters()))
    assert first.flops == pytest.approx(step(make_run(), mixed_batch())[0].flops * 4 / 3)


def test_a_kl_term_needs_a_reference(make_run: MakeRun) -> None:
    with pytest.raises(InputError, match="a reference policy: got 'none'"):
        trainer(make_run("recipe.kl_coefficient=0.1"))
    with pytest.raises(InputError, match="a reference policy: got 'one'"):
        trainer(make_run(), reference=policy())


def test_restored_goes_on_bit_for_bit(make_run: MakeRun) -> None:
    run = make_run()
    learner = trainer(run)
    learner.step(mixed_batch(), 2, 2)
    weights = {name: tensor.clone() for name, tensor in learner.weights().items()}
    saved = learner.snapshot()
    expected = learner.step(mixed_batch(), 3, 3)

    other = trainer(run)
    other.model.load_state_dict(weights)
    other.restore(saved)
    assert other.step(mixed_batch(), 3, 3).values == expected.values
    assert_equal(learner.weights(), other.weights())
    assert_equal(dict(learner.snapshot().tensors), dict(other.snapshot().tensors))


def test_bfloat16_weights_learn_in_steps_far_below_their_spacing(make_run: MakeRun) -> None:
    """Weights of about .25 have a spacing of 2^-10 = .001 in bfloat16. Thirty steps of 1e-4 are lost one by one, but
    the float32 masters add them up."""
    run = make_run("scale.optimiser.learning_rate=1e-4", "scale.optimiser.warmup_steps=0")
    learner = Trainer(policy().bfloat16(), recipe_of(run), run)
    before = {name: tensor.clone() for name, tensor in learner.weights().items()}
    for version in range(2, 32):
        learner.step(mixed_batch(), version, version)
    head = "lm_head.weight"
    moved = (learner.weights()[head] != before[head]).float().mean()
    assert learner.weights()[head].dtype == torch.bfloat16
    assert moved > 0.5
    masters = {name.removeprefix("master/"): t for name, t in learner.snapshot().tensors.items() if "master/" in name}
    assert_equal({name: tensor.bfloat16() for name, tensor in masters.items()}, learner.weights())


def test_bfloat16_weights_are_restored_bit_for_bit(make_run: MakeRun) -> None:
    run = make_run()
    learner = Trainer(policy().bfloat16(), recipe_of(run), run)
    learner.step(mixed_batch(), 2, 2)
    weights, saved = {name: tensor.clone() for name, tensor in learner.weights().items()}, learner.snapshot()
    expected = learner.step(mixed_batch(), 3, 3)
    other = Trainer(policy().bfloat16(), recipe_of(run), run)
    other.model.load_state_dict(weights)
    other.restore(saved)
    assert other.step(mixed_batch(), 3, 3).values == expected.values
    assert_equal(dict(learner.snapshot().tensors), dict(other.snapshot().tensors))
    incomplete = Snapshot({}, {name: t for name, t in saved.tensors.items() if not name.startswith("master/")})
    with pytest.raises(InputError, match="saved float32 weights of another policy"):
        other.restore(incomplete)


def test_a_snapshot_is_a_copy_with_the_random_state(make_run: MakeRun) -> None:
    learner = trainer(make_run())
    learner.step(mixed_batch(), 2, 2)
    torch.manual_seed(3)
    saved = learner.snapshot()
    copies = {name: tensor.clone() for name, tensor in saved.tensors.items()}
    drawn = torch.rand(3)
    learner.step(mixed_batch(), 3, 3)
    assert_equal(copies, dict(saved.tensors))
    learner.restore(saved)
    assert torch.rand(3).equal(drawn)


def test_a_snapshot_of_another_policy_is_refused(make_run: MakeRun) -> None:
    learner, wider = trainer(make_run()), trainer(make_run(), replace(SHAPE, feed_forward=32))
    learner.step(mixed_batch(), 2, 2)
    with pytest.raises(InputError, match="saved optimiser state of another policy"):
        wider.restore(learner.snapshot())
    deeper = trainer(make_run(), replace(SHAPE, layers=3))
    deeper.step(mixed_batch(), 2, 2)
    with pytest.raises(InputError, match="saved optimiser state of another policy"):
        learner.restore(deeper.snapshot())


@pytest.mark.parametrize(("version", "age"), [(5, 3), (1, -1)])
def test_an_age_beyond_the_bound_raises(make_run: MakeRun, version: int, age: int) -> None:
    old = [group(0, [rollout([3, 1], version=2), rollout([4, 1], version=2)], ["wrong", "correct"])]
    learner = trainer(make_run())
    with pytest.raises(TrainingError, match=f"step {version + 1}: a token of age {age}, but ages are 0 to 2 here"):
        learner.step(old, version, 2)
    assert_equal(learner.weights(), dict(policy().named_parameters()))


def test_a_gradient_that_is_not_finite_changes_nothing(make_run: MakeRun) -> None:
    broken = policy()
    with torch.no_grad():
        broken.get_output_embeddings().weight[3] = torch.inf
    before = {name: tensor.clone() for name, tensor in broken.named_parameters()}
    run = make_run()
    learner = Trainer(broken, recipe_of(run), run)
    optimiser = learner.snapshot().tensors
    found = learner.step(mixed_batch(), 2, 2)
    assert found.skipped is not None
    assert found.skipped.endswith("learning rate 0.001")
    assert_equal(before, learner.weights())
    assert_equal(optimiser, learner.snapshot().tensors)
    assert trainer(run).step(mixed_batch(), 2, 2).skipped is None


def test_a_run_that_was_rolled_back_has_a_lower_rate(make_run: MakeRun) -> None:
    rates = [trainer(make_run()).step(mixed_batch(), 2, 2, slowed).values["learning_rate"] for slowed in (1.0, 0.25)]
    assert rates == [0.001, 0.00025]
