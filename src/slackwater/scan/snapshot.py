"""The internal snapshot class: log state plus file pruning and row scans."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from slackwater.errors import InvalidArgument, InvalidSchema, SlackwaterError
from slackwater.html.number_format import counted, short_bytes, visible
from slackwater.html.redaction import without_secrets
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.features.column_mapping import NONE, physical_name
from slackwater.protocol.schema.schema import DataType, StructType
from slackwater.scan.public_snapshot import Snapshot as PublicSnapshot
from slackwater.scan.public_snapshot import VariantFormat

if TYPE_CHECKING:
    from slackwater.predicate.predicate import Predicate
    from slackwater.scan.pruning.file_pruning import PruneReport, PruneResult

Path = tuple[str, ...]


class Snapshot(LogSnapshot, PublicSnapshot):
    """The implementation of `slackwater.Snapshot`, with additional methods for reads, writes and table services."""

    has_all_files = True
    """Whether `live_files` returns all files of the version."""

    def __repr__(self) -> str:
        return f"<Snapshot {visible(without_secrets(self.table.location))}: {self.brief()}>"

    def brief(self) -> str:
        """Return `version 3, 2 columns, 4 files, 1.2 KiB` for text forms. The checksum gives files and bytes."""
        try:
            columns = f", {counted(len(self.schema), 'column')}"
        except InvalidSchema:
            columns = ""
        return f"version {self.version}{columns}{self._size()}"

    def _size(self) -> str:
        """Return files and bytes for the text form, from the version's checksum. Reads nothing else."""
        try:
            found = self.checksum() if self.segment.has_checksum else None
        except SlackwaterError:
            found = None
        if found is None:
            return ""
        return f", {counted(found.num_files, 'file')}, {short_bytes(found.table_size_bytes)}"

    def _repr_html_(self) -> str:
        # Imported here, because only notebooks need it.
        from slackwater.html.components import card_or_reason
        from slackwater.scan.snapshot_html import snapshot_card

        return card_or_reason("Snapshot", self.table.location, lambda: snapshot_card(self))

    def files(
        self,
        where: str | Predicate | None = None,
        columns: Sequence[str] = tuple(ADD_SCHEMA.names),
        zone: str = "UTC",
    ) -> pa.Table:
        """See `slackwater.Snapshot.files`."""
        if where is None:
            return self.live_files(columns)
        return self.plan(where, columns, zone).files.select(list(columns))

    def plan(
        self, where: str | Predicate, columns: Sequence[str] = tuple(ADD_SCHEMA.names), zone: str = "UTC"
    ) -> PruneResult:
        """Return the result of `files` with the prune report. The table may have additional columns."""
        # Imported here, because a snapshot without a condition needs no statistics.
        from slackwater.predicate.predicate import columns_of
        from slackwater.scan.pruning.file_pruning import plan
        from slackwater.scan.pruning.recent_files import recent_files

        predicate = self._predicate(where, zone)
        keeps = all(name.split(".")[0] not in ("stats", "stats_parsed") for name in columns)
        if keeps and (known := recent_files.plan(self, predicate, columns, zone)) is not None:
            return known
        partition_columns = self.metadata.partition_columns
        data_columns = [path for path in columns_of(predicate) if path[0] not in partition_columns]
        needed = [*columns, "partitionValues", *(self.stats_columns(data_columns) if data_columns else ())]
        fills = "stats" in columns and not any(name.split(".")[0] == "stats_parsed" for name in columns)
        needed += ["path", "deletionVector"] if fills else ["path"] if keeps else []
        files = self.live_files(list(dict.fromkeys(needed)))
        if keeps and (known := recent_files.plan(self, predicate, columns, zone, files)) is not None:
            return known
        pruned = plan(files, predicate, self.schema, partition_columns, self.physical_paths, zone=zone)
        # Statistics are filled after pruning, because the statistics of all files may be most of a checkpoint.
        return replace(pruned, files=self._with_all_stats(pruned.files)) if fills else pruned

    @property
    def timestamp(self) -> dt.datetime:
        """See `slackwater.Snapshot.timestamp`."""
        # Imported here, because reads of the log need no time ranges.
        from slackwater.owner.api.timestamp_range import at_ms

        return at_ms(self.timestamp_ms)

    def count(self, where: str | Predicate | None = None) -> int:
        """See `slackwater.Snapshot.count`."""
        # Imported here, because a snapshot without a count needs no statistics.
        from slackwater.scan.row_count import count_rows

        return count_rows(self, where).rows

    def report(self, where: str | Predicate, zone: str = "UTC") -> PruneReport:
        """See `slackwater.Snapshot.report`."""
        return self.plan(where, ["path"], zone).report

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        limit: int | None = None,
        zone: str = "UTC",
        variant_format: VariantFormat = "binary",
    ) -> pa.Table:
        """See `slackwater.Snapshot.to_arrow`."""
        schema, batches = self._rows(columns, where, limit, zone, variant_format, keeps_all=True)
        return pa.Table.from_batches(batches, schema)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        limit: int | None = None,
        zone: str = "UTC",
        variant_format: VariantFormat = "binary",
    ) -> pa.RecordBatchReader:
        """See `slackwater.Snapshot.to_batches`."""
        schema, batches = self._rows(columns, where, limit, zone, variant_format)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _predicate(self, where: str | Predicate, zone: str) -> Predicate:
        if isinstance(where, str):
            from slackwater.predicate.sql import parse_predicate

            return parse_predicate(where, self.schema, zone=zone)
        from slackwater.predicate.predicate import Predicate

        if not isinstance(where, Predicate):
            raise InvalidArgument(
                f"a condition is SQL text, such as \"month = 3 AND day > '2026-11-22'\", found {type(where).__name__}"
            )
        return where

    def _rows(
        self,
        columns: Sequence[str] | None,
        where: str | Predicate | None,
        limit: int | None,
        zone: str,
        variant_format: VariantFormat,
        keeps_all: bool = False,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        # Imported here, because reads of the log need no data files.
        from slackwater.scan.arrow_scan import FILE_COLUMNS, ArrowScan, require_limit
        from slackwater.scan.variant_json import with_json

        require_limit(limit)
        if variant_format not in get_args(VariantFormat):
            raise InvalidArgument(
                f"variant_format is one of {', '.join(get_args(VariantFormat))}, found {variant_format!r}"
            )
        predicate = None if where is None else self._predicate(where, zone)
        read = ArrowScan.of(self, columns, predicate, zone)
        rows = read.schema, read.batches(self.files(predicate, FILE_COLUMNS, zone), limit, keeps_all)
        return with_json(*rows) if variant_format == "json" else rows

    @cached_property
    def physical_paths(self) -> Mapping[Path, Path]:
        """The physical path of every column by display path; empty without column mapping."""
        return physical_paths(self.schema, self.column_mapping_mode)

    def stats_columns(self, data_columns: Sequence[Path]) -> list[str]:
        """Return the columns of live files with the statistics of `data_columns`, for `live_files`."""
        physical = [".".join(self.physical_paths.get(path, path)) for path in data_columns]
        parsed = [
            f"stats_parsed.{group}.{path}" for group in ("minValues", "maxValues", "nullCount") for path in physical
        ]
        return ["stats", "stats_parsed.numRecords", "stats_parsed.tightBounds", *parsed]


def physical_paths(schema: StructType, mode: str) -> Mapping[Path, Path]:
    """Return the physical path of every column of `schema` by display path; empty without column mapping."""
    return {} if mode == NONE else dict(_paths(schema, mode, (), ()))


def _paths(data_type: DataType, mode: str, logical: Path, physical: Path) -> list[tuple[Path, Path]]:
    if not isinstance(data_type, StructType):
        return []
    found: list[tuple[Path, Path]] = []
    for column in data_type:
        here = (*logical, column.name), (*physical, physical_name(column, mode))
        found += [here, *_paths(column.type, mode, *here)]
    return found
