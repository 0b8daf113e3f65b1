"""Conversion of Columns of classic and Connect sessions to condition trees.

Classic Columns are read from Catalyst's JSON of their expressions, which preserves names and literal types. Connect
Columns are read from their Python objects.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.errors import PySparkException

from slackwater.predicate.condition_tree import ALIAS, CAST, EXTRACT, LITERAL, NAME, SQL, ConditionTree, LiteralValue
from slackwater.predicate.literals import INTEGRAL_RANGES, cast_literal
from slackwater.predicate.predicate import Value
from slackwater.protocol.schema.schema import FLOAT
from slackwater.spark.session.jvm_objects import static_member

if TYPE_CHECKING:
    from pyspark.sql import Column

_CATALYST = {
    "And": "and",
    "Or": "or",
    "Not": "not",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "IsNull": "isnull",
    "IsNotNull": "isnotnull",
    "In": "in",
    "Like": "like",
    "UnaryMinus": "negative",
    "UnresolvedExtractValue": EXTRACT,
    "Alias": ALIAS,
}
_JUNCTIONS = ("and", "or", "not", "!")
_QUOTED_PART = re.compile(r"`((?:[^`]|``)+)`(?:\.|\Z)|([^`.]+)(?:\.|\Z)")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  a wall clock, on purpose


def read_condition(condition: Column) -> ConditionTree:
    """Return the tree of a Column of either kind of session.

    Raises ValueError if the Column is unreadable: both sources are internals of PySpark and may change between
    versions.
    """
    connect = type(condition).__module__.startswith("pyspark.sql.connect")
    try:
        return _tree(_read_connect(condition) if connect else _read_classic(condition))
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("a condition that cannot be read") from error


def read_expression(expression: Any) -> ConditionTree:
    """Return the tree of an expression of Catalyst with resolved names, in a classic session.

    Raises ValueError if the expression is unreadable.
    """
    from py4j.protocol import Py4JError

    try:
        return _tree(_nodes_of(expression))
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, RecursionError, Py4JError) as error:
        raise ValueError("a condition that cannot be read") from error


def has_variables(sql: str) -> bool:
    """Return whether Spark may substitute settings in the SQL text before parsing."""
    return "${" in sql


@dataclass(frozen=True, slots=True)
class _Node:
    """A `ConditionTree` node with the number of its operands."""

    operation: str
    arity: int = 0
    payload: Any = None


def _tree(nodes: Sequence[_Node]) -> ConditionTree:
    """Build the tree from nodes in prefix order, without recursion, because chains of OR can be long."""
    stack: list[ConditionTree] = []
    for node in reversed(nodes):
        children = tuple(stack.pop() for _ in range(node.arity))
        stack.append(ConditionTree(node.operation, children, node.payload))
    (root,) = stack
    return root


def _literal_node(raw: Any, type_name: str, arity: int = 0) -> _Node:
    """Return a literal from Spark's text or number. Dates are days and times are microseconds since the epoch."""
    if raw is None:
        return _Node(LITERAL, arity, LiteralValue(None))
    value: Value | None = None
    try:
        if type_name in INTEGRAL_RANGES:
            value = int(raw)
        elif type_name in ("double", "float"):
            value = cast_literal(float(raw), FLOAT) if type_name == "float" else float(raw)
        elif type_name.startswith("decimal"):
            value = Decimal(raw)
        elif type_name == "string":
            value = str(raw)
        elif type_name == "boolean":
            value = raw in (True, "true")
        elif type_name == "binary":
            value = bytes(raw)
        elif type_name == "date":
            value = _EPOCH.date() + dt.timedelta(days=raw) if isinstance(raw, int) else dt.date.fromisoformat(raw)
        elif type_name in ("timestamp", "timestamp_ntz"):
            moment = _EPOCH + dt.timedelta(microseconds=int(raw))
            value = moment if type_name == "timestamp_ntz" else moment.replace(tzinfo=dt.timezone.utc)
    except (ValueError, ArithmeticError):
        value = None
    return (
        _Node(type_name, arity) if value is None else _Node(LITERAL, arity, LiteralValue(value, type_name == "float"))
    )


def _attribute_parts(text: str) -> tuple[str, ...]:
    """Split `a.b` and "a.`b.c`" into names, like Spark's `col`."""
    parts: list[str] = []
    position = 0
    while match := _QUOTED_PART.match(text, position):
        parts.append(match[2] if match[1] is None else match[1].replace("``", "`"))
        position = match.end()
    if position < len(text) or text.endswith(".") or not parts:
        raise ValueError(f"not a column name: {text!r}")
    return tuple(parts)


def _read_connect(column: Any) -> list[_Node]:
    """Return the nodes of a Connect Column in prefix order."""
    nodes: list[_Node] = []
    pending = [column._expr]
    while pending:
        node, children = _connect_node(pending.pop())
        nodes.append(node)
        pending.extend(reversed(children))
    return nodes


