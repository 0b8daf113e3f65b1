"""Transactions that are asked for again: what became of them the first time.

Source: managed-commits.md "Commit Protocol" (a request may be repeated); docs/commit-owner.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.owner.api.commits import CommitResponse
from slackwater.owner.api.transactions import TransactionResponse
from slackwater.owner.commit.allocation import InFlight, Purged
from slackwater.owner.commit.joint_attempts import JointAllocated, JointAttempt, Outcome
from slackwater.owner.database.schema import commits
from slackwater.owner.state.heads import RATIFIED, Allocated, commit_of

_OF_TRANSACTIONS = sa.select(commits).where(commits.c.txn_id.in_(sa.bindparam("txn_ids", expanding=True)))


def rows_of(connection: Connection, txn_ids: Iterable[str]) -> dict[str, list[Row[Any]]]:
    """The rows of `commits` of each transaction, none of one that has no versions, or whose rows are gone."""
    found: dict[str, list[Row[Any]]] = {txn_id: [] for txn_id in txn_ids}
    for row in connection.execute(_OF_TRANSACTIONS, {"txn_ids": sorted(found)}):
        found[row.txn_id].append(row)
    return found


def purged(rows: Mapping[str, Row[Any]], attempt: JointAttempt) -> Purged | None:
    """Where the log is yet to be searched for an earlier result: the row that told of it may be gone."""
    request = attempt.request
    if not request.is_replay or not request.writes:
        return None
    first = request.writes[0]
    row = rows.get(first.table_id)
    if row is None or row.purged_version < max(first.version, attempt.searched_version + 1):
        return None
    return Purged(row.purged_version, row.ratified_version)


def earlier_results(connection: Connection, attempts: Sequence[JointAttempt]) -> dict[str, Outcome]:
    """What became of those of `attempts` whose commits were given versions before."""
    by_id = {attempt.request.txn_id: attempt for attempt in attempts}
    results: dict[str, Outcome] = {}
    for txn_id, rows in rows_of(connection, by_id).items():
        attempt = by_id[txn_id]
        if not rows:
            continue
        if rows[0].state == RATIFIED:
            results[txn_id] = response_of(rows)
        elif attempt.file_id in rows[0].file_name:
            parts = {row.table_id: _again(row, attempt) for row in rows}
            results[txn_id] = JointAllocated(rows[0].timestamp_ms, parts)
        else:
            results[txn_id] = InFlight()
    return results


def committed(connection: Connection, txn_id: str) -> TransactionResponse | None:
    """The answer to a transaction that counts, None for one that does not, or of which no row tells any more."""
    rows = rows_of(connection, [txn_id])[txn_id]
    return response_of(rows) if rows and rows[0].state == RATIFIED else None


def response_of(rows: Sequence[Row[Any]]) -> TransactionResponse:
    """The answer to a transaction whose rows of `commits` these are, all ratified."""
    return TransactionResponse(
        rows[0].timestamp_ms, {row.table_id: CommitResponse(commit_of(row), row.version) for row in rows}
    )


def _again(row: Row[Any], attempt: JointAttempt) -> Allocated:
    """What a run of this very database transaction gave out whose answer was lost."""
    facts = attempt.facts[row.table_id]
    write = next(w for w in attempt.request.writes if w.table_id == row.table_id)
    moved = facts.mark is not None and row.mark is not None and row.version != write.version
    shift = int(row.mark) - int(facts.mark or 0) if moved else None
    return Allocated(row.version, row.timestamp_ms, row.file_name, shift)
