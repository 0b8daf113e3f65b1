"""Ratified commits not yet in `_delta_log`, and the latest version of a table, for readers.

Source: managed-commits.md "Getting Un-backfilled Commits from Commit Owner".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.errors import ObjectNotFound, TableNotFound
from slackwater.owner.api.commits import LATEST, Commit, GetCommitsResponse, TableState
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, tables
from slackwater.owner.state.log_head import RATIFIED, commit_of
from slackwater.protocol.actions.file_names import commit_path, staged_path
from slackwater.storage.store import ObjectStore

_STATE = sa.select(tables.c.state, tables.c.ratified_version, tables.c.backfilled_version).where(
    tables.c.table_id == sa.bindparam("of_table")
)
_LARGEST_INLINE_BYTES = 1 << 20
_MOST_INLINE_BYTES = 16 << 20


class UnbackfilledCommits:
    """Implements `get_commits`. The contents of files come from the table's store.

    `resume` completes the transfer of a table, because only then the outcome of its last version is known.
    """

    def __init__(
        self, database: Database, store_of: Callable[[str], ObjectStore], resume: Callable[[str], object]
    ) -> None:
        self._database = database
        self._store_of = store_of
        self._resume = resume

    def get(self, table_id: str, start: int, end: int, with_data: bool) -> GetCommitsResponse:
        """Return the unbackfilled commits of a range. See `CommitOwner.get_commits`."""
        response = self._database.read(lambda c: _ratified(c, table_id, start, end))
        if response is None:
            self._resume(table_id)
            response = self._database.read(lambda c: _ratified(c, table_id, start, end, in_transfer=True))
        if response is None:
            raise TableNotFound(f"the commit owner has no table {table_id}")
        if not with_data or not response.commits:
            return response
        return GetCommitsResponse(self._with_data(table_id, list(response.commits)), response.latest_version)

    def _with_data(self, table_id: str, found: list[Commit]) -> list[Commit]:
        """Return the commits, with content for the first and small ones."""
        store = self._store_of(table_id)
        inline: list[Commit] = []
        total = 0
        for commit in found:
            total += commit.size_bytes
            if total > _MOST_INLINE_BYTES:
                break
            if commit.size_bytes <= _LARGEST_INLINE_BYTES:
                inline.append(commit)
        try:
            contents = store.read_many([staged_path(commit.file_name) for commit in inline])
        except ObjectNotFound:
            # The files were backfilled and deleted since. `_delta_log` has the same content.
            contents = [_either(store, commit) for commit in inline]
        data = {commit.version: content for commit, content in zip(inline, contents, strict=True)}
        return [replace(commit, data=data.get(commit.version)) for commit in found]


def _either(store: ObjectStore, commit: Commit) -> bytes:
    try:
        return store.read(staged_path(commit.file_name))
    except ObjectNotFound:
        return store.read(commit_path(commit.version))


def _ratified(
    connection: Connection, table_id: str, start: int, end: int, in_transfer: bool = False
) -> GetCommitsResponse | None:
    """Return the response, None for a table in transfer unless `in_transfer`. Raises TableNotFound."""
    row = connection.execute(_STATE, {"of_table": table_id}).first()
    if row is None or row.state == TableState.RELEASED.value:
        raise TableNotFound(f"the commit owner has no table {table_id}")
    if row.state != TableState.ACTIVE.value and not in_transfer:
        return None
    last = row.ratified_version if end == LATEST else min(end, row.ratified_version)
    first = max(start, row.backfilled_version + 1)
    if first > last:
        return GetCommitsResponse((), row.ratified_version)
    found = connection.execute(
        sa.select(commits)
        .where(commits.c.table_id == table_id, commits.c.version.between(first, last), commits.c.state == RATIFIED)
        .order_by(commits.c.version)
    ).all()
    return GetCommitsResponse([commit_of(commit) for commit in found], row.ratified_version)
