"""SET clauses and INSERT lists, parsed into columns and values of the table's types.

Source: delta-spark's `UPDATE ... SET` and `MERGE`; delta-protocol.md "Identity Columns", "Default Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, SlackwaterError, SqlSyntaxError
from slackwater.protocol.features.write_expressions import WriteExpressions
from slackwater.protocol.schema.column_paths import format_column_path, has_path, parse_column_path, resolve_path
from slackwater.protocol.schema.schema import ArrayType, ColumnPath, DataType, MapType, StructField, StructType
from slackwater.spark.conditions.log_suppression import suppress_spark_errors
from slackwater.spark.session.frames import plain_method
from slackwater.spark.session.spark_errors import class_of, condition_of, spark_error_text
from slackwater.spark.session.types import to_spark_type
from slackwater.spark.write.store_assignment import StoreAssignment, stored
from slackwater.sql.lexer import quoted

Expression: TypeAlias = Column | str
"""A Column, or SQL text."""

_OTHER = "__slackwater_other"
_NO_BOOLEAN = "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"
_NO_UDF_IN_LAMBDA = "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_PYTHON_UDF"
_SUBQUERY = "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY"
_REFUSED = {
    _SUBQUERY: "sub-queries are not supported. Join the rows of the sub-query, or compute its value first",
    "INVALID_WHERE_CONDITION": "aggregates and window functions are not supported. Use the values of one row",
    "UNSUPPORTED_EXPR_FOR_OPERATOR": "aggregates and window functions are not supported. Use the values of one row",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": "window functions are not supported. Use the values of one row",
    "UNSUPPORTED_GENERATOR": "functions that return several rows are not supported. Return one value for each row",
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS": "the expression is not deterministic: each evaluation can "
    "return another value. Store the value in a column first",
}


def validate_set_argument(given: object, name: str = "set") -> None:
    """Accept a dict of column names and values, like delta-spark. `name` is the argument's name.

    Raises ValueError if `given` is None, and TypeError if `given` is not such a dict.
    """
    if given is None:
        raise ValueError(f"'{name}' cannot be None")
    if not isinstance(given, Mapping):
        raise TypeError(f"'{name}' must be a dict, found to be {type(given)}")
    for key, value in given.items():
        if not isinstance(key, str):
            raise TypeError(
                f"Keys of dict in '{name}' must contain only strings with column names, found '{key}' of type "
                f"'{type(key)}'"
            )
        if not isinstance(value, (Column, str)):
            raise TypeError(
                f"Values of dict in '{name}' must contain only Spark SQL Columns or strings (expressions in SQL "
                f"syntax) as values, found '{value}' of type '{type(value)}'"
            )


def parse_assignments(
    given: Mapping[str, Expression], schema: StructType, rules: WriteExpressions, what: str, insert: bool = False
) -> dict[ColumnPath, Column]:
    """Return the columns set by `given`, in the spelling of `schema`, with their values.

    Keys are column names in any case. Nested columns use dots; names with a dot need backticks. The word DEFAULT means
    the column's default value. DEFAULT for an identity or generated column leaves the column out. `what` names the
    clause in messages. With `insert`, the clause makes new rows. Then only whole columns can be set, and identity
    columns only if the table allows explicit values.

    Raises:
        TypeError: See `validate_set_argument`.
        InvalidArgument: If a column does not exist, is set twice or also in part, is part of an array or a map, or is
            an identity column, or if a value is not valid SQL.
    """
    validate_set_argument(given, "values" if insert else "set")
    found: dict[ColumnPath, Column] = {}
    paths: list[ColumnPath] = []
    for key, value in given.items():
        path = _settable_path(key, schema, what)
        _require_distinct(path, paths, what)
        paths.append(path)
        if insert and len(path) > 1:
            raise InvalidArgument(
                f"{what}: {key} is a part of a column, but an insert sets whole columns. Set the column to a struct",
                error_class="DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION",
            )
        is_default = isinstance(value, str) and value.strip().upper() == "DEFAULT"
        _require_may_be_set(path, rules, what, insert, is_default)
        if not is_default:
            with _refusals_named(f"{what}: the value of column {key}"):
                found[path] = F.expr(value) if isinstance(value, str) else value
        elif not _is_made_by_table(path, rules):
            found[path] = _default(path, schema, rules)
    return found


def assigned_columns(
    frame: DataFrame,
    assignments: Mapping[ColumnPath, Column],
    schema: StructType,
    current: Callable[[StructField], Column],
    what: str,
    fills: bool = False,
) -> dict[str, Column]:
    """Return the value of each assigned top-level column, with exactly its type in `schema`.

    The values and `current(column)` resolve in `frame`. `frame` is analysed, not run. `current(column)` is the present
    value of a partly set column. A null struct becomes a struct with null in its other fields. The order is the order
    of `schema`. A value too large for its column fails the job that evaluates it. With `fills`, missing struct fields
    are NULL; otherwise a value with missing fields is rejected. `what` names the clause in messages.

    Raises InvalidArgument if Spark cannot resolve a value, if a value is not of one row (see `validate_expression`), or
    if its type may not be stored in the column (see `slackwater.spark.write.store_assignment`).
    """
    if not assignments:
        return {}
    types = _types_of(frame, assignments, what)
    assignment = StoreAssignment(frame.sparkSession)
    values = {}
    for path, value in assignments.items():
        wanted = to_spark_type(resolve_path(schema, path)[1])
        try:
            values[path] = stored(value, types[path], wanted, format_column_path(path), assignment, fills=fills)
        except InvalidArgument as error:
            raise InvalidArgument(f"{what}: {error}", error_class=error.error_class) from error
    touched = {path[0] for path in values}
    return {
        column.name: values[(column.name,)]
        if (column.name,) in values
        else _with_parts(current(column), column.type, (column.name,), values)
        for column in schema
        if column.name in touched
    }


def validate_expression(
    frame: DataFrame, value: Expression, what: str, boolean: bool = False, deterministic: bool = False
) -> Column:
    """Return `value` as a Column that resolves in `frame` and depends on one row. `what` names it in messages.

    With `boolean`, `value` must be a condition; an untyped NULL is allowed. With `deterministic`, each evaluation must
    give the same value. `frame` is analysed, not run. Raises InvalidArgument for sub-queries, aggregates, window
    functions, generators and expressions that Spark cannot resolve, TypeError if `value` is not a Column or a string.
    """
    if not isinstance(value, (Column, str)):
        raise TypeError(f"{what} must be a Spark SQL Column or a string (an expression in SQL syntax), found {value!r}")
    named = f"{what} {value!r}" if isinstance(value, str) else what
    with _refusals_named(named):
        column = F.expr(value) if isinstance(value, str) else value
        if not boolean:
            _require_one_row(frame, column, deterministic)
            return column
        try:
            _require_one_row(frame, F.when(column, F.lit(1)), deterministic)
        except AnalysisException as error:
            if condition_of(error) != _NO_BOOLEAN:
                raise
        else:
            return column
        found = frame.select(column.alias(_OTHER)).schema.fields[0].dataType
        if not isinstance(found, spark_types.NullType):
            raise InvalidArgument(
                f"{named}: expected a condition, found a value of type {found.simpleString()}",
                error_class="DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN",
            )
        column = column.cast("boolean")
        _require_one_row(frame, column, deterministic)
        return column


def subqueries_resolve(frame: DataFrame, condition: str, what: str) -> None:
    """Raise InvalidArgument if `condition`, which has sub-queries, does not resolve in a filter of `frame`."""
    with _refusals_named(f"{what} {condition!r}"):
        _ = frame.filter(F.expr(condition)).schema


def assignments_without_alias(
    given: Mapping[str, Expression], alias: str, schema: StructType
) -> Mapping[str, Expression]:
    """Return the assignments without the target's alias in front of column names."""
    return {_without_first(key, alias, schema): value for key, value in given.items()}


