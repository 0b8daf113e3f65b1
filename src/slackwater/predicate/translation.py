"""Translates conditions to predicates, with the same rules for SQL text and for Columns.

A part without an exact equivalent of Spark's meaning is `Unprunable`, which prunes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.predicate.columns import ResolvedColumn, resolve_column
from slackwater.predicate.condition_tree import (
    ALIAS,
    CAST,
    LITERAL,
    SQL,
    ConditionTree,
    LiteralValue,
    column_names,
    operands,
)
from slackwater.predicate.literals import INTEGRAL_RANGES, cast_literal, coerce_literal, coerce_literals
from slackwater.predicate.predicate import (
    And,
    Comparison,
    ComparisonOperator,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unprunable,
)
from slackwater.predicate.sql_conditions import read_sql
from slackwater.protocol.schema.schema import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    STRING,
    DataType,
    DecimalType,
    PrimitiveType,
    StructType,
)

_COMPARISONS: dict[str, ComparisonOperator] = {
    "=": "=",
    "==": "=",
    "<=>": "<=>",
    "equal_null": "<=>",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_FLIPPED: dict[ComparisonOperator, ComparisonOperator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Type names of casts, in SQL and in the JSON of Spark's types. No CHAR and VARCHAR, because such casts cut and pad.
_TYPES = {
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\((\d+)(?:, ?(\d+))?\))?\Z")
_LEAST = frozenset(low for low, _ in INTEGRAL_RANGES.values())


def translate(tree: ConditionTree, schema: StructType, zone: str = "UTC") -> Predicate:
    """Translate the condition `tree` on rows of a table with this `schema`, with exactly Spark's meaning.

    Columns get the names of the schema. Literals get the type of the compared column (see `coerce_literal`). Timestamps
    without a zone are read in `zone`, the session's time zone. A part without an equivalent, or with a name missing
    from the schema, is `Unprunable`.
    """
    return _Translator(schema, zone).predicate(tree)


@dataclass(frozen=True, slots=True)
class _Translator:
    schema: StructType
    zone: str

    def predicate(self, tree: ConditionTree) -> Predicate:
        """Return `tree` as a predicate."""
        if tree.operation == "and":
            return And(tuple(self.predicate(operand) for operand in operands(tree)))
        if tree.operation == "or":
            return Or(tuple(self.predicate(operand) for operand in operands(tree)))
        if tree.operation in ("not", "!") and len(tree.children) == 1:
            child = self.predicate(tree.children[0])
            return _unknown(tree) if isinstance(child, Unprunable) and tree.text else Not(child)
        if tree.operation == ALIAS:
            return self.predicate(tree.children[0])
        try:
            if tree.operation == SQL:
                return self.predicate(read_sql(tree.payload))
            said = self._condition(tree)
        except InvalidArgument:
            said = None
        return _unknown(tree) if said is None else said

    def _condition(self, tree: ConditionTree) -> Predicate | None:
        """Return the condition on one column, or None if the tree has no equivalent."""
        children = tree.children
        match tree.operation, len(children):
            case operation, 2 if operation in _COMPARISONS:
                return self._comparison(children[0], _COMPARISONS[operation], children[1])
            case "isnull", 1:
                return self._null_test(children[0])
            case "isnotnull", 1:
                null = self._null_test(children[0])
                return None if null is None else Not(null)
            case "in", count if count:
                return self._in(tree, children[0], children[1:])
            case "between", 3:
                return self._between(tree, *children)
            case "startswith", 2:
                return self._starts_with(*children)
            case "like", 2:
                return self._like(children[0], children[1], LiteralValue(tree.payload or "\\"))
            case "like", 3:
                return self._like(children[0], children[1], self._literal(children[2]))
        literal = self._literal(tree)
        if literal is not None:
            return Constant(literal.value) if literal.value is None or isinstance(literal.value, bool) else None
        column = self._column(tree)
        return Comparison(column.path, "=", True) if column is not None and column.type == BOOLEAN else None

    def _comparison(self, left: ConditionTree, operator: ComparisonOperator, right: ConditionTree) -> Predicate | None:
        literal = self._literal(right)
        if literal is not None:
            return self._compare(left, operator, literal)
        literal = self._literal(left)
        return None if literal is None else self._compare(right, _FLIPPED.get(operator, operator), literal)

    def _compare(self, tree: ConditionTree, operator: ComparisonOperator, literal: LiteralValue) -> Predicate | None:
        column = self._column(tree)
        if column is None or column.type is None:
            return None
        if literal.value is None:
            if operator != "<=>":
                return Constant(None)
            return IsNull(column.path) if column.is_leaf else None
        if not _can_meet(column, literal):
            return None
        value = coerce_literal(literal.value, column.type, self.zone)
        return None if value is None else Comparison(column.path, operator, value)

    def _between(
        self, whole: ConditionTree, tree: ConditionTree, low: ConditionTree, high: ConditionTree
    ) -> Predicate | None:
        least, most = self._comparison(tree, ">=", low), self._comparison(tree, "<=", high)
        if least is None and most is None:
            return None
        return And((least or _unknown(whole), most or _unknown(whole)))

    def _in(self, whole: ConditionTree, tree: ConditionTree, items: Sequence[ConditionTree]) -> Predicate | None:
        column = self._column(tree)
        literals = [self._literal(item) for item in items]
        if column is None or column.type is None:
            return None
        if not literals:
            # FALSE, but without ANSI mode NULL for a NULL: the negation may be true or not.
            return And((Constant(False), _unknown(whole)))
        known = [literal for literal in literals if literal is not None]
        values = [literal.value for literal in known if literal.value is not None]
        if len(known) < len(literals):
            return None
        if not values:
            return Constant(None)
        if not all(_can_meet(column, literal) for literal in known):
            return None
        coerced = coerce_literals(values, column.type, self.zone)
        return None if coerced is None else In(column.path, coerced, has_null=len(values) < len(known))

    def _null_test(self, tree: ConditionTree) -> Predicate | None:
        column = self._column(tree)
        return IsNull(column.path) if column is not None and column.is_leaf else None

    def _starts_with(self, tree: ConditionTree, prefix: ConditionTree) -> Predicate | None:
        column, literal = self._text_column(tree), self._literal(prefix)
        if column is None or literal is None:
            return None
        if literal.value is None:
            return Constant(None)
        return StartsWith(column.path, literal.value) if isinstance(literal.value, str) else None

    def _like(self, tree: ConditionTree, pattern: ConditionTree, escape: LiteralValue | None) -> Predicate | None:
        column, literal = self._text_column(tree), self._literal(pattern)
        if column is None or literal is None:
            return None
        if escape is None or not isinstance(escape.value, str) or len(escape.value) != 1:
            return None
        if literal.value is None:
            return Constant(None)
        return _like(column.path, literal.value, escape.value) if isinstance(literal.value, str) else None

    def _text_column(self, tree: ConditionTree) -> ResolvedColumn | None:
        column = self._column(tree)
        return column if column is not None and column.type == STRING and column.comparable else None

    def _column(self, tree: ConditionTree) -> ResolvedColumn | None:
        if tree.operation == CAST and len(tree.children) == 1:
            column = self._column(tree.children[0])
            return column if column is not None and column.type == _own_type(tree.payload) else None
        names = column_names(tree)
        return None if names is None else resolve_column(self.schema, names)

    def _literal(self, tree: ConditionTree) -> LiteralValue | None:
        if tree.operation == LITERAL:
            literal: LiteralValue | None = tree.payload
            return literal
        if len(tree.children) != 1:
            return None
        if tree.operation == ALIAS:
            return self._literal(tree.children[0])
        if tree.operation == "negative":
            return _negated(self._literal(tree.children[0]))
        return self._cast(tree) if tree.operation == CAST else None

    def _cast(self, tree: ConditionTree) -> LiteralValue | None:
        literal, data_type = self._literal(tree.children[0]), cast_type(tree.payload)
        if literal is None or data_type is None:
            return None
        if literal.value is None:
            return LiteralValue(None)
        value = cast_literal(literal.value, data_type, self.zone)
        return None if value is None else LiteralValue(value, single=data_type == FLOAT)


def _unknown(tree: ConditionTree) -> Unprunable:
    return Unprunable(tree.operation if tree.text is None else tree.text())


def _can_meet(column: ResolvedColumn, literal: LiteralValue) -> bool:
    """Return whether Spark compares the stored values themselves with `literal`.

    Spark compares a FLOAT literal with integers in single precision, so many integers equal one float.
    """
    return column.comparable and (not literal.single or column.type in (FLOAT, DOUBLE))


def _negated(literal: LiteralValue | None) -> LiteralValue | None:
    """Negate the literal. None for the least integer of a type, because it overflows or stays unchanged."""
    if literal is None or literal.value is None:
        return literal
    if isinstance(literal.value, bool) or not isinstance(literal.value, (int, float, Decimal)):
        return None
    if isinstance(literal.value, Decimal):
        # The minus operator rounds to the digits of the context, copy_negate() does not.
        return LiteralValue(literal.value.copy_negate())
    return None if literal.value in _LEAST else LiteralValue(-literal.value, literal.single)


def cast_type(name: Any) -> DataType | None:
    """Parse the type of a cast, from JSON of Spark's types or from SQL. None if literals cannot be cast to the type."""
    word = name.strip().lower() if isinstance(name, str) else ""
    match = _DECIMAL.match(word)
    if match is None:
        return PrimitiveType(_TYPES[word]) if word in _TYPES else None
    precision, scale = int(match[1] or 10), int(match[2] or 0)
    return DecimalType(precision, scale) if 1 <= precision <= 38 and scale <= precision else None


def _own_type(name: Any) -> DataType | None:
    """Parse the type of a cast without effect on columns of this type. None if settings decide the type."""
    if str(name).strip().lower() == "string collate utf8_binary":
        return STRING
    data_type = cast_type(name)
    # A view can have a default collation.
    return None if data_type == STRING else data_type


def _like(path: tuple[str, ...], pattern: str, escape: str) -> Predicate | None:
    """Return `LIKE pattern` if the pattern is an equality or a prefix, None for any other pattern."""
    plain: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape:
            position += 1
            if pattern[position : position + 1] not in ("%", "_", escape):
                return None
            plain.append(pattern[position])
        elif character == "%":
            return StartsWith(path, "".join(plain)) if not pattern[position:].strip("%") else None
        elif character == "_":
            return None
        else:
            plain.append(character)
        position += 1
    return Comparison(path, "=", "".join(plain))
