"""bfloat16 products by way of float32: the same numbers and gradients, wherever the model multiplies."""

import pytest

pytest.importorskip("transformers")

import torch
from torch import nn
from torch.nn import functional

from scalerl.pipeline import products
from scalerl.pipeline.products import fast_products, rounded_linear


@pytest.fixture
def slow_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_has_bfloat16_units", lambda: False)


def _pass(model: nn.Module, input_xd: torch.Tensor) -> list[torch.Tensor]:
    own = input_xd.clone().requires_grad_()
    out = model(own)
    out.float().square().sum().backward()
    return [out.detach(), own.grad, *(parameter.grad.clone() for parameter in model.parameters())]  # type: ignore[union-attr, list-item]


def test_the_same_numbers_and_gradients(slow_cpu: None) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(48, 32), nn.SiLU(), nn.Linear(32, 7, bias=False)).bfloat16()
    input_xd = torch.randn(9, 48).bfloat16()
    plain = _pass(model, input_xd)
    model.zero_grad()
    with fast_products(model):
        fast = _pass(model, input_xd)
    assert fast[0].dtype == torch.bfloat16
    for one, other in zip(plain, fast, strict=True):
        torch.testing.assert_close(one, other, rtol=2**-7, atol=1e-3)


def test_only_linear_layers_in_bfloat16_are_caught(slow_cpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[torch.dtype] = []

    def counting(input_d: torch.Tensor, *rest: torch.Tensor | None) -> torch.Tensor:
        caught.append(input_d.dtype)
        return rounded_linear(input_d, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(products, "rounded_linear", counting)
    model, head = nn.Linear(4, 4).bfloat16(), nn.Linear(4, 4)
    with fast_products(model):
        hidden = model(torch.ones(1, 4).bfloat16())
        head(functional.silu(hidden).float())
    assert caught == [torch.bfloat16]


def test_nothing_changes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_has_bfloat16_units", lambda: True)
    monkeypatch.setattr(products, "rounded_linear", None)
    bfloat16 = nn.Linear(4, 4).bfloat16()
    with fast_products(bfloat16):
        bfloat16(torch.ones(1, 4).bfloat16())
    monkeypatch.setattr(products, "_has_bfloat16_units", lambda: False)
    with fast_products(nn.Linear(4, 4)):
        bfloat16(torch.ones(1, 4).bfloat16())
