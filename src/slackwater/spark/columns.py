"""Filter conditions as predicates: SQL text, and Columns of classic and of Connect sessions.

A Column is read into one small tree, whatever the session: classic ones from the JSON that Catalyst writes of its
expressions, in which names and literals keep their types; Connect ones from the Python objects that they are. The
tree is then said as a predicate, part by part. A part that is not understood is `Unknown`, which prunes nothing.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.errors import PySparkException

from slackwater.errors import InvalidArgument, InvalidSchema
from slackwater.protocol.schema import BOOLEAN, DOUBLE, FLOAT, STRING, DataType, StructType, parse_schema
from slackwater.scan.columns import ResolvedColumn, resolve_column
from slackwater.scan.literals import INTEGRAL_RANGES, cast_literal, coerce_literal, coerce_literals
from slackwater.scan.predicate import (
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
    Value,
)
from slackwater.scan.sql_predicate import parse_predicate
from slackwater.spark.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

# Operations of the tree are functions, by Spark's names in lower case, and these, which no function can be called.
_NAME, _EXTRACT, _LITERAL, _CAST, _ALIAS, _SQL = "NAME", "EXTRACT", "LITERAL", "CAST", "ALIAS", "SQL"

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
    "UnresolvedExtractValue": _EXTRACT,
    "Alias": _ALIAS,
}
_JUNCTIONS = ("and", "or", "not", "!")
_QUOTED_PART = re.compile(r"`((?:[^`]|``)+)`(?:\.|\Z)|([^`.]+)(?:\.|\Z)")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  a wall clock, on purpose


def predicate_of(condition: Column | str, schema: StructType, zone: str) -> Predicate:
    """What `condition` says of the rows of a table with this `schema`: true of every row that Spark would keep.

    A str is SQL text. Columns come out as the schema spells them; literals are typed by the column they meet (see
    `coerce_literal`); timestamps without a zone are read in `zone`, the session's time zone. Never raises: what
    cannot be read, or names something that is not in the schema, is `Unknown`, and is left to Spark to judge.
    """
    translator = _Translator(schema, zone)
    if isinstance(condition, str):
        return translator.sql(condition)
    connect = type(condition).__module__.startswith("pyspark.sql.connect")
    try:
        tree = _tree(_read_connect(condition) if connect else _read_classic(condition))
        return translator.predicate(tree)
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        # Both sources are internals of PySpark, which may look different in another version.
        return Unknown("unreadable condition")


@dataclass(frozen=True, slots=True)
class _Node:
    """One operation of a condition, and the number of its operands. `payload`: names, literal, type or text."""

    operation: str
    arity: int = 0
    payload: Any = None


@dataclass(frozen=True, slots=True)
class _Tree:
    operation: str
    children: tuple[_Tree, ...]
    payload: Any


@dataclass(frozen=True, slots=True)
class _Literal:
    """`single` for a FLOAT, which Spark compares with whole numbers as floats."""

    value: Value | None
    single: bool = False


def _tree(nodes: Sequence[_Node]) -> _Tree:
    """The tree whose nodes stand in prefix order; without recursion, since chains of OR grow long."""
    stack: list[_Tree] = []
    for node in reversed(nodes):
        children = tuple(stack.pop() for _ in range(node.arity))
        stack.append(_Tree(node.operation, children, node.payload))
    (root,) = stack
    return root


def _operands(tree: _Tree) -> Iterator[_Tree]:
    """The operands of a chain of one and the same operation, in order."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if node.operation == tree.operation:
            pending.extend(reversed(node.children))
        else:
            yield node


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

    def predicate(self, tree: _Tree) -> Predicate:
        """What `tree` says, as a condition."""
        if tree.operation == "and":
            return And(tuple(self.predicate(operand) for operand in _operands(tree)))
        if tree.operation == "or":
            return Or(tuple(self.predicate(operand) for operand in _operands(tree)))
        if tree.operation in ("not", "!") and len(tree.children) == 1:
            return Not(self.predicate(tree.children[0]))
        if tree.operation == _ALIAS:
            return self.predicate(tree.children[0])
        if tree.operation == _SQL:
            return self.sql(tree.payload)
        try:
            said = self._condition(tree)
        except InvalidArgument:
            said = None
        return Unknown(tree.operation) if said is None else said

    def _condition(self, tree: _Tree) -> Predicate | None:
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
                return self._like(children[0], children[1], _Literal(tree.payload or "\\"))
            case "like", 3:
                return self._like(children[0], children[1], self._literal(children[2]))
        literal = self._literal(tree)
        if literal is not None:
            return Constant(literal.value) if literal.value is None or isinstance(literal.value, bool) else None
        column = self._column(tree)
        return Comparison(column.path, "=", True) if column is not None and column.type == BOOLEAN else None

    def _comparison(self, left: _Tree, operator: ComparisonOperator, right: _Tree) -> Predicate | None:
        literal = self._literal(right)
        if literal is not None:
            return self._compare(left, operator, literal)
        literal = self._literal(left)
        return None if literal is None else self._compare(right, _FLIPPED.get(operator, operator), literal)

    def _compare(self, tree: _Tree, operator: ComparisonOperator, literal: _Literal) -> Predicate | None:
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

    def _between(self, tree: _Tree, low: _Tree, high: _Tree) -> Predicate | None:
        bounds = (self._comparison(tree, ">=", low), self._comparison(tree, "<=", high))
        return And(tuple(bound or Unknown("between") for bound in bounds))

    def _in(self, tree: _Tree, items: Sequence[_Tree]) -> Predicate | None:
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

    def _null_test(self, tree: _Tree) -> Predicate | None:
        column = self._column(tree)
        return IsNull(column.path) if column is not None and column.is_leaf else None

    def _starts_with(self, tree: _Tree, prefix: _Tree) -> Predicate | None:
        column, literal = self._column(tree), self._literal(prefix)
        if column is None or column.type != STRING or not column.comparable or literal is None:
            return None
        if literal.value is None:
            return Constant(None)
        return StartsWith(column.path, literal.value) if isinstance(literal.value, str) else None

    def _like(self, tree: _Tree, pattern: _Tree, escape: _Literal | None) -> Predicate | None:
        column, literal = self._column(tree), self._literal(pattern)
        if column is None or literal is None or escape is None or not isinstance(escape.value, str):
            return None
        if not isinstance(literal.value, str):
            return None
        name = ".".join(quoted(part) for part in column.path)
        return self.sql(f"{name} LIKE {_quoted(literal.value)} ESCAPE {_quoted(escape.value)}")

    def _column(self, tree: _Tree) -> ResolvedColumn | None:
        names = _names(tree)
        return None if names is None else resolve_column(self.schema, names)

    def _literal(self, tree: _Tree) -> _Literal | None:
        if tree.operation == _LITERAL:
            literal: _Literal | None = tree.payload
            return literal
        if len(tree.children) != 1:
            return None
        if tree.operation == _ALIAS:
            return self._literal(tree.children[0])
        if tree.operation == "negative":
            return _negated(self._literal(tree.children[0]))
        return self._cast(tree) if tree.operation == _CAST else None

    def _cast(self, tree: _Tree) -> _Literal | None:
        literal, data_type = self._literal(tree.children[0]), _data_type(tree.payload)
        if literal is None or data_type is None:
            return None
        if literal.value is None:
            return _Literal(None)
        value = cast_literal(literal.value, data_type, self.zone)
        return None if value is None else _Literal(value, single=data_type == FLOAT)


