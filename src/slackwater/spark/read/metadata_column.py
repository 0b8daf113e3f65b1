"""Column `_metadata` of a table's frames: hidden until a method of the frame names it.

It has Spark's fields of a file (`file_path`, `file_name`, …), and the row tracking fields of delta-spark. Spark's own
hidden column has no row tracking fields, and does not pass a union of files with and without deletion vectors.
Source: delta-protocol.md "Row Tracking", "Reader Requirements for Row Tracking".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument
from slackwater.protocol.properties.properties import MATERIALIZED_ROW_COMMIT_VERSION, MATERIALIZED_ROW_ID
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.file_columns import ROW, Constants
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.frames import plain_method, same_plan, with_methods
from slackwater.sql.lexer import is_star, quoted, tokens_of
from slackwater.sql.text_edits import apply_edits, except_edit

METADATA = "_metadata"
"""Struct column with the fields of a row's file, and its row tracking fields under the names of delta-spark."""
ROW_TRACKING_FIELDS = ("row_id", "row_commit_version")
FILE_FIELDS = {
    "file_path": spark_types.StringType(),
    "file_name": spark_types.StringType(),
    "file_size": spark_types.LongType(),
    "file_block_start": spark_types.LongType(),
    "file_block_length": spark_types.LongType(),
    "file_modification_time": spark_types.TimestampType(),
    "row_index": spark_types.LongType(),
}
"""Spark's fields of a row of a Parquet file, with their types."""
ROW_ID, ROW_COMMIT_VERSION = "_row_id", "_row_commit_version"
"""Columns of the reader option `rowTracking`."""
_BASE_ROW_ID, _DEFAULT_COMMIT_VERSION = "__slackwater_base_row_id", "__slackwater_default_commit_version"
TRACKING_FIELDS = {_BASE_ROW_ID: "baseRowId", _DEFAULT_COMMIT_VERSION: "defaultRowCommitVersion"}
"""Constants of row tracking, with the field of `add` for each."""
_REVEAL = "_slackwater_with_metadata"
_NAMED = re.compile(rf"\b{METADATA}\b", re.IGNORECASE)
_STAR = re.compile(r"\b(?:un)?resolvedstar\(\)")
_SELECTS = ("select", "selectExpr")
_ADDS = ("withColumn", "withColumns")
_METHODS = (*_SELECTS, *_ADDS, "filter", "where", "orderBy", "sort", "limit")


class HiddenMetadata(Enum):
    """Hidden column METADATA of a frame: none, Spark's own one, or one that this module adds."""

    NONE = "none"
    OF_SPARK = "of Spark"
    OWN = "own"


def materialized_names(snapshot: Snapshot) -> list[str]:
    """Return the names of the columns in the files with the row tracking fields of moved rows.

    Raises InvalidArgument if the table has no names for them.
    """
    names = [snapshot.properties.get(MATERIALIZED_ROW_ID), snapshot.properties.get(MATERIALIZED_ROW_COMMIT_VERSION)]
    if None in names:
        raise InvalidArgument(f"{snapshot.store.root_url}: the names of the row tracking columns are not set")
    return [name for name in names if name is not None]


def row_tracking_constants(files: pa.Table) -> Constants:
    """Return the values of TRACKING_FIELDS of each file."""
    return {key: (spark_types.LongType(), files[name].combine_chunks()) for key, name in TRACKING_FIELDS.items()}


def row_tracking_columns(
    values: Mapping[str, Column], materialized: Sequence[str], names: Sequence[str]
) -> list[Column]:
    """Return row id and row commit version under `names`, for a frame with ROW and the columns `materialized`.

    `values` are the expressions for TRACKING_FIELDS.
    """
    row_id, commit_version = (F.col(quoted(name)) for name in materialized)
    return [
        F.coalesce(row_id, values[_BASE_ROW_ID] + F.col(ROW)).alias(names[0]),
        F.coalesce(commit_version, values[_DEFAULT_COMMIT_VERSION]).alias(names[1]),
    ]


def metadata_struct(row_tracking: Sequence[Column], has_file_fields: bool) -> Column:
    """Return METADATA. `row_tracking` are the columns of ROW_TRACKING_FIELDS, or empty.

    With `has_file_fields`, the frame is a relation of files, with Spark's hidden column.
    """
    files = [F.col(f"{METADATA}.{name}") for name in FILE_FIELDS] if has_file_fields else []
    fields = [column.alias(name) for column, name in zip(row_tracking, ROW_TRACKING_FIELDS, strict=False)]
    return F.struct(*files, *fields).alias(METADATA)


def metadata_type(has_row_tracking: bool, has_file_fields: bool) -> spark_types.StructType:
    """Return the type of METADATA."""
    found = spark_types.StructType()
    for name, kind in (FILE_FIELDS if has_file_fields else {}).items():
        found = found.add(name, kind, nullable=False)
    for name in ROW_TRACKING_FIELDS if has_row_tracking else ():
        found = found.add(name, "long")
    return found


