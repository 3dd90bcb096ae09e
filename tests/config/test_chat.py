"""The keys of `scale.chat`, and what cannot be."""

from typing import Any

import pytest

from scalerl.config import RunConfig, digest, load_run
from scalerl.errors import InputError


def run_of(*overrides: str) -> RunConfig:
    return load_run("scalerl", "laptop", overrides=list(overrides)).config


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (['scale.chat.pattern="Solve it"'], r"scale\.chat\.pattern.*\{problem\} in it once"),
        (['scale.chat.pattern="{problem} {problem}"'], r"once"),
        (['scale.chat.system="Be brief"'], r"scale\.chat\.system.*template none"),
        (["scale.chat.options.enable_thinking=true"], r"scale\.chat\.options.*no variables"),
        (['scale.chat.end_thinking="<think>"'], r"scale\.chat\.end_thinking.*another tag"),
        (['scale.chat.template="chatml"'], r"scale\.chat\.template"),
        (["scale.lora.rank=-1"], r"scale\.lora\.rank"),
        (["scale.lora.alpha=8.0"], r"scale\.lora\.rank.*got '?0'?.*1 or more, because lora\.alpha is given"),
        (["scale.lora.targets=['q_proj']"], r"scale\.lora\.rank.*got '?0'?.*1 or more, because lora\.targets is given"),
        (
            ["scale.lora.rank=4", 'scale.launcher.kind="local"', "scale.launcher.trainers=2"],
            r"launcher\.trainers.*adapters",
        ),
    ],
)
def test_what_cannot_be(overrides: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run_of(*overrides)


def test_a_run_without_them_is_the_run_it_was() -> None:
    values: dict[str, Any] = run_of().model_dump()["scale"]
    assert "chat" not in values
    assert "lora" not in values
    assert digest(run_of("scale.lora.rank=4")) != digest(run_of())
    assert digest(run_of("scale.chat.opened=true")) != digest(run_of())
