"""Table access of a lake: commit owner, root directory and storage options."""

from __future__ import annotations

import os
from collections.abc import Mapping

from slackwater.errors import InvalidArgument
from slackwater.lake.html_repr import place_of
from slackwater.log.table import Table
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import ManagedTable
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.owner.api.transactions import TableVersion
from slackwater.storage.open import open_store
from slackwater.transaction.clock import Clock


class LakeTables:
    """Opens the tables of one commit owner by location."""

    def __init__(self, owner: CommitOwner, root: str | None, storage_options: Mapping[str, str] | None = None) -> None:
        """`root` contains new tables without a location. `storage_options` as `Snapshot.load`."""
        self._owner = owner
        self._root = root
        self._storage_options = dict(storage_options or {})
        self._is_closed = False
        self.clock = Clock()

    @property
    def owner(self) -> CommitOwner:
        """The commit owner. Raises InvalidArgument if the lake is closed."""
        if self._is_closed:
            raise InvalidArgument(f"the lake {place_of(self._root, self._owner)} is closed. Open it again")
        return self._owner

    def table_of(self, at: TableVersion | ManagedTable) -> Table:
        """Return the owner's table described by `at`: its location and id.

        Raises InvalidArgument if the lake is closed.

        >>> [lake.table_of(each).location == lake.location(each.name) for each in lake.tables()]
        [True, True]
        """
        store = open_store(at.location, self._options_at(at.location))
        return Table(store, OwnedTable(self.owner, at.table_id), follows_outside=self._follows_outside())

    def table_at(self, location: str | os.PathLike[str]) -> Table:
        """Return the table at `location` with the lake's storage options. Another owner may own the table.

        Raises InvalidArgument if no store supports the location.

        >>> spark.range(3).write.format("delta").save(path)
        >>> lake.table_at(path).list_log().latest_version
        0
        """
        return Table.at(location, self._options_at(location), self._follows_outside())

    def _follows_outside(self) -> bool:
        """Return whether files outside the tables' roots are opened."""
        return True

    def _options_at(self, location: str | os.PathLike[str]) -> Mapping[str, str]:
        """Return the storage options for a location."""
        del location
        return self._storage_options
