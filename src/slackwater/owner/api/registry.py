"""The commit owners that this process has opened, by which tables that are named by their path find theirs.

An owner that only a table's own metadata names is never called: whoever can write a table could name any address.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import LATEST, GetCommitsResponse
from slackwater.protocol.features.managed_commits import OWNER_NAME, Ownership


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """A table and its owner."""

    owner: CommitOwner
    table_id: str

    def recent_commits(self, start_version: int, end_version: int = LATEST) -> GetCommitsResponse:
        """What is not backfilled from `start_version` on, with contents; raises as `CommitOwner.get_commits`."""
        return self.owner.get_commits(self.table_id, start_version, end_version, with_data=True)


class _Registry:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, list[CommitOwner]] = {}
        self._roots: dict[str, OwnedTable] = {}

    def attach(self, owner: CommitOwner) -> None:
        with self._lock:
            self._owners.setdefault(owner.owner_id, []).append(owner)

    def detach(self, owner: CommitOwner) -> None:
        with self._lock:
            attached = self._owners.get(owner.owner_id, [])
            attached[:] = [other for other in attached if other is not owner]
            self._roots = {root: owned for root, owned in self._roots.items() if owned.owner is not owner}

    def attached(self) -> list[CommitOwner]:
        with self._lock:
            return [owners[-1] for owners in self._owners.values() if owners]

    def find(self, ownership: Ownership) -> OwnedTable | None:
        if ownership.name != OWNER_NAME or ownership.owner_id is None or ownership.table_id is None:
            return None
        with self._lock:
            attached = self._owners.get(ownership.owner_id)
            return OwnedTable(attached[-1], ownership.table_id) if attached else None

    def known(self, root_url: str) -> OwnedTable | None:
        return self._roots.get(root_url)

    def learn(self, root_url: str, owned: OwnedTable) -> None:
        with self._lock:
            self._roots[root_url] = owned

    def forget(self, root_url: str) -> None:
        with self._lock:
            self._roots.pop(root_url, None)


_registry = _Registry()


def attach(owner: CommitOwner) -> None:
    """Let tables of `owner` be read and written by their path, until it is detached."""
    _registry.attach(owner)


def detach(owner: CommitOwner) -> None:
    """Forget `owner` and its tables."""
    _registry.detach(owner)


def attached_owners() -> list[CommitOwner]:
    """The owners that this process has open."""
    return _registry.attached()


def find_owner(ownership: Ownership) -> OwnedTable | None:
    """The table's owner where this process has opened it; None for any other."""
    return _registry.find(ownership)


def known_owner(root_url: str) -> OwnedTable | None:
    """The owner of the table at `root_url`, where that was learned before."""
    return _registry.known(root_url)


def learn_owner(root_url: str, owned: OwnedTable) -> None:
    """Remember whose the table at `root_url` is, so that its log is not read once more to find out."""
    _registry.learn(root_url, owned)


def forget_owner(root_url: str) -> None:
    """Take the table at `root_url` for one of the file system again."""
    _registry.forget(root_url)
