"""Data files of a DataFrame's rows, and the `add` action of each.

Spark's own Parquet writer, or its executors in Python, write into a directory of their own; what they wrote is counted,
and named and described by the files' footers.
Source: delta-protocol.md "Data Files", "Per-file Statistics", "Column Mapping" (physical names and field ids),
"Partition Value Serialization".
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.data_files.writer import WrittenFile, footer_source
from slackwater.errors import SlackwaterError, StorageError, UnsupportedFeature
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.actions.partition_values import (
    HIVE_DEFAULT_PARTITION,
    hive_directory,
    hive_unescape,
    parse_partition_value,
    serialize_partition_value,
)
from slackwater.protocol.actions.paths import canonical_path, encode_path
from slackwater.protocol.features.column_mapping import FIELD_ID, NONE, physical_name, physical_schema
from slackwater.protocol.schema.schema import VOID, DataType, StructField, StructType, nullable_type
from slackwater.spark.session.classic_connect import writer_failure
from slackwater.spark.session.locations import DataLocations
from slackwater.spark.session.row_transport import RowTransport, choose_transport, served_to_spark
from slackwater.spark.session.shared_storage import require_shared
from slackwater.spark.session.temporary_settings import with_settings
from slackwater.spark.session.types import PARQUET_FIELD_ID, to_spark_type
from slackwater.spark.write.files.arrow_files import write_arrow_files
from slackwater.spark.write.files.local_files import write_local_files
from slackwater.spark.write.files.row_count_check import CountedRows
from slackwater.spark.write.files.staging import Staging, staging_for
from slackwater.sql.lexer import quoted
from slackwater.stats.footers import StatsLeaves, parquet_footer, stats_of_footer
from slackwater.storage.parquet_footer import ParquetFooter, read_footer
from slackwater.storage.store import ObjectMeta, ObjectStore

_PARTITION = "__slackwater_partition_"
# Ends the directory name of a text that begins like the one for null.
_NOT_NULL = "_"
# Types whose text in a directory name, unescaped, is just the text of the log.
_PLAIN_TEXT = frozenset({"long", "integer", "short", "byte", "boolean", "date"})
_LONGEST_DATE = len("+10000-12-31")
WRITE_SETTINGS = {
    # INT96 has no statistics in the footer, and other engines are giving it up.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The calendar of old Spark versions is known to Spark alone.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
}
"""What the session is set to while files are written."""


@dataclass(frozen=True)
class FileLayout:
    """How rows of a table become files: schema, partitioning, column mapping mode, and what to keep statistics of.

    `materialize_partitions` also writes partition columns into the files, after the data columns. `hidden` names
    further columns of the frame that go into the files and are not in the schema.
    """

    schema: StructType
    partition_columns: Sequence[str]
    mode: str
    leaves: StatsLeaves
    materialize_partitions: bool = False
    hidden: Sequence[str] = ()
    finish: Callable[[ObjectStore, str], None] | None = None


@dataclass
class WrittenFiles:
    """Files that are in place and not committed; `discard` takes them away again."""

    store: ObjectStore
    adds: list[AddFile] = field(default_factory=list)

    def discard(self) -> None:
        """Delete the files: only when their commit certainly did not land."""
        self.store.delete([canonical_path(add.path) for add in self.adds])


def write_data_files(
    frame: DataFrame,
    store: ObjectStore,
    layout: FileLayout,
    options: Mapping[str, Any] | None = None,
    data_change: bool = True,
    directory: str = "",
    partition: Mapping[str, str | None] | None = None,
    require: Callable[[], None] | None = None,
    way: str | None = None,
) -> WrittenFiles:
    """Write the rows of `frame`, whose columns are those of the schema, as files of the table.

    `options` are those of Spark's Parquet writer; the files get into `directory`, by default into the table's root, in
    directories named after partition values. With `partition`, values as the log has them, all rows are of that one.
    Files without rows are left out. Rows go by `way`, as `choose_transport` takes it. `require` is called when the rows
    are written, and no file has its place yet: it raises where they must not be in the table. Nothing stays behind
    where anything raises. Raises UnsupportedFeature where neither Spark nor its executors can write there;
    StorageRefused where the table's directory cannot be written to, or is another one for Spark than for this process;
    StorageError where a file in it cannot be written, or the files do not hold as many rows as Spark wrote.
    """
    by_arrow = choose_transport(frame.sparkSession, store, way) == RowTransport.ARROW
    written = WrittenFiles(store)
    rows, directories = _projected(frame, layout, by_arrow, partition is None)
    counted = CountedRows(rows)
    with staging_for(store, directory) as staging:
        require_shared(frame.sparkSession, store, staging.token)
        try:
            files: Iterable[_Staged]
            with _failures_named(store.root_url, staging.rows):
                if by_arrow:
                    partitions = (
                        [_physical_name(layout, name) for name in layout.partition_columns] if directories else []
                    )
                    by_tasks = write_arrow_files(
                        counted.frame, store, staging.rows, directories, partitions, options or {}
                    )
                    if store.local_root is not None:
                        # A disk may be another one for an executor that joined since it was looked at.
                        by_tasks = [file for file in by_tasks if store.head(file.path) is not None]
                    files, left_anything = _told(by_tasks, layout), bool(by_tasks)
                else:
                    files, left_anything = _write_by_spark(
                        counted.frame, store, staging, layout, directories, options or {}
                    )
            if require is not None:
                require()
            if partition is not None:
                files = (replace(file, values=partition) for file in files)
            found = sum(_finish(store, file, staging, layout, data_change, written) for file in files)
            counted.require(found, store.root_url, left_anything)
        except BaseException:
            written.discard()
            raise
    return written


def place_files(
    store: ObjectStore,
    staging: Staging,
    layout: FileLayout,
    files: Sequence[WrittenFile],
    partition: Mapping[str, str | None],
    written: WrittenFiles,
    data_change: bool,
) -> list[AddFile]:
    """Give files below `staging`, that executors wrote of rows that were in the table, their places, and tell of them.

    They are of one `partition`, values as the log has them, and are among those that are `written` from now on.
    """
    first = len(written.adds)
    for file in _told(files, layout):
        _finish(store, replace(file, values=partition), staging, layout, data_change, written)
    return written.adds[first:]


@dataclass(frozen=True, slots=True)
class _Staged:
    """A file where it was written; `texts` name its partition, or `values`, as the log has them.

    Without its footer it is to be read.
    """

    meta: ObjectMeta
    texts: Sequence[str | None]
    footer: ParquetFooter | None = None
    values: Mapping[str, str | None] | None = None


def _write_by_spark(
    frame: DataFrame,
    store: ObjectStore,
    staging: Staging,
    layout: FileLayout,
    directories: Sequence[str],
    options: Mapping[str, Any],
) -> tuple[Iterable[_Staged], bool]:
    """The files that Spark's own writer left, and whether it left anything at all."""
    with with_settings(frame.sparkSession, WRITE_SETTINGS):
        if served_to_spark(frame.sparkSession, store) is not None:
            local = write_local_files(frame, store, staging.rows, directories, options)
            is_final = layout.finish is None
            return (_staged(meta, staging, footer if is_final else None) for meta, footer in local), bool(local)
        writer = frame.write.options(**dict(options)).partitionBy(*directories)
        writer.parquet(f"{DataLocations(store).root}/{staging.rows}")
    left = store.list_from(staging.rows, recursive=True)
    return (_staged(meta, staging) for meta in left if meta.path.endswith(".parquet")), bool(left)


