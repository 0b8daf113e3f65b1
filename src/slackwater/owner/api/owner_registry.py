"""Registry of the commit owners opened by this process. Tables opened by path find their owner here.

An owner known only from a table's metadata is never called, because a writer of the table could name any address.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.protocol.features.managed_commits import OWNER_NAME, UNNAMED, CommitOwnerConfig

if TYPE_CHECKING:
    from slackwater.owner.api.commit_owner import CommitOwner
    from slackwater.owner.api.commits import GetCommitsResponse


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """A table and its owner."""

    owner: CommitOwner
    table_id: str

    def recent_commits(self, start_version: int) -> GetCommitsResponse:
        """Return the unbackfilled commits from `start_version` on, with contents.

        Raises the errors of `CommitOwner.get_commits`.
        """
        return self.owner.get_commits(self.table_id, start_version, with_data=True)


class _OpenOwners:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, list[CommitOwner]] = {}
        self._tables: dict[str, tuple[CommitOwner, str]] = {}

    def attach(self, owner: CommitOwner) -> None:
        with self._lock:
            self._owners.setdefault(owner.owner_id, []).append(owner)

    def detach(self, owner: CommitOwner) -> None:
        with self._lock:
            attached = self._owners.get(owner.owner_id, [])
            attached[:] = [other for other in attached if other is not owner]
            # Another client of the same catalog takes over the tables.
            left = {key: known for key, known in self._tables.items() if known[0] is not owner}
            if attached:
                left |= {key: (attached[-1], root) for key, (own, root) in self._tables.items() if own is owner}
            self._tables = left

    def attached(self) -> list[CommitOwner]:
        with self._lock:
            return [owners[-1] for owners in self._owners.values() if owners]

    def is_attached(self, owner: CommitOwner) -> bool:
        with self._lock:
            return any(other is owner for other in self._owners.get(owner.owner_id, ()))

    def opened(self, owner_id: str) -> CommitOwner | None:
        with self._lock:
            attached = self._owners.get(owner_id)
            return attached[-1] if attached else None

    def register(self, owner: CommitOwner, table_id: str, location: str) -> None:
        with self._lock:
            self._tables[table_id] = owner, location

    def location(self, table: OwnedTable) -> str | None:
        with self._lock:
            owner, location = self._tables.get(table.table_id, (None, ""))
            return location if owner is table.owner else None

    def catalog_of(self, location: str) -> tuple[CommitOwner, str] | None:
        with self._lock:
            known = [(owner, root) for owner, root in self._tables.values() if f"{location}/".startswith(f"{root}/")]
            return max(known, key=lambda each: len(each[1]), default=None)

    def find(self, ownership: CommitOwnerConfig) -> OwnedTable | None:
        table_id = ownership.table_id
        if ownership.name not in (OWNER_NAME, UNNAMED) or table_id is None:
            return None
        with self._lock:
            attached = self._owners.get(ownership.owner_id or "")
            if attached:
                return OwnedTable(attached[-1], table_id)
            known = self._tables.get(table_id)
            is_open = known is not None and any(known[0] is each for each in self._owners.get(known[0].owner_id, ()))
            return OwnedTable(known[0], table_id) if known is not None and is_open else None


_open = _OpenOwners()


def attach(owner: CommitOwner) -> None:
    """Register `owner`, so that its tables can be opened by path until `detach`."""
    _open.attach(owner)


def register_table(owner: CommitOwner, table_id: str, location: str) -> None:
    """Register a table of `owner`, a catalog that its tables do not name, so that it can be opened by path.

    `location` is the URL of its root. The table can be opened while `owner` is registered.
    """
    _open.register(owner, table_id, location)


def registered_location(table: OwnedTable) -> str | None:
    """Return the location of a table registered by `register_table`, None for other tables."""
    return _open.location(table)


def catalog_options(location: str) -> Mapping[str, str]:
    """Return the storage options of the catalog whose registered table contains the URL `location`, if any.

    Raises the errors of `Catalog.storage_options`.
    """
    # Imported here, because opening a table without an owner needs no catalog.
    from slackwater.owner.api.catalog import Catalog

    owner, root = _open.catalog_of(location.rstrip("/")) or (None, "")
    return owner.storage_options(root) if isinstance(owner, Catalog) else {}


def detach(owner: CommitOwner) -> None:
    """Remove `owner` from the registry."""
    _open.detach(owner)


def attached_owners() -> list[CommitOwner]:
    """Return the owners registered in this process."""
    return _open.attached()


def is_attached(owner: CommitOwner) -> bool:
    """Return whether this process has registered this `owner` object."""
    return _open.is_attached(owner)


def reopened(owner_id: str, open_owner: Callable[[], CommitOwner]) -> CommitOwner:
    """Return the registered owner `owner_id`, or register the result of `open_owner`. Used to unpickle owners."""
    found = _open.opened(owner_id)
    if found is None:
        found = open_owner()
        attach(found)
    return found


def find_owner(ownership: CommitOwnerConfig) -> OwnedTable | None:
    """Return the table with its owner if this process has registered the owner, else None."""
    return _open.find(ownership)