def _without_first(key: str, alias: str, schema: StructType) -> str:
    try:
        parts = parse_column_path(key)
    except InvalidArgument:
        # Parsing the assignment later raises the error, and names the clause.
        return key
    if len(parts) == 1 or parts[0].lower() != alias.lower():
        return key
    # Like Spark, the name means the table before a struct column.
    is_struct = schema.get(parts[0]) is not None and schema.get(parts[1]) is None
    return key if is_struct else ".".join(quoted(part) for part in parts[1:])


def _settable_path(key: str, schema: StructType, what: str) -> ColumnPath:
    try:
        given = parse_column_path(key)
        for outer in (given[:size] for size in range(1, len(given))):
            data_type = resolve_path(schema, outer)[1] if has_path(schema, outer) else None
            if isinstance(data_type, (ArrayType, MapType)):
                raise InvalidArgument(
                    f"{key} is a part of {format_column_path(outer)}, which is of type {data_type}, and only fields of "
                    "structs can be set. Set the whole column",
                    error_class="DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT",
                )
        return resolve_path(schema, given)[0]
    except InvalidArgument as error:
        raise InvalidArgument(f"{what}: {error}", error_class=error.error_class) from error


def _require_distinct(path: ColumnPath, others: list[ColumnPath], what: str) -> None:
    for other in others:
        if path == other:
            raise InvalidArgument(
                f"{what}: column {format_column_path(path)} is set twice. Remove one of the values",
                error_class="DELTA_CONFLICT_SET_COLUMN",
            )
        shorter, longer = sorted((path, other), key=len)
        if longer[: len(shorter)] == shorter:
            raise InvalidArgument(
                f"{what}: column {format_column_path(shorter)} and its part {format_column_path(longer)} are both set. "
                "Set one of them",
                error_class="DELTA_CONFLICT_SET_COLUMN",
            )


