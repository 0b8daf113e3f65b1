"""Transactions with locks. Other transactions may wait for them, so their commits have priority."""

from __future__ import annotations

from collections import OrderedDict

_MOST = 65_536


class LockHolders:
    """Ids of active transactions with lock requests at this server, limited to the latest `most`.

    A commit of a forgotten transaction still works, but has no priority.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, txn_id: str) -> bool:
        return txn_id in self._ids

    def add(self, txn_id: str) -> None:
        """Add a transaction, because other transactions may wait for it."""
        self._ids[txn_id] = None
        self._ids.move_to_end(txn_id)
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)

    def remove(self, txn_id: str) -> None:
        """Remove an ended transaction."""
        self._ids.pop(txn_id, None)
