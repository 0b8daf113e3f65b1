"""Converts SQL conditions in Spark's dialect to condition trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.predicate.condition_tree import CAST, LITERAL, NAME, ConditionTree, LiteralValue
from slackwater.predicate.predicate import Value
from slackwater.protocol.sqlglot_adapter import SqlNode, column_path, exp, parse_sql

# Class names of sqlglot's expressions.
_BINARY = {
    "EQ": "=",
    "NullSafeEQ": "<=>",
    "EqualNull": "equal_null",
    "NEQ": "!=",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "StartsWith": "startswith",
}
_CHAINS = {"And": "and", "Or": "or"}
_UNARY = {"Not": "not", "Neg": "negative"}
_FUNCTIONS = ("isnull", "isnotnull")
# Types without their length in the parser's result.
_CHAR = re.compile(r"(?i)\b(?:var)?char")
# A call such as `int(x)` is a cast for the parser, but a user's function can have this name.
_CALLED_TYPE = re.compile(
    r"(?i)(\bas\s+)?\b(?:bigint|binary|boolean|date|decimal|double|float|int|smallint|string|timestamp|tinyint)\s*\("
)


def read_sql(text: str) -> ConditionTree:
    """Parse the SQL condition `text` into a tree. Raises InvalidArgument, with the position, for any other text."""
    node = parse_sql(text, "condition")
    try:
        calls_type = any(found[1] is None for found in _CALLED_TYPE.finditer(text))
        return _ConditionBuilder(_CHAR.search(text) is not None, calls_type).tree(node)
    except RecursionError as error:
        raise InvalidArgument(f"the SQL condition is nested too deeply: {text[:80]!r}…") from error


class _ConditionBuilder:
    def __init__(self, has_char: bool, calls_type: bool) -> None:
        self._has_char = has_char
        self._calls_type = calls_type

    def tree(self, node: SqlNode) -> ConditionTree:
        node = node.unnest()
        kind = type(node).__name__
        if kind in _CHAINS:
            return self._made(node, _CHAINS[kind], node.flatten())
        if kind in _UNARY:
            return self._made(node, _UNARY[kind], [node.this])
        if kind in _BINARY:
            return self._made(node, _BINARY[kind], [node.this, node.expression])
        names = column_path(node)
        if names is not None:
            return ConditionTree(NAME, (), names, partial(node.sql, dialect="spark"))
        return self._literal(node) or self._test(node) or self._other(node)

    def _literal(self, node: SqlNode) -> ConditionTree | None:
        """Convert a literal. Casts of a literal belong to `_cast`."""
        if isinstance(node, exp.Null):
            return self._made(node, LITERAL, payload=LiteralValue(None))
        value = _value(node)
        return None if value is None else self._made(node, LITERAL, payload=LiteralValue(value))

    def _test(self, node: SqlNode) -> ConditionTree | None:
        """Convert a condition other than an operator with its operands, or a cast."""
        if isinstance(node, exp.NullSafeNEQ):
            return self._not(self._made(node, "<=>", [node.this, node.expression]))
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            return self._made(node, "between", [node.this, node.args["low"], node.args["high"]])
        if isinstance(node, exp.In) and not any(node.args.get(key) for key in ("query", "unnest", "field")):
            return self._made(node, "in", [node.this, *node.expressions])
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, (exp.Like, exp.Escape)):
            return self._like(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() in _FUNCTIONS:
            return self._made(node, node.name.lower(), node.expressions)
        return self._cast(node) if isinstance(node, exp.Cast) else None

    def _is(self, node: SqlNode) -> ConditionTree | None:
        if isinstance(node.expression, exp.Null):
            return self._made(node, "isnull", [node.this])
        if isinstance(node.expression, exp.Boolean):
            return self._made(node, "<=>", [node.this, node.expression])
        return None

    def _like(self, node: SqlNode) -> ConditionTree | None:
        like, escape = (node.this, [node.expression]) if isinstance(node, exp.Escape) else (node, [])
        if not isinstance(like, exp.Like):
            return None
        said = self._made(node, "like", [like.this, like.expression, *escape])
        return self._not(said) if like.args.get("negate") else said

    def _cast(self, node: SqlNode) -> ConditionTree | None:
        name = node.to.sql(dialect="spark").lower()
        if node.args.get("format") or (name == "string" and self._has_char):
            return None
        if self._calls_type and self._literal(node.this.unnest()) is None:
            return None
        return self._made(node, CAST, [node.this], name)

    def _other(self, node: SqlNode) -> ConditionTree:
        names = tuple(ConditionTree(NAME, (), path) for path in _columns_within(node))
        return ConditionTree(type(node).__name__, names, None, partial(node.sql, dialect="spark"))

    def _made(
        self, node: SqlNode, operation: str, children: Iterable[SqlNode] = (), payload: Any = None
    ) -> ConditionTree:
        trees = tuple(self.tree(child) for child in children)
        return ConditionTree(operation, trees, payload, partial(node.sql, dialect="spark"))

    def _not(self, tree: ConditionTree) -> ConditionTree:
        return ConditionTree("not", (tree,), None, tree.text)


def _columns_within(node: SqlNode) -> Iterator[tuple[str, ...]]:
    """Yield the columns of an unsupported expression, without recursion because chains of operators are long."""
    # Names within these operators are columns, even in an unsupported expression. Names within functions may not be.
    plain = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Cast)
    pending = [node]
    while pending:
        node = pending.pop().unnest()
        names = column_path(node)
        if names is not None:
            yield names
        elif isinstance(node, plain):
            pending.extend(reversed(list(node.iter_expressions())))


def _value(node: SqlNode) -> Value | None:
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.RawString):
        return str(node.this)
    if isinstance(node, exp.HexString):
        return _bytes(str(node.this))
    return None


def _number(text: str) -> Value | None:
    """Return a number with Spark's type: a double with an exponent, a decimal with a point, else an integer."""
    if "e" in text.lower():
        return float(text)
    if "." not in text:
        return int(text) if text.isdigit() else None
    return Decimal(text)


def _bytes(digits: str) -> bytes | None:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return None
