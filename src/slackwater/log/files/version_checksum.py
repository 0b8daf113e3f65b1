"""The version checksum file `<version>.crc`, with totals of a version for consistency checks by readers and writers.

It is written once beside its commit and never changed. A table is complete without it. Source: the public protocol's
"Version Checksum File". delta-spark wrote the histogram of sizes under another name before.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa

from slackwater.errors import CorruptLog, ObjectExists, ObjectNotFound
from slackwater.log.files.file_actions import file_keys
from slackwater.log.files.file_histograms import DeletedRows, FileSizeHistogram, deleted_rows
from slackwater.log.files.reconciliation import file_key
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.actions.file_names import LOG, crc_name
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.storage.conditional_puts import put_assuming_single_writer
from slackwater.storage.store import ObjectStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VersionChecksum:
    """Totals of one version of a table: its logical files and their bytes, its protocol and its metadata.

    `in_commit_timestamp_ms` is set if the table has in-commit timestamps. `transactions` and `domains` are all live
    ones, `sizes` and `deletions` cover all live files, and `all_files` are their `add` actions as in JSON. None if the
    writer omitted them. This package never writes `all_files`.
    """

    version: int
    table_size_bytes: int
    num_files: int
    configuration: TableConfiguration
    txn_id: str | None = None
    in_commit_timestamp_ms: int | None = None
    transactions: tuple[SetTransaction, ...] | None = None
    domains: tuple[DomainMetadata, ...] | None = None
    sizes: FileSizeHistogram | None = None
    deletions: DeletedRows | None = None
    all_files: tuple[Mapping[str, Any], ...] | None = field(default=None, repr=False)

    @property
    def protocol(self) -> Protocol:
        """The protocol of the version."""
        return self.configuration.protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata of the version."""
        return self.configuration.metadata

    def to_json(self) -> dict[str, Any]:
        """Return the content of the file, without unknown values."""
        optional = {
            "txnId": self.txn_id,
            "inCommitTimestampOpt": self.in_commit_timestamp_ms,
            "setTransactions": _nodes(self.transactions, "txn"),
            "domainMetadata": _nodes(self.domains, "domainMetadata"),
            "fileSizeHistogram": None if self.sizes is None else self.sizes.to_json(),
            **({} if self.deletions is None else self.deletions.to_json()),
        }
        return {
            "tableSizeBytes": self.table_size_bytes,
            "numFiles": self.num_files,
            "numMetadata": 1,
            "numProtocol": 1,
            **{key: value for key, value in optional.items() if value is not None},
            "metadata": self.metadata.to_json()["metaData"],
            "protocol": self.protocol.to_json()["protocol"],
        }


def read_version_checksum(
    store: ObjectStore, version: int, known: TableConfiguration | None = None
) -> VersionChecksum | None:
    """Return the checksum of `version`. None if absent or unusable; an unusable file is logged.

    The checksum gives protocol, metadata and in-commit timestamp of a version without its log. Parsed values of a
    `known` version are shared if the checksum has equal ones. Raises StorageError.
    """
    path = f"{LOG}/{crc_name(version)}"
    try:
        data = store.read(path)
    except ObjectNotFound:
        return None
    try:
        found = parsed_version_checksum(data, version, f"{store.root_url}/{path}")
    except CorruptLog as error:
        _log.warning("%s/%s is not used: %s", store.root_url, path, error)
        return None
    return found if known is None else replace(found, configuration=known.changed(found.protocol, found.metadata))


def parsed_version_checksum(data: bytes, version: int, where: str) -> VersionChecksum:
    """Return the checksum of `version` from its bytes. Raises CorruptLog with `where`."""
    try:
        return _from_json(orjson.loads(data), version, where)
    except (ValueError, TypeError) as error:
        raise CorruptLog(f"{where}: {error}") from error


def write_version_checksum(store: ObjectStore, checksum: VersionChecksum) -> bool:
    """Write `checksum` beside its commit. Return False if the file exists, without a change. Raises StorageError."""
    try:
        path = f"{LOG}/{crc_name(checksum.version)}"
        # Not synced to disk, because readers ignore a torn file, and the next checksum is then computed again.
        put_assuming_single_writer(store, path, orjson.dumps(checksum.to_json()), durable=False)
    except ObjectExists:
        return False
    return True


