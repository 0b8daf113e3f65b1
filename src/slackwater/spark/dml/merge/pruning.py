"""File pruning for MERGE: finds target files that can hold a row matching a row of the source.

Two facts are known before the target is read. The condition may restrict the target alone. An equality of a target
column with a source expression restricts the column to the range of the source's values. Unsupported parts of the
condition are ignored. A weaker condition prunes fewer files, and loses no match.

Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeGuard

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument
from slackwater.predicate.columns import ResolvedColumn, resolve_column
from slackwater.predicate.condition_tree import ALIAS, SQL, ConditionTree, column_names, operands
from slackwater.predicate.literals import INTEGRAL_RANGES, coerce_literal
from slackwater.predicate.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Or,
    Predicate,
    Unprunable,
    Value,
)
from slackwater.predicate.sql_split import conjuncts, equality_of, is_time_dependent, parsed
from slackwater.protocol.features.sql_columns import columns_in_sql, read_columns
from slackwater.protocol.schema.char_varchar import TEXT_TYPE
from slackwater.protocol.schema.schema import ColumnPath, DataType, DecimalType, StructType
from slackwater.protocol.sqlglot_adapter import column_path
from slackwater.spark.conditions.aliases import predicate_without_alias, under_alias
from slackwater.spark.conditions.column_trees import has_variables, read_condition
from slackwater.spark.conditions.predicates import predicate_of, predicate_of_tree
from slackwater.spark.dml.assignments import validate_expression
from slackwater.spark.read.table_scan import TableScan
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.types import to_spark_type
from slackwater.sql.lexer import quoted

_MAX_LISTED = 1_000
# The estimated number of distinct values is off by about 5 %, sometimes more.
_MAX_ESTIMATED = 2 * _MAX_LISTED
_MAX_DIGITS = 38
_EXACT_TYPES = ("string", "date", "timestamp", "timestamp_ntz", "boolean")
_EQUALITIES = {"=": False, "==": False, "<=>": True, "equal_null": True}


@dataclass(frozen=True)
class KeyPair:
    """A pair `target = source`, or `target <=> source` if `null_safe`.

    `target` is a column in the spelling of the schema. `source` is an expression over the source, under the alias used
    by the condition.
    """

    target: ColumnPath
    source: Column
    null_safe: bool
    # The expression may fail for a row that Spark would exclude before it evaluates this part of the condition.
    can_fail: bool = False


@dataclass(frozen=True)
class JoinConditions:
    """The parts of a merge condition: the predicate on the target alone, and the equalities of target and source."""

    target_only: Predicate
    pairs: tuple[KeyPair, ...]


def join_conditions(
    condition: Column | str, scan: TableScan, target_alias: str | None, source: DataFrame, source_alias: str | None
) -> JoinConditions:
    """Return the parts of `condition` that hold for every matching pair of rows of the table of `scan` and of `source`.

    `source` may have its alias already. With `source_alias`, it gets this alias. Runs no job, but Spark analyses the
    named columns. Never raises for a condition. Parts that cannot be read or resolved are ignored; Spark checks them
    later.
    """
    aliased = source.alias(source_alias) if source_alias else source
    try:
        reading = _Reading(scan, target_alias, aliased)
        return reading.of_text(condition) if isinstance(condition, str) else reading.of_column(condition)
    except (InvalidArgument, PySparkException, RecursionError, ValueError):
        return JoinConditions(Constant(True), ())


def source_bounds(source: DataFrame, pairs: Sequence[KeyPair], scan: TableScan) -> Predicate:
    """Return the predicate of `pairs` on target rows that match a row of `source`.

    `source` needs the condition's alias.

    One job finds the least and the greatest value of all pairs, and whether each is ever null. A second job lists the
    values of partition columns with few values. Both jobs read `source`, so checkpoint a source with changing rows.
    Returns FALSE if the source has no rows. Raises PySparkException if the source cannot be read.
    """
    if not pairs:
        return Constant(True)
    try:
        return _bounds(source, pairs, scan)
    except PySparkException:
        plain = [pair for pair in pairs if not pair.can_fail]
        if len(plain) == len(pairs):
            raise
        return source_bounds(source, plain, scan)


# The condition.


class _Reading:
    """The reader of one condition, part by part."""

    def __init__(self, scan: TableScan, target_alias: str | None, source: DataFrame) -> None:
        self._scan = scan
        self._schema = scan.snapshot.schema
        self._target_alias = target_alias
        self._source = source
        self._qualified: dict[str, frozenset[str]] = {}

    def of_text(self, text: str) -> JoinConditions:
        """Return the parts of a condition in SQL text."""
        if self._scan.conditions.reads_standard_sql and not has_variables(text):
            return _joined(self._text_part(part) for part in conjuncts(text))
        if is_connect(self._scan.spark):
            return JoinConditions(Constant(True), ())
        return self.of_column(F.expr(text))

    def of_column(self, condition: Column) -> JoinConditions:
        """Return the parts of a condition in a Column."""
        return self._tree(read_condition(condition))

    def _tree(self, tree: ConditionTree) -> JoinConditions:
        while tree.operation == ALIAS:
            tree = tree.children[0]
        if tree.operation == "and":
            return _joined(self._tree(part) for part in operands(tree))
        if tree.operation == SQL:
            return self.of_text(tree.payload)
        names = _names_in(tree)
        if names is not None and self._is_targets(names):
            return JoinConditions(self._unqualified(predicate_of_tree(tree, self._wrapped, self._scan.zone)), ())
        if tree.operation not in _EQUALITIES or len(tree.children) != 2:
            return _NOTHING
        sides = [column_names(child) for child in tree.children]
        for target, source in (sides, sides[::-1]):
            if target and source and self._is_targets([target]) and self._is_sources([source]):
                value = F.col(".".join(quoted(part) for part in source))
                return self._pair(target, value, _EQUALITIES[tree.operation], can_fail=False)
        return _NOTHING

    def _text_part(self, text: str) -> JoinConditions:
        try:
            names = columns_in_sql(text)
        except InvalidArgument:
            return _NOTHING
        if self._may_overlook(text, names):
            return _NOTHING
        if self._is_targets(names):
            try:
                given = text if is_connect(self._scan.spark) else F.expr(text)
                return JoinConditions(self._unqualified(predicate_of(given, self._wrapped, self._scan.zone)), ())
            except PySparkException:
                return _NOTHING
        equality = equality_of(text)
        if equality is None:
            return _NOTHING
        for target, source in (equality.sides, equality.sides[::-1]):
            path, named = column_path(parsed(target)), columns_in_sql(source)
            if path and named and self._is_targets([path]) and self._is_sources(named):
                return self._text_pair(path, source, equality.null_safe)
        return _NOTHING

    def _text_pair(self, target: tuple[str, ...], source: str, null_safe: bool) -> JoinConditions:
        path = column_path(parsed(source))
        if path is not None:
            return self._pair(target, F.col(".".join(quoted(part) for part in path)), null_safe, can_fail=False)
        if is_time_dependent(source):
            return _NOTHING
        try:
            value = validate_expression(self._source, source, "the merge condition", deterministic=True)
        except (InvalidArgument, PySparkException):
            return _NOTHING
        return self._pair(target, value, null_safe, can_fail=True)

    def _pair(self, names: tuple[str, ...], value: Column, null_safe: bool, can_fail: bool) -> JoinConditions:
        column = self._target(names)
        try:
            field = self._source.select(value.alias("value")).schema.fields[0]
        except PySparkException:
            return _NOTHING
        if column is None or column.type is None or not column.comparable:
            return _NOTHING
        if not _compares_as_stored(column.type, field):
            return _NOTHING
        return JoinConditions(Constant(True), (KeyPair(column.path, value, null_safe, can_fail),))

    # Name resolution. Spark prefers the first part of a name as a qualifier, on both sides.

    def _is_targets(self, names: Iterable[tuple[str, ...]]) -> bool:
        return all(self._target(parts) is not None for parts in names)

    def _is_sources(self, names: Iterable[tuple[str, ...]]) -> bool:
        return all(self._is_source(parts) for parts in names)

    def _target(self, parts: tuple[str, ...]) -> ResolvedColumn | None:
        """Return the named column if it belongs to the target alone."""
        qualified = self._is_qualified_target(parts)
        if self._is_qualified_source(parts) or not (qualified or parts[0].lower() not in self._source_names):
            return None
        try:
            return resolve_column(self._schema, parts[1:] if qualified else parts)
        except InvalidArgument:
            return None

    def _is_source(self, parts: tuple[str, ...]) -> bool:
        """Return whether the name resolves to one column of the source and to no column of the target."""
        if self._is_qualified_target(parts):
            return False
        qualified = self._is_qualified_source(parts)
        if not qualified and self._schema.get(parts[0]) is not None:
            return False
        path = parts[1:] if qualified else parts
        kind: spark_types.DataType = self._source.schema
        for part in path:
            fields = [f for f in kind.fields if f.name.lower() == part.lower()] if _is_struct(kind) else []
            if len(fields) != 1:
                return False
            kind = fields[0].dataType
        return True

    def _is_qualified_target(self, parts: tuple[str, ...]) -> bool:
        alias = self._target_alias
        qualified = len(parts) > 1 and alias is not None and parts[0].lower() == alias.lower()
        return qualified and self._schema.get(parts[1]) is not None

    def _is_qualified_source(self, parts: tuple[str, ...]) -> bool:
        """Return whether a part of the name qualifies the next part as a column of the source."""
        return any(name.lower() in self._columns_under(qualifier) for qualifier, name in pairwise(parts[:4]))

    def _columns_under(self, qualifier: str) -> frozenset[str]:
        """Return the source columns that Spark knows under this qualifier, in lower case."""
        key = qualifier.lower()
        if key not in self._qualified:
            if "`" in qualifier or "\n" in qualifier:
                raise ValueError(f"a qualifier that patterns cannot have: {qualifier!r}")
            # A pattern, because PySpark logs an error for an unresolved name, but a pattern may match nothing.
            found = self._source.select(self._source.colRegex(f"{qualifier}.`.*`"))
            self._qualified[key] = frozenset(name.lower() for name in found.columns)
        return self._qualified[key]

    @cached_property
    def _source_names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self._source.columns)

    def _may_overlook(self, text: str, names: Iterable[tuple[str, ...]]) -> bool:
        """Return whether words parsed as syntax may be columns of the target."""
        seen = {part.lower() for parts in names for part in parts}
        rest = tuple(field for field in self._schema.fields if field.name.lower() not in seen)
        return bool(read_columns(text, StructType(rest)))

    @cached_property
    def _wrapped(self) -> StructType:
        """The schema with the target's columns also under the alias, which hides a column of the alias's name."""
        return self._schema if self._target_alias is None else under_alias(self._schema, self._target_alias)

    def _unqualified(self, predicate: Predicate) -> Predicate:
        return predicate if self._target_alias is None else predicate_without_alias(predicate, self._target_alias)


_NOTHING = JoinConditions(Constant(True), ())


def _joined(parts: Iterable[JoinConditions]) -> JoinConditions:
    found = list(parts)
    said = tuple(part.target_only for part in found if part.target_only != Constant(True))
    whole = And(said) if said else Constant(True)
    return JoinConditions(whole, tuple(pair for part in found for pair in part.pairs))


def _is_struct(kind: spark_types.DataType) -> TypeGuard[spark_types.StructType]:
    return isinstance(kind, spark_types.StructType)


def _names_in(tree: ConditionTree) -> list[tuple[str, ...]] | None:
    """Return the names of columns in `tree`, None if it holds SQL text, which may name any column."""
    found: list[tuple[str, ...]] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if node.operation == SQL:
            return None
        names = column_names(node)
        if names is not None:
            found.append(names)
        else:
            pending.extend(node.children)
    return found


def _compares_as_stored(target: DataType, source: spark_types.StructField) -> bool:
    """Return whether Spark compares the two types in the order of the target's stored values."""
    if str(source.metadata.get(TEXT_TYPE, "")).lower().startswith("char"):
        return False
    if isinstance(target, DecimalType):
        given = source.dataType
        if not isinstance(given, spark_types.DecimalType):
            return False
        whole = max(target.precision - target.scale, given.precision - given.scale)
        return whole + max(target.scale, given.scale) <= _MAX_DIGITS
    if str(target) in INTEGRAL_RANGES:
        return isinstance(source.dataType, spark_types.IntegralType)
    return str(target) in _EXACT_TYPES and source.dataType == to_spark_type(target)


