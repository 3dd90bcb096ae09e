"""Fuzz targets of the config loaders: TOML files, `--set`, studies, suites, saved configs, options."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from scalerl.cli import checks, places
from scalerl.cli.budget import budget_words, parse_budget
from scalerl.cli.settings import Asked, resolve
from scalerl.config import RunConfig, diff, digest, flatten, from_json, load_run, patch, to_json
from scalerl.config.layers import parse_override
from scalerl.config.study import load_study, study_from, study_values
from scalerl.interop import TARGETS as TRAINERS
from scalerl.interop import export
from scalerl.study.plan import plan

from . import samples
from .target import JSON_WORDS, NUMBER_WORDS, TOML_WORDS, Run, Target, as_text, check_json, each, fields

_KEYS = (
    "recipe.loss.surrogate", "recipe.loss.cap", "scale.budget.amount", "scale.task.kind", "scale.model.source",
    "scale.evaluation.downstream", "scale.evaluation.suites", "scale.chat.options", "scale.launcher.kind", "seed",
    "scale.task.parts", "whole", "surrogate", "kind",
)  # fmt: skip
_WORDS = (
    *TOML_WORDS, *_KEYS, "=", ".", "cispo", "file", "mixture", "reasoning_gym", "countdown", "penalty", "vllm", "ray",
)  # fmt: skip
_SETS = (
    "recipe.loss.cap=8", "scale.budget.unit=tokens", "recipe.loss={surrogate='gspo'}", "seed=3",
    "recipe.length.kind=penalty", "scale.task={kind='file', path='a.jsonl', layout='auto'}",
    "scale.task={kind='countdown', numbers=4, largest=9}", "scale.chat={template='model', system='a'}",
    "scale.evaluation.downstream.hard={task={numbers=6}, samples=2}",
    "scale.task={kind='mixture', parts={a={task={kind='chained_sums', numbers=3, largest=9, train_problems=0}}}}",
    "recipe.asynchrony={kind='ppo_off_policy', k=4}", "scale.model={source='pretrained', name='x', dtype='float32'}",
    "scale.evaluation.suites=['aime24=a.jsonl']", "recipe.advantage.normalisation=none", "scale.tokens.thinking=.5",
)  # fmt: skip

_TEXTS = (
    b"50k", b"50%", b"0,1", b"1e21\x0010", b"500 steps", b"2e13 flops", b"1.5 device-hours", b"7:1", b"h100",
    b"30 days", b"2026-01-01T00:00:00Z", b"0.5,50%",
)  # fmt: skip
_TEXT_WORDS = (*NUMBER_WORDS, "%", "k", "M", "end", "inf", "none", "steps", "days", "usd", ":", "\0", "+", "_")


def check(config: RunConfig) -> None:
    """What a config that was accepted must bear: saving, naming, comparing, exporting."""
    text = to_json(config)
    assert from_json(text) == config
    assert len(digest(config)) == 64
    assert not diff(config, patch(config, {}))
    check_json(flatten(config))
    for trainer in TRAINERS:
        export(trainer, config).text.encode("utf-8", "surrogatepass")


def _toml(load: Callable[[str], object]) -> Callable[[Path], Run]:
    def make(folder: Path) -> Run:
        path = folder / "given.toml"

        def run(data: bytes) -> None:
            path.write_bytes(data)
            load(str(path))

        return run

    return make


def _config(path: str) -> None:
    check(load_run(file=path).config)


def _recipe(path: str) -> None:
    check(load_run(path).config)


def _scale(path: str) -> None:
    check(load_run(scale=path).config)


def _suite(path: str) -> None:
    check(load_run(suites=[path]).config)
    check(load_run(suites=[f"{path}=problems.jsonl"]).config)


def _study(path: str) -> None:
    config = load_study(path)
    values = study_values(config)
    check_json(values)
    assert study_from(values, "again") == config
    if len(config.seeds) * (len(config.all_cells) + 1) < 100:
        plan(config)


def _make_set(_: Path) -> Run:
    """Each line is one `--set`."""

    def run(data: bytes) -> None:
        texts = as_text(data).split("\n")
        for text in texts:
            parse_override(text)
        check(load_run(overrides=texts).config)

    return run


def _make_saved(_: Path) -> Run:
    def run(data: bytes) -> None:
        check(from_json(as_text(data)))

    return run


def _make_patch(_: Path) -> Run:
    """Any JSON object as changes of a config, as a study's cell has them."""
    base = load_run().config

    def run(data: bytes) -> None:
        try:
            changes = json.loads(data)
        except (ValueError, RecursionError):
            return
        if isinstance(changes, dict):
            check(patch(base, changes))

    return run


def _make_options(_: Path) -> Run:
    """One text as the value of every option that takes a number, a share, a budget or bounds."""

    def run(data: bytes) -> None:
        text, other = [*fields(data), ""][:2]
        each(
            lambda: places.amounts([places.budget(text)], []),
            lambda: places.window_of([], *places.window(text, other)),
            lambda: checks.bounds(text),
            lambda: checks.shares(text),
            lambda: checks.fitting((None, other or None), text, other or None, "sigmoid", "varpro", "0.8", (0.0, 1.0)),
            lambda: checks.log_options(text, None, None, "replace"),
            lambda: _budget(text),
            lambda: resolve(Asked(seed=text or None, budget=other or None)),
            lambda: _plan_options(text),
        )

    return run


def _budget(text: str) -> None:
    given = parse_budget(text)
    assert budget_words(given.unit, given.amount)


def _plan_options(text: str) -> None:
    from scalerl.cli.plan_checks import budget_of, split_of, start_of, whole
    from scalerl.plan.hardware import device_named

    each(
        lambda: budget_of(text, None),
        lambda: split_of(text, None),
        lambda: start_of(text),
        lambda: whole("--gpus", text),
        lambda: device_named(text),
    )


def _tomls(kind: str) -> Callable[[], list[bytes]]:
    return lambda: samples.files(samples.PRESETS / kind, "*.toml")


def _configs() -> list[bytes]:
    head = b'seed = 1\n[recipe.loss]\nsurrogate = "gspo"\n[scale.budget]\nunit = "steps"\namount = 10\n'
    return [
        head,
        b"[scale.evaluation]\nsuites = ['aime24']\n",
        b"[scale.chat]\ntemplate = 'model'\noptions = {a = 1}\n",
    ]


TARGETS = (
    Target("config-file", _toml(_config), _configs, _WORDS, cost=9),
    Target("config-recipe", _toml(_recipe), _tomls("recipes"), _WORDS, cost=9),
    Target("config-scale", _toml(_scale), _tomls("scales"), _WORDS, cost=9),
    Target("config-suite", _toml(_suite), _tomls("suites"), _WORDS, cost=12),
    Target(
        "config-study",
        _toml(_study),
        _tomls("studies"),
        (*_WORDS, "[[cells]]", "[[sweeps]]", "{seed}", "command"),
        cost=15,
    ),
    Target("config-set", _make_set, lambda: [text.encode() for text in _SETS], _WORDS, cost=8),
    Target("config-saved", _make_saved, lambda: [to_json(load_run().config).encode()], (*JSON_WORDS, *_KEYS), cost=6),
    Target(
        "config-patch",
        _make_patch,
        lambda: [json.dumps({text.partition("=")[0]: 3}).encode() for text in _SETS],
        (*JSON_WORDS, *_KEYS),
        cost=8,
    ),
    Target("options", _make_options, lambda: list(_TEXTS), _TEXT_WORDS, cost=5),
)
