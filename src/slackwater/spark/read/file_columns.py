"""Columns that are constant within a data file: partition values and row tracking bases.

The values come from the log. If every directory name agrees with the log, Spark's own partition columns provide the
values, which preserves native partition pruning. Otherwise the values are joined to the rows by file URL.
Source: delta-protocol.md "Data Files", "Partition Value Serialization".
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.protocol.actions.partition_values import HIVE_DEFAULT_PARTITION, hive_directory, parse_partition_column
from slackwater.protocol.actions.paths import is_absolute
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.protocol.schema.schema import StructField
from slackwater.spark.session.types import to_spark_type

FILE, ROW = "__slackwater_file", "__slackwater_row"
SIZE = "__slackwater_size"
Constants = Mapping[str, tuple[spark_types.DataType, pa.Array]]
"""Columns that are constant within a file, by name: the type, and a value for each file."""

_JOIN_FILE = "__slackwater_join_file"
_NUMBERS = 1 << 32
# Texts that Spark parses from a directory name to the same value as this reader from the log, by type.
_NATIVE_TEXT = {
    "string": re.compile(r"(?s).+"),
    "byte": re.compile(r"-?\d{1,3}"),
    "short": re.compile(r"-?\d{1,5}"),
    "integer": re.compile(r"-?\d{1,10}"),
    "long": re.compile(r"-?\d{1,18}"),
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
}


def hive_columns(
    paths: Sequence[str], values: pa.ChunkedArray, columns: Sequence[StructField], mode: str
) -> list[str] | None:
    """Return the names of `columns` in Spark's partition discovery, if discovery is right for all `paths`.

    None without partition columns, or if a directory name differs from the log.
    """
    if not columns or any(str(c.type) not in _NATIVE_TEXT for c in columns):
        return None
    physical = [physical_name(c, mode) for c in columns]
    texts = [pc.map_lookup(_one(values), name, "first").to_pylist() for name in physical]
    display = [c.name for c in columns]
    for names in (physical, display) if physical != display else (physical,):
        if _all_agree(paths, texts, columns, names):
            return names
    return None


def _all_agree(
    paths: Sequence[str], texts: Sequence[Sequence[str | None]], columns: Sequence[StructField], names: Sequence[str]
) -> bool:
    known: dict[tuple[str, ...], bool] = {}
    for row, path in enumerate(paths):
        directory = path.rpartition("/")[0] + "/"
        values = tuple(text[row] for text in texts)
        key = (directory, *(("" if v is None else v) for v in values))
        if key not in known:
            known[key] = (
                not is_absolute(path)
                and hive_directory(list(zip(names, values, strict=True))) == directory
                and all(_native(str(c.type), v) for c, v in zip(columns, values, strict=True))
            )
        if not known[key]:
            return False
    return True


def _native(type_name: str, text: str | None) -> bool:
    if not text:
        return True
    return text != HIVE_DEFAULT_PARTITION and _NATIVE_TEXT[type_name].fullmatch(text) is not None


def file_constants(
    values: pa.ChunkedArray, columns: Sequence[StructField], mode: str, zone: str
) -> dict[str, tuple[spark_types.DataType, pa.Array]]:
    """Return the typed values of each partition column, one per file, by display name.

    Raises CorruptLog for malformed text.
    """
    return {
        column.name: (
            to_spark_type(column.type),
            parse_partition_column(
                pc.map_lookup(_one(values), physical_name(column, mode), "first"), column.type, zone
            ),
        )
        for column in columns
    }


def with_file_constants(
    spark: SparkSession,
    frame: DataFrame,
    urls: Sequence[str],
    constants: Constants,
    needs_row: bool,
    not_null: Set[str] = frozenset(),
    needs_size: bool = False,
) -> tuple[DataFrame, dict[str, Column]]:
    """Return `frame`, with FILE, ROW and SIZE if needed, and the expression for each of `constants`.

    SIZE has the low 32 bits of the file's size. A value common to all files becomes a literal. Other values are joined
    by file. Constants in `not_null` are declared not nullable to Spark.
    """
    if not constants and not needs_row:
        return frame, {}
    if needs_row:
        size = [_of_file(frame, "file_size").bitwiseAND(_NUMBERS - 1).alias(SIZE)] if needs_size else []
        frame = frame.select(
            "*", _of_file(frame, "file_path").alias(FILE), _of_file(frame, "row_index").alias(ROW), *size
        )
    values, varying = uniform_constants(constants, not_null)
    if not varying:
        return frame, values
    keys = {name: f"__slackwater_constant_{i}" for i, name in enumerate(varying)}
    numbers = file_numbers(urls)
    table = pa.table([pa.array(numbers or urls), *(c[1] for c in varying.values())], names=[_JOIN_FILE, *keys.values()])
    schema = spark_types.StructType().add(_JOIN_FILE, "long" if numbers else "string")
    for name, (spark_type, _) in varying.items():
        schema = schema.add(keys[name], spark_type, name not in not_null)
    side = F.broadcast(spark.createDataFrame(table, schema=schema))
    if not needs_row:
        frame = frame.select("*", _of_file(frame, "file_path").alias(FILE))
    joined = frame.join(side, (file_number() if numbers else F.col(FILE)) == F.col(_JOIN_FILE), "inner")
    return joined, values | {name: F.col(key) for name, key in keys.items()}


def uniform_constants(constants: Constants, not_null: Set[str] = frozenset()) -> tuple[dict[str, Column], Constants]:
    """Return literals for the constants common to all files, and the other constants.

    Nullable except for `not_null`.
    """
    varying = {name: c for name, c in constants.items() if not _uniform(c[1])}
    literals = {name: _literal(*c) for name, c in constants.items() if name not in varying}
    # Made nullable, because a literal is not, and nullability must not depend on the number of distinct values.
    values = {name: c if name in not_null else F.nullif(c, F.lit(None)) for name, c in literals.items()}
    return values, varying


def never_null_constants(columns: Sequence[StructField], constants: Constants) -> frozenset[str]:
    """Return the NOT NULL columns of `columns` without null in any file."""
    return frozenset(c.name for c in columns if not c.nullable and not constants[c.name][1].null_count)


def file_numbers(urls: Sequence[str]) -> list[int] | None:
    """Return the value of `file_number` for each of `urls`. None if two files have the same number.

    An integer joins much faster than a URL, and a CRC costs less per row than any 64-bit hash. Both sides of the join
    know all files, so distinct numbers identify the files.
    """
    numbers = [zlib.crc32(url.encode()) for url in urls]
    return numbers if len(set(numbers)) == len(numbers) else None


class FileNumbers:
    """Numbers of 32 bits for the files of one scan. A file has the same number in every frame of the scan.

    This allows joins between frames of the scan by file number.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._taken: set[int] = set()

    def of(self, urls: Sequence[str]) -> list[int]:
        """Return the numbers of files: the value of `file_number`, or the next free number if the value is taken."""
        for url in urls:
            if url not in self._numbers:
                number = zlib.crc32(url.encode())
                while number in self._taken:
                    number = (number + 1) % _NUMBERS
                self._numbers[url] = number
                self._taken.add(number)
        return [self._numbers[url] for url in urls]


