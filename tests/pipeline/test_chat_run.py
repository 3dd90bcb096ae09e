"""A run of a policy with a chat template, tags of its own and a file of word problems: from its folder to its curve."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from scalerl.config import RunConfig, load_run
from scalerl.errors import InputError
from scalerl.pipeline.assemble import Ground, ground
from scalerl.pipeline.evaluate import write_all
from scalerl.pipeline.session import train
from scalerl.pipeline.types import Group
from scalerl.policy.load import load_policy
from scalerl.policy.tiny import save_policy
from scalerl.runs import RunDirectory

MakeTokenizer = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, chat_tokenizer: MakeTokenizer) -> Path:
    tokenizer = chat_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("policy")
    save_policy(folder, LlamaForCausalLM(config), tokenizer)
    return folder


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RunConfig]:
    file = tmp_path_factory.mktemp("task") / "sums.jsonl"
    rows = [
        {"prompt": f"Ann has {a} nuts and finds {b}. How many?", "answer": a + b} for a in range(9) for b in range(9)
    ]
    file.write_text("\n".join(map(json.dumps, rows)))

    def make(*overrides: str) -> RunConfig:
        own = [
            f"scale.model={{source='pretrained', name='{folder}', dtype='float32'}}", "scale.warm_start.kind=none",
            f"scale.task={{kind='file', path='{file}', verifier='number'}}",
            "scale.chat.template=model", "scale.chat.opened=true", "scale.chat.begin_thinking='<reason>'",
            "scale.chat.end_thinking='</reason>'", "scale.chat.pattern='{problem} Reason first.'",
            "scale.tokens.prompt=90", "scale.tokens.thinking=24", "scale.tokens.answer=24",
            "scale.batch={prompts=2, rollouts=4}",
            "scale.evaluation.problems=4", "scale.evaluation.samples=2", "scale.evaluation.every=2",
            "scale.budget.amount=2", "scale.generator.rows=8",
            "scale.tokens.interruption_phrase='Time is up.</think> '", "recipe.zero_variance=keep",
        ]  # fmt: skip
        return load_run("scalerl", "laptop", overrides=[*own, *overrides]).config

    return make


def rollouts(run: RunConfig) -> tuple[Ground, list[Group]]:
    policy = load_policy(run)
    base = ground(run, policy.tokenizer)
    source = base.source()
    requests = [source.next_request(index) for index in range(2)]
    groups, _ = write_all(base.generator(policy.model, 0), [request for request in requests if request], _silent)
    return base, groups


def _silent(_: int, __: int) -> None: ...


def test_every_prompt_is_templated_and_every_interruption_closes_with_the_policys_tag(
    run: Callable[..., RunConfig],
) -> None:
    base, groups = rollouts(run())
    tokenizer = load_policy(run()).tokenizer
    for group in groups:
        prompt = str(tokenizer.decode(list(group.request.prompt_ids)))
        assert prompt.startswith("<|im_start|>user\nAnn has ")
        assert prompt.endswith("Reason first.<|im_end|>\n<|im_start|>assistant\n<reason>")
    interrupted = [rollout for group in groups for rollout in group.rollouts if rollout.interrupted]
    assert interrupted  # random weights write no tag
    for rollout in interrupted:
        assert tokenizer.decode(rollout.tokens[~rollout.own]) == "Time is up.</reason> "
    texts = base.dialogue.texts([rollout.tokens.tolist() for rollout in interrupted])
    assert all("Time is up.</think>" in text for text in texts)


def test_a_run_to_its_end(run: Callable[..., RunConfig], tmp_path: Path) -> None:
    result = train(run(), tmp_path / "run")
    assert result.step == 2
    lines = RunDirectory.open(tmp_path / "run").metrics.read()
    assert all(line["interruption_rate"] > 0 for line in lines)
    assert [point.step for point in result.points] == [0, 2]


def test_a_prompt_that_does_not_fit_says_so(run: Callable[..., RunConfig], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"scale\.tokens\.prompt"):
        train(run("scale.tokens.prompt=20"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
