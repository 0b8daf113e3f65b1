"""Filter conditions as predicates: SQL text, and Columns of classic and of Connect sessions.

A Column is read into one small tree, whatever the session, which is then said as a predicate, part by part. A part
that is not understood is `Unknown`, which prunes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson

from slackwater.errors import InvalidArgument, InvalidSchema
from slackwater.predicate.columns import ResolvedColumn, resolve_column
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
    Unknown,
)
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.schema.schema import BOOLEAN, DOUBLE, FLOAT, STRING, DataType, StructType, parse_schema
from slackwater.spark.conditions.trees import (
    ALIAS,
    CAST,
    LITERAL,
    SQL,
    ConditionTree,
    LiteralValue,
    column_names,
    operands,
    read_condition,
)
from slackwater.spark.session.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

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


def predicate_of(condition: Column | str, schema: StructType, zone: str) -> Predicate:
    """What `condition` says of the rows of a table with this `schema`: true of every row that Spark would keep.

    A str is SQL text. Columns come out as the schema spells them; literals are typed by the column they meet (see
    `coerce_literal`); timestamps without a zone are read in `zone`, the session's time zone. Never raises: what
    cannot be read, or names something that is not in the schema, is `Unknown`, and is left to Spark to judge.
    """
    if isinstance(condition, str):
        return _Translator(schema, zone).sql(condition)
    try:
        return predicate_of_tree(read_condition(condition), schema, zone)
    except ValueError:
        return Unknown("unreadable condition")


def predicate_of_tree(tree: ConditionTree, schema: StructType, zone: str) -> Predicate:
    """What the condition `tree` says, as `predicate_of` does it."""
    try:
        return _Translator(schema, zone).predicate(tree)
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        # Trees are made of internals of PySpark, which may look different in another version.
        return Unknown("unreadable condition")


@dataclass(frozen=True, slots=True)
class _Translator:
    schema: StructType
    zone: str

    def sql(self, text: str) -> Predicate:
        """What the SQL condition `text` says; `Unknown` where only Spark can tell."""
        try:
            return parse_predicate(text, self.schema, self.zone)
        except (InvalidArgument, RecursionError):
            return Unknown(text)

    def predicate(self, tree: ConditionTree) -> Predicate:
        """What `tree` says, as a condition."""
        if tree.operation == "and":
            return And(tuple(self.predicate(operand) for operand in operands(tree)))
        if tree.operation == "or":
            return Or(tuple(self.predicate(operand) for operand in operands(tree)))
        if tree.operation in ("not", "!") and len(tree.children) == 1:
            return Not(self.predicate(tree.children[0]))
        if tree.operation == ALIAS:
            return self.predicate(tree.children[0])
        if tree.operation == SQL:
            return self.sql(tree.payload)
        try:
            said = self._condition(tree)
        except InvalidArgument:
            said = None
        return Unknown(tree.operation) if said is None else said

    def _condition(self, tree: ConditionTree) -> Predicate | None:
        """What `tree` says about one column; None where that cannot be expressed."""
        children = tree.children
        match tree.operation, len(children):
            case operation, 2 if operation in _COMPARISONS:
                return self._comparison(children[0], _COMPARISONS[operation], children[1])
            case "isnull", 1:
                return self._null_test(children[0])
            case "isnotnull", 1:
                null = self._null_test(children[0])
                return None if null is None else Not(null)
            case "in", _:
                return self._in(children[0], children[1:])
            case "between", 3:
                return self._between(*children)
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

    def _between(self, tree: ConditionTree, low: ConditionTree, high: ConditionTree) -> Predicate | None:
        bounds = (self._comparison(tree, ">=", low), self._comparison(tree, "<=", high))
        return And(tuple(bound or Unknown("between") for bound in bounds))

    def _in(self, tree: ConditionTree, items: Sequence[ConditionTree]) -> Predicate | None:
        column = self._column(tree)
        literals = [self._literal(item) for item in items]
        if column is None or column.type is None:
            return None
        if not literals:
            return Constant(False)
        known = [literal for literal in literals if literal is not None]
        values = [literal.value for literal in known if literal.value is not None]
        if len(known) < len(literals) or not all(_can_meet(column, literal) for literal in known):
            return None
        if not values:
            return Constant(None)
        if len({isinstance(value, str) for value in values}) > 1:
            return None  # Text among other types makes Spark compare everything as text, without the ANSI mode.
        coerced = coerce_literals(values, column.type, self.zone)
        return None if coerced is None else In(column.path, coerced, has_null=len(values) < len(known))

    def _null_test(self, tree: ConditionTree) -> Predicate | None:
        column = self._column(tree)
        return IsNull(column.path) if column is not None and column.is_leaf else None

    def _starts_with(self, tree: ConditionTree, prefix: ConditionTree) -> Predicate | None:
        column, literal = self._column(tree), self._literal(prefix)
        if column is None or column.type != STRING or not column.comparable or literal is None:
            return None
        if literal.value is None:
            return Constant(None)
        return StartsWith(column.path, literal.value) if isinstance(literal.value, str) else None

    def _like(self, tree: ConditionTree, pattern: ConditionTree, escape: LiteralValue | None) -> Predicate | None:
        column, literal = self._column(tree), self._literal(pattern)
        if column is None or literal is None or escape is None or not isinstance(escape.value, str):
            return None
        if not isinstance(literal.value, str):
            return None
        name = ".".join(quoted(part) for part in column.path)
        return self.sql(f"{name} LIKE {_quoted(literal.value)} ESCAPE {_quoted(escape.value)}")

    def _column(self, tree: ConditionTree) -> ResolvedColumn | None:
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
        literal, data_type = self._literal(tree.children[0]), _data_type(tree.payload)
        if literal is None or data_type is None:
            return None
        if literal.value is None:
            return LiteralValue(None)
        value = cast_literal(literal.value, data_type, self.zone)
        return None if value is None else LiteralValue(value, single=data_type == FLOAT)


def _can_meet(column: ResolvedColumn, literal: LiteralValue) -> bool:
    """Whether the stored values are what Spark compares with `literal`."""
    if isinstance(literal.value, Decimal) and str(column.type) in INTEGRAL_RANGES:
        # Beyond the range of a long, Spark puts TRUE or FALSE in place of the comparison, whether NULL or not.
        low, high = INTEGRAL_RANGES["long"]
        return column.comparable and low <= literal.value <= high
    return column.comparable and (not literal.single or column.type in (FLOAT, DOUBLE))


def _negated(literal: LiteralValue | None) -> LiteralValue | None:
    """The literal with its sign changed; not of negative numbers, the least of which overflows."""
    if literal is None or isinstance(literal.value, bool) or not isinstance(literal.value, (int, float, Decimal)):
        return None
    return LiteralValue(-literal.value, literal.single) if literal.value >= 0 else None


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _data_type(given: Any) -> DataType | None:
    """The type that a cast names, as JSON of Spark's types or in words; None where no literal can be cast to it."""
    name = given.lower() if isinstance(given, str) else ""
    if not name or "char" in name:
        return None
    try:
        field = {"name": "value", "type": name, "nullable": True, "metadata": {}}
        return parse_schema(orjson.dumps({"type": "struct", "fields": [field]}).decode()).fields[0].type
    except InvalidSchema:
        return None
