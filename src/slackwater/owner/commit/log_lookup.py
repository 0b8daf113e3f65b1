"""Outcomes of commits from the tables' logs, for commits with purged database rows.

Source: managed-commits.md "Commit Protocol" (a request may be repeated); docs/commit-owner.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from slackwater.errors import CommitUnknown, StorageError
from slackwater.owner.api.commits import CommitResponse
from slackwater.owner.api.transactions import TableWrite, TransactionResponse
from slackwater.owner.commit.allocation_outcomes import Attempt, SearchLog
from slackwater.owner.commit.ratification import StagedCommits
from slackwater.owner.state.commit_files import backfilled_commit, transaction_at
from slackwater.storage.store import ObjectStore

StoreOf = Callable[[str], ObjectStore]


def is_in_log(store_of: StoreOf, staged: StagedCommits) -> bool:
    """Return whether the log contains one of the commits. In this case all are committed. Raises CommitUnknown."""
    try:
        return any(transaction_at(store_of(f.table_id), f.version) == staged.commit_id for f in staged.files)
    except StorageError as error:
        # CommitUnknown, so that no caller deletes files of a possibly committed version.
        raise CommitUnknown(
            f"{staged.who}: the outcome is unknown, because the log could not be read: {error}. Retry the request"
        ) from error


def find_earlier_result(store_of: StoreOf, attempt: Attempt, purged: SearchLog) -> TransactionResponse | None:
    """Return the first result of a repeated request, None if there is none. Raises CommitUnknown."""
    request = attempt.request
    first = request.writes[0]
    found: dict[str, CommitResponse] = {}
    try:
        for write in request.writes:
            if write is first:
                start = max(write.version, attempt.searched_version + 1)
                end = purged.version if write.may_move else write.version
                own = _found(store_of, request.txn_id, write, start, end)
            else:
                # The end of the search is known for the first table only.
                own = _found(store_of, request.txn_id, write, write.version, None)
            if own is None:
                return None
            found[write.table_id] = own
    except StorageError as error:
        raise CommitUnknown(
            f"{attempt.who}: the outcome of an earlier, equal request is unknown, because the log could not be "
            f"read: {error}. Retry the request"
        ) from error
    answer = found[first.table_id]
    found[first.table_id] = replace(answer, latest_version=max(purged.latest_version, answer.latest_version))
    return TransactionResponse(answer.commit.timestamp_ms, found)


def completed(store_of: StoreOf, attempt: Attempt, response: TransactionResponse) -> TransactionResponse:
    """Return the response, extended by commits with purged rows. Raises CommitUnknown."""
    missing = [write for write in attempt.request.writes if write.table_id not in response.commits]
    if not missing:
        return response
    try:
        found = {w.table_id: _found(store_of, attempt.request.txn_id, w, w.version, None) for w in missing}
    except StorageError as error:
        raise CommitUnknown(
            f"{attempt.who} is committed, but its versions are unknown, because the logs of its tables could not "
            f"be read: {error}. Retry the request"
        ) from error
    own = {table_id: answer for table_id, answer in found.items() if answer is not None}
    return replace(response, commits={**response.commits, **own})


def _found(store_of: StoreOf, commit_id: str, write: TableWrite, start: int, end: int | None) -> CommitResponse | None:
    """Return the commit in the versions from `start` to `end`, or to the last version in the log if `end` is None."""
    store = store_of(write.table_id)
    for version in itertools.count(start) if end is None else range(start, end + 1):
        found = transaction_at(store, version)
        if found == commit_id:
            return CommitResponse(backfilled_commit(store, version), version)
        if found is None and end is None:
            return None
    return None
