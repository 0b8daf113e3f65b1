"""The calls of a commit owner that a catalog without transactions over several tables does not offer.

Source: docs/guides/unity-catalog.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.errors import OperationNotAllowed
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.api.monitoring import Activity, RecentCommit
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    Cut,
    InDoubt,
    LockRequest,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)


class SingleTableOwner:
    """A commit owner that commits to one table at a time. All other calls raise OperationNotAllowed."""

    def __init__(self, description: str) -> None:
        """`description` names the catalog in messages."""
        self._description = description

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        """Raise OperationNotAllowed."""
        del timestamp_ms
        raise self._no_transactions()

    def narrow(self, request: TimeRequest) -> TimestampRange:
        """Raise OperationNotAllowed."""
        del request
        raise self._no_transactions()

    def lock(self, request: LockRequest) -> None:
        """Raise OperationNotAllowed."""
        del request
        raise self._no_transactions()

    def keep_alive(self, txn_id: str) -> None:
        """Raise OperationNotAllowed."""
        del txn_id
        raise self._no_transactions()

    def commit_transaction(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        """Raise OperationNotAllowed."""
        del request
        raise self._no_transactions()

    def end(self, txn_id: str) -> None:
        """Do nothing, because there is no transaction."""

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        """Raise OperationNotAllowed."""
        del request, coordinator_id
        raise self._no_transactions()

    def decide(self, txn_id: str, timestamp_ms: int | None, participants: Sequence[str]) -> int | None:
        """Raise OperationNotAllowed."""
        del txn_id, timestamp_ms, participants
        raise self._no_transactions()

    def decision(self, txn_id: str) -> int | None:
        """Raise OperationNotAllowed."""
        del txn_id
        raise self._no_transactions()

    def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
        """Raise OperationNotAllowed."""
        del txn_id, timestamp_ms
        raise self._no_transactions()

    def acknowledge(self, txn_id: str, participant_id: str) -> None:
        """Raise OperationNotAllowed."""
        del txn_id, participant_id
        raise self._no_transactions()

    def in_doubt(self) -> list[InDoubt]:
        """Return no transactions."""
        return []

    def activity(self) -> Activity:
        """Raise OperationNotAllowed."""
        raise self._unsupported("report their activity")

    def recent_commits(self, limit: int = 50) -> list[RecentCommit]:
        """Raise OperationNotAllowed."""
        del limit
        raise self._unsupported("list the commits of all tables")

    def release(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """Raise OperationNotAllowed."""
        del request
        raise self._unsupported("release tables to the file system")

    def _unsupported(self, what: str) -> OperationNotAllowed:
        return OperationNotAllowed(f"catalogs such as {self._description} cannot {what}")

    def _no_transactions(self) -> OperationNotAllowed:
        return OperationNotAllowed(
            f"{self._description} has no transactions over several tables, locks or time slices. Write and read its "
            "tables one by one, or connect to `slackwater serve`"
        )
