"""SQL text as a predicate: `a.b < 5 AND s LIKE 'x%'`, in Spark's dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError

from slackwater.errors import InvalidArgument
from slackwater.predicate.columns import ResolvedColumn, resolve_column
from slackwater.predicate.literals import cast_literal, coerce_literal, coerce_literals
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
    Value,
)
from slackwater.protocol.schema.schema import BOOLEAN, FLOAT, STRING, DataType, DecimalType, PrimitiveType, StructType

# The root of sqlglot's tree classes has changed its name between the versions that we allow.
_Node: TypeAlias = Any

_OPERATORS: dict[type[Any], ComparisonOperator] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED: dict[ComparisonOperator, ComparisonOperator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TYPES = {
    "TINYINT": "byte",
    "BYTE": "byte",
    "SMALLINT": "short",
    "SHORT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "LONG": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "binary",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
}
_DECIMAL = re.compile(r"DECIMAL\((\d+)(?:, ?(\d+))?\)\Z")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def parse_predicate(text: str, schema: StructType, zone: str = "UTC") -> Predicate:
    """The predicate that the SQL condition `text` says of the rows of a table with this `schema`.

    Columns come out as the schema spells them; literals are typed by the column they meet (see `coerce_literal`);
    timestamps without a zone are read in `zone`, the session's time zone. What a predicate cannot express becomes
    `Unknown` with its text. Raises InvalidArgument where `text` is not one SQL condition, with the position, and
    where a column is not in the schema, with the columns there are.
    """
    return _Translator(schema, zone).predicate(_parse(text))


def _parse(text: str) -> _Node:
    dialect = Dialect.get_or_raise("spark")
    try:
        tokens = [_with_spark_escapes(token, text) for token in dialect.tokenize(text)]
        trees = dialect.parser().parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        where = f"line {first.get('line', '?')}, column {first.get('col', '?')}"
        raise InvalidArgument(
            f"not an SQL condition: {text!r}, at {where}: {first.get('description', error)}"
        ) from error
    except (TokenError, RecursionError) as error:
        raise InvalidArgument(f"not an SQL condition: {text!r}: {error}") from error
    if len(trees) != 1 or trees[0] is None:
        raise InvalidArgument(f"expected one SQL condition, found {sum(tree is not None for tree in trees)}: {text!r}")
    return trees[0]


def _with_spark_escapes(token: Any, text: str) -> Any:
    """`token` with its text unescaped by Spark's rules, which vary between versions of the tokenizer."""
    raw = text[token.start : token.end + 1]
    if token.token_type.name == "STRING" and "\\" in raw and raw[:1] in ("'", '"'):
        token.text = _ESCAPE.sub(_unescape, raw[1:-1])
    return token


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        number = int(code[1:], 16) if code[0] in "uU" else int(code, 8)
        return chr(number) if number <= 0x10FFFF else "\ufffd"
    return _ESCAPED.get(code, code)


@dataclass(frozen=True, slots=True)
class _Literal:
    value: Value | None


