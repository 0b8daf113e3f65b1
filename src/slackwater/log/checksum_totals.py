"""Contents of a version checksum, computed from the files of a version or from the previous checksum and a commit.

Source: the public protocol's "Version Checksum File".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import CorruptLog, InvalidArgument
from slackwater.log.files.bulk_commit import BulkActions, LargeActionSequence, StreamedActions, small_actions
from slackwater.log.files.file_actions import file_actions, file_keys, not_among, total_size
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
    sizes = snapshot.live_files(["size"])["size"]
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
    )


def first_checksum(configuration: TableConfiguration, actions: Sequence[Action]) -> VersionChecksum | None:
    """Return the checksum of version 0 of a table with this `configuration`, see `next_checksum`."""
    nothing = VersionChecksum(-1, 0, 0, configuration, None, None, transactions=(), domains=())
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
        table_size_bytes=totals[0],
        num_files=totals[1],
        configuration=configuration,
        txn_id=text_or_none(info.get("txnId")),
        in_commit_timestamp_ms=timestamp_ms,
        transactions=None if previous.transactions is None else _listed(transactions),
        domains=None if previous.domains is None else _listed(live_domains),
    )


def _totals_after(
    previous: VersionChecksum, actions: Sequence[Action], before: LogSnapshot | None, where: str
) -> tuple[int, int] | None:
    """Return bytes and number of logical files after `actions`, None if unknown. Raises CorruptLog."""
    if isinstance(actions, StreamedActions):
        return _totals(previous.table_size_bytes + actions.num_bytes, previous.num_files + actions.num_files)
    if isinstance(actions, BulkActions):
        added, removed = actions.adds["size"], actions.removes["size"]
        if added.null_count or removed.null_count:
            return None
        num_bytes = previous.table_size_bytes + total_size(actions.adds) - total_size(actions.removes)
        return _totals(num_bytes, previous.num_files + len(added) - len(removed))
    nodes = {kind: [a[kind] for a in actions if a.get(kind) is not None] for kind in ("add", "remove")}
    try:
        adds, removes = ({file_key(node): node.get("size") for node in nodes[kind]} for kind in ("add", "remove"))
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(f"{where}: a file action lacks a key field: {error!r}") from error
    if adds.keys() & removes.keys() or len(adds) + len(removes) < len(nodes["add"]) + len(nodes["remove"]):
        return None
    if before is not None:
        live = _live_among(before, actions, where)
        adds = {key: size for key, size in adds.items() if key not in live}
        removes = {key: size for key, size in removes.items() if key in live}
    elif not removes and any(node.get("dataChange") is False for node in nodes["add"]):
        return None
    if not all(is_size(size) for size in (*adds.values(), *removes.values())):
        return None
    num_bytes = previous.table_size_bytes + sum(adds.values()) - sum(removes.values())
    return _totals(num_bytes, previous.num_files + len(adds) - len(removes))


def _totals(num_bytes: int, num_files: int) -> tuple[int, int] | None:
    return (num_bytes, num_files) if num_bytes >= 0 and num_files >= 0 else None


def _live_among(before: LogSnapshot, actions: Sequence[Action], where: str) -> set[str]:
    """Return the keys of the files in `actions` live in `before`."""
    touched = file_actions([(before.version + 1, where, actions)])
    files = before.live_files(["path", "deletionVector"])
    return set(file_keys(files.filter(pa.array(~not_among(files, touched)))).to_pylist())


_Named = TypeVar("_Named", SetTransaction, DomainMetadata)


def _listed(actions: Mapping[str, _Named]) -> tuple[_Named, ...] | None:
    return tuple(actions.values()) if len(actions) <= _MOST_LISTED else None
