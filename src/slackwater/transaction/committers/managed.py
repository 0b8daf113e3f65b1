"""Commits through the table's owner, and those by which a table comes to an owner or leaves it.

Source: managed-commits.md "Commit Protocol", "Writer Requirements for Managed Commits".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.errors import CommitUnknown, MissingCommit, StorageError
from slackwater.log.commits import ParsedCommit, commits_after, parsed_commit
from slackwater.log.managed_log import commit_file, read_commits
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
    """Commits to the table in `store`, which `owned` names to its owner; nothing is written to `_delta_log` here."""

    def __init__(self, store: ObjectStore, owned: OwnedTable) -> None:
        self._store = store
        self._owned = owned

    @property
    def publishes_at_once(self) -> bool:
        return False

    def published_version(self, version: int) -> int:
        """As `Committer.published_version`; nothing is waited for."""
        # What is asked for is there already, so the owner only says how far it has come.
        return min(version, self._owned.owner.backfill_to_version(self._owned.table_id, 0))

    def commit(
        self, version: int, actions: Sequence[Mapping[str, Any]], may_move: bool = False
    ) -> Committed | Conflict:
        """As `Committer.commit`; raises as `CommitOwner.commit`."""
        return _answer(self._store, self._owned.owner.commit(self._request(version, actions, may_move)))

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:
        """As `Committer.commits_after`."""
        for _ in range(_MOST_LOOKS):
            backfilled = commits_after(self._store, version)
            reached = version + len(backfilled)
            response = self._owned.recent_commits(version + 1)
            recent = [commit for commit in response.commits if commit.version > reached]
            found = [*backfilled, *(_parsed(self._store, commit) for commit in recent)]
            # A backfill may have run in between; then the log has what the owner no longer names.
            if version + len(found) >= response.latest_version and _is_contiguous(found, version):
                return found
        raise MissingCommit(
            f"{self._store.root_url}: the commit owner has ratified version {response.latest_version}, but not all "
            f"commits after {version} can be found: run `slackwater lake repair`"
        )

    def _request(self, version: int, actions: Sequence[Mapping[str, Any]], may_move: bool) -> CommitRequest:
        return CommitRequest(self._owned.table_id, _commit_id(actions), version, actions, may_move)


class AdoptingCommitter:
    """Makes the table in `store` the owner's, as `name`, by its commit; others commit to the file system until then."""

    def __init__(self, store: ObjectStore, owned: OwnedTable, name: str) -> None:
        self._store = store
        self._owned = owned
        self._name = name

    @property
    def publishes_at_once(self) -> bool:
        return True

    def published_version(self, version: int) -> int:
        """As `Committer.published_version`: the commit that gives a table away is in the file system."""
        return version

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        may_move: bool = False,  # noqa: ARG002  (it does not)
    ) -> Committed | Conflict:
        """As `Committer.commit`; raises as `CommitOwner.take`, and ConcurrentWriteException for a forgotten version."""
        require_next(self._store, version)
        previous_ms, mark = None, None
        if version:
            before = Snapshot.open(self._store, version - 1)
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
        """As `Committer.commits_after`."""
        return commits_after(self._store, version)


class ReleasingCommitter(ManagedCommitter):
    """Hands the table back to the file system by its commit."""

    @property
    def publishes_at_once(self) -> bool:
        return True

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        may_move: bool = False,  # noqa: ARG002  (it does not)
    ) -> Committed | Conflict:
        """As `Committer.commit`; raises as `CommitOwner.release`."""
        return _answer(self._store, self._owned.owner.release(self._request(version, actions, False)))


def committed_by(store: ObjectStore, response: CommitResponse) -> ParsedCommit:
    """The commit that an owner answered with."""
    return _parsed(store, response.commit)


def _answer(store: ObjectStore, outcome: CommitResponse | CommitConflict) -> Committed | Conflict:
    if isinstance(outcome, CommitConflict):
        return Conflict(outcome.latest_version)
    try:
        return Committed(_parsed(store, outcome.commit))
    except StorageError as error:
        # A caller that thought that it did not land would delete its files.
        raise CommitUnknown(
            f"{store.root_url}: the commit landed as version {outcome.commit.version}, but could not be read back: "
            f"{error}"
        ) from error


def _parsed(store: ObjectStore, commit: Commit) -> ParsedCommit:
    file = commit_file(commit)
    return parsed_commit(store, commit.version, read_commits(store, [file])[0], file=file)


def _commit_id(actions: Sequence[Mapping[str, Any]]) -> str:
    found: str = actions[0]["commitInfo"]["txnId"]
    return found


def _is_contiguous(found: Sequence[ParsedCommit], version: int) -> bool:
    return [commit.version for commit in found] == list(range(version + 1, version + 1 + len(found)))
