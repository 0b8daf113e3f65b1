"""Table access of a lake: commit owner, root directory and storage options."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Mapping

from slackwater.errors import InvalidArgument
from slackwater.lake.html_repr import place_of
from slackwater.log.table import Table
from slackwater.owner.api.catalog import Catalog
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import ManagedTable
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.owner.api.transactions import TableVersion
from slackwater.scan.recent_snapshots import RecentSnapshots
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.open import open_store
from slackwater.transaction.clock import Clock


class LakeTables:
    """Opens the tables of one commit owner by location."""

    def __init__(self, owner: CommitOwner, root: str | None, storage_options: Mapping[str, str] | None = None) -> None:
        """`root` contains new tables without a location. `storage_options` as `Snapshot.load`."""
        self._owner = owner
        self._root = root
        self._storage_options = dict(storage_options or {})
        self._closed = threading.Event()
        self._recent = RecentSnapshots()
        self.clock = Clock()

    @property
    def owner(self) -> CommitOwner:
        """The commit owner. Raises InvalidArgument if the lake is closed."""
        if self._closed.is_set():
            raise InvalidArgument(f"the lake {place_of(self._root, self._owner)} is closed. Open it again")
        return self._owner

    def _table_of(self, at: TableVersion | ManagedTable) -> Table:
        """Return the owner's table described by `at`: its location and id.

        Raises InvalidArgument if the lake is closed.
        """
        store = open_store(at.location, self._options_at(at.location))
        return Table(store, OwnedTable(self.owner, at.table_id), follows_outside=self._follows_outside())

    def _snapshot_of(
        self, at: TableVersion | ManagedTable, version: int | None = None, key: Hashable | None = None
    ) -> Snapshot:
        """Return `version` of the owner's table described by `at`, the newest version for None.

        Versions that the lake has read or committed are extended by newer commits. `key`: the result of `_key_of`, if
        known. Raises the errors of `Snapshot.load`, and InvalidArgument if the lake is closed.
        """
        return self._recent.at(key or self._key_of(at), lambda: self._table_of(at), version)

    def _key_of(self, at: TableVersion | ManagedTable) -> Hashable:
        """Return the key of a table and the access to it. Can request credentials from a catalog."""
        options = self._options_at(at.location)
        return self.owner.owner_id, at.table_id, at.location, self._follows_outside(), frozenset(options.items())

    def _table_at(self, location: str | os.PathLike[str]) -> Table:
        """Return the table at `location` with the lake's storage options. Another owner may own the table.

        Raises InvalidArgument if no store supports the location.
        """
        return Table.at(location, self._options_at(location), self._follows_outside())

    def _follows_outside(self) -> bool:
        """Return whether files outside the tables' roots are opened."""
        return True

    def _options_at(self, location: str | os.PathLike[str]) -> Mapping[str, str]:
        """Return the storage options for a location: those of the lake, or credentials of its catalog."""
        owner = self._owner
        return owner.storage_options(str(location)) if isinstance(owner, Catalog) else self._storage_options