def _staged(meta: ObjectMeta, staging: Staging, footer: ParquetFooter | None = None) -> _Staged:
    *parts, _ = meta.path.removeprefix(f"{staging.rows}/").split("/")
    texts = [hive_unescape(part.partition("=")[2]) for part in parts]
    return _Staged(meta, [None if text == HIVE_DEFAULT_PARTITION else text for text in texts], footer)


def _told(files: Iterable[WrittenFile], layout: FileLayout) -> Iterator[_Staged]:
    """The files that executors wrote, whose footers need not be read again, unless they are changed."""
    for file in files:
        footer = read_footer(footer_source(file.footer)) if layout.finish is None else None
        yield _Staged(ObjectMeta(file.path, file.size_bytes, file.modified_ms), file.texts, footer)


def _physical_name(layout: FileLayout, name: str) -> str:
    return physical_name(_field(layout.schema, name), layout.mode)


@contextlib.contextmanager
def _failures_named(where: str, rows: str) -> Iterator[None]:
    """Within the block, a job whose files could not be written raises StorageError; other errors pass.

    Those of Spark's writer say so. Where executors may not write below `rows`, which no reader uses, the error names
    that place.
    """
    try:
        yield
    except Exception as error:
        reason = writer_failure(error) or _failure_below(rows, error)
        if reason is None or isinstance(error, SlackwaterError):
            raise
        raise StorageError(
            f"{where}: a data file could not be written, the table is unchanged: {reason}; check the disk's free space "
            "and its permissions, also for the user that executors run as, and that no partition value is too long for "
            "the name of a directory"
        ) from error