# The source.


def _bounds(source: DataFrame, pairs: Sequence[KeyPair], scan: TableScan) -> Predicate:
    partitions = scan.snapshot.metadata.partition_columns
    by_partition = [number for number, pair in enumerate(pairs) if pair.target[0] in partitions]
    aggregates = [F.count(F.lit(1)).alias("rows")]
    for number, pair in enumerate(pairs):
        aggregates.append(F.count(pair.source).alias(f"values{number}"))
        aggregates += [F.min(pair.source).alias(f"low{number}"), F.max(pair.source).alias(f"high{number}")]
    for number in by_partition:
        aggregates.append(F.approx_count_distinct(pairs[number].source).alias(f"distinct{number}"))
    found = source.agg(*aggregates).toArrow()
    rows = found["rows"][0].as_py()
    if not rows:
        return Constant(False)
    few = [number for number in by_partition if 1 < found[f"distinct{number}"][0].as_py() <= _MAX_ESTIMATED]
    listed = _listed(source, {number: pairs[number].source for number in few})
    said: list[Predicate] = []
    for number, pair in enumerate(pairs):
        present = found[f"values{number}"][0].as_py()
        domain = _Domain(pair, resolve_column(scan.snapshot.schema, pair.target), scan.zone)
        bounds = domain.listed(listed.get(number)) or domain.between(found[f"low{number}"], found[f"high{number}"])
        bounds = bounds if present else Constant(False)
        said.append(Or((IsNull(pair.target), bounds)) if pair.null_safe and present < rows else bounds)
    return And(tuple(said))


