"""`scalerl export-config`: the file, the table, and one line for mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from .conftest import Run


@pytest.mark.parametrize("trainer", ["trl", "verl"])
def test_the_file_and_the_table(run: Run, trainer: str) -> None:
    ran = run("export-config", trainer, "--recipe", "scalerl", "--scale", "paper_8b", "--out", "new/a.yaml")
    assert ran.code == 0, ran.err
    assert "Config: new/a.yaml" in ran.out
    assert "missing" in ran.out
    assert "\u2026" not in ran.out  # no field is cut off
    text = Path("new/a.yaml").read_text()
    assert "# Not expressible:\n#   - curriculum = no_positive" in text
    printed = run("export-config", trainer, "--recipe", "scalerl", "--scale", "paper_8b")
    assert printed.out == text
    document = run("export-config", trainer, "--scale", "paper_8b", "--json").document
    assert document["trainer"] == trainer
    assert [axis["name"] for axis in document["axes"]][:2] == ["loss", "kl_coefficient"]
    assert document["file"] is None
    assert yaml.safe_load(text)


def test_values_are_those_of_the_options(run: Run) -> None:
    sets = ("--set", "recipe.loss.cap=7", "--set", "scale.batch.rollouts=4", "--seed", "5")
    settings = run("export-config", "trl", *sets, "--json").document["settings"]
    assert (settings["epsilon_high"], settings["num_generations"], settings["seed"]) == (7.0, 4, 5)


MISTAKES = {
    "trainer": (["openrlhf"], "'openrlhf' is not one of 'trl', 'verl'"),
    "recipe": (["trl", "--recipe", "scalrl"], "unknown recipe preset, did you mean scalerl?"),
    "ending": (["trl", "--out", "a.txt"], "--out: got 'a.txt'; allowed: a file name ending in .yaml, .yml"),
    "key": (["verl", "--set", "recipe.los.cap=1"], "unknown key recipe.los"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_mistakes(run: Run, kind: str) -> None:
    words, message = MISTAKES[kind]
    ran = run("export-config", *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert list(Path().iterdir()) == []
