"""Many patches of one config: the same as one by one."""

from __future__ import annotations

import pytest

from scalerl.config import load_run, patch
from scalerl.config.patches import Patches
from scalerl.errors import InputError


@pytest.mark.parametrize(
    "changes",
    [
        {"scale.batch.prompts": 3},
        {"recipe.loss.surrogate": "ppo_clip", "recipe.loss.clip_high": 0.3},
        {"recipe.length.kind": "none"},
        {"scale.optimiser.betas": [0.8, 0.9], "recipe.zero_variance": "keep"},
    ],
)
def test_a_patch_is_that_of_patch(changes: dict[str, object]) -> None:
    base = load_run().config
    assert Patches(base).apply(changes, "here") == patch(base, changes)


def test_the_base_stays_as_it_is() -> None:
    base = load_run().config
    patches = Patches(base)
    patches.apply({"scale.batch.prompts": 3}, "here")
    assert patches.apply({}, "here") == base


def test_a_bad_patch_names_the_key_and_the_place() -> None:
    with pytest.raises(InputError) as caught:
        Patches(load_run().config).apply({"scale.batch.prompts": 0}, "cell x")
    assert str(caught.value) == "cell x: scale.batch.prompts: got 0; allowed: a whole number at least 1"
