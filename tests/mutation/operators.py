"""What is done to a module: one small change at a time to what it does, none to what it says.

Docstrings, type annotations, decorators, messages (all of a `raise`, an f-string or a `__repr__`), `__all__`, names of
threads and code for type checkers only stay as they are: a change there is no fault. Nor is one to how long is waited
between two looks, or to how much is worked on at once: every value of those gives the same answers.
"""

from __future__ import annotations

import ast
import copy
import difflib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_Replace = Callable[[ast.AST], None]
_Place = tuple[ast.AST, _Replace]

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_LARGE = 1_000
_Node = TypeVar("_Node", bound=ast.AST)
_A_NAME = re.compile(r"[\w.\-]+")
_PACE = re.compile(
    r"_?[A-Z_]*((WAIT|STEP|RETRY|DELAY)_S|AT_ONCE|BATCH|(BATCH|BLOCK|GROUP|PIECE|TAIL)_(ROWS|BYTES))|_NAMED_[A-Z]+"
)
"""Constants of a module that say how long between two looks, how much at once, and how many names a message has."""
_NO_RULE = re.compile(r"(strict|repr)=.*|durable=False|\w+='slackwater-.*")
"""Arguments: two lengths that are equal by construction, what is shown, less haste, names of threads and folders."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to a module: the lines that a test must run to see it, and the number that tells it from others."""

    number: int
    lines: tuple[int, ...]


def mutants(text: str) -> list[Mutant]:
    """Every mutant of a module."""
    return [
        Mutant(number, tuple(range(node.lineno, (node.end_lineno or node.lineno) + 1)))
        for number, (node, _) in enumerate(_changes(ast.parse(text)))
    ]


def mutated(text: str, mutant: Mutant) -> tuple[str, str]:
    """The module with the change made, and the change as a diff without context."""
    tree = ast.parse(text)
    plain = ast.unparse(tree)
    _, change = next(itertools.islice(_changes(tree), mutant.number, None))
    change()
    changed = ast.unparse(ast.fix_missing_locations(tree))
    diff = difflib.unified_diff(plain.splitlines(), changed.splitlines(), n=0, lineterm="")
    return changed + "\n", "\n".join(line for line in list(diff)[2:] if not line.startswith("@@"))


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, Callable[[], None]]]:
    for place, replace in _places(tree):
        if isinstance(place, ast.stmt):
            yield from ((place, _bound(replace, new)) for new in _statements(place))
        elif isinstance(place, ast.expr):
            yield from ((place, _bound(replace, new)) for new in _expressions(place))


def _bound(replace: _Replace, new: ast.AST) -> Callable[[], None]:
    return lambda: replace(new)


def _places(node: ast.AST) -> Iterator[_Place]:
    """Every node below `node` that may be changed, with what puts another one in its place."""
    for field, value in ast.iter_fields(node):
        if _is_said(node, field):
            continue
        if isinstance(value, list):
            for at, item in enumerate(value):
                if isinstance(item, ast.AST) and not _is_silent(item):
                    yield item, _in_list(value, at)
                    yield from _places(item)
        elif isinstance(value, ast.AST) and not _is_silent(value):
            yield value, _in_field(node, field)
            yield from _places(value)


def _in_list(values: list[ast.AST], at: int) -> _Replace:
    return lambda new: values.__setitem__(at, new)


def _in_field(node: ast.AST, field: str) -> _Replace:
    return lambda new: setattr(node, field, new)


def _is_said(node: ast.AST, field: str) -> bool:
    """Whether a field of a node is for readers and type checkers."""
    return field in ("annotation", "returns", "decorator_list", "bases", "type_params") or (
        isinstance(node, ast.Raise)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("cast", "TypeVar"))
    )