def _can_meet(column: ResolvedColumn, literal: _Literal) -> bool:
    """Whether the stored values are what Spark compares with `literal`."""
    if isinstance(literal.value, Decimal) and str(column.type) in INTEGRAL_RANGES:
        # Beyond the range of a long, Spark puts TRUE or FALSE in place of the comparison, whether NULL or not.
        low, high = INTEGRAL_RANGES["long"]
        return column.comparable and low <= literal.value <= high
    return column.comparable and (not literal.single or column.type in (FLOAT, DOUBLE))


def _names(tree: _Tree) -> tuple[str, ...] | None:
    """The parts of a column reference; None where `tree` is something else."""
    if tree.operation == _NAME:
        names: tuple[str, ...] = tree.payload
        return names
    if tree.operation == _ALIAS:
        return _names(tree.children[0])
    if tree.operation != _EXTRACT:
        return None
    parent, name = _names(tree.children[0]), tree.payload
    if len(tree.children) == 2 and tree.children[1].operation == _LITERAL:
        name = tree.children[1].payload.value
    return None if parent is None or not isinstance(name, str) else (*parent, name)


def _negated(literal: _Literal | None) -> _Literal | None:
    """The literal with its sign changed; not of negative numbers, the least of which overflows."""
    if literal is None or isinstance(literal.value, bool) or not isinstance(literal.value, (int, float, Decimal)):
        return None
    return _Literal(-literal.value, literal.single) if literal.value >= 0 else None


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


def _literal_node(raw: Any, type_name: str, arity: int = 0) -> _Node:
    """A literal from its text or number in Spark: days and microseconds since the epoch for dates and times."""
    if raw is None:
        return _Node(_LITERAL, arity, _Literal(None))
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
    return _Node(type_name, arity) if value is None else _Node(_LITERAL, arity, _Literal(value, type_name == "float"))


def _attribute_parts(text: str) -> tuple[str, ...]:
    """The names in `a.b` and "a.`b.c`", as Spark takes apart the argument of `col`."""
    parts: list[str] = []
    position = 0
    while match := _QUOTED_PART.match(text, position):
        parts.append(match[2] if match[1] is None else match[1].replace("``", "`"))
        position = match.end()
    if position < len(text) or text.endswith(".") or not parts:
        raise ValueError(f"not a column name: {text!r}")
    return tuple(parts)


