"""Which architectures vLLM can run, found out without starting or importing it: that would take longer than to fail.

Called at the start of a run. The names stand in a file of vLLM that is read, not run; a name that is not there may
still be run by way of transformers, by vLLM's own rules. Where anything is unclear nothing is refused, and vLLM decides
when it starts.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import transformers
from transformers import PretrainedConfig

from scalerl.errors import InputError
from scalerl.pipeline.engines.vllm.checks import NEEDED

_REGISTRY = Path("model_executor", "models", "registry.py")
_NOT_RUN = ("_PREVIOUSLY_SUPPORTED_MODELS", "_OOT_SUPPORTED_MODELS")
"""Tables of what vLLM knew once, or knows with a plugin."""
_PLUGINS = "vllm.general_plugins"


def check_architecture(config: PretrainedConfig, where: str) -> None:
    """One line for an architecture that vLLM would refuse; `where`: of the policy."""
    given: Any = config.architectures  # of a file that anybody may have written
    names = [name for name in given if isinstance(name, str)] if isinstance(given, list) else []
    known = known_architectures()
    if known is None or not names or _has_plugins():
        return
    if not any(name in known for name in names) and not _runs_by_transformers(names[0]):
        what = "architecture of the policy"
        raise InputError(what, ", ".join(names), f"one that vLLM {NEEDED} knows, or generator.engine=embedded", where)


@cache
def known_architectures() -> frozenset[str] | None:
    """By name; None: they cannot be read."""
    found = find_spec("vllm")
    if found is None or not found.submodule_search_locations:
        return None
    try:
        tree = ast.parse((Path(found.submodule_search_locations[0]) / _REGISTRY).read_text())
    except (OSError, SyntaxError, ValueError):
        return None
    return frozenset(name for table in tree.body for name in _names_in(table)) or None


def _names_in(statement: ast.stmt) -> list[str]:
    """The keys of a table of architectures: `_TEXT_GENERATION_MODELS = {"LlamaForCausalLM": ...}`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Dict):
        return []
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or not target.id.endswith("_MODELS") or target.id in _NOT_RUN:
        return []
    return [key.value for key in statement.value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def _runs_by_transformers(name: str) -> bool:
    """Whether vLLM would wrap the class of transformers: it asks the class the same."""
    kind = getattr(transformers, name, None)
    questions = [getattr(kind, asked, None) for asked in ("is_backend_compatible", "_can_set_attn_implementation")]
    return any(question is not None and question() for question in questions)


def _has_plugins() -> bool:
    """Others may have taught vLLM more."""
    return any(not point.value.startswith("vllm.") for point in entry_points(group=_PLUGINS))
