"""Recently used versions of a lake's tables, extended by new commits instead of read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from slackwater.log.table import Table
from slackwater.scan.snapshot import Snapshot

_MOST_TABLES = 64
# A snapshot keeps the commits since its checkpoint in memory: after this many a newer checkpoint is read.
_MOST_COMMITS = 64
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
            found = known.update(version)
        self.keep(key, found)
        return found

    def keep(self, key: Hashable, snapshot: Snapshot) -> None:
        """Keep `snapshot`, a committed version of the table, unless a newer version is known."""
        checkpoint = snapshot.segment.checkpoint
        num_commits = snapshot.version - (-1 if checkpoint is None else checkpoint.version)
        with self._lock:
            known = self._known.get(key)
            if known is not None and known.version > snapshot.version:
                return
            if num_commits > _MOST_COMMITS or snapshot.state.newest.num_rows > _MOST_FILE_ACTIONS:
                self._known.pop(key, None)
                return
            is_small = checkpoint is None or checkpoint.size_bytes <= _MOST_CHECKPOINT_BYTES
            self._known[key] = snapshot if is_small else snapshot.without_files()
            self._known.move_to_end(key)
            while len(self._known) > _MOST_TABLES:
                self._known.popitem(last=False)

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
