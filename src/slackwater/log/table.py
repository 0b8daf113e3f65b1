"""One table and the way to it: its store, its commit owner, and what a transaction has done to it.

A path or a name is resolved to one, which is handed down from there: by it the log is listed, and committed to.
Source: managed-commits.md "Reading managed-commit tables"; docs/architecture.md "The life of a read".
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import Any

from slackwater.errors import OperationNotAllowed, TableNotFound, TransactionEnded
from slackwater.log.commits import ParsedCommit
from slackwater.log.managed_log import list_managed_log, owner_of
from slackwater.log.segment import LogListing, list_log
from slackwater.owner.api.owner_registry import OwnedTable, is_attached
from slackwater.protocol.table_configuration import TableConfiguration
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore


class Table:
    """The table in `store`: as everybody sees it, or, with a `branch`, as one transaction does.

    `owned` says whose it is where that is known, as for a table of a lake by its name. Of a table by its path that is
    found out from its metadata, among the owners that this process has open. With `follows_outside`, files outside the
    root that the log names are opened, as those of shallow clones are: for tables that are trusted.
    """

    def __init__(
        self,
        store: ObjectStore,
        owned: OwnedTable | None = None,
        branch: UncommittedVersions | None = None,
        follows_outside: bool = False,
    ) -> None:
        self._store = store
        self._follows_outside = follows_outside
        self._owned = owned
        self._branch = branch
        # What was listed, from which version on, before the owner was known.
        self._listed: tuple[int, LogListing] | None = None

    @classmethod
    def at(
        cls,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        follows_outside: bool = False,
    ) -> Table:
        """The table at a path or URL, which need not be there. Raises as `open_store`."""
        return cls(open_store(path, storage_options), follows_outside=follows_outside)

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes, which reach the same place and the same owner; a transaction stays in its own."""
        if self._branch is not None:
            raise OperationNotAllowed(f"{self.root_url}: a table in a transaction is seen by this process only")
        return Table, (self._store, self.owned, None, self._follows_outside)

    def __repr__(self) -> str:
        return f"<Table {self.root_url}>"

    @property
    def store(self) -> ObjectStore:
        """Where its files are."""
        return self._store

    @property
    def root_url(self) -> str:
        """Its place, for messages."""
        return self._store.root_url

    @property
    def location(self) -> str:
        """Its place as people write it: a path of this machine, or a URL."""
        return self._store.local_root or self._store.root_url

    @property
    def owned(self) -> OwnedTable | None:
        """The table and its owner, while that is open; None of one of the file system, as far as is known."""
        if self._owned is not None and not is_attached(self._owned.owner):
            self._owned = None
        return self._owned

    @property
    def follows_outside(self) -> bool:
        """Whether files outside the root that the log names are opened."""
        return self._follows_outside

    @property
    def branch(self) -> UncommittedVersions | None:
        """What a transaction has done to it; None for the table as everybody sees it."""
        return self._branch

    def list_log(self, start_version: int = 0) -> LogListing:
        """As `slackwater.log.segment.list_log`, with the owner's commits that are not backfilled.

        Raises UnratifiedCommit where the log holds what the owner did not ratify, CommitOwnerUnavailable.
        """
        owned = self.owned
        if owned is None:
            listing = list_log(self._store, start_version)
            self._listed = (start_version, listing)
            return listing
        start, listed = self._listed or (-1, None)
        self._listed = None
        try:
            return list_managed_log(self._store, owned, start_version, listed if start == start_version else None)
        except TableNotFound:
            # Handed back, which backfills all of it; or the owner has lost its state: the file system is what is left.
            self._owned = None
            return list_log(self._store, start_version)

    def find_owner(self, configuration: TableConfiguration) -> bool:
        """Learn whose the table is from what a version of it says; whether an owner turned up that was not known."""
        if self.owned is not None:
            return False
        self._owned = owner_of(self._store, configuration)
        if self._owned is None:
            # Only what was listed this moment may be looked at together with what the owner says.
            self._listed = None
        return self._owned is not None


class UncommittedVersions:
    """A version of a table, `base`, and the commits of a transaction on top of it, which others do not see yet."""

    def __init__(self, base: Any, transaction: Any = None) -> None:
        """`base` is a LogSnapshot, or a kind of it: the newest version stays of that kind.

        `transaction` is what the branch is part of, and is not kept alive by it.
        """
        self.table = Table(base.table.store, base.table.owned, self, base.table.follows_outside)
        """The table as the transaction has it."""
        self._newest = base.with_table(self.table)
        self._is_open = True
        self._transaction = weakref.ref(transaction) if transaction is not None else None
        self.joined: list[Any] = []
        """What made the commits, for the transaction, which makes one commit of them."""

    @property
    def newest(self) -> Any:
        """The snapshot of the newest version. Raises TransactionEnded."""
        if not self._is_open:
            raise TransactionEnded(
                f"{self.table.root_url}: the transaction that this table belongs to was committed or rolled back: "
                "begin another one"
            )
        return self._newest

    def add(self, commit: ParsedCommit) -> None:
        """Let `commit`, which follows the newest version, be part of it."""
        self._newest = self.newest.with_commits([commit])

    def transaction(self) -> Any:
        """What the branch is part of; None where that is not known, or gone."""
        return None if self._transaction is None else self._transaction()

    def close(self) -> None:
        """Nothing is read or committed through it any more; what it holds is let go of."""
        self._is_open = False
        self._newest = None
        self.joined = []