def _listed(source: DataFrame, keys: Mapping[int, Column]) -> dict[int, pa.Array]:
    """Return the distinct non-null values of each key, by its number."""
    if not keys:
        return {}
    found = source.agg(*(F.collect_set(key).alias(f"set{number}") for number, key in keys.items())).toArrow()
    return {number: found[f"set{number}"].combine_chunks().flatten() for number in keys}


@dataclass(frozen=True, slots=True)
class _Domain:
    """The possible values of a pair's target column."""

    pair: KeyPair
    column: ResolvedColumn
    zone: str

    def listed(self, values: pa.Array | None) -> Predicate | None:
        """Return the predicate IN `values`. None if `values` is unknown or too long, or if a value has no literal."""
        if values is None or len(values) > _MAX_LISTED:
            return None
        said = [self._value(value) for value in values]
        known = tuple(value for value in said if value is not None)
        return In(self.pair.target, known) if len(known) == len(said) else None

    def between(self, low: pa.ChunkedArray, high: pa.ChunkedArray) -> Predicate:
        """Return the range predicate from `low` to `high`, with one bound if the other has no literal."""
        least, most = self._value(low[0]), self._value(high[0])
        bounds: list[Predicate] = []
        if least is not None:
            bounds.append(Comparison(self.pair.target, ">=", least))
        if most is not None:
            bounds.append(Comparison(self.pair.target, "<=", most))
        return And(tuple(bounds)) if bounds else Unprunable("bounds that cannot be said")

    def _value(self, scalar: pa.Scalar) -> Value | None:
        if self.column.type is None:
            return None
        try:
            if pa.types.is_timestamp(scalar.type) and scalar.type.tz is not None:
                scalar = scalar.cast(pa.timestamp("us", "UTC"))
            value = scalar.as_py()
            return None if value is None else coerce_literal(value, self.column.type, self.zone)
        except (ValueError, OverflowError, pa.ArrowException):
            # Python cannot represent the year or the text.
            return None
