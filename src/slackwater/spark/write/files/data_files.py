"""Data files for the rows of a DataFrame, with an `add` action for each file.

Spark's own Parquet writer, or PyArrow on the executors, writes files into a staging directory. The row count is
checked. Names and statistics come from the file footers.
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
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, NONE, field_id, physical_name, physical_schema
from slackwater.protocol.schema.nested_columns import parts
from slackwater.protocol.schema.schema import VOID, DataType, StructField, StructType, VariantType, nullable_type
from slackwater.spark.session.classic_connect import new_observation, observed
from slackwater.spark.session.spark_errors import writer_failure
from slackwater.spark.session.temporary_settings import with_settings
from slackwater.spark.session.types import PARQUET_FIELD_ID, to_spark_type
from slackwater.spark.storage.locations import DataLocations
from slackwater.spark.storage.row_transport import RowTransport, choose_transport, served_to_spark
from slackwater.spark.storage.shared_storage import WHAT_TO_DO, not_shared, require_shared
from slackwater.spark.write.files.arrow_files import write_arrow_files
from slackwater.spark.write.files.local_files import write_local_files
from slackwater.spark.write.files.staging import Staging, staging_for
from slackwater.sql.lexer import quoted
from slackwater.stats.footers import StatsLeaves, parquet_footer, stats_of_footer
from slackwater.storage.parquet_footer import FIELD_ID_KEY, ParquetFooter, read_footer
from slackwater.storage.store import ObjectMeta, ObjectStore

_PARTITION = "__slackwater_partition_"
# Suffix for the directory name of a text that starts with the name for null, so that the names differ.
_NOT_NULL = "_"
# Types with the same text in the (unescaped) directory name and in the log.
_PLAIN_TEXT = frozenset({"long", "integer", "short", "byte", "boolean", "date"})
_LONGEST_DATE = len("+10000-12-31")
WRITE_SETTINGS = {
    # Not INT96, because INT96 has no statistics in the footer and is deprecated in other engines.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Not the calendar of old Spark versions, because only Spark reads it.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
}
"""Session settings during the write of files."""
# With it, Spark drops the field id of a variant that the written frame reads by a path.
_PUSH_VARIANT = "spark.sql.variant.pushVariantIntoScan"
_SHREDDING_SETTINGS = ("spark.sql.variant.writeShredding.enabled", "spark.sql.variant.inferShreddingSchema")
_ROWS = "rows"


@dataclass(frozen=True)
class FileLayout:
    """File layout of a table's rows: schema, partitioning, column mapping mode, and the columns with statistics.

    `materialize_partitions` also writes partition columns into the files, after the data columns. `hidden` names
    further columns of the frame to write into the files, absent from the schema. `finish` edits each file before its
    footer is read. `shreds_variants` allows Spark to shred variants, by types that it infers from the first rows.
    `hidden_ids` are the Parquet field ids of hidden columns, by name.
    """

    schema: StructType
    partition_columns: Sequence[str]
    mode: str
    leaves: StatsLeaves
    materialize_partitions: bool = False
    hidden: Sequence[str] = ()
    finish: Callable[[ObjectStore, str], None] | None = None
    shreds_variants: bool = False
    hidden_ids: Mapping[str, int] = field(default_factory=dict)

    @property
    def settings(self) -> Mapping[str, str]:
        """Session settings during the write of files."""
        if not any(isinstance(found, VariantType) for _, found in parts(self.schema)):
            return WRITE_SETTINGS
        shredding = dict.fromkeys(_SHREDDING_SETTINGS, str(self.shreds_variants).lower())
        return {**WRITE_SETTINGS, **shredding, _PUSH_VARIANT: "false"}


@dataclass
class WrittenFiles:
    """Files in their final location, not yet committed. `discard` deletes the files."""

    store: ObjectStore
    adds: list[AddFile] = field(default_factory=list)

    def discard(self) -> None:
        """Delete the files. Call this only if the commit failed without effect."""
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
    """Write the rows of `frame`, with the columns of the schema, to files of the table.

    `options` are options of Spark's Parquet writer. The files are in `directory`, by default the table's root, in
    directories named after partition values. With `partition`, values in the form of the log, all rows belong to this
    partition. Files without rows are dropped. `way` is the row transport, see `choose_transport`. `require` is called
    after the rows are written and before any file is moved to its final path. It raises to reject the rows. After any
    error, all written files are deleted.

    Raises:
        UnsupportedFeature: If neither Spark nor its executors can write to the store, or if a date or timestamp is out
            of range for a partition value.
        StorageRefused: If the table's directory is not writable, or if Spark finds another directory at its path.
        StorageError: If a file in the directory cannot be written, or if the files do not hold as many rows as Spark
            wrote.
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
                        # An executor that joined after the check of shared storage may have another disk.
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
    """Move rewritten files below `staging` to their final paths, and return their add actions.

    Executors wrote the files from rows of the table. All rows belong to one `partition`, values in the form of the log.
    The files are added to `written`.
    """
    first = len(written.adds)
    for file in _told(files, layout):
        _finish(store, replace(file, values=partition), staging, layout, data_change, written)
    return written.adds[first:]


