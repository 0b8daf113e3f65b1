"""What SET clauses and INSERT lists say: which columns get which values, as Columns of the table's types.

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
from slackwater.spark.session.classic_connect import condition_of, plain_method
from slackwater.spark.session.types import to_spark_type
from slackwater.spark.write.row_checks import class_of, spark_error_text
from slackwater.spark.write.store_assignment import StoreAssignment, stored
from slackwater.sql.lexer import quoted

Expression: TypeAlias = Column | str
"""A Column, or SQL text."""

_OTHER = "__slackwater_other"
_NO_BOOLEAN = "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"
_NO_UDF_IN_LAMBDA = "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_PYTHON_UDF"
_SUBQUERY = "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY"
_REFUSED = {
    _SUBQUERY: "sub-queries are not supported: join what they give, or compute it first",
    "INVALID_WHERE_CONDITION": "a value must be of one row: aggregates and window functions are not supported",
    "UNSUPPORTED_EXPR_FOR_OPERATOR": "a value must be of one row: aggregates and window functions are not supported",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": "a value must be of one row: window functions are not supported",
    "UNSUPPORTED_GENERATOR": "a value must be of one row: functions that make several rows of one are not supported",
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS": "it must have one value for one row, and this one differs from one "
    "evaluation to the next: store the value in a column first",
}


def validate_set_argument(given: object, name: str = "set") -> None:
    """Let pass a dict of column names and values, as delta-spark does; `name` is the argument's.

    Raises ValueError for None, and TypeError for what is no such dict.
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
    """The columns that `given` sets, as `schema` spells them, with their values; `what` names the clause in messages.

    Keys are columns in any case, nested ones with dots, in backticks where a name has a dot. The word DEFAULT is the
    column's default value; what the table generates itself is then left out. With `insert`, the clause makes new rows:
    it sets whole columns, and identity columns too where the table lets rows bring values of their own.

    Raises TypeError as `validate_set_argument`, and InvalidArgument for a column that does not exist, one that is set
    twice or also in part, a part of an array or a map, an identity column, and text that is no SQL.
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
                f"{what}: {key} is a part of a column, and a new row has whole ones: give a struct",
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
    """By top-level column, its value after `assignments`, of exactly its type in `schema`.

    The values resolve in `frame`, which is analysed and not run, and so does `current(column)`, the present value of a
    column of which only a part is set; where a struct is null, it becomes one whose other fields are null. The order
    is that of `schema`. A value that does not fit into its column fails the job that evaluates it. With `fills`, fields
    that a struct lacks are NULL; else such a value is refused.

    Raises InvalidArgument for a value that Spark cannot resolve or that is not of one row (see
    `validate_expression`), and for one whose type may not be stored in the column: see
    `slackwater.spark.write.store_assignment`.
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
    """`value` as a Column, where it resolves in `frame` and is of one row; `what` names it in messages.

    With `boolean`, it is a condition; a NULL without a type is one. With `deterministic`, it must not differ from one
    evaluation to the next. `frame` is analysed and not run. Raises InvalidArgument for all else: sub-queries,
    aggregates, window functions, generators, and what Spark cannot resolve.
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
    """Raise InvalidArgument where `condition`, which has sub-queries, does not resolve in a filter of `frame`."""
    with _refusals_named(f"{what} {condition!r}"):
        _ = frame.filter(F.expr(condition)).schema


def assignments_without_alias(
    given: Mapping[str, Expression], alias: str, schema: StructType
) -> Mapping[str, Expression]:
    """The assignments with plain column names, where they have the target's alias in front."""
    return {_without_first(key, alias, schema): value for key, value in given.items()}


def _without_first(key: str, alias: str, schema: StructType) -> str:
    try:
        parts = parse_column_path(key)
    except InvalidArgument:
        # The code that parses the assignment later refuses it, and names the clause.
        return key
    if len(parts) == 1 or parts[0].lower() != alias.lower():
        return key
    # Of a table and a struct of that name, the table comes first, as in Spark.
    is_struct = schema.get(parts[0]) is not None and schema.get(parts[1]) is None
    return key if is_struct else ".".join(quoted(part) for part in parts[1:])


