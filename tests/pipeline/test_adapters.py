"""LoRA: the policy as it was until something is learnt, only adapters learn, and everybody else sees a plain policy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from scalerl.config import RunConfig
from scalerl.config.policy import Lora
from scalerl.errors import InputError, MissingDependencyError
from scalerl.pipeline.adapters import add_adapters, merged, trained
from scalerl.pipeline.session import train
from scalerl.policy import TinyLlama, TinyMoe
from scalerl.policy.load import load_policy
from scalerl.policy.tiny import new_policy
from scalerl.runs import RunDirectory

MakeRun = Callable[..., RunConfig]
SHAPE = TinyLlama(width=16, layers=2, heads=2, feed_forward=24, context=24, tied=True)
IDS = torch.tensor([[5, 6, 7, 8, 9]])
LORA = ["scale.lora.rank=4", "scale.lora.alpha=8.0", "scale.optimiser.learning_rate=0.01"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [SHAPE, TinyMoe(width=16, layers=1, heads=2, feed_forward=24, context=24)])
def test_the_sum_is_the_policy_and_has_its_names(shape: TinyLlama | TinyMoe, dtype: torch.dtype) -> None:
    plain, adapted = (new_policy(shape, 0)[0].eval() for _ in range(2))
    for model in (plain, adapted):
        torch.nn.Module.to(model, dtype)
    add_adapters(adapted, Lora(rank=2), seed=0)
    expected = dict(plain.named_parameters())
    found = merged(adapted)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert {parameter.dtype for parameter in trained(adapted).values()} == {torch.float32}
    assert all("lora_" in name for name in trained(adapted))
    if dtype != torch.float32:
        return
    with torch.no_grad():
        for parameter in trained(adapted).values():
            parameter.normal_(std=0.1)
        plain.load_state_dict(merged(adapted), strict=False)
        assert not torch.allclose(adapted(IDS).logits, new_policy(shape, 0)[0].eval()(IDS).logits, atol=1e-3)
        assert torch.allclose(adapted(IDS).logits, plain(IDS).logits, atol=1e-5)


def test_the_layers_that_are_named_and_no_others() -> None:
    model = new_policy(SHAPE, 0)[0]
    add_adapters(model, Lora(rank=2, targets=("q_proj", "v_proj")), seed=0)
    assert {name.split(".")[4] for name in trained(model)} == {"q_proj", "v_proj"}
    whole = new_policy(SHAPE, 0)[0]
    add_adapters(whole, Lora(rank=2), seed=0)
    assert {name.split(".")[4] for name in trained(whole)} >= {"q_proj", "o_proj", "gate_proj", "down_proj"}
    assert not any("lm_head" in name or "embed" in name for name in trained(whole))


def test_layers_that_are_not_there() -> None:
    with pytest.raises(InputError, match=r"scale\.lora\.targets.*wq"):
        add_adapters(new_policy(SHAPE, 0)[0], Lora(rank=2, targets=("wq",)), seed=0)


def test_without_peft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.pipeline.adapters.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"peft.*scalerl\[lora\]"):
        add_adapters(new_policy(SHAPE, 0)[0], Lora(rank=2), seed=0)


def test_a_run_learns_with_adapters_alone_and_goes_on_as_if_nothing_had_happened(
    make_run: MakeRun, cache: Path, tmp_path: Path
) -> None:
    run = make_run(*LORA)
    whole = train(run, tmp_path / "whole", cache=cache)
    part = tmp_path / "part"
    asked = itertools.count()
    train(run, part, cache=cache, should_stop=lambda: next(asked) > 3)
    ended = train(run, part, cache=cache, resume=True)
    assert ended.step == whole.step == 6
    assert [(point.step, point.pass_rate) for point in ended.points] == [(p.step, p.pass_rate) for p in whole.points]
    weights = [load_file(_newest(path) / "model.safetensors") for path in (tmp_path / "whole", part)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert ended.ledger.total.flops == whole.ledger.total.flops


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft has the old name
def test_a_checkpoint_is_a_plain_policy_and_the_adapters_are_pefts(
    make_run: MakeRun, cache: Path, tmp_path: Path
) -> None:
    run = make_run(*LORA)
    train(run, tmp_path / "run", cache=cache)
    folder = _newest(tmp_path / "run")
    plain = AutoModelForCausalLM.from_pretrained(folder).eval()
    assert not any("lora" in name for name in load_file(folder / "model.safetensors"))
    start = load_policy(run, cache).folder
    base = AutoModelForCausalLM.from_pretrained(start).eval()
    with torch.no_grad():
        before = base(IDS).logits
        joined = PeftModel.from_pretrained(base, folder / "adapter").eval()
        assert torch.allclose(joined(IDS).logits, plain(IDS).logits, atol=1e-5)
        assert not torch.allclose(before, plain(IDS).logits, atol=1e-3)
    frozen = "model.embed_tokens.weight"
    assert torch.equal(load_file(start / "model.safetensors")[frozen], plain.state_dict()[frozen])


def test_frozen_weights_cost_less(make_run: MakeRun, cache: Path, tmp_path: Path) -> None:
    """Of a token two thirds of what training all weights costs: their gradients are not computed."""
    spent = []
    for name, more in (("all", []), ("lora", ["scale.lora.rank=1"])):
        run = make_run("scale.budget.amount=1", *more)
        train(run, tmp_path / name, cache=cache)
        (line,) = RunDirectory.open(tmp_path / name).metrics.read()
        spent.append(line["ledger"]["training"]["flops"])
    assert spent[1] == pytest.approx(spent[0] * 2 / 3)


def _newest(run: Path) -> Path:
    return max((run / "checkpoints").iterdir())