def _connect_node(expression: Any) -> tuple[_Node, Sequence[Any]]:
    # Match by name, because the classes exist only if Connect's libraries are installed.
    match type(expression).__name__:
        case "ColumnReference" if not getattr(expression, "_is_metadata_column", False):
            return _Node(NAME, payload=_attribute_parts(expression._unparsed_identifier)), ()
        case "LiteralExpression":
            return _literal_node(expression._value, expression._dataType.typeName()), ()
        case "UnresolvedFunction" | "CallFunction":
            return _Node(expression._name.lower(), len(expression._args)), expression._args
        case "ColumnAlias":
            return _Node(ALIAS, 1), (expression._child,)
        case "CastExpression":
            given = expression._data_type
            return _Node(CAST, 1, given if isinstance(given, str) else given.jsonValue()), (expression._expr,)
        case "UnresolvedExtractValue":
            return _Node(EXTRACT, 2), (expression._child, expression._extraction)
        case "SQLExpression" if not has_variables(expression._expr):
            return _Node(SQL, payload=expression._expr), ()
        case other:
            return _Node(other), ()


_SQL = "org.apache.spark.sql"


def _read_classic(column: Any) -> list[_Node]:
    """Return the nodes of a classic Column in prefix order. This function and the functions below call the JVM."""
    from py4j.protocol import Py4JError
    from pyspark.sql.utils import get_active_spark_context

    try:
        context: Any = get_active_spark_context()
        converter = static_member(context, f"{_SQL}.classic.ColumnNodeToExpressionConverter$", "MODULE$")
        return _nodes_of(converter.apply(column._jc.node()))
    except (PySparkException, Py4JError) as error:
        raise ValueError("not a condition that Catalyst can read") from error


def _nodes_of(root: Any) -> list[_Node]:
    """Return the nodes of a Catalyst expression in prefix order."""
    from pyspark.sql.utils import get_active_spark_context

    context: Any = get_active_spark_context()
    patterns = f"{_SQL}.catalyst.trees.TreePattern"
    # The JSON of these repeats parts or contains whole plans, so nested ones would grow without bound.
    unfit = [static_member(context, patterns, kind)() for kind in ("CASE_WHEN", "PLAN_EXPRESSION")]
    nodes: list[_Node] = []
    pending = [root]
    while pending:
        expression = pending.pop()
        if not any(expression.containsPattern(pattern) for pattern in unfit):
            items = orjson.loads(expression.toJSON())
            nodes += [_catalyst_node(expression, index, item) for index, item in enumerate(items)]
            continue
        operation, children = _junction(expression)
        nodes.append(_Node(operation, len(children)))
        pending.extend(reversed(children))
    return nodes


def _junction(expression: Any) -> tuple[str, Sequence[Any]]:
    """Return the operation and operands of AND, OR and NOT, or the class without operands of any other expression."""
    name = expression.getClass().getSimpleName()
    operation = _CATALYST.get(name, name)
    if name == "UnresolvedFunction":
        operation = expression.nameParts().mkString(".").lower()
    if operation not in _JUNCTIONS:
        return name, ()
    children = expression.children()
    return operation, [children.apply(index) for index in range(children.size())]


def _catalyst_node(root: Any, index: int, item: dict[str, Any]) -> _Node:
    """Return one node from its JSON. Missing values are read from node number `index` below `root`."""
    name, arity = item["class"].rpartition(".")[2], item["num-children"]
    if name == "UnresolvedFunction":
        return _Node(item["nameParts"][1:-1].lower(), arity)
    if name == "UnresolvedAttribute":
        return _Node(NAME, arity, _name_parts(root, index, item))
    if name == "AttributeReference" and "__metadata_col" not in item["metadata"]:
        return _Node(NAME, arity, (item["name"],))
    if name == "GetStructField":
        return _Node(EXTRACT, arity, item.get("name"))
    if name == "Literal":
        value, type_name = item["value"], item["dataType"]
        if not isinstance(type_name, str):
            return _Node(name, arity)
        if value is not None and type_name in ("timestamp", "binary"):
            value = _expression_at(root, index, item).value()
        return _literal_node(value, type_name, arity)
    if name == "Cast":
        return _Node(CAST, arity, item["dataType"])
    if name == "Like":
        return _Node("like", arity, _expression_at(root, index, item).escapeChar())
    return _Node(_CATALYST.get(name, name), arity)


def _name_parts(root: Any, index: int, item: dict[str, Any]) -> tuple[str, ...]:
    text = item["nameParts"][1:-1]
    if re.fullmatch(r"\w+", text):
        return (text,)
    # "[a, b]" may be one name with a comma, and long lists are truncated.
    return tuple(_expression_at(root, index, item).nameParts().mkString("\0").split("\0"))


def _expression_at(root: Any, index: int, item: dict[str, Any]) -> Any:
    expression = root.apply(index)
    if orjson.loads(expression.toJSON())[0] != item:
        raise ValueError(f"expected {item} as number {index} of a condition, found {expression}")
    return expression
