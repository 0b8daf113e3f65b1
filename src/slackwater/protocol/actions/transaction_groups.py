"""The action `transactionGroup`: the participants of a multi-table transaction, in the commit of each of them.

Readers ignore the action. No checkpoint and no log compaction contains it. Source: the RFC "Multi-Table Transactions"
(delta-io/delta issue 7437), "The `transactionGroup` Action", "Commit Protocol for Multi-Table Transactions".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from slackwater.errors import CorruptLog
from slackwater.protocol.actions.action_fields import required

ACTION = "transactionGroup"
"""The kind of the action."""
GROUP_TAG = "delta.multiTableTransaction.transactionId"
"""Commit tag with the transaction id, in the `commitInfo` of each participant."""

_FEWEST = 2


@dataclass(frozen=True, slots=True)
class Participant:
    """A table of a group, by its id at the coordinating catalog, and the version of its commit."""

    table_id: str
    version: int


@dataclass(frozen=True, slots=True)
class TransactionGroup:
    """The participants of one multi-table transaction: the same value in the commit of each participant."""

    transaction_id: str
    participants: tuple[Participant, ...]
    catalog: str

    @staticmethod
    def of(transaction_id: str, versions: Mapping[str, int], catalog: str) -> TransactionGroup:
        """Return the group of `versions` by table id, with the participants in the order of their ids."""
        parts = tuple(Participant(table_id, version) for table_id, version in sorted(versions.items()))
        return TransactionGroup(transaction_id, parts, catalog)

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> TransactionGroup:
        """Return the group in `node`.

        Raises CorruptLog, naming `where`, for a missing or malformed field, fewer than two participants, a table named
        twice, or a negative version.
        """
        found = required(node, "participants", list, where, ACTION)
        parts = tuple(
            Participant(
                required(part, "tableId", str, where, f"{ACTION}.participants"),
                required(part, "proposedVersion", int, where, f"{ACTION}.participants"),
            )
            for part in found
        )
        group = TransactionGroup(
            required(node, "transactionId", str, where, ACTION),
            parts,
            required(node, "coordinatingCatalog", str, where, ACTION),
        )
        if len(parts) < _FEWEST:
            raise CorruptLog(f"{where}: {ACTION} must have two or more participants, found {len(parts)}")
        if len(group.versions) < len(parts):
            raise CorruptLog(f"{where}: {ACTION} names a table twice among its participants")
        if min(part.version for part in parts) < 0:
            raise CorruptLog(f"{where}: {ACTION} has a participant with a negative proposedVersion")
        return group

    @staticmethod
    def among(actions: Iterable[Mapping[str, Any]], where: str) -> TransactionGroup | None:
        """Return the group of a commit with these `actions`, None without one. Raises as `from_json`."""
        for action in actions:
            if ACTION in action:
                return TransactionGroup.from_json(action[ACTION], where)
        return None

    @property
    def versions(self) -> dict[str, int]:
        """The versions of the participants, by table id."""
        return {part.table_id: part.version for part in self.participants}

    def at(self, versions: Mapping[str, int]) -> TransactionGroup:
        """Return the group with other `versions`, by table id."""
        return replace(self, participants=tuple(replace(p, version=versions[p.table_id]) for p in self.participants))

    def to_json(self) -> dict[str, Any]:
        """Return the `transactionGroup` action."""
        parts = [{"tableId": part.table_id, "proposedVersion": part.version} for part in self.participants]
        return {
            ACTION: {
                "transactionId": self.transaction_id,
                "participants": parts,
                "coordinatingCatalog": self.catalog,
            }
        }
