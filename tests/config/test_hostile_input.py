"""Configs that once ended a loader with something else than one line; each was found by fuzzing (tests/fuzz)."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl.config import from_json, load_run, patch
from scalerl.config.layers import DEEPEST, file_layer, parse_override
from scalerl.errors import InputError

DIGITS = "1" * 5000
"""More than Python converts."""


def refusal(function: object, *arguments: object) -> str:
    with pytest.raises(InputError) as caught:
        function(*arguments)  # type: ignore[operator]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"seed = {DIGITS}", "not TOML"),
        ("a = " + "[" * 5000, "not TOML"),
        ("a" + ".a" * 5000 + " = 1", f"nested too deep; allowed: at most {DEEPEST} levels"),
        (f"seed = 0x{'f' * 5000}", "too many digits"),
        (f"[scale.tokens]\nthinking = 1{'0' * 400}", "too many digits"),
        ('"a\\nb" = 1', "unknown key"),
    ],
    ids=["digits", "brackets", "dots", "hexadecimal digits", "more than a float", "a line end in a key"],
)
def test_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert words in refusal(lambda: load_run(file=path))


def test_a_name_that_no_file_can_have() -> None:
    assert "cannot be read" in refusal(file_layer, "a\0.toml")


@pytest.mark.parametrize(
    "text", [f"seed={DIGITS}", "a=" + "[" * 5000, "a." * 5000 + "a=1", "a=" + "{a=" * 60 + "1" + "}" * 60]
)
def test_overrides(text: str) -> None:
    refusal(parse_override, text)


@pytest.mark.parametrize("text", [DIGITS, "[" * 100_000, '{"a": ' * 60 + "1" + "}" * 60])
def test_saved_configs(text: str) -> None:
    assert "config.json" in refusal(from_json, text)


def test_changes_that_are_nested_absurdly_deep() -> None:
    assert "nested too deep" in refusal(patch, load_run().config, {"a." * 5000 + "a": 1})
