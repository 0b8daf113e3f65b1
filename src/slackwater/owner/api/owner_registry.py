"""The commit owners that this process has opened, by which tables that are named by their path find theirs.

An owner that only a table's own metadata names is never called: a writer of the table could name any address.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import LATEST, GetCommitsResponse
from slackwater.protocol.features.managed_commits import OWNER_NAME, CommitOwnerConfig


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """A table and its owner."""

    owner: CommitOwner
    table_id: str

    def recent_commits(self, start_version: int, end_version: int = LATEST) -> GetCommitsResponse:
        """What is not backfilled from `start_version` on, with contents; raises as `CommitOwner.get_commits`."""
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
    """Let tables of `owner` be read and written by their path, until it is detached."""
    _open.attach(owner)


def detach(owner: CommitOwner) -> None:
    """Forget `owner`."""
    _open.detach(owner)


def attached_owners() -> list[CommitOwner]:
    """The owners that this process has open."""
    return _open.attached()


def is_attached(owner: CommitOwner) -> bool:
    """Whether this process has this very owner open."""
    return _open.is_attached(owner)


def reopened(owner_id: str, open_owner: Callable[[], CommitOwner]) -> CommitOwner:
    """The owner `owner_id` as this process has it open, or from now on has: what an owner is pickled as."""
    found = _open.opened(owner_id)
    if found is None:
        found = open_owner()
        attach(found)
    return found


def find_owner(ownership: CommitOwnerConfig) -> OwnedTable | None:
    """The table's owner where this process has opened it; None for any other."""
    return _open.find(ownership)
