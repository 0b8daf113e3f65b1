"""Row writer of a table: writes Arrow rows and rewrites existing rows as data files, not committed yet.

Source: delta-protocol.md "Requirements for Writers", "Writer Requirements for Row Tracking", "Add CDC File".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyroaring import BitMap64

from slackwater.data_files.partitioned_writer import PartitionedWriter
from slackwater.data_files.reader import ReadProjection, Split
from slackwater.data_files.rewriter import CarriedColumn, RewriteSpec, rewrite
from slackwater.data_files.schema_adapter import NAME_IN_FILES_KEY
from slackwater.errors import CommitUnknown, SlackwaterError, StorageError
from slackwater.log.table import Table
from slackwater.maintenance.layout.bin_packing import BinPackingOptions, bins_of
from slackwater.protocol.actions.actions import DomainMetadata, Metadata
from slackwater.protocol.actions.files import AddCDCFile, AddFile
from slackwater.protocol.actions.partition_values import hive_directory, parse_partition_column
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.column_mapping import ID
from slackwater.protocol.features.identity_columns import with_high_water_marks
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import MATERIALIZED_ROW_COMMIT_VERSION, MATERIALIZED_ROW_ID
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import schema_to_json
from slackwater.rows.file_form import FileForm
from slackwater.rows.preparation import PreparedRows
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.file_changes import CHANGE_TYPE
from slackwater.scan.row_count import rows_left
from slackwater.storage.path_guard import resolve_files
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult

_CHANGE_DATA = "_change_data"
_ROW, _BASE, _VERSION = "__slackwater_row", "__slackwater_base_row_id", "__slackwater_default_commit_version"


@dataclass
class RowWriter:
    """The writer of rows of `table`, according to `configuration` and `domains`. Records all written files."""

    table: Table
    configuration: TableConfiguration
    domains: Mapping[str, DomainMetadata]
    _paths: list[str] = field(default_factory=list)

    @property
    def form(self) -> FileForm:
        """The form of the table's data files."""
        return FileForm(self.configuration, self.domains, self.table.root_url)

    def write(self, rows: PreparedRows, change_type: str | None = None) -> list[AddFile]:
        """Write new rows. With `change_type` the files also serve as change data files.

        Raises the errors of `PreparedRows.batches`, and StorageError. The caller then calls `discard`.
        """
        adds = self._written(rows.batches(), "", change_type)
        self._require_rows(rows.num_rows, adds)
        return adds

    def write_changes(self, batches: Iterable[pa.RecordBatch], change_type: str) -> list[AddCDCFile]:
        """Write rows of the table as change data files."""
        return change_files(self._written(batches, _CHANGE_DATA, change_type))

    def advanced(self, rows: PreparedRows) -> Metadata:
        """Return the table's metadata after the write of `rows`, with the high-water marks of identity columns."""
        metadata = self.configuration.metadata
        if not rows.last_values:
            return metadata
        schema = with_high_water_marks(self.configuration.schema, rows.last_values)
        return replace(metadata, schema_string=schema_to_json(schema))

    def copy_without(self, files: pa.Table, rows: Mapping[str, BitMap64], zone: str = "UTC") -> list[AddFile]:
        """Copy the live rows of `files` (columns of ADD_SCHEMA) to new files, except `rows` (by path).

        Small files are combined up to the target size. Copied rows retain their row ids. Raises StorageError if a
        number of rows differs from the log.
        """
        form, adds = self.form, []
        spec = self._rewrite_spec(form)
        packing = BinPackingOptions(max_bytes=form.target_bytes)
        for each in bins_of(files, packing, rewrites_single=True):
            part, values = each.files, each.partition_values
            splits = self._splits(form, part, rows, zone)
            texts = tuple(values.get(name) for name in form.partition_names)
            directory = hive_directory(list(zip(form.partition_names, texts, strict=True))).rstrip("/")
            done = rewrite(self.table.store, splits, directory, spec, max(1, os.cpu_count() or 1))
            self._paths += [file.path for file in done.files]
            copies = [form.add_of(replace(file, texts=texts)) for file in done.files]
            taken = {path: len(rows.get(path, ())) for path in part["path"].to_pylist()}
            self._require_rows(done.num_read, copies)
            self._require_rows(rows_left(part, taken), copies)
            adds += copies
        return adds

    def discard(self) -> None:
        """Delete all written files. Call this only if the commit failed without effect. A file may remain."""
        paths, self._paths = self._paths, []
        if paths:
            with suppress(StorageError):
                self.table.store.delete(paths)

    def _require_rows(self, expected: int | None, adds: Sequence[AddFile]) -> None:
        """Raise StorageError if the new files do not hold the expected number of rows. None means unknown."""
        found = sum(add.num_records or 0 for add in adds)
        if expected is not None and found != expected:
            raise StorageError(
                f"{self.table.root_url}: expected {expected} rows in the new files, found {found}. Nothing changed"
            )

    def _written(self, batches: Iterable[pa.RecordBatch], directory: str, change_type: str | None) -> list[AddFile]:
        form = self.form
        hidden = [] if change_type is None else [pa.field(CHANGE_TYPE, pa.string())]
        writer = PartitionedWriter(self.table.store, directory, form.file_format(hidden), form.target_bytes)
        try:
            for batch in batches:
                for texts, rows in form.partitions_of(batch):
                    typed = rows
                    if change_type is not None:
                        typed = rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change_type), rows.num_rows))
                    writer.write(texts, typed)
            files = writer.finish()
        except BaseException:
            writer.discard()
            raise
        self._paths += [file.path for file in files]
        return [form.add_of(file) for file in files]

    def _rewrite_spec(self, form: FileForm) -> RewriteSpec:
        """Return the columns to read, by their physical names, and the format of the new files."""
        names = self._kept_names
        hidden = [pa.field(name, pa.int64()) for name in names]
        stored = form.file_format(hidden)
        columns = [_plain(column) for column in stored.columns]
        # Hidden columns match by name: files of other writers may lack the field ids.
        read = [column for column in columns if column.name not in (*form.partition_names, *names)] + hidden
        constants = [pa.field(name, pa.int64()) for name in (_BASE, _VERSION) if names]
        if form.materializes:
            pairs = zip(form.partition_names, form.partitioned, strict=True)
            constants += [pa.field(name, to_arrow_type(column.type)) for name, column in pairs]
        wanted = ReadProjection(pa.schema(read), form.mode == ID, pa.schema(constants), _ROW if names else None)
        carried = (CarriedColumn(names[0], _BASE, True), CarriedColumn(names[1], _VERSION, False)) if names else ()
        written = replace(stored, columns=pa.schema(columns), partitions=())
        return RewriteSpec(wanted, written, carried)

    @property
    def _kept_names(self) -> list[str]:
        """The names of the columns for retained row ids and row commit versions."""
        if not row_tracking.is_enabled(self.configuration):
            return []
        return [self.configuration.properties[name] for name in (MATERIALIZED_ROW_ID, MATERIALIZED_ROW_COMMIT_VERSION)]

    def _splits(self, form: FileForm, files: pa.Table, without: Mapping[str, BitMap64], zone: str) -> list[Split]:
        table, paths = self.table, files["path"].to_pylist()
        vectors = files["deletionVector"].to_pylist()
        known = [vector for vector in vectors if vector is not None]
        loaded = iter(load_deletion_vectors(table.store, known, table.follows_outside) if known else ())
        constants: dict[str, pa.Array] = {}
        if self._kept_names:
            constants = {_BASE: files["baseRowId"], _VERSION: files["defaultRowCommitVersion"]}
        if form.materializes:
            for name, column in zip(form.partition_names, form.partitioned, strict=True):
                texts = [dict(values).get(name) for values in files["partitionValues"].to_pylist()]
                constants[name] = parse_partition_column(pa.array(texts, pa.string()), column.type, zone)
        splits = []
        places = resolve_files(table.store, paths, table.follows_outside)
        for at, (place, path, size) in enumerate(zip(places, paths, files["size"].to_pylist(), strict=True)):
            deleted = next(loaded) if vectors[at] is not None else BitMap64()
            gone = deleted | without.get(path, BitMap64())
            values = {name: column[at] for name, column in constants.items()}
            splits.append(Split(place, 0, None, gone or None, values, size))
        return splits


