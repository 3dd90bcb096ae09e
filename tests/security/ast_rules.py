"""What our own code must not do with data from elsewhere, as rules about its syntax tree. Used by `test_code`.

A rule looks at one node and says in a word what is wrong with it. The rules know the modules by name, also behind
another name (`import pickle as p`), and calls by the last name in them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PICKLES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "joblib", "dill", "cloudpickle", "jsonpickle"}
"""Modules that run what they read."""
_SHELLS = {("os", "system"), ("os", "popen"), ("subprocess", "getoutput"), ("subprocess", "getstatusoutput")}
_LOADS = {
    ("torch", "load"), ("torch", "jit.load"), ("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load"),
    ("pandas", "read_pickle"), ("pd", "read_pickle"),
}  # fmt: skip
_NEVER_TRUE = {"shell", "allow_pickle", "trust_remote_code"}


def violations(source: str) -> Iterator[tuple[int, str]]:
    """(line, what) of everything that a rule forbids."""
    for node in ast.walk(ast.parse(source)):
        for found in (*_imports(node), *_calls(node)):
            yield getattr(node, "lineno", 0), found


def loads_without_care(source: str) -> Iterator[int]:
    """Lines of `from_pretrained` and `from_config` that leave a choice to transformers."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        *_, owner, method = ("", *_name(node.func).split("."))
        given = {word.arg: word.value for word in node.keywords}
        if method not in {"from_pretrained", "from_config"} or not owner.startswith("Auto"):
            continue
        pickles = method == "from_pretrained" and owner.startswith("AutoModel") and "gguf_file" not in given
        if not _is(given.get("trust_remote_code"), False) or (pickles and not _is(given.get("use_safetensors"), True)):
            yield node.lineno


def files_of(root: Path, *folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((root / folder).rglob("*.py"))


def _imports(node: ast.AST) -> Iterator[str]:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module or ""]
    elif isinstance(node, ast.Call) and _name(node.func).split(".")[-1] in {"import_module", "__import__"}:
        names = [str(word.value) for word in node.args[:1] if isinstance(word, ast.Constant)]
    yield from (name.split(".")[0] for name in names if name.split(".")[0] in PICKLES)


def _calls(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    name = _name(node.func)
    module, _, rest = name.partition(".")
    if name in {"eval", "exec", "builtins.eval", "builtins.exec"}:
        yield name
    if (module, rest) in _SHELLS | _LOADS:
        yield name
    for word in node.keywords:
        if word.arg in _NEVER_TRUE and not _is(word.value, False):
            yield f"{word.arg}="
        if word.arg == "weights_only" and not _is(word.value, True):
            yield "weights_only="


def _is(value: ast.expr | None, wanted: bool) -> bool:
    return isinstance(value, ast.Constant) and value.value is wanted


def _name(node: ast.expr) -> str:
    """`a.b.c` as it stands there; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}".removeprefix(".")
    return ""