def _settable_path(key: str, schema: StructType, what: str) -> ColumnPath:
    try:
        given = parse_column_path(key)
        for outer in (given[:size] for size in range(1, len(given))):
            data_type = resolve_path(schema, outer)[1] if has_path(schema, outer) else None
            if isinstance(data_type, (ArrayType, MapType)):
                raise InvalidArgument(
                    f"{key} is a part of {format_column_path(outer)}, which is of type {data_type}: only fields of "
                    "structs are set by themselves, so set the whole column",
                    error_class="DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT",
                )
        return resolve_path(schema, given)[0]
    except InvalidArgument as error:
        raise InvalidArgument(f"{what}: {error}", error_class=error.error_class) from error


def _require_distinct(path: ColumnPath, others: list[ColumnPath], what: str) -> None:
    for other in others:
        if path == other:
            raise InvalidArgument(
                f"{what}: column {format_column_path(path)} is set twice: leave one value",
                error_class="DELTA_CONFLICT_SET_COLUMN",
            )
        shorter, longer = sorted((path, other), key=len)
        if longer[: len(shorter)] == shorter:
            raise InvalidArgument(
                f"{what}: column {format_column_path(shorter)} is set, and so is its part "
                f"{format_column_path(longer)}: set one of them",
                error_class="DELTA_CONFLICT_SET_COLUMN",
            )


def _require_may_be_set(path: ColumnPath, rules: WriteExpressions, what: str, insert: bool, is_default: bool) -> None:
    identity = next((i for i in rules.identity if path == (i.name,)), None)
    if identity is None or (insert and (is_default or identity.allow_explicit_insert)):
        return
    if insert:
        raise InvalidArgument(
            f"{what}: identity column {identity.name} is GENERATED ALWAYS: leave it out, its values are made on write",
            error_class="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
        )
    raise InvalidArgument(
        f"{what}: identity column {identity.name} cannot be set in rows that exist: leave it out",
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
    """The types of the values, all of which are of one row of `frame`."""
    values = list(assignments.values())
    try:
        with _refusals_named(what):
            _require_one_row(frame, F.struct(*values), deterministic=False)
            fields = frame.select(*(v.alias(f"_{at}") for at, v in enumerate(values))).schema.fields
    except InvalidArgument:
        # Only one by one shows whose value it is.
        for path, value in assignments.items():
            with _refusals_named(f"{what}: the value of column {format_column_path(path)}"):
                _require_one_row(frame, value, deterministic=False)
                _ = frame.select(value.alias("_0")).schema
        raise
    return dict(zip(assignments, (field.dataType for field in fields), strict=True))


def _with_parts(present: Column, data_type: DataType, path: ColumnPath, values: Mapping[ColumnPath, Column]) -> Column:
    """What is at `path` with those of its parts that are among `values` replaced, at every depth."""
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
    """Let Spark raise AnalysisException where `value` is not of one row."""
    try:
        # Inside of a lambda Spark allows no sub-query, and says so before it says that it allows no Python function.
        _analyse(frame, F.exists(F.array(F.lit(1)), lambda _: value.isNull()), deterministic)
    except AnalysisException as error:
        if condition_of(error) != _NO_UDF_IN_LAMBDA:
            raise
        _analyse(frame, value.isNull(), deterministic)


def _analyse(frame: DataFrame, condition: Column, deterministic: bool) -> None:
    if deterministic:
        # A join's condition is where Spark allows nothing that depends on chance.
        other = frame.sparkSession.range(0).select(F.lit(1).alias(_OTHER))
        _ = frame.join(other, condition).schema
    else:
        # A filter of Connect answers with the schema it knows; a new column makes the server look at the plan.
        _ = plain_method(frame, "filter")(condition).select(F.lit(1).alias(_OTHER)).schema


@contextmanager
def _refusals_named(named: str) -> Iterator[None]:
    """Within the block, an expression that Spark refuses raises InvalidArgument, in words of who wrote it."""
    try:
        with suppress_spark_errors():
            yield
    except (AnalysisException, ParseException) as error:
        if isinstance(error, SlackwaterError):
            raise
        condition = (condition_of(error) or "").partition(".")[0]
        says = _REFUSED.get(condition) or spark_error_text(error)
        if condition == "UNRESOLVED_COLUMN" and named.startswith("UPDATE SET"):
            says += "; a text is quoted: \"'text'\""
        kind = SqlSyntaxError if isinstance(error, ParseException) else InvalidArgument
        named_by = {"error_class": "DELTA_UNSUPPORTED_SUBQUERY"} if condition == _SUBQUERY else class_of(error)
        raise kind(f"{named}: {says}", **named_by) from error
