"""The form of a table's data files for Arrow rows: physical columns, field ids, statistics, partition values.

Source: delta-protocol.md "Column Mapping", "Per-file Statistics", "Partition Value Serialization", "Writer Requirements
for IcebergCompatV1", "… V2".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.data_files.partitioned_writer import Texts
from slackwater.data_files.schema_adapter import NAME_IN_FILES_KEY
from slackwater.data_files.writer import FileFormat, WrittenFile, footer_source
from slackwater.errors import UnsupportedFeature
from slackwater.protocol.actions.actions import DomainMetadata
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.actions.partition_values import serialize_partition_value
from slackwater.protocol.actions.paths import encode_path
from slackwater.protocol.features import iceberg_compat
from slackwater.protocol.features.column_mapping import NONE, field_id, physical_name
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.byte_sizes import size_in_bytes
from slackwater.protocol.properties.parquet_version import page_version_of_table
from slackwater.protocol.properties.properties import COMPRESSION_CODEC, TARGET_FILE_SIZE
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import VOID, StructField, StructType, nullable_type
from slackwater.stats.footer_bounds import SPARK_VERSION_KEY
from slackwater.stats.footers import StatsLeaves, stats_of_footer, table_leaves
from slackwater.storage.parquet_footer import FIELD_ID_KEY, read_footer
from slackwater.transaction.table.nested_field_ids import with_ids

DEFAULT_FILE_BYTES = 128 << 20
"""The size of a complete file if the table has no `delta.targetFileSize`."""

# Spark 3 and later read dates and times of these files in the Gregorian calendar, in every rebase mode.
_FOOTER = {SPARK_VERSION_KEY.decode(): "4.0.0"}


@dataclass(frozen=True)
class FileForm:
    """The form of the data files of a table with `configuration` and `domains`. `where` is the table."""

    configuration: TableConfiguration
    domains: Mapping[str, DomainMetadata]
    where: str

    @property
    def schema(self) -> StructType:
        """The columns of the table, by display names."""
        return self.configuration.schema

    @property
    def mode(self) -> str:
        """The column mapping mode."""
        return self.configuration.column_mapping_mode

    @cached_property
    def partitioned(self) -> list[StructField]:
        """The partition columns."""
        columns = {column.name: column for column in self.schema}
        return [columns[name] for name in self.configuration.metadata.partition_columns]

    @cached_property
    def partition_names(self) -> list[str]:
        """The physical names of the partition columns."""
        return [physical_name(column, self.mode) for column in self.partitioned]

    @cached_property
    def data(self) -> list[StructField]:
        """The columns stored in files, without materialized partition columns."""
        partitions = self.configuration.metadata.partition_columns
        return [column for column in self.schema if column.name not in partitions and column.type != VOID]

    @property
    def materializes(self) -> bool:
        """Return whether the files also store the partition columns."""
        return iceberg_compat.materializes_partition_values(self.configuration)

    @cached_property
    def leaves(self) -> StatsLeaves:
        """The columns with statistics."""
        return table_leaves(self.configuration, self.domains, self.where)

    @property
    def target_bytes(self) -> int:
        """The size in bytes of a complete file."""
        text = self.configuration.properties.get(TARGET_FILE_SIZE)
        return DEFAULT_FILE_BYTES if text is None else size_in_bytes(TARGET_FILE_SIZE, text)

    def file_format(self, hidden: Sequence[pa.Field] = ()) -> FileFormat:
        """Return the format of files with the further columns `hidden`, for rows with display names.

        Hidden columns of row tracking get the field ids that the table requires.
        """
        stored = [*self.data, *(self.partitioned if self.materializes else ())]
        columns = pa.schema([_stored_field(column, self.mode) for column in stored])
        if iceberg_compat.needs_nested_ids(self.configuration):
            columns = with_ids(columns, self.schema, self.mode)
        codec = FileFormat.codec_of(self.configuration.properties.get(COMPRESSION_CODEC) or "snappy")
        ids = iceberg_compat.hidden_field_ids(self.configuration)
        further = [
            field.with_metadata({FIELD_ID_KEY: str(ids[field.name])}) if field.name in ids else field
            for field in hidden
        ]
        pages = page_version_of_table(self.configuration.properties) or "v1"
        return FileFormat(pa.schema([*columns, *further]), (), self.partition_names, codec, 0, _FOOTER, pages)

    def add_of(self, file: WrittenFile, data_change: bool = True) -> AddFile:
        """Return the `add` action of a written file, with statistics from its footer."""
        values = dict(zip(self.partition_names, file.texts, strict=True))
        stats = stats_of_footer(read_footer(footer_source(file.footer)), self.leaves)
        return AddFile(encode_path(file.path), values, file.size_bytes, file.modified_ms, data_change, stats)

    def partitions_of(self, batch: pa.RecordBatch) -> Iterator[tuple[Texts, pa.RecordBatch]]:
        """Yield the rows of each partition in `batch`, and the partition values as texts of the log.

        Raises UnsupportedFeature for a date or a time that is out of range for a partition value.
        """
        if not self.partitioned:
            yield (), batch
            return
        texts, codes = self._texts(batch)
        if len(texts) == 1:
            yield texts[0], batch
            return
        # Numpy sorts numbers of 16 bits faster.
        codes = codes.astype(np.uint16) if len(texts) <= np.iinfo(np.uint16).max else codes
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(texts) + 1))
        for number, (start, end) in enumerate(pairwise(bounds.tolist())):
            # A copy, because a slice would keep the whole batch in memory.
            yield texts[number], batch.take(pa.array(order[start:end]))

    def _texts(self, batch: pa.RecordBatch) -> tuple[list[Texts], npt.NDArray[Any]]:
        """Return the distinct partition values, and for each row the index of its values."""
        found: list[Texts] = []
        codes = np.zeros(0, np.int64)
        for at, column in enumerate(self.partitioned):
            values = batch.column(batch.schema.get_field_index(column.name))
            encoded = values.dictionary_encode(null_encoding="encode")
            own = [self._text(value, column) for value in encoded.dictionary]
            indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            if not at:
                found, codes = [(text,) for text in own], indices
                continue
            pairs = codes * len(own) + indices
            distinct, codes = np.unique(pairs, return_inverse=True)
            found = [(*found[pair // len(own)], own[pair % len(own)]) for pair in distinct.tolist()]
        # Equal texts of different values, such as of both zeros, are one partition.
        known = {texts: number for number, texts in enumerate(dict.fromkeys(found))}
        numbers = np.array([known[texts] for texts in found], np.int64)
        return list(known), numbers[codes]

    def _text(self, value: pa.Scalar, column: StructField) -> str | None:
        try:
            return serialize_partition_value(value.as_py(), column.type)
        except (ValueError, OverflowError) as error:
            raise UnsupportedFeature(
                f"{self.where}: a date or time in the partition column {column.name} must be in the years 1 to 9999, "
                f"found {value.value} days or microseconds: {error}. Remove such rows, or partition by another column"
            ) from error


def _stored_field(column: StructField, mode: str) -> pa.Field:
    """Return the field of a file for `column`: its physical name and field id, at every depth. All are nullable."""
    metadata = {NAME_IN_FILES_KEY: column.name.encode()}
    if mode != NONE:
        metadata[FIELD_ID_KEY] = str(field_id(column)).encode()
    stored = to_arrow_type(nullable_type(column.type), partial(_stored_field, mode=mode))
    return pa.field(physical_name(column, mode), stored, True, metadata)