def contradiction(
    checksum: VersionChecksum, table: TableConfiguration, num_files: int, table_size_bytes: int | None
) -> str | None:
    """Return text for a difference between `checksum` and the log of its version, None if they agree.

    Compares only fields with the same meaning for every writer. `table_size_bytes` is None if unknown.
    """
    if _meaning(checksum.protocol) != _meaning(table.protocol):
        return f"its protocol is {checksum.protocol}, the log's is {table.protocol}"
    for name in ("id", "schema_string", "partition_columns", "configuration"):
        said, found = getattr(checksum.metadata, name), getattr(table.metadata, name)
        if said != found:
            return f"it has the metadata {name} {str(said)[:200]!r}, the log has {str(found)[:200]!r}"
    if checksum.num_files != num_files:
        return f"it counts {checksum.num_files} files, the log {num_files}"
    if table_size_bytes is not None and checksum.table_size_bytes != table_size_bytes:
        return f"it counts {checksum.table_size_bytes} bytes of files, the log {table_size_bytes}"
    return None


def contradiction_of_files(checksum: VersionChecksum, files: pa.Table) -> str | None:
    """Return text for a difference between the optional totals of `checksum` and all live `files`, None if they agree.

    `files` has the columns `path`, `size` and `deletionVector`. Sizes are compared only if all are known.
    """
    sizes = checksum.sizes
    if sizes is not None and not files["size"].null_count:
        found = FileSizeHistogram.of(files["size"], sizes.bins)
        if found != sizes:
            return f"its histogram of file sizes counts {sizes.file_counts}, the log {found.file_counts}"
    if checksum.deletions is not None:
        said, is_so = checksum.deletions, DeletedRows.of(deleted_rows(files))
        for name in ("num_rows", "num_vectors", "file_counts"):
            if getattr(said, name) not in (None, getattr(is_so, name)):
                return f"its deletion vectors have {name} {getattr(said, name)}, the log {getattr(is_so, name)}"
    if checksum.all_files is not None:
        listed, live = sorted(map(file_key, checksum.all_files)), sorted(file_keys(files).to_pylist())
        if listed != live:
            other = sorted(set(listed) ^ set(live)) or listed
            return f"it lists {len(listed)} files, the log {len(live)}, for example {other[0]}"
    return None


def _meaning(protocol: Protocol) -> tuple[int, int, frozenset[str], frozenset[str]]:
    features = frozenset(protocol.reader_features or ()), frozenset(protocol.writer_features or ())
    return (protocol.min_reader_version, protocol.min_writer_version, *features)


def _from_json(node: Any, version: int, where: str) -> VersionChecksum:
    if not isinstance(node, Mapping) or node.get("numMetadata") != 1 or node.get("numProtocol") != 1:
        raise CorruptLog(f"{where}: expected an object with numMetadata and numProtocol of 1")
    metadata = node.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("schemaString"), str):
        raise CorruptLog(f"{where}: expected a metadata with a schemaString, found {str(metadata)[:120]}")
    sizes = node.get("tableSizeBytes"), node.get("numFiles")
    if not all(is_size(size) for size in sizes):
        raise CorruptLog(f"{where}: expected tableSizeBytes and numFiles as whole numbers from 0, found {sizes}")
    timestamp_ms = node.get("inCommitTimestampOpt")
    if timestamp_ms is not None and not is_size(timestamp_ms):
        raise CorruptLog(f"{where}: expected inCommitTimestampOpt in ms, found {timestamp_ms!r}")
    transactions, domains = node.get("setTransactions"), node.get("domainMetadata")
    return VersionChecksum(
        version,
        node["tableSizeBytes"],
        node["numFiles"],
        TableConfiguration(Protocol.from_json(node.get("protocol") or {}, where), Metadata.from_json(metadata, where)),
        text_or_none(node.get("txnId")),
        timestamp_ms,
        None if transactions is None else tuple(SetTransaction.from_json(t, where) for t in transactions),
        None if domains is None else tuple(DomainMetadata.from_json(d, where) for d in domains),
        FileSizeHistogram.from_json(node.get("fileSizeHistogram") or node.get("histogramOpt")),
        DeletedRows.from_json(node),
        _all_files(node.get("allFiles")),
    )


def _all_files(node: Any) -> tuple[Mapping[str, Any], ...] | None:
    """Return the listed `add` actions, None if absent or malformed."""
    if not isinstance(node, list) or not all(isinstance(f, Mapping) and isinstance(f.get("path"), str) for f in node):
        return None
    return tuple(node)


def _nodes(actions: Sequence[SetTransaction | DomainMetadata] | None, kind: str) -> list[Any] | None:
    return None if actions is None else [action.to_json()[kind] for action in actions]


def is_size(value: Any) -> bool:
    """Return whether `value`, from JSON, is a whole number of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def text_or_none(value: Any) -> str | None:
    """Return `value`, from JSON, or None for a value other than text."""
    return value if isinstance(value, str) else None
