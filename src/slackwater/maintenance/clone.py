"""Shallow clones: a new table whose first version references the files of a source table.

Only log content is copied. The clone writes its new files below its own root and never changes files of the source.
Source: delta-protocol.md "Add File and Remove File" (absolute paths), "Deletion Vector Descriptor Schema" (`p`), "Row
Tracking"; delta-spark's CLONE (names of parameters, metrics and result).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument, TableAlreadyExists
from slackwater.log.files.file_actions import ADD_SCHEMA, DELETION_VECTOR, file_keys, one_array, total_size
from slackwater.log.live_files import live_batches
from slackwater.log.table import Table
from slackwater.protocol.actions.actions import DomainMetadata, Metadata
from slackwater.protocol.actions.deletion_vectors import INLINE, ON_DISK_ABSOLUTE, DeletionVectorDescriptor
from slackwater.protocol.actions.file_names import LOG
from slackwater.protocol.actions.paths import are_plain_texts, encode_path, is_absolute, with_one_scheme
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.clustering import without_domain
from slackwater.protocol.features.column_mapping import NONE
from slackwater.protocol.features.identity_columns import identity_columns, with_marks_after
from slackwater.protocol.features.managed_commits import kept_properties, with_same_owner, without_owner
from slackwater.protocol.features.protocol_upgrade import with_features, with_required_features, with_versions
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    COLUMN_MAPPING_MODE,
    MAX_COLUMN_ID,
    TableProperties,
    split_properties,
    validate_properties,
)
from slackwater.protocol.schema.schema import parse_schema, schema_to_json
from slackwater.scan.snapshot import Snapshot
from slackwater.stats.stats_columns import validate_stats_columns
from slackwater.storage.path_guard import resolve_deletion_vector, resolve_files
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin_table
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.definition import TableActions
from slackwater.transaction.rows.bulk_file_stream import FileStream, StreamNotReplayable
from slackwater.transaction.running_vacuum import require_no_vacuum

OPERATION = "CLONE"


@dataclass(frozen=True, slots=True)
class CloneResult:
    """The result of a CLONE, with delta-spark's names: numbers of files and sizes in bytes.

    Shallow clones copy no files.
    """

    source_table_size: int
    source_num_of_files: int
    num_removed_files: int
    num_copied_files: int
    removed_files_size: int
    copied_files_size: int

    def metrics(self) -> dict[str, str]:
        """Return the result as operation metrics."""
        names = {
            "sourceTableSize": self.source_table_size,
            "sourceNumOfFiles": self.source_num_of_files,
            "numRemovedFiles": self.num_removed_files,
            "numCopiedFiles": self.num_copied_files,
            "removedFilesSize": self.removed_files_size,
            "copiedFilesSize": self.copied_files_size,
        }
        return {name: str(value) for name, value in names.items()}

    def to_dict(self) -> dict[str, int]:
        """Return the fields by name."""
        return asdict(self)


def shallow_clone(
    source: Snapshot,
    target: Table,
    is_replaced: bool = False,
    properties: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    clock: Clock | None = None,
    user_name: str | None = None,
) -> CloneResult:
    """Make `target` a table with the rows, schema, settings and domains of `source`, in one commit.

    `properties` override the properties of the source. If `is_replaced`, an existing table becomes the clone in a new
    version, and retains its id and its owner. The history records `user_metadata` and `user_name`. Also raises the
    errors of a commit. Nothing is changed before an error.

    Raises:
        TableAlreadyExists: If `target` is a table and not `is_replaced`.
        InvalidArgument: If `target` contains other files, or is the source itself, or a property is invalid.
        PathNotAllowed: If the source is not trusted and names files outside its root.
        UnsupportedFeature: If this package cannot write the clone.
    """
    clock = clock or Clock()
    replaced = _replaced(target, is_replaced)
    if with_one_scheme(target.root_url) == with_one_scheme(source.store.root_url):
        raise InvalidArgument(
            f"{target.root_url}: a table cannot be cloned onto itself. Name another path",
            error_class="DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE",
        )
    defined = cloned_table(source, properties or {}, clock, replaced)
    transaction = begin_table(target, defined, replaced, clock)
    return commit_clone(transaction, source, replaced, user_metadata, user_name)


def commit_clone(
    transaction: TableTransaction,
    source: Snapshot,
    replaced: Snapshot | None = None,
    user_metadata: str | None = None,
    user_name: str | None = None,
) -> CloneResult:
    """Commit the files of `source` with `transaction`, which creates the table or replaces `replaced`."""
    sizes = source.live_files(["size"])
    num_files, num_bytes = sizes.num_rows, total_size(sizes)
    if replaced is None:
        tables, held = partial(_pieces_elsewhere, source), partial(_files_elsewhere, source)
        transaction.begin_with(FileStream(tables, held, num_files, num_bytes))
        went = ADD_SCHEMA.empty_table()
    else:
        went = _replace_files(transaction, source, replaced)
    result = CloneResult(num_bytes, num_files, went.num_rows, 0, total_size(went), 0)
    parameters = {
        "source": f"delta.`{source.table.location}`",
        "sourceVersion": str(source.version),
        "isShallow": "true",
    }
    transaction.commit(OPERATION, parameters, result.metrics(), user_metadata, user_name=user_name)
    return result


def _replace_files(transaction: TableTransaction, source: Snapshot, replaced: Snapshot) -> pa.Table:
    """Stage the files of `source` as the replacement for the files of `replaced`. Return the removed files."""
    gone = replaced.live_files(ADD_SCHEMA.names)
    transaction.read_whole_table()
    adds = _files_elsewhere(source)
    if row_tracking.is_supported(replaced.configuration):
        # The table may have given the ids of the source to rows of its own, and no id is given out twice.
        for name in ("baseRowId", "defaultRowCommitVersion"):
            adds = _with(adds, name, pa.nulls(adds.num_rows, ADD_SCHEMA.field(name).type))
    # What a clone of before has already stays: one commit cannot both add and remove a file.
    added, there = one_array(file_keys(adds)), one_array(file_keys(gone))
    adds = adds.filter(pc.invert(pc.is_in(added, value_set=there)))
    went = gone.filter(pc.invert(pc.is_in(there, value_set=added)))
    if _any_below(replaced.store.root_url, adds):
        require_no_vacuum(replaced, transaction.clock.now_ms(), "a clone of a clone of the table itself")
    transaction.exchange(adds, went)
    return went


def cloned_table(
    source: Snapshot, properties: Mapping[str, str], clock: Clock, replaced: Snapshot | None = None
) -> TableActions:
    """Return protocol, metadata and domains of a clone. Only a replaced table passes its owner to the clone.

    Raises InvalidArgument for invalid properties.
    """
    plain = without_owner(source.configuration)
    metadata = _metadata(plain.metadata, properties, clock, replaced)
    protocol = plain.protocol
    if replaced is not None:
        versions = with_versions(replaced.protocol, protocol.min_reader_version, protocol.min_writer_version)
        protocol = with_features(versions, plain.supported_features)
    features = split_properties(properties).features
    configuration = with_required_features(TableConfiguration(protocol, metadata), features)
    return TableActions(configuration, tuple(_domains(source, replaced)))


def _metadata(source: Metadata, properties: Mapping[str, str], clock: Clock, replaced: Snapshot | None) -> Metadata:
    given = split_properties(properties)
    mode = TableProperties(given.plain).get(COLUMN_MAPPING_MODE)
    now = TableProperties(source.configuration).get(COLUMN_MAPPING_MODE, NONE)
    if mode is not None and mode.lower() != now.lower():
        raise InvalidArgument(
            f"{COLUMN_MAPPING_MODE} of a clone must be that of its source, {now}, because its files have the columns "
            "by these names. Change it afterwards",
            error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        )
    validate_stats_columns(parse_schema(source.schema_string), source.partition_columns, given.plain)
    kept = kept_properties(source.configuration)
    configuration = {key: value for key, value in source.configuration.items() if key not in kept}
    folded = {key.lower(): key for key in configuration}
    for key, value in {**validate_properties(given.plain), **given.constraints}.items():
        configuration.pop(folded.get(key.lower(), ""), None)
        configuration[key] = value
    if replaced is None:
        return replace(source, id=clock.new_id(), created_time=clock.now_ms(), configuration=configuration)
    old = replaced.metadata
    mine = replace(source, id=old.id, created_time=old.created_time, configuration=configuration)
    return with_same_owner(old, _going_on(mine, replaced))


def _going_on(metadata: Metadata, replaced: Snapshot) -> Metadata:
    """`metadata`, in which ids of columns, identity values and row ids continue after those of `replaced`."""
    configuration, now = dict(metadata.configuration), replaced.properties
    if MAX_COLUMN_ID in configuration:
        highest = max(int(configuration[MAX_COLUMN_ID]), now.integer(MAX_COLUMN_ID) or 0)
        configuration[MAX_COLUMN_ID] = str(highest)
    if row_tracking.is_supported(replaced.configuration):
        for key in row_tracking.NAME_KEYS:
            # In a column of this name the files of the source have the source's ids.
            theirs, own = configuration.pop(key, None), now.get(key)
            if own is not None and own != theirs:
                configuration[key] = own
    schema = parse_schema(metadata.schema_string)
    names = {identity.name for identity in identity_columns(schema)}
    marks = {identity.name: identity.high_water_mark for identity in identity_columns(replaced.schema)}
    after = with_marks_after(schema, {n: mark for n, mark in marks.items() if n in names and mark is not None})
    text = metadata.schema_string if after == schema else schema_to_json(after)
    return replace(metadata, schema_string=text, configuration=configuration)


def _domains(source: Snapshot, replaced: Snapshot | None) -> list[DomainMetadata]:
    if replaced is None:
        return list(source.domain_metadata.values())
    own, theirs = dict(replaced.domain_metadata), dict(source.domain_metadata)
    if row_tracking.is_supported(replaced.configuration):
        # The table counts its row ids on.
        own.pop(row_tracking.DOMAIN, None), theirs.pop(row_tracking.DOMAIN, None)
    gone = [without_domain(domain) for name, domain in own.items() if name not in theirs]
    return [*theirs.values(), *filter(None, gone)]


def _replaced(target: Table, is_replaced: bool) -> Snapshot | None:
    if target.list_log().latest_version is not None:
        if not is_replaced:
            raise TableAlreadyExists(
                f"{target.root_url} is a Delta table already. Clone to another path, or replace it explicitly",
                error_class="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
            )
        return Snapshot.open(target)
    require_empty(target)
    return None


def require_empty(target: Table) -> None:
    """Raise InvalidArgument if there are files at the location of the new table."""
    other = next((meta.path for meta in target.store.list_from("", recursive=True) if _counts(meta.path)), None)
    if other is not None:
        raise InvalidArgument(
            f"{target.root_url} is not empty, and is not a Delta table: it has {other}. Clone to an empty path",
            error_class="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        )


def _counts(path: str) -> bool:
    return not path.startswith((".", f"{LOG}/"))


def _files_elsewhere(source: Snapshot) -> pa.Table:
    return _elsewhere(source.table, source.files(columns=ADD_SCHEMA.names))


def _pieces_elsewhere(source: Snapshot) -> Iterator[pa.Table]:
    """Yield the files of `_files_elsewhere` in batches, without a cache. Also raises CorruptCheckpoint.

    Raises StreamNotReplayable if the statistics of some files exist only in columns.
    """
    state, wanted = source.state, [*ADD_SCHEMA.names, "stats_parsed.numRecords"]
    for files in live_batches(state.checkpoint, state.newest, source.store, wanted, {}):
        if "stats_parsed" in files.column_names and files["stats"].null_count:
            raise StreamNotReplayable("the statistics of some files are in columns")
        yield _elsewhere(source.table, files.select(ADD_SCHEMA.names))


def _elsewhere(table: Table, files: pa.Table) -> pa.Table:
    """Return `files` of `table` with absolute paths, for use in any other table.

    Raises PathNotAllowed for files outside the root unless the table follows such files, because readers trust a clone.
    """
    store, outside = table.store, table.follows_outside
    # As Hadoop spells it: delta-spark compares paths as texts with those that Spark tells.
    root = store.root_url.replace("file:///", "file:/", 1)
    if are_plain_texts(files["path"]):
        named = pc.binary_join_element_wise(f"{root}/", files["path"], "")
    else:
        paths = files["path"].to_pylist()
        places = resolve_files(store, paths, outside)
        spelled = [p if is_absolute(p) else f"{root}/{encode_path(at)}" for p, at in zip(paths, places, strict=True)]
        named = pa.array(spelled, pa.string())
    moved = _with(files, "path", named)
    if files["deletionVector"].null_count == files.num_rows:
        return moved
    vectors = [None if node is None else _vector(table, root, node) for node in files["deletionVector"].to_pylist()]
    return _with(moved, "deletionVector", pa.array(vectors, DELETION_VECTOR))


def _any_below(root_url: str, files: pa.Table) -> bool:
    """Return whether any of `files` is below the root, and thus an earlier file of the table there.

    `files` has the paths of `_elsewhere`.
    """
    roots = (f"{root_url}/", f"{root_url.replace('file:///', 'file:/', 1)}/")
    return any(pc.any(pc.starts_with(files["path"], root), min_count=0).as_py() for root in roots)


def _with(files: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return files.set_column(files.schema.get_field_index(name), ADD_SCHEMA.field(name), values)


def _vector(table: Table, root: str, node: Mapping[str, Any]) -> Mapping[str, Any]:
    vector = DeletionVectorDescriptor.from_json(node)
    if vector.storage_type == INLINE:
        return node
    place = resolve_deletion_vector(table.store, vector, table.follows_outside)
    if vector.relative_path is None:
        return node
    return {**node, "storageType": ON_DISK_ABSOLUTE, "pathOrInlineDv": f"{root}/{encode_path(place)}"}
