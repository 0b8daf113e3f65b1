"""Where the tables of a lake are, and how they are opened: its owner, its root, the options of its stores."""

from __future__ import annotations

import os
from collections.abc import Mapping

from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import ManagedTable
from slackwater.owner.api.registry import OwnedTable, learn_owner
from slackwater.owner.api.transactions import TableVersion
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore
from slackwater.transaction.clock import Clock


class LakeTables:
    """The tables of one commit owner, by where they are."""

    def __init__(self, owner: CommitOwner, root: str | None, storage_options: Mapping[str, str] | None = None) -> None:
        """`root`: where tables are created that are not told where; `storage_options` as `Snapshot.load`."""
        self._owner = owner
        self._root = root
        self._storage_options = dict(storage_options or {})
        self.clock = Clock()

    @property
    def owner(self) -> CommitOwner:
        """The commit owner."""
        return self._owner

    def store_of(self, at: TableVersion | ManagedTable) -> ObjectStore:
        """The store of a table as the owner names it, which is known as the owner's from then on."""
        store = self.open_location(at.location)
        learn_owner(store.root_url, OwnedTable(self._owner, at.table_id))
        return store

    def open_location(self, location: str | os.PathLike[str]) -> ObjectStore:
        """The store of a table at `location`, with the lake's storage options."""
        return open_store(location, self._storage_options)
