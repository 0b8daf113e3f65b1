"""Two-phase commit for transactions over several owners: durable votes, one decision, presumed abort.

Each owner votes for a range of timestamps at which it guarantees to commit. One owner is the coordinator. It records a
timestamp common to all ranges: this decision is the commit point. Each owner then applies the decision. Items of a vote
stay locked until the participant knows the decision, even after a crash. Source: paper §3.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from slackwater.errors import InvalidArgument, LockTimeout, SlackwaterError
from slackwater.owner.api.granules import locked
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    InDoubt,
    Item,
    LockRequest,
    TableRead,
    TableWrite,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.commit.idempotency import committed
from slackwater.owner.commit.pipeline import CommitPipeline
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import decisions, prepared
from slackwater.owner.lock_manager import LockManager
from slackwater.owner.locks import lock_queue, timestamp_reservations
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.shared_clock import read_clock

KEPT_MS = 30 * 86_400_000
"""Retention of a decision to abort. During this time no caller can decide otherwise."""

_WAIT_S = 10.0


class TwoPhaseCommit:
    """The owner as participant (`prepare`, `finish`, `in_doubt`) and as coordinator (`decide` and later calls)."""

    def __init__(
        self, database: Database, clock: OwnerClock, commits: CommitPipeline, locking: LockManager,
    ) -> None:  # fmt: skip
        self._database = database
        self._clock = clock
        self._commits = commits
        self._locking = locking

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        """Vote on a transaction. See `CommitOwner.prepare`."""
        # A vote is for a fixed version, so the commit must not move to a later version.
        request = replace(request, writes=[replace(write, may_move=False) for write in request.writes])
        earlier = self._earlier_vote(request.txn_id)
        if earlier is not None:
            # An equal request succeeded before, and its response was lost.
            return earlier
        try:
            self._commits.require_allowed(request)
            self._lock(request)
            outcome = self._database.write(lambda c: self._vote(c, request, coordinator_id))
        except IntegrityError:
            # Two equal requests ran concurrently.
            earlier = self._earlier_vote(request.txn_id)
            if earlier is None:
                raise
            return earlier
        except BaseException:
            self._commits.end(request.txn_id)
            raise
        if isinstance(outcome, SlackwaterError):
            self._commits.end(request.txn_id)
            raise outcome
        return outcome

    def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
        """Apply a decision. See `CommitOwner.finish`."""
        row = self._database.read(lambda c: _prepared(c, txn_id))
        if row is None:
            # The decision was applied before, or the vote was deleted.
            return None if timestamp_ms is None else self._database.read(lambda c: committed(c, txn_id))
        response = None
        if timestamp_ms is not None:
            request = _request_from_json(row.request)
            if not row.low_ms < timestamp_ms <= row.high_ms:
                raise InvalidArgument(
                    f"transaction {txn_id}: the decided timestamp {timestamp_ms} is outside the vote, which allows "
                    f"timestamps after {row.low_ms} up to {row.high_ms}"
                )
            decided = replace(request, range=TimestampRange(timestamp_ms - 1, timestamp_ms), is_replay=True)
            response = self._commits.commit_decided(decided)
        self._database.write(lambda c: _forget(c, txn_id))
        self._commits.wake()
        return response

    def _earlier_vote(self, txn_id: str) -> Vote | None:
        row = self._database.read(lambda c: _prepared(c, txn_id))
        return None if row is None else Vote(TimestampRange(row.low_ms, row.high_ms), self._now_ms())

    def in_doubt(self) -> list[InDoubt]:
        """Return the votes with unknown outcome. See `CommitOwner.in_doubt`."""
        rows = self._database.read(lambda c: c.execute(sa.select(prepared).order_by(prepared.c.voted_ms)).all())
        return [InDoubt(row.txn_id, row.coordinator_id, row.voted_ms) for row in rows]

    def decide(self, txn_id: str, timestamp_ms: int | None, participants: Sequence[str]) -> int | None:
        """Record a decision. See `CommitOwner.decide`."""

        def decided(connection: Connection) -> int | None:
            return self._decided(connection, txn_id, timestamp_ms, participants)

        try:
            return self._database.write(decided)
        except IntegrityError:
            # Another process decided concurrently.
            return self._database.write(decided)

    def decision(self, txn_id: str) -> int | None:
        """Return the decision. See `CommitOwner.decision`."""
        return self.decide(txn_id, None, ())

    def acknowledge(self, txn_id: str, participant_id: str) -> None:
        """Record an applied decision. See `CommitOwner.acknowledge`."""

        def acknowledged(connection: Connection) -> None:
            found = _decision(connection, txn_id)
            if found is None or found.timestamp_ms is None:
                # A decision to abort is retained, because a slow caller must not decide otherwise.
                return
            left = [each for each in found.participants.split(",") if each and each != participant_id]
            one = decisions.c.txn_id == txn_id
            if left:
                connection.execute(sa.update(decisions).where(one).values(participants=",".join(left)))
            else:
                connection.execute(sa.delete(decisions).where(one))

        self._database.write(acknowledged)

    def _lock(self, request: TransactionRequest) -> None:
        reads = [item for read in request.reads for item in locked(read.table_id, read.granules)]
        # Lock whole tables, because no other commit may take the version of the vote.
        writes = [Item(write.table_id) for write in request.writes]
        started_ms = request.range.low_ms + 1
        for items, is_exclusive in ((reads, False), (writes, True)):
            if items:
                self._locking.lock(LockRequest(request.txn_id, started_ms, items, is_exclusive, _WAIT_S))

    def _vote(
        self, connection: Connection, request: TransactionRequest, coordinator_id: str
    ) -> Vote | TransactionConflict | SlackwaterError:
        outcome, now_ms = self._commits.vote(connection, request)
        if isinstance(outcome, TransactionConflict):
            # The locks stay until the transaction ends or retries.
            return outcome
        if isinstance(outcome, SlackwaterError):
            return outcome
        if not lock_queue.renew(connection, request.txn_id, now_ms, now_ms):
            return LockTimeout(
                f"transaction {request.txn_id} lost its locks before its vote, because its lease was not renewed "
                "in time. Nothing was committed. Retry the transaction"
            )
        lock_queue.pin(connection, request.txn_id)
        connection.execute(
            sa.insert(prepared).values(
                txn_id=request.txn_id, coordinator_id=coordinator_id, low_ms=outcome.low_ms, high_ms=outcome.high_ms,
                voted_ms=now_ms, request=_request_to_json(request),
            )
        )  # fmt: skip
        return Vote(outcome, now_ms)

    def _decided(
        self, connection: Connection, txn_id: str, timestamp_ms: int | None, participants: Sequence[str]
    ) -> int | None:
        """Return the first decision, recording this one if there is none."""
        found = _decision(connection, txn_id)
        if found is not None:
            return None if found.timestamp_ms is None else int(found.timestamp_ms)
        now_ms = read_clock(connection, self._clock)
        connection.execute(
            sa.insert(decisions).values(
                txn_id=txn_id, timestamp_ms=timestamp_ms, decided_ms=now_ms, participants=",".join(participants)
            )
        )
        connection.execute(
            sa.delete(decisions).where(decisions.c.timestamp_ms.is_(None), decisions.c.decided_ms < now_ms - KEPT_MS)
        )
        return timestamp_ms

    def _now_ms(self) -> int:
        return self._database.read(lambda c: read_clock(c, self._clock))


def _decision(connection: Connection, txn_id: str) -> Any:
    return connection.execute(sa.select(decisions).where(decisions.c.txn_id == txn_id).with_for_update()).first()


def _prepared(connection: Connection, txn_id: str) -> Any:
    return connection.execute(sa.select(prepared).where(prepared.c.txn_id == txn_id)).first()


def _forget(connection: Connection, txn_id: str) -> None:
    connection.execute(sa.delete(prepared).where(prepared.c.txn_id == txn_id))
    lock_queue.release(connection, txn_id)
    timestamp_reservations.release(connection, txn_id)


# Independent of the wire form, because owners of earlier releases share the database and read and write such rows.
def _request_to_json(request: TransactionRequest) -> str:
    return orjson.dumps(
        {
            "txnId": request.txn_id,
            "range": [request.range.low_ms, request.range.high_ms],
            "reads": [[read.table_id, read.version, list(read.granules)] for read in request.reads],
            "writes": [[write.table_id, write.version, list(write.actions)] for write in request.writes],
        }
    ).decode()


def _request_from_json(text: str) -> TransactionRequest:
    found = orjson.loads(text)
    return TransactionRequest(
        found["txnId"],
        TimestampRange(*found["range"]),
        [TableRead(table_id, version, granules) for table_id, version, granules in found["reads"]],
        [TableWrite(table_id, version, actions) for table_id, version, actions in found["writes"]],
    )