def _require_may_be_set(path: ColumnPath, rules: WriteExpressions, what: str, insert: bool, is_default: bool) -> None:
    identity = next((i for i in rules.identity if path == (i.name,)), None)
    if identity is None or (insert and (is_default or identity.allow_explicit_insert)):
        return
    if insert:
        raise InvalidArgument(
            f"{what}: identity column {identity.name} is GENERATED ALWAYS, so each write generates its values. "
            "Leave it out",
            error_class="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
        )
    raise InvalidArgument(
        f"{what}: identity column {identity.name} cannot be set in existing rows. Leave it out",
        error_class="DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
    )


def _is_made_by_table(path: ColumnPath, rules: WriteExpressions) -> bool:
    names = [identity.name for identity in rules.identity] + [generated.name for generated in rules.generated]
    return path in {(name,) for name in names}


def _default(path: ColumnPath, schema: StructType, rules: WriteExpressions) -> Column:
    sql = next((d.sql for d in rules.defaults if path == (d.name,)), "NULL")
    return F.expr(rules.timed(sql)).cast(to_spark_type(resolve_path(schema, path)[1]))


def _types_of(
    frame: DataFrame, assignments: Mapping[ColumnPath, Column], what: str
) -> dict[ColumnPath, spark_types.DataType]:
    """Return the types of the values. Each value must depend on one row of `frame`."""
    values = list(assignments.values())
    try:
        with _refusals_named(what):
            _require_one_row(frame, F.struct(*values), deterministic=False)
            fields = frame.select(*(v.alias(f"_{at}") for at, v in enumerate(values))).schema.fields
    except InvalidArgument:
        # Values are checked one by one, so that the message names the column at fault.
        for path, value in assignments.items():
            with _refusals_named(f"{what}: the value of column {format_column_path(path)}"):
                _require_one_row(frame, value, deterministic=False)
                _ = frame.select(value.alias("_0")).schema
        raise
    return dict(zip(assignments, (field.dataType for field in fields), strict=True))


def _with_parts(present: Column, data_type: DataType, path: ColumnPath, values: Mapping[ColumnPath, Column]) -> Column:
    """Return the value at `path` with the parts in `values` replaced, at every depth."""
    if not isinstance(data_type, StructType) or not any(set_path[: len(path)] == path for set_path in values):
        return present
    parts = []
    for part in data_type:
        inner = (*path, part.name)
        value = values.get(inner)
        if value is None:
            value = _with_parts(present.getField(part.name), part.type, inner, values)
        parts.append(value.alias(part.name))
    return F.struct(*parts)


def _require_one_row(frame: DataFrame, value: Column, deterministic: bool) -> None:
    """Let Spark raise AnalysisException if `value` does not depend on one row."""
    try:
        # Inside a lambda, Spark reports a sub-query before a Python function; neither is allowed.
        _analyse(frame, F.exists(F.array(F.lit(1)), lambda _: value.isNull()), deterministic)
    except AnalysisException as error:
        if condition_of(error) != _NO_UDF_IN_LAMBDA:
            raise
        _analyse(frame, value.isNull(), deterministic)


def _analyse(frame: DataFrame, condition: Column, deterministic: bool) -> None:
    if deterministic:
        # A join, because Spark rejects non-deterministic join conditions.
        other = frame.sparkSession.range(0).select(F.lit(1).alias(_OTHER))
        _ = frame.join(other, condition).schema
    else:
        # The new column makes the server analyse the plan, because a filter of Connect returns its cached schema.
        _ = plain_method(frame, "filter")(condition).select(F.lit(1).alias(_OTHER)).schema


@contextmanager
def _refusals_named(named: str) -> Iterator[None]:
    """Convert Spark's errors for expressions within the block into InvalidArgument with the name `named`.

    A parse error becomes SqlSyntaxError.
    """
    try:
        with suppress_spark_errors():
            yield
    except (AnalysisException, ParseException) as error:
        if isinstance(error, SlackwaterError):
            raise
        condition = (condition_of(error) or "").partition(".")[0]
        says = _REFUSED.get(condition) or spark_error_text(error)
        if condition == "UNRESOLVED_COLUMN" and named.startswith("UPDATE SET"):
            says += ". Text must be quoted: \"'text'\""
        kind = SqlSyntaxError if isinstance(error, ParseException) else InvalidArgument
        named_by = {"error_class": "DELTA_UNSUPPORTED_SUBQUERY"} if condition == _SUBQUERY else class_of(error)
        raise kind(f"{named}: {says}", **named_by) from error
