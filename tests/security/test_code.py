"""Our own code: nothing in it runs what it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from .ast_rules import files_of, loads_without_care, violations

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "scripts", "examples", "benchmarks")
ALLOWED = {("src/scalerl/verify/runner.py", "exec"): "programs that a policy wrote; it runs inside the sandbox alone"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_runs_what_it_reads(folder: str) -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), what): line
        for path in files_of(ROOT, folder)
        for line, what in violations(path.read_text(encoding="utf-8"))
    }
    assert {place: line for place, line in found.items() if place not in ALLOWED} == {}


def test_what_is_allowed_is_there() -> None:
    for (name, what), reason in ALLOWED.items():
        assert what in {found for _, found in violations((ROOT / name).read_text(encoding="utf-8"))}, reason


def test_models_are_read_without_code_and_without_pickles() -> None:
    calls = 0
    for path in files_of(ROOT, "src"):
        source = path.read_text(encoding="utf-8")
        calls += source.count(".from_pretrained(") + source.count(".from_config(")
        assert list(loads_without_care(source)) == [], path
    assert calls >= 5


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "import pickle as p", "from pickle import loads", "import marshal", "import joblib.externals",
        "importlib.import_module('dill')", "__import__('shelve')", "torch.load(f)", "torch.load(f, weights_only=False)",
        "np.load(f, allow_pickle=True)", "np.load(f, allow_pickle=flag)", "eval(text)", "exec(text)", "yaml.load(f)",
        "subprocess.run(x, shell=True)", "os.system(x)", "AutoConfig.from_pretrained(x, trust_remote_code=True)",
        "f(weights_only=False)", "pd.read_pickle(f)",
    ],
)  # fmt: skip
def test_the_rules_find_what_they_forbid(source: str) -> None:
    assert list(violations(source))


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()", "np.load(f)", "np.load(f, allow_pickle=False)", "json.loads(x)", "re.compile(x)",
        "run(x, shell=False)", "from .pickle import a", "load_file(x)",
    ],
)  # fmt: skip
def test_the_rules_find_nothing_else(source: str) -> None:
    assert not list(violations(source))


@pytest.mark.parametrize(
    ("call", "careful"),
    [
        ("AutoModelForCausalLM.from_pretrained(x)", False),
        ("AutoModelForCausalLM.from_pretrained(x, use_safetensors=True)", False),
        ("AutoModelForCausalLM.from_pretrained(x, use_safetensors=None, trust_remote_code=False)", False),
        ("AutoModelForCausalLM.from_pretrained(x, use_safetensors=True, trust_remote_code=False)", True),
        ("AutoModelForCausalLM.from_pretrained(x, gguf_file=y, trust_remote_code=False)", True),
        ("AutoTokenizer.from_pretrained(x)", False),
        ("transformers.AutoTokenizer.from_pretrained(x, trust_remote_code=False)", True),
        ("AutoModelForCausalLM.from_config(x)", False),
    ],
)
def test_the_rule_about_models(call: str, careful: bool) -> None:
    assert (not list(loads_without_care(call))) is careful
