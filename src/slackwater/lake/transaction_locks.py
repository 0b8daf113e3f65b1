"""Locks of a multi-table transaction on whole tables, or on granules of partitions.

Source: paper §3.1 (two-phase locking); docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.errors import InvalidArgument
from slackwater.lake.read_view import LakeReadView
from slackwater.lake.transaction_resources import TransactionResources
from slackwater.owner.api.transactions import WHOLE, Item, LockRequest
from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql import parse_predicate
from slackwater.transaction.conflicts.granule_reads import granules_where

SHARED, EXCLUSIVE, GRANULES = "shared", "exclusive", "granules"


class TransactionLocks:
    """The locks of one transaction, which its owners hold until it ends.

    `by_table` has SHARED or EXCLUSIVE for each locked table by name, or GRANULES if only partitions are locked.
    """

    def __init__(
        self, lakes: LakeReadView, resources: TransactionResources, seniority_ms: int, timeout_s: float
    ) -> None:
        self.by_table: dict[str, str] = {}
        self._lakes = lakes
        self._resources = resources
        self._seniority_ms = seniority_ms
        self._timeout_s = timeout_s

    def lock_tables(self, names: Sequence[str], exclusive: bool) -> None:
        """Lock the tables `names`. Raises LockTimeout, DeadlockDetected, TableNotFound."""
        self._lock(dict.fromkeys(names, (WHOLE,)), exclusive)
        self.by_table |= dict.fromkeys(names, EXCLUSIVE if exclusive else SHARED)

    def lock_partitions(self, names: Sequence[str], where: str | Predicate, exclusive: bool) -> None:
        """Lock the granules in the partitions of `where`.

        Raises InvalidArgument if `where` does not select partitions, and as `lock_tables`.
        """
        self._lock({name: self._granules(name, where) for name in names}, exclusive)
        for name in names:
            self.by_table.setdefault(name, GRANULES)

    def _lock(self, granules: Mapping[str, Sequence[str]], exclusive: bool) -> None:
        self._resources.is_known_to_owner = True
        items: dict[str, list[Item]] = {}
        for name, wanted in granules.items():
            owned = self._lakes.of(name).owned
            items.setdefault(owned.owner.owner_id, []).extend(Item(owned.table_id, g) for g in wanted)
        txn_id = self._resources.txn_id
        for owner_id in sorted(items):
            owner = self._lakes.owners[owner_id]
            self._resources.lock_owners.setdefault(owner_id, owner)
            owner.lock(LockRequest(txn_id, self._seniority_ms, items[owner_id], exclusive, self._timeout_s))
        self._resources.keep_alive()
        if not self._resources.tables:
            # Nothing was read yet, so the read view can move to the current state.
            self._lakes.refresh()

    def _granules(self, name: str, where: str | Predicate) -> Sequence[str]:
        place = self._lakes.of(name)
        snapshot = place.snapshot(place.version)
        predicate = parse_predicate(where, snapshot.schema) if isinstance(where, str) else where
        granules = granules_where(snapshot, predicate)
        if WHOLE in granules:
            raise InvalidArgument(
                f"{name}: the condition must name values of a partition column "
                f"({', '.join(snapshot.metadata.partition_columns) or 'the table has none'}), as in day = DATE "
                f"'2026-11-21', found {where}"
            )
        return granules