def commit_rows(
    transaction: TableTransaction,
    writer: RowWriter,
    stage: Callable[[], Mapping[str, int]],
    operation: str,
    parameters: Mapping[str, str],
    user_metadata: str | None,
) -> CommitResult:
    """Call `stage`, which writes files by `writer`, stages their actions and returns metrics, and commit the actions.

    The files are deleted if `stage` fails, or if the commit fails without effect. Raises their errors.
    """

    def discard() -> None:
        writer.discard()
        transaction.discard_vectors()

    try:
        metrics = {name: str(value) for name, value in stage().items()}
    except BaseException:
        discard()
        raise
    try:
        return transaction.commit(operation, parameters, metrics, user_metadata)
    except CommitUnknown:
        raise
    except SlackwaterError:
        discard()
        raise


def change_files(adds: Sequence[AddFile]) -> list[AddCDCFile]:
    """Return the `cdc` action of each file."""
    return [AddCDCFile(add.path, add.partition_values, add.size) for add in adds]


def _plain(field: pa.Field) -> pa.Field:
    """Return a field without the display names in its metadata, at every depth, for rows with physical names."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != NAME_IN_FILES_KEY}
    return pa.field(field.name, _plain_type(field.type), field.nullable, metadata or None)


def _plain_type(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(arrow):
        return pa.struct([_plain(field) for field in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(_plain(arrow.value_field))
    if pa.types.is_map(arrow):
        return pa.map_(_plain(arrow.key_field), _plain(arrow.item_field))
    return arrow
