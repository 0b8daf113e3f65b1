"""Registry of the commit owners opened by this process. Tables opened by path find their owner here.

An owner known only from a table's metadata is never called, because a writer of the table could name any address.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.owner.api.commits import LATEST, GetCommitsResponse
from slackwater.protocol.features.managed_commits import OWNER_NAME, CommitOwnerConfig

if TYPE_CHECKING:
    from slackwater.owner.api.commit_owner import CommitOwner


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """A table and its owner."""

    owner: CommitOwner
    table_id: str

    def recent_commits(self, start_version: int, end_version: int = LATEST) -> GetCommitsResponse:
        """Return the unbackfilled commits from `start_version` to `end_version`, with contents.

        Raises the errors of `CommitOwner.get_commits`.
        """
        return self.owner.get_commits(self.table_id, start_version, end_version, with_data=True)


class _OpenOwners:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, list[CommitOwner]] = {}

    def attach(self, owner: CommitOwner) -> None:
        with self._lock:
            self._owners.setdefault(owner.owner_id, []).append(owner)

    def detach(self, owner: CommitOwner) -> None:
        with self._lock:
            attached = self._owners.get(owner.owner_id, [])
            attached[:] = [other for other in attached if other is not owner]

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

    def find(self, ownership: CommitOwnerConfig) -> OwnedTable | None:
        if ownership.name != OWNER_NAME or ownership.owner_id is None or ownership.table_id is None:
            return None
        with self._lock:
            attached = self._owners.get(ownership.owner_id)
            return OwnedTable(attached[-1], ownership.table_id) if attached else None


_open = _OpenOwners()


def attach(owner: CommitOwner) -> None:
    """Register `owner`, so that its tables can be opened by path until `detach`."""
    _open.attach(owner)


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