def _failure_below(rows: str, error: Exception) -> str | None:
    """What an exception of the JVM says of a place below `rows`; its writer names that whatever went wrong."""
    told = (line for line in str(error).splitlines() if rows in line and "[TASK_WRITE_FAILED]" not in line)
    return next((line.rpartition("Exception: ")[2] for line in told), None)


def _projected(
    frame: DataFrame, layout: FileLayout, as_texts: bool, into_directories: bool
) -> tuple[DataFrame, list[str]]:
    """The rows as they go to files, and the names of the columns that become directories, with `as_texts` texts.

    Columns that need no change stay names: a select that changes nothing still costs calls into the JVM.
    """
    annotated = {f.name for f in frame.schema.fields if f.metadata}
    partitioned = [_field(layout.schema, name) for name in layout.partition_columns]
    data = [c for c in layout.schema if c.name not in layout.partition_columns and c.type != VOID]
    columns: list[Column | str] = [_physical(c, layout.mode, annotated) for c in data]
    columns += layout.hidden
    if layout.materialize_partitions:
        columns += [_physical(c, layout.mode, annotated) for c in partitioned]
    directories = []
    for number, column in enumerate(partitioned if into_directories else ()):
        is_plain = str(column.type) in _PLAIN_TEXT and not layout.materialize_partitions and layout.mode == NONE
        if is_plain and not as_texts:
            columns.append(column.name)
            directories.append(column.name)
        else:
            # Engines that take a directory for a partition find its column, where files stay in it.
            has_own_name = not as_texts and not layout.materialize_partitions
            name = _physical_name(layout, column.name) if has_own_name else f"{_PARTITION}{number}"
            columns.append(_directory_text(column).alias(name, metadata={}))
            directories.append(name)
    names = [c for c in columns if isinstance(c, str)]
    if len(names) == len(columns) and sorted(names) == sorted(frame.columns):
        return frame, directories
    return frame.select(*(F.col(quoted(c)) if isinstance(c, str) else c for c in columns)), directories


def _field(schema: StructType, name: str) -> StructField:
    found = schema.get(name)
    if found is None:
        raise KeyError(name)
    return found


