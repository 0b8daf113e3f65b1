"""Alignment of a DataFrame's rows with a table: columns by name in any case, lossless casts.

Source: delta-protocol.md "Consistency Between Table Metadata and Data Files".
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.protocol.schema.schema import (
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    collation_of,
)
from slackwater.spark.session.types import to_spark_type
from slackwater.sql.lexer import quoted


def named_by_position(frame: DataFrame, names: Sequence[str], schema: StructType) -> DataFrame:
    """Return `frame` with the column names `names`, and with struct fields named after `schema` by position.

    A struct with more fields keeps the names of its last fields. A struct with fewer fields keeps all its names.
    """
    found = frame.toDF(*names)
    columns, is_same = [], True
    for field in found.schema.fields:
        wanted = schema.get(field.name)
        placed = field.dataType if wanted is None else _placed(field.dataType, wanted.type)
        is_same = is_same and placed == field.dataType
        column = F.col(quoted(field.name))
        columns.append(column if placed == field.dataType else column.cast(placed).alias(field.name))
    return found if is_same else found.select(*columns)


def _placed(given: spark_types.DataType, wanted: DataType) -> spark_types.DataType:
    """Return the type `given` with the field names of `wanted` at the same positions."""
    if isinstance(given, spark_types.StructType) and isinstance(wanted, StructType) and len(given) >= len(wanted):
        pairs = zip(given.fields, wanted, strict=False)
        placed = [spark_types.StructField(to.name, _placed(f.dataType, to.type), f.nullable) for f, to in pairs]
        return spark_types.StructType([*placed, *given.fields[len(wanted) :]])
    if isinstance(given, spark_types.ArrayType) and isinstance(wanted, ArrayType):
        return spark_types.ArrayType(_placed(given.elementType, wanted.element_type), given.containsNull)
    if isinstance(given, spark_types.MapType) and isinstance(wanted, MapType):
        key, value = _placed(given.keyType, wanted.key_type), _placed(given.valueType, wanted.value_type)
        return spark_types.MapType(key, value, given.valueContainsNull)
    return given


def aligned_column(given: StructField, wanted: StructField, value: Column | None = None) -> Column:
    """Return the column `given` of a frame in the form of `wanted`, with the table's types and spelling.

    Fields get the table's order. Missing fields are null. The types must fit: see
    `slackwater.protocol.schema_changes.merge_schema`. `value` replaces the column of this name.
    """
    source = F.col(quoted(given.name)) if value is None else value
    return _as_type(source, given.type, wanted.type).alias(wanted.name)


def is_aligned(given: StructField, wanted: StructField) -> bool:
    """Return whether the column `given` of a frame already has the form of `wanted`, without any change."""
    same = given.name == wanted.name and str(given.type) == str(wanted.type)
    return same and _same_form(given.type, wanted.type)


def merged_value(value: Column, given: DataType, wanted: DataType, present: Column | None) -> Column:
    """Return `value` with the fields of `wanted`. Missing fields come from `present`, null if `present` is None.

    A null struct gives null. If `wanted` has fields that `given` lacks and `present` is not null, it gives a struct
    with those fields of `present`, and its other fields are null. Plain values stay unchanged.
    """
    if not isinstance(given, StructType) or not isinstance(wanted, StructType):
        nested = isinstance(wanted, (ArrayType, MapType)) and isinstance(given, type(wanted))
        return _as_type(value, given, wanted) if nested else value
    fields = []
    for target in wanted:
        source = given.get(target.name)
        inner = None if present is None else present.getField(target.name)
        if source is None:
            fields.append(null_column(target) if inner is None else inner.alias(target.name))
        else:
            part = merged_value(value.getField(source.name), source.type, target.type, inner)
            fields.append(part.alias(target.name))
    is_null = value.isNull()
    if present is not None and _has_more(wanted, given):
        is_null = is_null & present.isNull()
    return F.when(is_null, F.lit(None)).otherwise(F.struct(*fields))


def _has_more(wanted: DataType, given: DataType) -> bool:
    """Return whether the struct `wanted` has a field, at any depth of structs, that `given` lacks."""
    if not isinstance(given, StructType) or not isinstance(wanted, StructType):
        return False
    found = ((target, given.get(target.name)) for target in wanted)
    return any(source is None or _has_more(target.type, source.type) for target, source in found)


def null_column(wanted: StructField) -> Column:
    """Return a column of nulls of the column's type."""
    return F.lit(None).cast(to_spark_type(wanted.type)).alias(wanted.name)


def _as_type(value: Column, given: DataType, wanted: DataType) -> Column:
    if str(given) == str(wanted) and _same_form(given, wanted):
        return value
    if given == VOID:
        return F.lit(None).cast(to_spark_type(wanted))
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return _as_struct(value, given, wanted)
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        inner_given, inner_wanted = given.element_type, wanted.element_type
        return F.transform(value, lambda element: _as_type(element, inner_given, inner_wanted))
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return _as_map(value, given, wanted)
    return value.cast(to_spark_type(wanted))


def _as_struct(value: Column, given: StructType, wanted: StructType) -> Column:
    fields = []
    for target in wanted:
        source = given.get(target.name)
        if source is None:
            fields.append(null_column(target))
        else:
            fields.append(_as_type(value.getField(source.name), source.type, target.type).alias(target.name))
    return F.when(value.isNull(), F.lit(None)).otherwise(F.struct(*fields))


def _as_map(value: Column, given: MapType, wanted: MapType) -> Column:
    def entry(pair: Column) -> Column:
        key = _as_type(pair.getField("key"), given.key_type, wanted.key_type)
        item = _as_type(pair.getField("value"), given.value_type, wanted.value_type)
        return F.struct(key.alias("key"), item.alias("value"))

    return F.when(value.isNull(), F.lit(None)).otherwise(F.map_from_entries(F.transform(F.map_entries(value), entry)))


def _same_form(given: DataType, wanted: DataType) -> bool:
    """Return whether structs at every depth have the same fields in the same order and spelling.

    Also compares the collations of strings, which the text of a type omits.
    """
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return given.names == wanted.names and all(
            _same_form(g.type, w.type) for g, w in zip(given, wanted, strict=True)
        )
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _same_form(given.element_type, wanted.element_type)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return _same_form(given.key_type, wanted.key_type) and _same_form(given.value_type, wanted.value_type)
    return collation_of(given) == collation_of(wanted)
