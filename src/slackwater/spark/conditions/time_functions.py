"""Replacement of SQL time functions in text and in Columns by supplied values.

Classic Columns are rebuilt from their Catalyst expressions, Connect Columns from their Python objects. A missed
function remains a time function, and the check of the analysed plan finds it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

from slackwater.errors import SqlSyntaxError
from slackwater.predicate.sql_split import is_time_dependent
from slackwater.protocol.sqlglot_adapter import sql_tokens

Substitute: TypeAlias = Callable[[str, int], str]
"""Maps a function's name and requested fractional digits of a second to SQL for its value."""

FUNCTIONS = frozenset(
    {"current_timestamp", "now", "localtimestamp", "current_date", "curdate", "current_time", "unix_timestamp"}
)
_WITHOUT_PARENTHESES = frozenset({"current_timestamp", "current_date", "current_time"})
_FINEST = 6


def replaced_in_text(sql: str, answer: Substitute, columns: Collection[str]) -> str:
    """Replace time functions in SQL text by their values. `columns`, in lower case, take precedence over functions."""
    if not is_time_dependent(sql):
        return sql
    try:
        tokens = sql_tokens(sql)
    except SqlSyntaxError:
        return sql
    pieces: list[str] = []
    start = 0
    for at, token in enumerate(tokens):
        # The source text of a quoted name includes the quotes, so it never equals a function name.
        name = sql[token.start : token.end + 1].lower()
        if name not in FUNCTIONS or (at and tokens[at - 1].token_type.name in ("DOT", "ALIAS")):
            continue
        rest = [t.text for t in tokens[at + 1 : at + 4]]
        if rest[:2] == ["(", ")"]:
            last, digits = tokens[at + 2], _FINEST
        elif name == "current_time" and rest[:1] == ["("] and rest[2:] == [")"] and rest[1].isdigit():
            last, digits = tokens[at + 3], int(rest[1])
        elif name in _WITHOUT_PARENTHESES and name not in columns and rest[:1] not in (["("], ["."]):
            last, digits = token, _FINEST
        else:
            continue
        pieces += [sql[start : token.start], answer(name, digits)]
        start = last.end + 1
    return "".join([*pieces, sql[start:]])


def replaced_in_column(column: Column, answer: Substitute, columns: Collection[str]) -> Column:
    """Replace time functions in a Column of either kind of session; see `replaced_in_text`."""
    if not is_time_dependent(str(column)):
        return column
    if type(column).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.column import Column as ConnectColumn

        connect: Column = ConnectColumn(_ConnectTree(answer, columns).replaced(column._expr))
        return connect
    return _ClassicTree(answer, columns).replaced_column(column)


class _ConnectTree:
    def __init__(self, answer: Substitute, columns: Collection[str]) -> None:
        from pyspark.sql.connect import expressions

        self._kinds: Any = expressions
        self._answer = answer
        self._columns = columns

    def replaced(self, given: Any) -> Any:
        """Replace time functions in an expression or in a part of an expression."""
        if isinstance(given, (list, tuple)):
            return type(given)(self.replaced(item) for item in given)
        if not isinstance(given, self._kinds.Expression):
            return given
        if isinstance(given, self._kinds.SQLExpression):
            return self._kinds.SQLExpression(replaced_in_text(given._expr, self._answer, self._columns))
        if isinstance(given, self._kinds.ColumnReference):
            name = str(given._unparsed_identifier).lower()
            return self._value(name) if name in _WITHOUT_PARENTHESES - set(self._columns) else given
        if type(given).__name__ in ("UnresolvedFunction", "CallFunction") and given._name.lower() in FUNCTIONS:
            arguments = [getattr(argument, "_value", None) for argument in given._args]
            if _is_question(given._name.lower(), arguments):
                return self._value(given._name.lower(), *arguments)
        found = copy.copy(given)
        for key, value in vars(given).items():
            setattr(found, key, self.replaced(value))
        return found

    def _value(self, name: str, digits: Any = _FINEST) -> Any:
        return self._kinds.SQLExpression(self._answer(name, digits))


class _ClassicTree:
    """Replaces time functions in classic Columns. This class calls the JVM."""

    def __init__(self, answer: Substitute, columns: Collection[str]) -> None:
        from pyspark.sql.utils import get_active_spark_context

        self._jvm: Any = get_active_spark_context()._jvm
        self._answer = answer
        self._columns = columns

    def replaced_column(self, column: Column) -> Column:
        from pyspark.sql.classic.column import Column as ClassicColumn

        found = self._replaced(self._expression(column))
        classic: Column = ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(found))
        return classic

    def _expression(self, column: Any) -> Any:
        classic = self._jvm.org.apache.spark.sql.classic
        converter = getattr(getattr(classic, "ColumnNodeToExpressionConverter$"), "MODULE$")
        return converter.apply(column._jc.node())

    def _replaced(self, expression: Any) -> Any:
        if not is_time_dependent(expression.toString()):
            return expression
        kind = expression.getClass().getSimpleName()
        children = _listed(expression.children())
        if kind in ("UnresolvedFunction", "UnresolvedAttribute"):
            name = expression.nameParts().mkString("\0").lower()
            if kind == "UnresolvedAttribute" and name in _WITHOUT_PARENTHESES - set(self._columns):
                return self._value(name)
            if kind == "UnresolvedFunction" and name in FUNCTIONS:
                arguments = [c.value() if c.getClass().getSimpleName() == "Literal" else None for c in children]
                if _is_question(name, arguments):
                    return self._value(name, *arguments)
        if not children:
            return expression
        rebuilt = self._jvm.java.util.ArrayList()
        for child in children:
            rebuilt.add(self._replaced(child))
        converters = self._jvm.scala.jdk.javaapi.CollectionConverters
        return expression.withNewChildren(converters.asScala(rebuilt).toSeq())

    def _value(self, name: str, digits: Any = _FINEST) -> Any:
        return self._expression(F.expr(self._answer(name, digits)))


def _is_question(name: str, arguments: Sequence[Any]) -> bool:
    return not arguments or (name == "current_time" and len(arguments) == 1 and isinstance(arguments[0], int))


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]