@dataclass(frozen=True, slots=True)
class _Staged:
    """A file in the staging directory. `texts` name its partition, or `values`, in the form of the log.

    If `footer` is None, the footer must be read.
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
    """Return the files written by Spark's own writer, and whether it left any file."""
    with with_settings(frame.sparkSession, layout.settings):
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
    """Return the files written by executors, with their footers. Without footers if `finish` changes the files."""
    for file in files:
        footer = read_footer(footer_source(file.footer)) if layout.finish is None else None
        yield _Staged(ObjectMeta(file.path, file.size_bytes, file.modified_ms), file.texts, footer)


def _physical_name(layout: FileLayout, name: str) -> str:
    return physical_name(_field(layout.schema, name), layout.mode)


@contextlib.contextmanager
def _failures_named(where: str, rows: str) -> Iterator[None]:
    """Raise StorageError if a job within the block fails because a file cannot be written. Other errors pass.

    Spark's writer marks its write errors. An executor's error is a write error if it names a path below `rows`, because
    no reader uses this path.
    """
    try:
        yield
    except Exception as error:
        reason = writer_failure(error) or _failure_below(rows, error)
        if reason is None or isinstance(error, SlackwaterError):
            raise
        raise StorageError(
            f"{where}: a data file could not be written: {reason}. The table is unchanged. Check the disk's free "
            "space, its permissions for the user of the executors, and that no partition value is too long for the "
            "name of a directory"
        ) from error


def _failure_below(rows: str, error: Exception) -> str | None:
    """Return the text of a JVM exception about a path below `rows`.

    Excludes the line that names the path for any failure.
    """
    told = (line for line in str(error).splitlines() if rows in line and "[TASK_WRITE_FAILED]" not in line)
    return next((line.rpartition("Exception: ")[2] for line in told), None)


def _projected(
    frame: DataFrame, layout: FileLayout, as_texts: bool, into_directories: bool
) -> tuple[DataFrame, list[str]]:
    """Return the rows in the form of the files, and the names of the partition directory columns.

    With `as_texts`, these columns are texts. Unchanged columns are selected by name. No select is made if every column
    is unchanged, because each select costs calls into the JVM.
    """
    annotated = {f.name for f in frame.schema.fields if f.metadata}
    partitioned = [_field(layout.schema, name) for name in layout.partition_columns]
    data = [c for c in layout.schema if c.name not in layout.partition_columns and c.type != VOID]
    columns: list[Column | str] = [_physical(c, layout.mode, annotated) for c in data]
    columns += [_hidden(name, layout.hidden_ids.get(name)) for name in layout.hidden]
    if layout.materialize_partitions:
        columns += [_physical(c, layout.mode, annotated) for c in partitioned]
    directories = []
    for number, column in enumerate(partitioned if into_directories else ()):
        is_plain = str(column.type) in _PLAIN_TEXT and not layout.materialize_partitions and layout.mode == NONE
        if is_plain and not as_texts:
            columns.append(column.name)
            directories.append(column.name)
        else:
            # The physical name, because engines with partition discovery read it if files stay in place.
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
    """Return the column under its physical name and field id, at every depth. Its name if it needs no change."""
    if mode == NONE and column.name not in annotated:
        return column.name
    source = F.col(quoted(column.name))
    if mode == NONE:
        # Drops metadata such as field ids, because it may come from another table.
        return source.alias(column.name, metadata={})
    (physical,) = physical_schema(StructType((column,)), mode)
    # Nullable at every depth, because Spark rejects casts to non-nullable types. Row checks detect nulls.
    spark_type = to_spark_type(nullable_type(physical.type), field_ids=True)
    if isinstance(spark_type, (spark_types.StructType, spark_types.ArrayType, spark_types.MapType)):
        # Casts work by position, so that a cast replaces display names by physical names.
        source = source.cast(spark_type)
    return source.alias(physical.name, metadata={PARQUET_FIELD_ID: column.metadata[FIELD_ID]})


