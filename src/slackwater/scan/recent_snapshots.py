"""Recently used versions of a lake's tables, extended by new commits instead of read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from slackwater.errors import SlackwaterError
from slackwater.log.table import Table
from slackwater.owner.api.transactions import TableVersion
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.unread_snapshot import MOST_NEW_COMMITS, UnreadSnapshot

_MOST_TABLES = 64
# A snapshot keeps the commits since its checkpoint in memory: after this many a newer checkpoint is read.
_MOST_COMMITS = 256
_MOST_FILE_ACTIONS = 10_000
# Above this size of the checkpoint (about 2,500 files), the files that a snapshot has read are not kept for later
# transactions.
_MOST_CHECKPOINT_BYTES = 256 * 1024


class RecentSnapshots:
    """The newest known version of each of at most 64 tables. Thread-safe.

    A version never changes, so a known version needs no request. A newer version needs its new commits only.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, Snapshot] = OrderedDict()

    def unread(self, key: Hashable, at: TableVersion) -> Snapshot | None:
        """Return the version `at` of a table without reading the log. None if the configuration is unknown."""
        if at.version is None or at.timestamp_ms is None or at.change_version is None:
            return None
        known = self._usable(key)
        if known is None or not at.change_version <= known.version < at.version:
            return None
        return UnreadSnapshot(known, at.version, at.timestamp_ms, lambda read: self.keep(key, read))

    def at(self, key: Hashable, table: Callable[[], Table], version: int | None) -> Snapshot:
        """Return `version` of a table, the newest version for None.

        `key` identifies the table and its access, and `table` opens the table. Raises the errors of `Snapshot.open`.
        """
        known = self._usable(key)
        if known is not None and known.version == version:
            return known
        if known is None or (version is not None and version < known.version):
            found = Snapshot.open(table(), version)
        else:
            found = known.update(version, MOST_NEW_COMMITS)
        if not self.keep(key, found):
            # The next call opens the table from its newest checkpoint.
            self._forget(key, known)
        return found

    def keep(self, key: Hashable, snapshot: Snapshot) -> bool:
        """Keep `snapshot`, a committed version of the table, unless a newer version is known. Raises nothing.

        Return False for too many commits since the checkpoint, if no newer checkpoint is known. The version known
        before then remains, because the configuration may still be used.
        """
        if _is_long(snapshot):
            try:
                newer = snapshot.from_last_checkpoint()
            except SlackwaterError:
                return False
            if newer is None or _is_long(newer):
                return False
            snapshot = newer
        checkpoint = snapshot.segment.checkpoint
        is_small = checkpoint is None or checkpoint.size_bytes <= _MOST_CHECKPOINT_BYTES
        with self._lock:
            known = self._known.get(key)
            if known is not None and known.version > snapshot.version:
                return True
            self._known[key] = snapshot if is_small else snapshot.without_files()
            self._known.move_to_end(key)
            while len(self._known) > _MOST_TABLES:
                self._known.popitem(last=False)
        return True

    def _forget(self, key: Hashable, known: Snapshot | None) -> None:
        with self._lock:
            if known is not None and self._known.get(key) is known:
                del self._known[key]

    def _usable(self, key: Hashable) -> Snapshot | None:
        with self._lock:
            known = self._known.get(key)
            if known is None:
                return None
            if known.table.owned is None:
                # The owner was closed, or has released the table.
                del self._known[key]
                return None
            self._known.move_to_end(key)
            return known


def _is_long(snapshot: Snapshot) -> bool:
    checkpoint = snapshot.segment.checkpoint
    num_commits = snapshot.version - (-1 if checkpoint is None else checkpoint.version)
    return num_commits > _MOST_COMMITS or snapshot.state.newest.num_rows > _MOST_FILE_ACTIONS