@dataclass(frozen=True, slots=True)
class _Translator:
    schema: StructType
    zone: str

    def predicate(self, node: _Node) -> Predicate:
        node = node.unnest()
        if isinstance(node, exp.And):
            return And(tuple(self.predicate(child) for child in node.flatten()))
        if isinstance(node, exp.Or):
            return Or(tuple(self.predicate(child) for child in node.flatten()))
        if isinstance(node, exp.Not):
            return Not(self.predicate(node.this))
        said = self._condition(node)
        if said is None:
            self._check_columns(node)
            return Unknown(node.sql(dialect="spark"))
        return said

    def _condition(self, node: _Node) -> Predicate | None:
        """What `node` says about one column; None where that cannot be expressed."""
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return Constant(None)
        if isinstance(node, (exp.Column, exp.Dot)):
            return self._compare(node, "=", _Literal(True)) if self._is_boolean(node) else None
        if type(node) in _OPERATORS:
            return self._comparison(node.this, _OPERATORS[type(node)], node.expression)
        if isinstance(node, exp.NullSafeNEQ):
            same = self._comparison(node.this, "<=>", node.expression)
            return None if same is None else Not(same)
        if isinstance(node, exp.Between):
            return self._between(node)
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, (exp.Like, exp.Escape, exp.StartsWith)):
            return self._text_match(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() in ("isnull", "isnotnull"):
            null = self._null_test(node.expressions)
            return Not(null) if null is not None and node.name.lower() == "isnotnull" else null
        return None

    def _comparison(self, left: _Node, operator: ComparisonOperator, right: _Node) -> Predicate | None:
        literal = self._literal(right)
        if literal is not None:
            return self._compare(left, operator, literal)
        literal = self._literal(left)
        return None if literal is None else self._compare(right, _FLIPPED.get(operator, operator), literal)

    def _compare(self, node: _Node, operator: ComparisonOperator, literal: _Literal) -> Predicate | None:
        column = self._column(node)
        if column is None or column.type is None:
            return None
        if literal.value is None:
            if operator != "<=>":
                return Constant(None)
            return IsNull(column.path) if column.is_leaf else None
        value = coerce_literal(literal.value, column.type, self.zone) if column.comparable else None
        return None if value is None else Comparison(column.path, operator, value)

    def _between(self, node: exp.Between) -> Predicate | None:
        if node.args.get("symmetric"):
            return None
        low = self._comparison(node.this, ">=", node.args["low"])
        high = self._comparison(node.this, "<=", node.args["high"])
        if low is None and high is None:
            return None
        return And((low or Unknown(node.sql(dialect="spark")), high or Unknown(node.sql(dialect="spark"))))

    def _in(self, node: exp.In) -> Predicate | None:
        column = self._column(node.this)
        literals = [self._literal(item) for item in node.expressions]
        if column is None or column.type is None or not literals or any(literal is None for literal in literals):
            return None
        given = [literal.value for literal in literals if literal is not None]
        values = [value for value in given if value is not None]
        if not values:
            return Constant(None)
        coerced = coerce_literals(values, column.type, self.zone) if column.comparable else None
        return None if coerced is None else In(column.path, coerced, has_null=len(values) < len(given))

    def _is(self, node: exp.Is) -> Predicate | None:
        if isinstance(node.expression, exp.Null):
            return self._null_test([node.this])
        if isinstance(node.expression, exp.Boolean) and self._is_boolean(node.this):
            return self._compare(node.this, "<=>", _Literal(bool(node.expression.this)))
        return None

    def _null_test(self, arguments: Sequence[_Node]) -> Predicate | None:
        column = self._column(arguments[0]) if len(arguments) == 1 else None
        return IsNull(column.path) if column is not None and column.is_leaf else None

    def _text_match(self, node: _Node) -> Predicate | None:
        escape = "\\"
        if isinstance(node, exp.Escape):
            given = self._literal(node.expression)
            if given is None or not isinstance(given.value, str) or len(given.value) != 1:
                return None
            node, escape = node.this, given.value
        if not isinstance(node, (exp.Like, exp.StartsWith)):
            return None
        column, pattern = self._column(node.this), self._literal(node.expression)
        if column is None or column.type != STRING or not column.comparable or pattern is None:
            return None
        if pattern.value is None:
            return Constant(None)
        if not isinstance(pattern.value, str):
            return None
        if isinstance(node, exp.StartsWith):
            return StartsWith(column.path, pattern.value)
        said = _like(column.path, pattern.value, escape)
        return Not(said) if said is not None and node.args.get("negate") else said

    def _is_boolean(self, node: _Node) -> bool:
        column = self._column(node)
        return column is not None and column.type == BOOLEAN

    def _column(self, node: _Node) -> ResolvedColumn | None:
        names = _names(node)
        return None if names is None else resolve_column(self.schema, names)

    def _check_columns(self, node: _Node) -> None:
        """Resolves the columns of what is not understood; not inside functions, where names may be something else."""
        node = node.unnest()
        if isinstance(node, (exp.Column, exp.Dot)):
            self._column(node)
        elif isinstance(node, (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Cast)):
            for child in node.iter_expressions():
                self._check_columns(child)

    def _literal(self, node: _Node) -> _Literal | None:
        node = node.unnest()
        if isinstance(node, exp.Literal):
            value = str(node.this) if node.is_string else _number(str(node.this))
            return None if value is None else _Literal(value)
        if isinstance(node, exp.Null):
            return _Literal(None)
        if isinstance(node, exp.Boolean):
            return _Literal(bool(node.this))
        if isinstance(node, exp.RawString):
            return _Literal(str(node.this))
        if isinstance(node, exp.HexString):
            return _hex(str(node.this))
        if isinstance(node, exp.Neg):
            return _negated(self._literal(node.this))
        return self._cast(node) if isinstance(node, exp.Cast) else None

    def _cast(self, node: exp.Cast) -> _Literal | None:
        literal, data_type = self._literal(node.this), _data_type(node.to)
        if literal is None or data_type is None or node.args.get("format"):
            return None
        if literal.value is None:
            return literal
        # A FLOAT meets a whole number as a float, and floats that are equal stand for many whole numbers.
        value = None if data_type == FLOAT else cast_literal(literal.value, data_type, self.zone)
        return None if value is None else _Literal(value)


def _names(node: _Node) -> list[str] | None:
    """The parts of a column reference `a.b.c`; None where `node` is something else."""
    node = node.unnest()
    if isinstance(node, exp.Dot):
        parent = _names(node.this)
        return None if parent is None or not isinstance(node.expression, exp.Identifier) else [*parent, node.name]
    if not isinstance(node, exp.Column) or not all(isinstance(part, exp.Identifier) for part in node.parts):
        return None
    return [str(part.name) for part in node.parts]


def _number(text: str) -> int | float | Decimal | None:
    """A bare number as Spark types it: an exponent makes a double, a point a decimal, anything else an integer."""
    if "e" in text.lower():
        return float(text)
    if "." not in text:
        return int(text) if text.isdigit() else None
    return Decimal(text)


def _negated(literal: _Literal | None) -> _Literal | None:
    if literal is None or literal.value is None:
        return literal
    if isinstance(literal.value, (int, float, Decimal)) and not isinstance(literal.value, bool):
        return _Literal(-literal.value)
    return None


def _hex(digits: str) -> _Literal | None:
    try:
        return _Literal(bytes.fromhex(digits))
    except ValueError:
        return None


def _data_type(node: _Node) -> DataType | None:
    name = node.sql(dialect="spark").upper()
    if match := _DECIMAL.match(name):
        return DecimalType(int(match[1]), int(match[2] or 0))
    if name == "DECIMAL":
        return DecimalType(10, 0)
    return PrimitiveType(_TYPES[name]) if name in _TYPES else None


def _like(path: tuple[str, ...], pattern: str, escape: str) -> Predicate | None:
    """`LIKE pattern` where that is an equality or a prefix; None for any other pattern."""
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
