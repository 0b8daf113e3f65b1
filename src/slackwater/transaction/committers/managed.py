"""Commits through the table's commit owner, and commits that adopt or release a table.

Source: managed-commits.md "Commit Protocol", "Writer Requirements for Managed Commits".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.errors import CommitUnknown, MissingCommit, StorageError
from slackwater.log.files.commits import ParsedCommit, commits_after, parsed_commit
from slackwater.log.files.managed_log import commit_file, read_commits
from slackwater.log.table import Table
from slackwater.owner.api.commits import Commit, CommitConflict, CommitRequest, CommitResponse, OwnershipProposal
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.protocol.features import row_tracking
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore
from slackwater.transaction.committer import Committed, Conflict
from slackwater.transaction.committers.truncated_versions import require_next
from slackwater.transaction.rows.row_id_high_water import highest_row_id

_MOST_LOOKS = 20


class ManagedCommitter:
    """Commits to the table in `store` through its owner. `owned` identifies the table to the owner.

    This class does not write to `_delta_log`.
    """

    def __init__(self, store: ObjectStore, owned: OwnedTable) -> None:
        self._store = store
        self._owned = owned

    @property
    def publishes_at_once(self) -> bool:
        return False

    def published_version(self, version: int) -> int:
        """Return the newest backfilled version up to `version`, without waiting. See `Committer.published_version`."""
        # Version 0 is backfilled already, so the owner only returns its progress.
        return min(version, self._owned.owner.backfill_to_version(self._owned.table_id, 0))

    def commit(
        self, version: int, actions: Sequence[Mapping[str, Any]], may_move: bool = False
    ) -> Committed | Conflict:
        """See `Committer.commit`. Raises the errors of `CommitOwner.commit`."""
        return _answer(self._store, self._owned.owner.commit(self._request(version, actions, may_move)))

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:
        """See `Committer.commits_after`. Raises MissingCommit if the owner's commits cannot all be found."""
        for _ in range(_MOST_LOOKS):
            backfilled = commits_after(self._store, version)
            reached = version + len(backfilled)
            response = self._owned.recent_commits(version + 1)
            recent = [commit for commit in response.commits if commit.version > reached]
            found = [*backfilled, *(_parsed(self._store, commit) for commit in recent)]
            # A concurrent backfill moves commits from the owner's list to the log, so read both again.
            if version + len(found) >= response.latest_version and _is_contiguous(found, version):
                return found
        raise MissingCommit(
            f"{self._store.root_url}: the commit owner ratified version {response.latest_version}, but not all "
            f"commits after {version} can be found. Run `slackwater lake repair`"
        )

    def _request(self, version: int, actions: Sequence[Mapping[str, Any]], may_move: bool) -> CommitRequest:
        return CommitRequest(self._owned.table_id, _commit_id(actions), version, actions, may_move)


class AdoptingCommitter:
    """Commits the adoption of the table in `store` by the commit owner, under `name`.

    Until then other writers commit to the file system.
    """

    def __init__(self, store: ObjectStore, owned: OwnedTable, name: str) -> None:
        self._store = store
        self._owned = owned
        self._name = name

    @property
    def publishes_at_once(self) -> bool:
        return True

    def published_version(self, version: int) -> int:
        """Return `version`, because the adopting commit is in the file system. See `Committer.published_version`."""
        return version

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        may_move: bool = False,  # noqa: ARG002  (it does not)
    ) -> Committed | Conflict:
        """See `Committer.commit`. Raises the errors of `CommitOwner.take`.

        Raises ConcurrentWriteException if log cleanup removed the version.
        """
        require_next(self._store, version)
        previous_ms, mark = None, None
        if version:
            before = Snapshot.open(Table(self._store, published_only=True), version - 1)
            previous_ms = before.timestamp_ms
            mark = highest_row_id(before) if row_tracking.is_supported(before.configuration) else None
        outcome = self._owned.owner.take(
            OwnershipProposal(
                self._owned.table_id, self._name, self._store.root_url, _commit_id(actions), version, actions,
                previous_ms, mark,
            )
        )  # fmt: skip
        return _answer(self._store, outcome)

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:
        """See `Committer.commits_after`."""
        return commits_after(self._store, version)


class ReleasingCommitter(ManagedCommitter):
    """Commits the release of the table to the file system."""

    @property
    def publishes_at_once(self) -> bool:
        return True

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        may_move: bool = False,  # noqa: ARG002  (it does not)
    ) -> Committed | Conflict:
        """See `Committer.commit`. Raises the errors of `CommitOwner.release`."""
        return _answer(self._store, self._owned.owner.release(self._request(version, actions, False)))


def committed_by(store: ObjectStore, response: CommitResponse) -> ParsedCommit:
    """Return the parsed commit of an owner's response."""
    return _parsed(store, response.commit)


def _answer(store: ObjectStore, outcome: CommitResponse | CommitConflict) -> Committed | Conflict:
    if isinstance(outcome, CommitConflict):
        return Conflict(outcome.latest_version)
    try:
        return Committed(_parsed(store, outcome.commit))
    except StorageError as error:
        # Any other error would let the caller delete the files of a valid commit.
        raise CommitUnknown(
            f"{store.root_url}: the commit became version {outcome.commit.version}, but could not be read back: {error}"
        ) from error


def _parsed(store: ObjectStore, commit: Commit) -> ParsedCommit:
    file = commit_file(commit)
    return parsed_commit(store, commit.version, read_commits(store, [file])[0], file=file)


def _commit_id(actions: Sequence[Mapping[str, Any]]) -> str:
    found: str = actions[0]["commitInfo"]["txnId"]
    return found


def _is_contiguous(found: Sequence[ParsedCommit], version: int) -> bool:
    return [commit.version for commit in found] == list(range(version + 1, version + 1 + len(found)))