def with_hidden_metadata(frame: DataFrame, reveal: Callable[[], DataFrame], kind: HiddenMetadata) -> DataFrame:
    """Return `frame` with METADATA hidden. `reveal` returns the same rows with this column as the last.

    If `kind` is OWN, methods of the frame find the column. OF_SPARK leaves that to Spark.
    """
    if kind is not HiddenMetadata.OWN:
        if kind is HiddenMetadata.OF_SPARK:
            frame.__dict__[_REVEAL] = reveal
        return frame

    def method(name: str) -> Callable[..., DataFrame]:
        own = getattr(frame, name)

        def call(*args: Any, **kwargs: Any) -> DataFrame:
            # A new column may have the name METADATA.
            values = [*args[name == "withColumn" :], *(value for key, value in kwargs.items() if key != "colName")]
            if not _is_named(values):
                found: DataFrame = own(*args, **kwargs)
                return found
            return _derived(reveal(), name, *args, **kwargs)

        return call

    own_limit = frame.limit

    def limit(num: int) -> DataFrame:
        return with_hidden_metadata(own_limit(num), lambda: plain_method(reveal(), "limit")(num), kind)

    methods = frame.__dict__.get("_slackwater_methods", {})
    found = with_methods(frame, {**methods, **{name: method(name) for name in _METHODS}, "limit": limit})
    found.__dict__.update({key: value for key, value in frame.__dict__.items() if key not in found.__dict__})
    found.__dict__[_REVEAL] = reveal
    return found


def revealed(frame: DataFrame) -> DataFrame | None:
    """Return the rows of a table's frame with METADATA as the last column, None if it has no such column."""
    reveal = frame.__dict__.get(_REVEAL)
    return None if reveal is None else reveal()


def _is_named(arguments: Sequence[Any]) -> bool:
    """Return whether an argument may name METADATA."""
    for each in arguments:
        if isinstance(each, dict):
            found = _is_named(list(each.values()))
        elif isinstance(each, (list, tuple)):
            found = _is_named(each)
        else:
            found = isinstance(each, (str, Column)) and _NAMED.search(str(each)) is not None
        if found:
            return True
    return False


def _derived(frame: DataFrame, name: str, *args: Any, **kwargs: Any) -> DataFrame:
    """Return the result of the method on `frame`, which has METADATA as a column. METADATA is hidden in the result.

    Raises InvalidArgument for a `*` in an expression, which would include METADATA.
    """
    if name in _SELECTS:
        asked = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
        return plain_method(frame, name)(*(one for each in asked for one in _expanded(frame, name, each)))
    for each in (*args, *kwargs.values()):
        for value in each.values() if isinstance(each, dict) else each if isinstance(each, (list, tuple)) else (each,):
            _require_no_star(value)
    found = plain_method(frame, name)(*args, **kwargs)
    if name in _ADDS:
        first = args[0] if args else next(iter(kwargs.values()))
        added = list(first) if isinstance(first, dict) else [kwargs.get("colName", first)]
        place = len(frame.columns) - 1
        if found.columns[place] in added:
            # The new column replaced METADATA, which was the last one.
            return found.select(*map(quoted, [*frame.columns[:place], *sorted(found.columns[place:], key=added.index)]))
    return _hidden(found)


def _expanded(frame: DataFrame, name: str, asked: Any) -> Sequence[Any]:
    """Return `asked`, or all columns but METADATA for a star."""
    text = _text(asked)
    if text == "*":
        names = [quoted(column) for column in frame.columns if column != METADATA]
        return names if name == "selectExpr" else [F.col(column) for column in names]
    tokens = tokens_of(text) or []
    if name == "selectExpr" and len(tokens) > 1 and tokens[0].upper == "*" and tokens[1].upper == "EXCEPT":
        return [apply_edits(text, [except_edit(tokens, 0, quoted(METADATA))])]
    _require_no_star(asked)
    return [asked]


def _text(value: Any) -> str:
    """Return the SQL text of a text or a column, with `*` for its stars. Return an empty text for other values."""
    if isinstance(value, Column):
        return _STAR.sub("*", str(value).removeprefix("Column<'").removesuffix("'>"))
    return value if isinstance(value, str) else ""


def _require_no_star(value: Any) -> None:
    """Raise InvalidArgument if the value has a `*` that would include METADATA."""
    tokens = tokens_of(_text(value)) or []
    for at, token in enumerate(tokens):
        follows = tokens[at + 1].upper if at + 1 < len(tokens) else ""
        # PySpark shows the product of columns as `*(a, b)`.
        is_qualified = at > 0 and tokens[at - 1].upper == "."
        if token.upper == "*" and is_star(tokens, at) and not is_qualified and follows != "(":
            raise InvalidArgument(
                f"{METADATA} is named together with a * in an expression, which would include it. Name the columns in "
                "the expression, or read the table with the option rowTracking"
            )


def _hidden(frame: DataFrame) -> DataFrame:
    """Return `frame` without its column METADATA, which its methods find."""
    shown = frame.drop(METADATA)
    # References to columns of `shown` hold the id of its plan in Connect.
    inner = same_plan(shown, frame.select("*")) if is_connect(frame.sparkSession) else frame
    found = with_methods(shown, {name: partial(_derived, inner, name) for name in _METHODS})
    found.__dict__[_REVEAL] = lambda: inner
    return found
