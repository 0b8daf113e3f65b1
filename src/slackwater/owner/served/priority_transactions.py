"""Which transactions may hold locks: others may wait for them, so they must not wait behind those others."""

from __future__ import annotations

from collections import OrderedDict

_MOST = 65_536


class LockHolders:
    """Transactions, by id, that asked this server for locks and have not ended; the latest `most` of them.

    Of one that is not known any more nothing goes wrong: its commit queues as others do.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, txn_id: str) -> bool:
        return txn_id in self._ids

    def add(self, txn_id: str) -> None:
        """Others may wait for the transaction from now on."""
        self._ids[txn_id] = None
        self._ids.move_to_end(txn_id)
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)

    def remove(self, txn_id: str) -> None:
        """The transaction has ended."""
        self._ids.pop(txn_id, None)
