"""Which error classes the package gives its errors: read from its sources, where who raises one names it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import slackwater
from slackwater import errors
from slackwater.error_classes import SQLSTATES

_NAME = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*(\.[A-Z0-9_]+)?")
_KINDS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}


def named_in_sources() -> dict[str, set[str]]:
    """Of each error class, the Python classes that have it: by default, or where they are raised."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, kind in _KINDS.items():
        if vars(kind).get("error_class"):
            found[vars(kind)["error_class"]].add(name)
    for path in Path(slackwater.__file__).parent.rglob("*.py"):
        if path.name not in ("errors.py", "error_classes.py"):
            for error_class, kinds in _of_module(ast.parse(path.read_text(encoding="utf-8"))):
                found[error_class] |= kinds
    return found


def _of_module(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """A name in a call is of the class that is called; one elsewhere is of those to which a variable is given."""
    given: set[str] = set()
    placed: set[ast.AST] = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        kind = call.func.id if isinstance(call.func, ast.Name) and call.func.id in _KINDS else None
        for argument in call.keywords:
            if kind is not None and argument.arg == "error_class":
                names = list(_names(argument.value))
                placed.update(node for node, _ in names)
                given |= set() if names else {kind}
                yield from ((name, {kind}) for _, name in names)
    for handler in (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)):
        for node, name in _names(handler):
            if node not in placed and isinstance(handler.type, ast.Name):
                placed.add(node)
                yield name, {handler.type.id}
    yield from ((name, given or {"InvariantViolationException"}) for node, name in _names(tree) if node not in placed)


def _names(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_name(node.value):
            yield node, node.value


def _is_name(text: str) -> bool:
    return text in SQLSTATES or (text.startswith(("DELTA_", "WRONG_COLUMN_")) and _NAME.fullmatch(text) is not None)
