"""Branches: what a transaction over many tables has done to one of them, which nobody else sees yet.

A branch belongs to one store object: whoever reads the table's newest version through it reads the branch.
"""

from __future__ import annotations

import weakref
from typing import Any

from slackwater.errors import TransactionEnded
from slackwater.log.commits import ParsedCommit
from slackwater.storage.store import ObjectStore


class Branch:
    """A version of a table, `base`, and the commits of a transaction on top of it."""

    def __init__(self, base: Any, transaction: Any = None) -> None:
        """`base` is a LogSnapshot, or a kind of it: the newest version stays of that kind.

        `transaction` is what the branch is part of, and is not kept alive by it.
        """
        self._root_url = base.store.root_url
        self._newest = base
        self._is_open = True
        self._transaction = weakref.ref(transaction) if transaction is not None else None
        self.joined: list[Any] = []
        """What made the commits, for whoever makes one commit of them."""

    @property
    def newest(self) -> Any:
        """The snapshot of the newest version. Raises TransactionEnded."""
        if not self._is_open:
            raise TransactionEnded(
                f"{self._root_url}: the transaction that this table belongs to was committed or rolled back: "
                "begin another one"
            )
        return self._newest

    def add(self, commit: ParsedCommit) -> None:
        """Let `commit`, which follows the newest version, be part of it."""
        self._newest = self.newest.after([commit])

    def transaction(self) -> Any:
        """What the branch is part of; None where that is not known, or gone."""
        return None if self._transaction is None else self._transaction()

    def close(self) -> None:
        """Nothing is read or committed through it any more; what it holds is let go of."""
        self._is_open = False
        self._newest = None
        self.joined = []


_branches: weakref.WeakKeyDictionary[Any, Branch] = weakref.WeakKeyDictionary()


def begin_branch(store: ObjectStore, branch: Branch) -> None:
    """Let `branch` be what is read and committed to through `store`, this very object."""
    _branches[store] = branch


def branch_of(store: ObjectStore) -> Branch | None:
    """The branch that `store` stands for; None for a table as everybody sees it."""
    return _branches.get(store) if _branches else None
