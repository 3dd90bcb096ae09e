"""Arithmetic written by a model, read safely: whole numbers, + - * and brackets.

Called by the Countdown verifier. Nothing is ever evaluated as Python: the text is parsed into a tree, and a tree with
anything else in it is refused.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator

Operation = Callable[[int, int], int]

OPERATIONS: dict[str, Operation] = {"+": operator.add, "-": operator.sub, "*": operator.mul}

LONGEST_EXPRESSION = 200
"""Characters; deeper nesting than this allows would exhaust the parser."""

_ALLOWED = re.compile(r"[0-9+\-*() ]+")
_NODES: dict[type[ast.operator], Operation] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def parse_expression(text: str) -> ast.expr | None:
    """The tree of an expression in which only the three operations and whole numbers occur, or None."""
    text = text.strip()
    if len(text) > LONGEST_EXPRESSION or not _ALLOWED.fullmatch(text):
        return None
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return tree if all(map(_is_allowed, ast.walk(tree))) else None


def numbers_in(tree: ast.expr) -> Iterator[int]:
    """Every number written, as often as it is written."""
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, int))


def value_of(tree: ast.expr) -> int:
    """The value of a tree from `parse_expression`. Check its numbers first: huge ones take time."""
    if isinstance(tree, ast.BinOp):
        return _NODES[type(tree.op)](value_of(tree.left), value_of(tree.right))
    assert isinstance(tree, ast.Constant)
    assert isinstance(tree.value, int)
    return tree.value


def _is_allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    return isinstance(node, ast.BinOp) or type(node) in _NODES
