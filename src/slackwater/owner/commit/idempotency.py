"""Earlier results of repeated commits and transactions, from the owner's database.

Source: managed-commits.md "Commit Protocol" (a request may be repeated); docs/commit-owner.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.owner.api.commits import CommitResponse
from slackwater.owner.api.transactions import TransactionResponse
from slackwater.owner.commit.allocation_outcomes import (
    Attempt,
    Outcome,
    RetryAfterStaging,
    SearchLog,
    VersionsAllocated,
)
from slackwater.owner.database.schema import commits
from slackwater.owner.state.log_head import RATIFIED, Allocated, commit_of

_OF_TRANSACTIONS = sa.select(commits).where(commits.c.txn_id.in_(sa.bindparam("txn_ids", expanding=True)))
_OF_REQUESTS = sa.select(commits).where(
    commits.c.table_id.in_(sa.bindparam("table_ids", expanding=True)),
    commits.c.commit_id.in_(sa.bindparam("commit_ids", expanding=True)),
)


def rows_of(connection: Connection, txn_ids: Iterable[str]) -> dict[str, list[Row[Any]]]:
    """Return the rows of `commits` of each transaction, empty without versions or after a purge."""
    found: dict[str, list[Row[Any]]] = {txn_id: [] for txn_id in txn_ids}
    for row in connection.execute(_OF_TRANSACTIONS, {"txn_ids": sorted(found)}):
        found[row.txn_id].append(row)
    return found


def purged(rows: Mapping[str, Row[Any]], attempt: Attempt) -> SearchLog | None:
    """Return a log search if the row of an earlier result may have been purged, else None."""
    request = attempt.request
    if not request.is_replay or not request.writes:
        return None
    first = request.writes[0]
    row = rows.get(first.table_id)
    if row is None or row.purged_version < max(first.version, attempt.searched_version + 1):
        return None
    return SearchLog(row.purged_version, row.ratified_version)


def earlier_results(
    connection: Connection, rows: Mapping[str, Row[Any]], attempts: Sequence[Attempt]
) -> dict[str, Outcome]:
    """Return the outcomes of `attempts` with versions from an earlier request, by id.

    The ids of `attempts` are distinct. `rows` are the rows of their tables.
    """
    by_id = {attempt.request.txn_id: attempt for attempt in attempts}
    table_ids = {table_id for attempt in attempts for table_id in attempt.facts}
    found: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(_OF_REQUESTS, {"table_ids": sorted(table_ids), "commit_ids": sorted(by_id)}):
        if row.table_id in by_id[row.commit_id].facts:
            found[row.commit_id].append(row)
    return {commit_id: _result(rows, by_id[commit_id], own) for commit_id, own in found.items()}


def committed(connection: Connection, txn_id: str) -> TransactionResponse | None:
    """Return the response of a committed transaction, None if not committed or if its rows were purged."""
    rows = rows_of(connection, [txn_id])[txn_id]
    return _response_of(rows, {}) if rows and rows[0].state == RATIFIED else None


def _result(rows: Mapping[str, Row[Any]], attempt: Attempt, own: Sequence[Row[Any]]) -> Outcome:
    if own[0].state == RATIFIED:
        return _response_of(own, {row.table_id: rows[row.table_id].ratified_version for row in own})
    if attempt.file_id_of(own[0].table_id) in own[0].file_name:
        # An earlier run of this database transaction allocated the versions, and its result was lost.
        return VersionsAllocated(own[0].timestamp_ms, {row.table_id: _again(row, attempt) for row in own})
    return RetryAfterStaging()


def _response_of(rows: Sequence[Row[Any]], latest: Mapping[str, int]) -> TransactionResponse:
    """Return the response for all rows of a committed transaction. `latest` has versions by table, where known."""
    answers = {row.table_id: CommitResponse(commit_of(row), latest.get(row.table_id, row.version)) for row in rows}
    return TransactionResponse(rows[0].timestamp_ms, answers)


def _again(row: Row[Any], attempt: Attempt) -> Allocated:
    """Return the earlier allocation. The row id shift is computed again."""
    facts = attempt.facts[row.table_id]
    write = next(w for w in attempt.request.writes if w.table_id == row.table_id)
    moved = facts.mark is not None and row.mark is not None and row.version != write.version
    shift = int(row.mark) - int(facts.mark or 0) if moved else None
    return Allocated(row.version, row.timestamp_ms, row.file_name, shift)
