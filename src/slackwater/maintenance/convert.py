"""CONVERT: makes a directory of Parquet files a table in one commit. No file is moved or rewritten.

Source: delta-protocol.md "Add File and Remove File", "Per-file Statistics"; delta-spark's CONVERT TO DELTA (names of
parameters and metrics).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.log.table import Table
from slackwater.maintenance.footer_scan import FooterSummary, describe_files, first_of_each_schema
from slackwater.maintenance.parquet_directory import PartitionedFile, parquet_files
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.actions.paths import encode_path
from slackwater.protocol.features.column_mapping import NONE
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import COLUMN_MAPPING_MODE, FEATURE_PREFIX
from slackwater.protocol.schema.column_paths import ILLEGAL_CHARACTERS, format_column_path
from slackwater.protocol.schema.schema import StructType, parse_schema, walk_fields
from slackwater.protocol.schema_changes.unify_schemas import united_schema
from slackwater.stats.stats_columns import StatsLeaves, stats_leaves
from slackwater.storage.store import ObjectStore
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin_table
from slackwater.transaction.definition import TableActions, TableDefinition, define_table

OPERATION = "CONVERT"

Describe = Callable[[ObjectStore, Sequence[str], StatsLeaves | None], Iterable[FooterSummary]]
"""Function that returns columns and statistics of files at paths below the root, in order."""


@dataclass(frozen=True)
class ConvertRequest:
    """Options of a conversion.

    `partition_schema`: the columns in the directory names, in order. `collect_stats`: whether to collect file
    statistics. `properties`: the table properties. `zone`: the time zone of times in directory names. `describe`: the
    reader of the footers.
    """

    partition_schema: StructType = field(default_factory=StructType)
    collect_stats: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    zone: str = "UTC"
    user_metadata: str | None = None
    describe: Describe = describe_files
    user_name: str | None = None


@dataclass(frozen=True, slots=True)
class ConvertResult:
    """The number of files in the converted table, and their size in bytes."""

    num_files: int
    size_bytes: int


def convert(
    table: Table, request: ConvertRequest = ConvertRequest(), clock: Clock | None = None
) -> ConvertResult | None:
    """Make the directory of Parquet files at `table` a Delta table with version 0.

    Return None if the directory is a table already.

    Every visible file becomes part of the table. Do not write to the directory during the conversion. Nothing is
    written before an error.

    Raises:
        InvalidArgument: If there are no files, a file is not Parquet, schemas are incompatible or partitions
            unexpected.
        UnsupportedFeature: If a table cannot contain the files.
        ProtocolChangedException: If another writer creates the table during the conversion.
        StorageError: If the store fails.
    """
    if table.list_log().latest_version is not None:
        return None
    clock = clock or Clock()
    files = parquet_files(table.store, request.partition_schema, request.zone)
    schema, described = _described(table.store, files, request)
    defined = _defined(table, schema, request, clock, any(file.is_shredded for file in described))
    adds = [_add(file, found, request) for file, found in zip(files, described, strict=True)]
    transaction = begin_table(table, defined, clock=clock)
    transaction.add(adds, fresh=True)
    parameters = {
        "numFiles": str(len(adds)),
        "partitionedBy": orjson.dumps(request.partition_schema.names).decode(),
        "collectStats": str(request.collect_stats).lower(),
        "sourceFormat": "parquet",
    }
    metrics = {"numConvertedFiles": str(len(adds))}
    transaction.commit(OPERATION, parameters, metrics, request.user_metadata, user_name=request.user_name)
    return ConvertResult(len(adds), sum(add.size for add in adds))


def _described(
    store: ObjectStore, files: Sequence[PartitionedFile], request: ConvertRequest
) -> tuple[StructType, list[FooterSummary]]:
    """Return the table's columns and files. Footers are read once if the first file has all columns, else twice."""
    paths = [file.meta.path for file in files]
    if not request.collect_stats:
        described = list(request.describe(store, paths, None))
        return _table_schema(store, described, request), described
    (first,) = request.describe(store, paths[:1], None)
    leaves = _leaves(_table_schema(store, [first], request), request)
    described = list(request.describe(store, paths, leaves))
    schema = _table_schema(store, described, request)
    if _leaves(schema, request) != leaves:
        described = list(request.describe(store, paths, _leaves(schema, request)))
    return schema, described