def _is_silent(node: ast.AST) -> bool:
    """Whether nothing below a node is changed."""
    if isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.alias)):
        return True
    if isinstance(node, ast.FunctionDef):
        return node.name == "__repr__"
    if isinstance(node, ast.keyword):
        return _NO_RULE.fullmatch(ast.unparse(node)) is not None
    if isinstance(node, ast.Raise):
        return node.exc is not None and ast.unparse(node.exc).startswith("AssertionError")  # nothing comes there
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_silent(node.value)
    if isinstance(node, ast.Assign):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        is_pace = any(_PACE.fullmatch(name) for name in names)
        return bool(names & {"__all__", "__slots__", "logger", "_log"}) or is_pace or _is_alias_of_types(node)
    if isinstance(node, ast.Call):
        # A signal goes to whoever has the number: no mutant sends one.
        return re.match(r"(warnings\.warn|_?log(ger)?\.\w+|os\.kill(pg)?)$", ast.unparse(node.func)) is not None
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _is_alias_of_types(node: ast.Assign) -> bool:
    return re.match(r"(Callable|Mapping|dict|tuple|list|Sequence)\[", ast.unparse(node.value)) is not None


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    if (
        isinstance(node, (ast.Raise, ast.AugAssign, ast.Delete))
        or (isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await)))
        or (isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Attribute, ast.Subscript)))
    ):
        yield ast.copy_location(ast.Pass(), node)
    elif isinstance(node, ast.Continue):
        yield ast.copy_location(ast.Break(), node)
    elif isinstance(node, ast.Break):
        yield ast.copy_location(ast.Continue(), node)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none_or_bool(node.value):
        yield ast.copy_location(ast.Return(value=ast.Constant(value=None)), node)
    elif isinstance(node, (ast.If, ast.While)) and not isinstance(node.test, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        yield _copied(node, test=_not(node.test))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_none_or_bool(node: ast.expr) -> bool:
    """None is as false as False, and True that is turned round is drawn already."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _not(node: ast.expr) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=node)


def _copied(node: _Node, **fields: object) -> _Node:
    new = copy.copy(node)
    for field, value in fields.items():
        setattr(new, field, value)
    return new


def _expressions(node: ast.expr) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            yield _copied(node, ops=[*node.ops[:at], _COMPARISONS[type(op)](), *node.ops[at + 1 :]])
    elif isinstance(node, ast.BoolOp):
        yield _copied(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for at in range(len(node.values)):
            rest = [*node.values[:at], *node.values[at + 1 :]]
            yield rest[0] if len(rest) == 1 else _copied(node, values=rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node):
        yield _copied(node, op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.IfExp) and not _is_turned_round_by_itself(node.test):
        yield _copied(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield _copied(node, func=ast.Name(id=_CALLS[node.func.id], ctx=ast.Load()))
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for at, part in enumerate(node.generators):
            for left_out in range(len(part.ifs)):
                ifs = [*part.ifs[:left_out], *part.ifs[left_out + 1 :]]
                parts = [*node.generators[:at], _copied(part, ifs=ifs), *node.generators[at + 1 :]]
                yield _copied(node, generators=parts)


def _is_turned_round_by_itself(node: ast.expr) -> bool:
    """Whether a change to the condition itself does the same as an exchange of what it chooses from."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn))
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operator joins or formats texts, or names types: subtraction there only fails at once."""
    sides = (node.left, node.right)
    return any(isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
               for side in sides) or any(_is_none(side) for side in sides)  # fmt: skip


def _constants(node: ast.Constant) -> Iterator[ast.Constant]:
    value = node.value
    if isinstance(value, bool):
        yield ast.copy_location(ast.Constant(value=not value), node)
    elif isinstance(value, (int, float)):
        # A limit of some thousands that is one higher is the same limit.
        yield ast.copy_location(ast.Constant(value=value + 1 if value < _LARGE else value * 2), node)
    elif isinstance(value, str) and _A_NAME.fullmatch(value):
        yield ast.copy_location(ast.Constant(value=value + "x"), node)