def _hidden(name: str, field_id: int | None) -> Column | str:
    """Return a hidden column under its name, with its field id if any."""
    return name if field_id is None else F.col(quoted(name)).alias(name, metadata={PARQUET_FIELD_ID: field_id})


def _directory_text(column: StructField) -> Column:
    """Return a text that represents the value exactly, in any session time zone."""
    source = F.col(quoted(column.name))
    kind = str(column.type)
    if kind == "timestamp":
        return F.unix_micros(source).cast("string")
    if kind == "binary":
        return F.hex(source)
    if kind in ("float", "double"):
        # One directory for zeros of both signs, because the log has one value for both.
        return F.when(source == 0, F.lit("0.0")).otherwise(source.cast("string"))
    if kind == "string":
        return F.when(source.startswith(HIVE_DEFAULT_PARTITION), F.concat(source, F.lit(_NOT_NULL))).otherwise(source)
    return source.cast("string")


def _log_text(text: str, data_type: DataType) -> str | None:
    """Return the value of `add.partitionValues` for a text of `_directory_text`."""
    kind = str(data_type)
    if kind == "date" and len(text) > _LONGEST_DATE:
        raise UnsupportedFeature(
            f"a date that partitions a table must have a year of at most 5 digits, found {text}. Remove such rows, or "
            "partition by another column"
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
            "1970. Remove such rows, or partition by another column"
        ) from error


def _finish(
    store: ObjectStore,
    file: _Staged,
    staging: Staging,
    layout: FileLayout,
    data_change: bool,
    written: WrittenFiles,
) -> int:
    """Move a file to its final path and add its `add` action to `written`. Returns the number of rows."""
    meta = file.meta
    if layout.finish is not None:
        layout.finish(store, meta.path)
        meta = store.head(meta.path) or meta
    footer = file.footer or parquet_footer(store, meta.path)[0]
    if not footer.num_rows:
        return 0
    if layout.mode == ID:
        _require_field_ids(footer, layout, f"{store.root_url}: {meta.path}")
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
        # Distinct values need distinct directories, because files of one task have the same name in each.
        is_text = str(column.type) == "string" and text is not None
        directories.append((physical, text if is_text else values[physical]))
    name = meta.path.rpartition("/")[2]
    path = staging.final_path(meta.path, hive_directory(directories) + name)
    add = AddFile(encode_path(path), values, meta.size_bytes, meta.modified_ms, data_change, stats)
    staging.keep(meta.path, path)
    written.adds.append(add)
    return int(footer.num_rows)


def _require_field_ids(footer: ParquetFooter, layout: FileLayout, where: str) -> None:
    """Raise StorageError if a column of a written file lacks its field id, because readers would find nulls."""
    ids = {field.name: (field.metadata or {}).get(FIELD_ID_KEY) for field in footer.metadata.schema.to_arrow_schema()}
    for column in layout.schema:
        name = physical_name(column, layout.mode)
        if name in ids and ids[name] != str(field_id(column)).encode():
            raise StorageError(
                f"{where}: column {column.name} was written with the field id {ids[name]!r}, but the table identifies "
                f"it by {field_id(column)}. Nothing was committed. Set spark.sql.parquet.fieldId.write.enabled to true"
            )


class CountedRows:
    """The rows of a frame, counted by the tasks that write them. Write the attribute `frame` once.

    The count arrives at the end of the job, from the successful task attempts only. Repeated or speculative attempts do
    not change it. The count is independent of files, so the check detects any lost file.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._plain = frame
        self._observation = new_observation(frame.sparkSession)
        self.frame = frame.observe(self._observation, F.count(F.lit(1)).alias(_ROWS))

    def require(self, found: int, where: str, left_anything: bool) -> None:
        """Raise StorageError if the files hold `found` rows, and Spark counted another number.

        `left_anything`: whether the job left any file. If it left none, Spark wrote to another location, and the error
        is StorageRefused.
        """
        counted = observed(self._observation, _ROWS)
        if counted is None:
            # A listener's event was dropped or late. This count may wrongly reject rows that differ between runs.
            counted = self._plain.count()
        if counted == found:
            return
        if not left_anything:
            raise not_shared(where, f"another location for {counted} new rows")
        raise StorageError(
            f"{where}: Spark wrote {counted} rows, but this process finds {found} rows in the files. Nothing was "
            f"committed: {WHAT_TO_DO}. If that is so, find out what removes files there, and retry"
        )
