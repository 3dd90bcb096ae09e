"""New weights under a running engine, for every engine: from the next token on, with old caches; nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from scalerl.errors import InputError
from scalerl.pipeline.types import Engine, EngineSettings, GroupRequest, Rollout
from scalerl.pipeline.wire import Exchange, Wire
from scalerl.policy.tiny import TinyLlama, new_policy
from scalerl.recipe.logprobs import token_logprobs

Rollouts = dict[tuple[int, int], Rollout]
MakeSettings = Callable[..., EngineSettings]
MakeRequest = Callable[..., GroupRequest]
OpenEngine = Callable[..., Engine]
Drain = Callable[[Engine], Rollouts]
Update = Callable[[Engine, dict[str, Tensor], int], None]
OLD = 4


@pytest.fixture(scope="module")
def other(policy: PreTrainedModel) -> PreTrainedModel:
    """The policy after a step: near the old one, so that its tokens are not strange to it."""
    model = new_policy(TinyLlama(width=64, layers=2, heads=2, feed_forward=48, context=256), seed=1)[0]
    model.eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def by_hand(models: list[PreTrainedModel], prompt: tuple[int, ...], tokens: list[int]) -> list[float]:
    """Log-probs of the tokens where token i is read, and predicted, by models[i]; one cache, never recomputed."""
    cache, logprobs = DynamicCache(), []
    read = torch.tensor([prompt])
    for model, token in zip(models, tokens, strict=True):
        with torch.no_grad():
            logits = model(input_ids=read, past_key_values=cache, use_cache=True).logits[:, -1]
        logprobs.append(float(token_logprobs(logits, torch.tensor([token]))[0]))
        read = torch.tensor([[token]])
    return logprobs


@pytest.fixture(params=["handed over", "wire"])
def update(request: pytest.FixtureRequest) -> Iterator[Update]:
    """`update(engine, weights, version)`, for each way that weights can come."""
    if request.param == "handed over":
        yield lambda engine, weights, version: engine.load_weights(weights, version)
        return
    exchange, wires = Exchange("127.0.0.1", 1, "gloo"), list[Wire]()

    def over_a_wire(engine: Engine, weights: dict[str, Tensor], version: int) -> None:
        exchange.publish(weights, version)
        wires.extend([] if wires else [exchange.lay()])
        for _ in range(2):  # the second time there is nothing new
            wires[0].answer()
            engine.receive_weights(wires[0].end)

    yield over_a_wire
    for wire in wires:
        wire.cut()


def test_weights_that_change_all_the_time(
    open_engine: OpenEngine, policy: PreTrainedModel, other: PreTrainedModel, settings: MakeSettings,
    request_of: MakeRequest, update: Update,
) -> None:  # fmt: skip
    """Every token was written by the version that it is said to be from: exactly, with the caches of those before."""
    models = [policy, other]
    engine = open_engine(settings(max_response=120), OLD)
    requests = [request_of(index, 2) for index in range(3)]
    for request in requests:
        engine.submit(request)
    found: Rollouts = {}
    while engine.num_pending:
        for _ in range(2):
            found |= {(done.request, done.position): done.rollout for done in engine.step().finished}
        version = engine.version + 1
        update(engine, dict(models[version % 2].named_parameters()), version)
        assert engine.version == version
    assert len(found) == 6
    assert max(len(set(rollout.versions.tolist())) for rollout in found.values()) > 2
    for (index, _), rollout in found.items():
        versions = rollout.versions.tolist()
        assert versions == sorted(versions)
        expected = by_hand([models[v % 2] for v in versions], requests[index].prompt_ids, rollout.tokens.tolist())
        assert rollout.logprobs == pytest.approx(expected, abs=2e-4)


def test_what_begins_after_an_update_has_nothing_of_the_old_weights(
    open_engine: OpenEngine, policy: PreTrainedModel, other: PreTrainedModel, settings: MakeSettings,
    request_of: MakeRequest, drain: Drain,
) -> None:  # fmt: skip
    """The same prompt again, and longer than a block of any cache: its keys and values are read anew."""
    prompt = tuple(5 + token % 15 for token in range(100))
    engine = open_engine(settings(max_prompt=100), OLD)
    for version, model in ((OLD, policy), (9, other)):
        if version != OLD:
            engine.load_weights(dict(model.named_parameters()), version)
        engine.submit(request_of(0, 2, prompt_ids=prompt))
        for rollout in drain(engine).values():
            assert rollout.versions.tolist() == [version] * 12
            expected = by_hand([model] * 12, prompt, rollout.tokens.tolist())
            assert rollout.logprobs == pytest.approx(expected, abs=2e-4)


def test_the_phrase_has_the_version_of_its_moment(
    open_engine: OpenEngine, other: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    engine = open_engine(settings(phrase_ids=(11, 12)), OLD)
    engine.load_weights(dict(other.named_parameters()), 9)
    engine.submit(request_of(0, 2, interruptions=(0, 3)))
    for rollout in drain(engine).values():
        assert rollout.interrupted
        assert rollout.versions.tolist() == [9] * 12


def test_wrong_weights_change_nothing(
    open_engine: OpenEngine, policy: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    engine = open_engine(settings(), OLD)
    weights: dict[str, Tensor] = {name: tensor + 1 for name, tensor in policy.state_dict().items()}
    last = list(weights)[-1]
    missing = {name: tensor for name, tensor in weights.items() if name != last}
    for wrong, message in (
        (missing, f"without a parameter of the model: got '{last}'"),
        ({**weights, last: torch.zeros(3)}, f"the shape of {last}: got \\(3,\\)"),
        ({**weights, "extra": torch.zeros(3)}, "unknown parameter: got 'extra'"),
    ):
        with pytest.raises(InputError, match=message):
            engine.load_weights(wrong, version=5)
    assert engine.version == OLD
    engine.submit(request_of(0))
    rollout = drain(engine)[0, 0]
    expected = by_hand([policy] * 12, request_of(0).prompt_ids, rollout.tokens.tolist())
    assert rollout.logprobs == pytest.approx(expected, abs=1e-4)


def test_weights_are_copied(
    open_engine: OpenEngine, other: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    weights = {name: tensor.detach().clone() for name, tensor in other.named_parameters()}
    engine = open_engine(settings())
    engine.load_weights(weights, version=1)
    for tensor in weights.values():
        tensor.zero_()
    engine.submit(request_of(0))
    rollout = drain(engine)[0, 0]
    expected = by_hand([other] * 12, request_of(0).prompt_ids, rollout.tokens.tolist())
    assert rollout.logprobs == pytest.approx(expected, abs=1e-4)


def test_logits_that_are_not_numbers_stop_the_engine(
    open_engine: OpenEngine, policy: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    engine = open_engine(settings())
    weights = dict(policy.state_dict())
    weights["lm_head.weight"] = torch.full_like(weights["lm_head.weight"], torch.nan)  # keys and values stay numbers
    engine.load_weights(weights, version=6)
    engine.submit(request_of(0))
    with pytest.raises(InputError, match="policy version 6: logits of the policy: got 'not a number'"):
        drain(engine)
