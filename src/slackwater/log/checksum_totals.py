"""Contents of a version checksum, computed from the files of a version or from the previous checksum and a commit.

Source: the public protocol's "Version Checksum File".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import CorruptLog, InvalidArgument
from slackwater.log.files.bulk_commit import BulkActions, LargeActionSequence, StreamedActions, small_actions
from slackwater.log.files.file_actions import file_actions, file_keys, not_among, total_size
from slackwater.log.files.file_histograms import DeletedRows, FileSizeHistogram, deleted_rows
from slackwater.log.files.plain_arrays import flag_array
from slackwater.log.files.reconciliation import Action, file_key
from slackwater.log.files.version_checksum import VersionChecksum, is_size, text_or_none
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.features.in_commit_timestamps import is_enabled
from slackwater.protocol.features.table_configuration import TableConfiguration

# Longer lists are omitted, because the file is written and read with every commit.
_MOST_LISTED = 100


def file_totals(snapshot: LogSnapshot) -> tuple[int, int]:
    """Return the number of live files and their bytes, from the checksum if this avoids reading a checkpoint.

    A checksum is used only if it has the snapshot's own protocol and metadata. Raises CorruptCheckpoint.
    """
    if snapshot.segment.checkpoint is not None:
        found = snapshot.checksum()
        if found is not None and found.configuration == snapshot.configuration:
            return found.num_files, found.table_size_bytes
    sizes = snapshot.live_files(["size"])["size"]
    return len(sizes), pc.sum(sizes, min_count=0).as_py()


def checksum_of(snapshot: LogSnapshot) -> VersionChecksum:
    """Return the checksum of the version of `snapshot` from its live files, whose sizes are read.

    Raises CorruptCheckpoint, and VersionNotFound if in-commit timestamps are enabled and the commit is not in the log.
    """
    files = snapshot.live_files(["size", "deletionVector"])
    sizes = files["size"]
    info = snapshot.state.last_commit_info or {}
    has_times = is_enabled(snapshot.configuration)
    return VersionChecksum(
        version=snapshot.version,
        table_size_bytes=pc.sum(sizes, min_count=0).as_py(),
        num_files=len(sizes),
        configuration=snapshot.configuration,
        txn_id=text_or_none(info.get("txnId")),
        in_commit_timestamp_ms=snapshot.timestamp_ms if has_times else None,
        transactions=_listed(snapshot.transactions),
        domains=_listed(snapshot.domain_metadata),
        sizes=None if sizes.null_count else FileSizeHistogram.of(sizes),
        deletions=DeletedRows.of(deleted_rows(files)) if _has_vectors(snapshot.configuration) else None,
    )


def first_checksum(configuration: TableConfiguration, actions: Sequence[Action]) -> VersionChecksum | None:
    """Return the checksum of version 0 of a table with this `configuration`, see `next_checksum`."""
    deletions = DeletedRows.of([]) if _has_vectors(configuration) else None
    sizes = FileSizeHistogram.of([])
    nothing = VersionChecksum(-1, 0, 0, configuration, None, None, (), (), sizes, deletions)
    return next_checksum(nothing, actions)


def next_checksum(
    previous: VersionChecksum, actions: Iterable[Action], before: LogSnapshot | None = None
) -> VersionChecksum | None:
    """Return the checksum of the version made by `actions` on top of `previous`, None if it cannot be computed.

    `actions` are all JSON actions of one commit. Without `before`, the caller guarantees that no added file is live and
    every removed file is. Then adds with `dataChange` false in a commit without removes give None, because they may
    restate live files. With `before`, the snapshot of the version of `previous`, liveness is looked up. Missing sizes
    give None. Raises InvalidArgument for a `before` of another version, CorruptLog, CorruptCheckpoint.
    """
    if before is not None or not isinstance(actions, LargeActionSequence):
        actions = list(actions)
    if before is not None and before.version != previous.version:
        raise InvalidArgument(f"expected the snapshot of version {previous.version}, found {before.version}")
    where = f"the commit of version {previous.version + 1}"
    totals = _totals_after(previous, actions, before, where)
    if totals is None:
        return None
    infos = (a["commitInfo"] for a in small_actions(actions) if isinstance(a.get("commitInfo"), Mapping))
    info: Mapping[str, Any] = next(infos, {})
    configuration = previous.configuration
    transactions = {t.app_id: t for t in previous.transactions or ()}
    domains = {d.domain: d for d in previous.domains or ()}
    for action in small_actions(actions):
        if action.get("protocol") is not None:
            configuration = configuration.changed(Protocol.from_json(action["protocol"], where))
        elif action.get("metaData") is not None:
            configuration = configuration.changed(metadata=Metadata.from_json(action["metaData"], where))
        elif action.get("txn") is not None:
            transaction = SetTransaction.from_json(action["txn"], where)
            transactions[transaction.app_id] = transaction
        elif action.get("domainMetadata") is not None:
            domain = DomainMetadata.from_json(action["domainMetadata"], where)
            domains[domain.domain] = domain
    live_domains = {name: domain for name, domain in domains.items() if not domain.removed}
    has_times = is_enabled(configuration)
    timestamp_ms = info.get("inCommitTimestamp") if has_times else None
    if has_times and not is_size(timestamp_ms):
        return None
    return VersionChecksum(
        version=previous.version + 1,
        table_size_bytes=totals.num_bytes,
        num_files=totals.num_files,
        configuration=configuration,
        txn_id=text_or_none(info.get("txnId")),
        in_commit_timestamp_ms=timestamp_ms,
        transactions=None if previous.transactions is None else _listed(transactions),
        domains=None if previous.domains is None else _listed(live_domains),
        sizes=totals.sizes,
        deletions=totals.deletions if _has_vectors(configuration) else None,
    )


def has_histograms(checksum: VersionChecksum) -> bool:
    """Return whether `checksum` has all histograms of its table."""
    return checksum.sizes is not None and (checksum.deletions is not None or not _has_vectors(checksum.configuration))


def _has_vectors(configuration: TableConfiguration) -> bool:
    return configuration.supports("deletionVectors")


@dataclass(frozen=True, slots=True)
class _Totals:
    """Totals over the live files of a version. The histograms are None if unknown."""

    num_bytes: int
    num_files: int
    sizes: FileSizeHistogram | None
    deletions: DeletedRows | None

    @staticmethod
    def of(checksum: VersionChecksum) -> _Totals:
        deletions = DeletedRows.of([]) if checksum.num_files == 0 else checksum.deletions
        return _Totals(checksum.table_size_bytes, checksum.num_files, checksum.sizes, deletions)

    def after(self, added: _Files, removed: _Files) -> _Totals | None:
        """Return the totals after a commit, None if it removes more than the table has."""
        num_bytes = self.num_bytes + added.num_bytes - removed.num_bytes
        num_files = self.num_files + len(added.sizes) - len(removed.sizes)
        sizes = None if self.sizes is None else self.sizes.changed(added.sizes, removed.sizes)
        has_vectors = self.deletions is not None and None not in (added.deleted, removed.deleted)
        deletions = None
        if self.deletions is not None and has_vectors:
            deletions = self.deletions.changed(added.deleted or (), removed.deleted or ())
        return _Totals(num_bytes, num_files, sizes, deletions) if num_bytes >= 0 and num_files >= 0 else None


@dataclass(frozen=True, slots=True)
class _Files:
    """Sizes and deleted rows of the files that a commit adds or removes. `deleted` is None if unknown."""

    sizes: Sequence[int] | pa.ChunkedArray
    num_bytes: int
    deleted: Sequence[int | None] | None

    @staticmethod
    def of_table(files: pa.Table) -> _Files:
        return _Files(files["size"], total_size(files), deleted_rows(files))

    @staticmethod
    def of_nodes(nodes: Iterable[Mapping[str, Any]]) -> _Files | None:
        """Return the files of actions in JSON, None if a size is missing."""
        found = list(nodes)
        sizes: list[Any] = [node.get("size") for node in found]
        if not all(map(is_size, sizes)):
            return None
        vectors = [node.get("deletionVector") for node in found]
        deleted = [None if vector is None else vector.get("cardinality") for vector in vectors]
        known = all(vector is None or is_size(rows) for vector, rows in zip(vectors, deleted, strict=True))
        return _Files(sizes, sum(sizes), deleted if known else None)


def _totals_after(
    previous: VersionChecksum, actions: Sequence[Action], before: LogSnapshot | None, where: str
) -> _Totals | None:
    """Return the totals of the live files after `actions`, None if unknown. Raises CorruptLog."""
    totals = _Totals.of(previous)
    if isinstance(actions, StreamedActions):
        # The sizes are not known before the files are read again.
        return _Totals(totals.num_bytes + actions.num_bytes, totals.num_files + actions.num_files, None, None)
    if isinstance(actions, BulkActions):
        if actions.adds["size"].null_count or actions.removes["size"].null_count:
            return None
        return totals.after(_Files.of_table(actions.adds), _Files.of_table(actions.removes))
    nodes = {kind: [a[kind] for a in actions if a.get(kind) is not None] for kind in ("add", "remove")}
    try:
        adds, removes = ({file_key(node): node for node in nodes[kind]} for kind in ("add", "remove"))
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(f"{where}: a file action lacks a key field: {error!r}") from error
    if adds.keys() & removes.keys() or len(adds) + len(removes) < len(nodes["add"]) + len(nodes["remove"]):
        return None
    if before is not None:
        live = _live_among(before, actions, where)
        adds = {key: node for key, node in adds.items() if key not in live}
        removes = {key: node for key, node in removes.items() if key in live}
    elif not removes and any(node.get("dataChange") is False for node in nodes["add"]):
        return None
    added, removed = _Files.of_nodes(adds.values()), _Files.of_nodes(removes.values())
    return None if added is None or removed is None else totals.after(added, removed)


def _live_among(before: LogSnapshot, actions: Sequence[Action], where: str) -> set[str]:
    """Return the keys of the files in `actions` live in `before`."""
    touched = file_actions([(before.version + 1, where, actions)])
    files = before.live_files(["path", "deletionVector"])
    return set(file_keys(files.filter(flag_array(~not_among(files, touched)))).to_pylist())


_Named = TypeVar("_Named", SetTransaction, DomainMetadata)


def _listed(actions: Mapping[str, _Named]) -> tuple[_Named, ...] | None:
    return tuple(actions.values()) if len(actions) <= _MOST_LISTED else None