def _physical(column: StructField, mode: str, annotated: Collection[str]) -> Column | str:
    """The column under its physical name and field id, nested ones too; its name where it needs no change."""
    if mode == NONE and column.name not in annotated:
        return column.name
    source = F.col(quoted(column.name))
    if mode == NONE:
        # Field ids and the like of another table do not belong to the files of this one.
        return source.alias(column.name, metadata={})
    (physical,) = physical_schema(StructType((column,)), mode)
    # What may be null to Spark is not cast to what may not; that no row breaks the table's rules is seen before.
    spark_type = to_spark_type(nullable_type(physical.type), field_ids=True)
    if isinstance(spark_type, (spark_types.StructType, spark_types.ArrayType, spark_types.MapType)):
        # Casts go by position, hence they put physical names in the place of display names.
        source = source.cast(spark_type)
    return source.alias(physical.name, metadata={PARQUET_FIELD_ID: column.metadata[FIELD_ID]})


def _directory_text(column: StructField) -> Column:
    """A text that names the value exactly, whatever the session's time zone."""
    source = F.col(quoted(column.name))
    kind = str(column.type)
    if kind == "timestamp":
        return F.unix_micros(source).cast("string")
    if kind == "binary":
        return F.hex(source)
    if kind in ("float", "double"):
        # Zeros of both signs are one value of the log, hence one directory.
        return F.when(source == 0, F.lit("0.0")).otherwise(source.cast("string"))
    if kind == "string":
        return F.when(source.startswith(HIVE_DEFAULT_PARTITION), F.concat(source, F.lit(_NOT_NULL))).otherwise(source)
    return source.cast("string")


def _log_text(text: str, data_type: DataType) -> str | None:
    """The value of `add.partitionValues` for the text that `_directory_text` made."""
    kind = str(data_type)
    if kind == "date" and len(text) > _LONGEST_DATE:
        raise UnsupportedFeature(
            f"a date that partitions a table must have a year of at most 5 digits, found {text}: leave such rows out, "
            "or partition by another column"
        )
    if kind in _PLAIN_TEXT:
        return text
    if kind == "string":
        return text.removesuffix(_NOT_NULL) if text.startswith(HIVE_DEFAULT_PARTITION) else text
    if kind == "timestamp":
        return serialize_partition_value(_moment(int(text)), data_type)
    value = bytes.fromhex(text) if kind == "binary" else parse_partition_value(text, data_type)
    return serialize_partition_value(value, data_type)


def _moment(micros: int) -> dt.datetime:
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=micros)
    except OverflowError as error:
        raise UnsupportedFeature(
            f"a timestamp that partitions a table must be in the years 1 to 9999, found {micros} microseconds since "
            "1970: leave such rows out, or partition by another column"
        ) from error


def _finish(
    store: ObjectStore,
    file: _Staged,
    staging: Staging,
    layout: FileLayout,
    data_change: bool,
    written: WrittenFiles,
) -> int:
    """Give a file its place and its `add`; the number of its rows."""
    meta = file.meta
    if layout.finish is not None:
        layout.finish(store, meta.path)
        meta = store.head(meta.path) or meta
    footer = file.footer or parquet_footer(store, meta.path)[0]
    if not footer.num_rows:
        return 0
    stats = stats_of_footer(footer, layout.leaves)
    values: dict[str, str | None] = {}
    directories: list[tuple[str, str | None]] = []
    texts = file.texts if file.values is None else [None] * len(layout.partition_columns)
    for column_name, told in zip(layout.partition_columns, texts, strict=True):
        column, text = _field(layout.schema, column_name), told
        physical = physical_name(column, layout.mode)
        if file.values is not None:
            text = values[physical] = file.values[physical]
        else:
            values[physical] = None if text is None else _log_text(text, column.type)
        # Files of one task have one name in every directory, so distinct values need distinct ones.
        is_text = str(column.type) == "string" and text is not None
        directories.append((physical, text if is_text else values[physical]))
    name = meta.path.rpartition("/")[2]
    path = staging.final_path(meta.path, hive_directory(directories) + name)
    add = AddFile(encode_path(path), values, meta.size_bytes, meta.modified_ms, data_change, stats)
    staging.keep(meta.path, path)
    written.adds.append(add)
    return int(footer.num_rows)