def size_numbers(sizes: Sequence[int]) -> list[int] | None:
    """Return the value of SIZE for files of these sizes. None if two files have the same value."""
    numbers = [size % _NUMBERS for size in sizes]
    return numbers if len(set(numbers)) == len(numbers) else None


def are_by_url(numbers: Sequence[int], urls: Sequence[str]) -> bool:
    """Return whether the numbers are the values of `file_number` for the files."""
    return all(number == zlib.crc32(url.encode()) for number, url in zip(numbers, urls, strict=True))


def file_number() -> Column:
    """Return the file number of a row with FILE: 32 bits, not negative."""
    return F.crc32(FILE)


def same_text(left: str, right: str) -> Column:
    """Return whether two text columns are equal, in a form that the optimizer does not convert to a join key.

    Joins use a long hash as the key, which is much faster than a URL. This condition handles hash collisions.
    """
    return F.startswith(F.col(left), F.col(right)) & F.startswith(F.col(right), F.col(left))


def _of_file(frame: DataFrame, part: str) -> Column:
    """Return Spark's metadata on the file of a row, even if a table column has the name of the metadata column."""
    return frame.metadataColumn("_metadata").getField(part)


def _uniform(values: pa.Array) -> bool:
    return len(values) == 1 or len(values.unique()) == 1


def _literal(spark_type: spark_types.DataType, values: pa.Array) -> Column:
    value = values[0]
    if not value.is_valid:
        return F.lit(None).cast(spark_type)
    # From text and numbers, because `lit` reads a datetime in this process's time zone.
    if isinstance(spark_type, spark_types.TimestampNTZType):
        return F.lit(value.cast(pa.string()).as_py()).cast(spark_type)
    if isinstance(spark_type, spark_types.TimestampType):
        return F.timestamp_micros(F.lit(value.cast(pa.int64()).as_py()))
    if isinstance(spark_type, spark_types.DateType):
        return F.date_from_unix_date(F.lit(value.cast(pa.int32()).as_py()))
    return F.lit(value.as_py()).cast(spark_type)


def _one(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks()