def _leaves(schema: StructType, request: ConvertRequest) -> StatsLeaves:
    return stats_leaves(schema, NONE, request.partition_schema.names, request.properties)


def _table_schema(store: ObjectStore, described: Iterable[FooterSummary], request: ConvertRequest) -> StructType:
    """Return the columns of all files. Partition columns have the requested type, and come last if not in the files."""
    seen = first_of_each_schema(described)
    merged: StructType | None = None
    for text, path in seen.items():
        found = parse_schema(text)
        try:
            merged = found if merged is None else united_schema(merged, found)
        except InvalidArgument as error:
            raise _unfit(store, seen, path, error) from error
    data = merged or StructType()
    partitions = {column.name: column for column in request.partition_schema}
    kept = tuple(partitions.get(column.name, column) for column in data)
    named = set(data.names)
    schema = StructType((*kept, *(column for column in request.partition_schema if column.name not in named)))
    _require_names(store, schema)
    return schema


def _unfit(store: ObjectStore, seen: Mapping[str, str], path: str, error: InvalidArgument) -> InvalidArgument:
    """Return the error with the names of files whose schemas are incompatible."""
    found = parse_schema(next(text for text, first in seen.items() if first == path))
    for text, first in seen.items():
        try:
            united_schema(parse_schema(text), found)
        except InvalidArgument as unfit:
            return InvalidArgument(
                f"{store.root_url}: the files {first} and {path} do not fit one table: {unfit}. Rewrite the files of "
                "one kind, or convert each kind in its own directory",
                error_class="DELTA_FAILED_MERGE_SCHEMA_FILE",
            )
    return InvalidArgument(
        f"{store.root_url}: the file {path} does not fit one table with the others: {error}",
        error_class="DELTA_FAILED_MERGE_SCHEMA_FILE",
    )


def _require_names(store: ObjectStore, schema: StructType) -> None:
    if not schema.fields:
        raise InvalidArgument(
            f"{store.root_url}: the files have no columns, but a table needs some", error_class="DELTA_EMPTY_DATA"
        )
    for path, column in walk_fields(schema):
        illegal = sorted(set(column.name) & set(ILLEGAL_CHARACTERS))
        if illegal:
            raise InvalidArgument(
                f"{store.root_url}: column {format_column_path(path)} has {', '.join(map(repr, illegal))} in its "
                "name, which a table without column mapping does not permit. Rename the column with Spark and "
                "rewrite the files",
                error_class="DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
            )


def _defined(
    table: Table, schema: StructType, request: ConvertRequest, clock: Clock, is_shredded: bool
) -> TableActions:
    properties = dict(request.properties)
    if is_shredded:
        # Later files are shredded only with delta.enableVariantShredding.
        properties[f"{FEATURE_PREFIX}variantShredding"] = "supported"
    definition = TableDefinition(schema, request.partition_schema.names, properties=properties)
    defined = define_table(definition, clock.now_ms(), clock.new_id)
    _require_no_mapping(table, defined.configuration)
    return defined


def _require_no_mapping(table: Table, configuration: TableConfiguration) -> None:
    if configuration.properties.get(COLUMN_MAPPING_MODE, NONE) != NONE:
        raise UnsupportedFeature(
            f"{table.root_url}: the files have the columns by their own names, so they cannot become a table with "
            f"column mapping. Omit {COLUMN_MAPPING_MODE} and Iceberg compatibility, and set them afterwards",
            error_class="DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING",
        )


def _add(file: PartitionedFile, found: FooterSummary, request: ConvertRequest) -> AddFile:
    values = dict(zip(request.partition_schema.names, file.values, strict=True))
    return AddFile(encode_path(file.meta.path), values, found.size_bytes, file.meta.modified_ms, stats=found.stats)
