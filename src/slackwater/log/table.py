"""A table and its access: its store, its commit owner, and the uncommitted versions of a transaction.

A path or a name is resolved once to a `Table`, then passed on. Listings of the log and commits go through the `Table`.
Source: managed-commits.md "Reading managed-commit tables"; docs/architecture.md "The life of a read".
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from slackwater.errors import OperationNotAllowed, TableNotFound, TransactionEnded
from slackwater.log.files.commits import ParsedCommit
from slackwater.log.files.managed_log import catalog_required, list_managed_log, owner_of
from slackwater.log.files.segment import LogListing, list_log
from slackwater.owner.api.owner_registry import OwnedTable, is_attached
from slackwater.protocol.features.managed_commits import needs_owner_to_read
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore


class Table:
    """The table in `store`: its committed versions, or with a `branch` the versions visible to one transaction.

    `owned` names the commit owner if known, for example for a table of a lake opened by name. For a table opened by
    path, the owner is found from the metadata, among the owners open in this process. With `follows_outside`, files
    outside the root named by the log are opened, for example files of a shallow clone. Use this for trusted tables
    only. With `published_only`, a table with the feature catalogManaged is read without its catalog, as far as its
    commits are published.
    """

    def __init__(
        self,
        store: ObjectStore,
        owned: OwnedTable | None = None,
        branch: UncommittedVersions | None = None,
        follows_outside: bool = False,
        published_only: bool = False,
    ) -> None:
        self._store = store
        self._published_only = published_only
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
        published_only: bool = False,
    ) -> Table:
        """Return the table at a path or URL. The table may not exist. Raises as `open_store`."""
        store = open_store(path, storage_options)
        return cls(store, follows_outside=follows_outside, published_only=published_only)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location and the owner for another process.

        Raises OperationNotAllowed for a table of a transaction.
        """
        if self._branch is not None:
            raise OperationNotAllowed(f"{self.root_url}: a table in a transaction is visible only in this process")
        return Table, (self._store, self.owned, None, self._follows_outside, self._published_only)

    def __repr__(self) -> str:
        return f"<Table {self.root_url}>"

    @property
    def store(self) -> ObjectStore:
        """The store of the table's files."""
        return self._store

    @property
    def root_url(self) -> str:
        """The root URL of the table, for messages."""
        return self._store.root_url

    @property
    def location(self) -> str:
        """The location for display: a path of this machine, or a URL."""
        return self._store.local_root or self._store.root_url

    @property
    def owned(self) -> OwnedTable | None:
        """The table and its owner while the owner is open; None without a known owner."""
        if self._owned is not None and not is_attached(self._owned.owner):
            self._owned = None
        return self._owned

    @property
    def follows_outside(self) -> bool:
        """True if files outside the root named by the log are opened."""
        return self._follows_outside

    @property
    def branch(self) -> UncommittedVersions | None:
        """The uncommitted versions of a transaction, None for the committed table."""
        return self._branch

    def list_log(self, start_version: int = 0) -> LogListing:
        """List the log from `start_version` on, with the owner's commits not backfilled yet; see `segment.list_log`.

        Raises UnratifiedCommit if the log holds a commit not ratified by the owner, CommitOwnerUnavailable.
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

    def require_catalog(self, configuration: TableConfiguration) -> None:
        """Raise CommitOwnerRequired if only a catalog not open in this process knows the commits of a version.

        `configuration` is that of the version. Source: PROTOCOL.md "Reader Requirements for Catalog-managed tables".
        """
        if self._published_only or self._branch is not None or self.owned is not None:
            return
        if needs_owner_to_read(configuration):
            raise catalog_required(self.root_url, configuration)

    def find_owner(self, configuration: TableConfiguration) -> bool:
        """Find the owner from the `configuration` of a version. Return whether a previously unknown owner was found."""
        if self.owned is not None:
            return False
        self._owned = owner_of(self._store, configuration)
        if self._owned is None:
            # Only what was listed this moment may be looked at together with what the owner says.
            self._listed = None
        return self._owned is not None


class UncommittedVersions:
    """A version of a table, `base`, and the commits of a transaction on top, not visible to other transactions yet.

    A commit is applied when the transaction reads the table again.
    """

    def __init__(self, base: Any, transaction: Any = None) -> None:
        """Branch from `base`, a LogSnapshot or subclass; the newest version has the same class.

        `transaction` is the owning transaction. Only a weak reference to the transaction is stored.
        """
        self.table = Table(base.table.store, base.table.owned, self, base.table.follows_outside)
        """The table as the transaction has it."""
        self._newest = base.with_table(self.table)
        self._pending: list[Callable[[], ParsedCommit]] = []
        self._lock = threading.RLock()
        self._is_open = True
        self._transaction = weakref.ref(transaction) if transaction is not None else None
        self.joined: list[Any] = []
        """What made the commits, for the transaction, which makes one commit of them."""

    @property
    def newest(self) -> Any:
        """The snapshot of the newest version. Raises TransactionEnded, and the errors of a commit's actions."""
        with self._lock:
            self._require_open()
            while self._pending:
                self._newest = self._newest.with_commits([self._pending[0]()])
                del self._pending[0]
            return self._newest

    @property
    def newest_version(self) -> int:
        """The number of the newest version. Raises TransactionEnded."""
        with self._lock:
            self._require_open()
            return int(self._newest.version) + len(self._pending)

    def add(self, commit: Callable[[], ParsedCommit]) -> None:
        """Append a commit after the newest version. `commit` returns the commit, and is called if it is needed."""
        with self._lock:
            self._require_open()
            self._pending.append(commit)

    def _require_open(self) -> None:
        if not self._is_open:
            raise TransactionEnded(
                f"{self.table.root_url}: the transaction of this table was committed or rolled back. Begin another one"
            )

    def transaction(self) -> Any:
        """Return the owning transaction, None if unknown or garbage-collected."""
        return None if self._transaction is None else self._transaction()

    def close(self) -> None:
        """Close the branch and release its resources. Later reads and commits raise TransactionEnded."""
        with self._lock:
            self._is_open = False
            self._newest = None
            self._pending = []
            self.joined = []
