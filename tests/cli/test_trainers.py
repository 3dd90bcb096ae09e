"""`scalerl train --trainers`: a short name for a key of the config."""

from __future__ import annotations

import pytest

from scalerl.cli.settings import Asked, resolve, resolve_again
from scalerl.errors import InputError


def test_the_option_is_the_key() -> None:
    resolved = resolve(Asked(launcher="local", trainers="2"))
    assert resolved.config.scale.launcher.trainers == 2
    assert resolved.origins["scale.launcher.trainers"] == "--trainers 2"


def test_a_run_that_goes_on_keeps_its_number_unless_told_otherwise() -> None:
    saved = resolve(Asked(launcher="local", trainers="2")).config
    same = Asked(recipe="scalerl", launcher="local")
    assert resolve_again(same, saved).config == saved
    assert resolve_again(Asked(budget="9 steps"), saved).config.scale.launcher.trainers == 2
    assert resolve_again(Asked(trainers="1"), saved).config.scale.launcher.trainers == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Asked(launcher="local", trainers="0"), r"--trainers 0: .*got 0; allowed: a whole number at least 1"),
        (Asked(launcher="local", trainers="two"), r"--trainers two: .*got 'two'; allowed: a whole number"),
        (Asked(trainers="2"), r"got 2; allowed: 1, because inline is one process"),
        (Asked(trainers="2", sets=("scale.launcher.trainers=3",)), "scale.launcher.trainers is given twice"),
    ],
)
def test_bad_numbers(asked: Asked, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve(asked)
