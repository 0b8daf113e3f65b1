"""A version of a table known from the commit owner, with a log read only if needed.

A blind append needs the protocol, schema and properties of the table, not its files. The commits of other writers since
the last known version need not be read if the owner states that none of them changed the metadata or the protocol.
Source: managed-commits.md "Commit Protocol"; docs/transactions.md.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

from slackwater.log.files.segment import LogSegment
from slackwater.log.live_files import CheckpointAdds
from slackwater.log.replay import LogState
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot

MOST_NEW_COMMITS = 128
"""After more commits than this, a newer checkpoint is likely, and opening the table reads fewer commits."""


class UnreadSnapshot(Snapshot):
    """A `version` committed at `timestamp_ms` with the configuration of `known`, an earlier version.

    Everything else is read at the first use. `on_read` is called with the snapshot read.
    """

    def __init__(
        self, known: Snapshot, version: int, timestamp_ms: int, on_read: Callable[[Snapshot], object] = lambda _: None
    ) -> None:
        # Not the constructor of the base class: `__getattr__` provides its attributes.
        self._table = known.table
        self._store = known.store
        self._configuration = known.configuration
        self._content = _Content(known, version, on_read)
        self._version = version
        # Hides the cached property of the base class.
        self.timestamp_ms = timestamp_ms

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the base class, after reading the log."""
        if name in _READ and "_content" in self.__dict__:
            read = self._content.read()
            for each in _READ:
                self.__dict__.setdefault(each, getattr(read, each))
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __copy__(self) -> UnreadSnapshot:
        """Return a copy that shares the log, read or not."""
        found = object.__new__(UnreadSnapshot)
        found.__dict__.update(self.__dict__)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the snapshot after reading the log."""
        return copy.copy, (self._content.read().with_table(self._table),)

    @property
    def version(self) -> int:
        """The version number."""
        return self._version

    @property
    def configuration(self) -> TableConfiguration:
        """Protocol and metadata, known without reading the log."""
        state = self.__dict__.get("_state")
        return self._configuration if state is None else state.configuration

    @property
    def newest_read(self) -> Snapshot:
        """The newest version with a log already read: this version or an earlier one."""
        return self._content.newest

    def earlier(self, version: int) -> Snapshot:
        """Return an earlier version. A version after the newest read one is read from there, and remembered."""
        return self._content.read(version)

    @classmethod
    def open(cls, *arguments: Any, **options: Any) -> Any:
        """See `Snapshot.open`."""
        return Snapshot.open(*arguments, **options)

    def _other(self, segment: LogSegment, state: LogState, base: CheckpointAdds) -> Any:
        return Snapshot(self._table, segment, state, base)


_READ = ("_segment", "_state", "_base", "_live", "_damaged", "_checksum", "_is_checked")


class _Content:
    """The log of a version, read once for all copies of a snapshot. Thread-safe."""

    def __init__(self, known: Snapshot, version: int, on_read: Callable[[Snapshot], object]) -> None:
        self.newest = known
        self._version = version
        self._on_read = on_read
        self._lock = threading.Lock()

    def read(self, version: int | None = None) -> Snapshot:
        """Return the version, or an earlier `version`."""
        version = self._version if version is None else version
        with self._lock:
            known = self.newest
            if known.version == version:
                return known
            if known.version < version:
                found = known.update(version, MOST_NEW_COMMITS)
            else:
                found = Snapshot.open(known.table, version)
            if found.version > known.version:
                self.newest = found
                self._on_read(found)
            return found


def newest_read(snapshot: Snapshot) -> Snapshot:
    """Return `snapshot`, or the newest known version if the log was not read."""
    return snapshot.newest_read if isinstance(snapshot, UnreadSnapshot) else snapshot