def _read_connect(column: Any) -> list[_Node]:
    """The nodes of a Column of a Connect session, in prefix order."""
    nodes: list[_Node] = []
    pending = [column._expr]
    while pending:
        node, children = _connect_node(pending.pop())
        nodes.append(node)
        pending.extend(reversed(children))
    return nodes


def _connect_node(expression: Any) -> tuple[_Node, Sequence[Any]]:
    # By name, since the classes are found only where Connect's libraries are installed.
    match type(expression).__name__:
        case "ColumnReference" if not getattr(expression, "_is_metadata_column", False):
            return _Node(_NAME, payload=_attribute_parts(expression._unparsed_identifier)), ()
        case "LiteralExpression":
            return _literal_node(expression._value, expression._dataType.typeName()), ()
        case "UnresolvedFunction" | "CallFunction":
            return _Node(expression._name.lower(), len(expression._args)), expression._args
        case "ColumnAlias":
            return _Node(_ALIAS, 1), (expression._child,)
        case "CastExpression":
            given = expression._data_type
            return _Node(_CAST, 1, given if isinstance(given, str) else given.jsonValue()), (expression._expr,)
        case "UnresolvedExtractValue":
            return _Node(_EXTRACT, 2), (expression._child, expression._extraction)
        case "SQLExpression":
            return _Node(_SQL, payload=expression._expr), ()
        case other:
            return _Node(other), ()


def _read_classic(column: Any) -> list[_Node]:
    """The nodes of a Column of a classic session, in prefix order. This function and those below talk to the JVM."""
    from py4j.protocol import Py4JError
    from pyspark.sql.utils import get_active_spark_context

    try:
        sql: Any = get_active_spark_context()._jvm.org.apache.spark.sql  # type: ignore[union-attr]
        converter = getattr(getattr(sql.classic, "ColumnNodeToExpressionConverter$"), "MODULE$")
        patterns = sql.catalyst.trees.TreePattern
        # In the JSON of these, parts stand more than once, or as whole plans: nested ones would never end.
        unfit = [patterns.CASE_WHEN(), patterns.PLAN_EXPRESSION()]
        nodes: list[_Node] = []
        pending = [converter.apply(column._jc.node())]
        while pending:
            expression = pending.pop()
            if not any(expression.containsPattern(pattern) for pattern in unfit):
                items = orjson.loads(expression.toJSON())
                nodes += [_catalyst_node(expression, index, item) for index, item in enumerate(items)]
                continue
            operation, children = _junction(expression)
            nodes.append(_Node(operation, len(children)))
            pending.extend(reversed(children))
    except (PySparkException, Py4JError) as error:
        raise ValueError("not a condition that Catalyst can read") from error
    return nodes


def _junction(expression: Any) -> tuple[str, Sequence[Any]]:
    """The operation and the operands of AND, OR and NOT; for anything else, its class without operands."""
    name = expression.getClass().getSimpleName()
    operation = _CATALYST.get(name, name)
    if name == "UnresolvedFunction":
        operation = expression.nameParts().mkString(".").lower()
    if operation not in _JUNCTIONS:
        return name, ()
    children = expression.children()
    return operation, [children.apply(index) for index in range(children.size())]


def _catalyst_node(root: Any, index: int, item: dict[str, Any]) -> _Node:
    """One node from its JSON; what the JSON leaves out is asked of `root`, below which it stands as number `index`."""
    name, arity = item["class"].rpartition(".")[2], item["num-children"]
    if name == "UnresolvedFunction":
        return _Node(item["nameParts"][1:-1].lower(), arity)
    if name == "UnresolvedAttribute":
        return _Node(_NAME, arity, _name_parts(root, index, item))
    if name == "AttributeReference" and "__metadata_col" not in item["metadata"]:
        return _Node(_NAME, arity, (item["name"],))
    if name == "GetStructField":
        return _Node(_EXTRACT, arity, item.get("name"))
    if name == "Literal":
        value, type_name = item["value"], item["dataType"]
        if not isinstance(type_name, str):
            return _Node(name, arity)
        if value is not None and type_name in ("timestamp", "binary"):
            value = _expression_at(root, index, item).value()
        return _literal_node(value, type_name, arity)
    if name == "Cast":
        return _Node(_CAST, arity, item["dataType"])
    if name == "Like":
        return _Node("like", arity, _expression_at(root, index, item).escapeChar())
    return _Node(_CATALYST.get(name, name), arity)


def _name_parts(root: Any, index: int, item: dict[str, Any]) -> tuple[str, ...]:
    text = item["nameParts"][1:-1]
    if re.fullmatch(r"\w+", text):
        return (text,)
    # "[a, b]" may be one name with a comma in it, and long lists are cut short.
    return tuple(_expression_at(root, index, item).nameParts().mkString("\0").split("\0"))


def _expression_at(root: Any, index: int, item: dict[str, Any]) -> Any:
    expression = root.apply(index)
    if orjson.loads(expression.toJSON())[0] != item:
        raise ValueError(f"expected {item} as number {index} of a condition, found {expression}")
    return expression
