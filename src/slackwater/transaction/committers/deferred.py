"""Commits to a branch, in memory until the enclosing transaction commits.

Source: paper §4.2.1 (a transaction sees its own updates before it has a timestamp); docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from slackwater.errors import UnsupportedFeature
from slackwater.log.files.commits import ParsedCommit, parsed_commit
from slackwater.log.table import UncommittedVersions
from slackwater.protocol.actions.commit_info import CommitInfo
from slackwater.protocol.actions.paths import canonical_path
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.committer import Committed, Conflict
from slackwater.transaction.staged_transaction import StagedTransaction


@dataclass(frozen=True, slots=True)
class DeferredCommit:
    """A commit to a branch: the staged transaction and its `commitInfo`."""

    transaction: StagedTransaction
    info: CommitInfo


class DeferringCommitter:
    """Commits to the branch of one table. The branch records each commit as a DeferredCommit."""

    def __init__(self, branch: UncommittedVersions) -> None:
        self._branch = branch

    @property
    def publishes_at_once(self) -> bool:
        return False

    def published_version(self, version: int) -> int:  # noqa: ARG002  (a branch is never published)
        """Return 0, because a branch needs no log maintenance. See `Committer.published_version`."""
        return 0

    def defer(
        self,
        transaction: StagedTransaction,
        info: CommitInfo,
        version: int,
        actions: Callable[[], Sequence[Mapping[str, Any]]],
    ) -> bool:
        """See `TransactionScopedCommitter.defer`."""
        branch = self._branch
        if version != branch.newest_version + 1:
            return False
        for earlier in branch.joined:
            _validate_together(branch, earlier.transaction, transaction)

        def commit() -> ParsedCommit:
            # The branch contains the actions in the form read from a log.
            return parsed_commit(branch.table.store, version, b"\n".join(orjson.dumps(each) for each in actions()))

        if transaction.staged.has_adds and row_tracking.assigns_row_ids(_table_after(transaction)):
            # Report a file without a number of records now, not when the table is read again.
            made = commit()
            branch.add(lambda: made)
        else:
            branch.add(commit)
        branch.joined.append(DeferredCommit(transaction, info))
        return True

    def commit(
        self,
        version: int,  # noqa: ARG002  (every commit to a branch is deferred)
        actions: Sequence[Mapping[str, Any]],  # noqa: ARG002
        may_move: bool = False,  # noqa: ARG002
    ) -> Committed | Conflict:
        """Raise TypeError, because a commit to a branch has a staged transaction: see `defer`."""
        raise TypeError("a branch takes commits by `defer`")

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:  # noqa: ARG002  (a branch has no other writers)
        """Return no commits, because a branch has no other writers. See `Committer.commits_after`."""
        return ()


def _table_after(transaction: StagedTransaction) -> TableConfiguration:
    before = transaction.read_snapshot
    return transaction.staged.table_after(None if before is None else before.configuration)


def _validate_together(branch: UncommittedVersions, earlier: StagedTransaction, later: StagedTransaction) -> None:
    """Raise UnsupportedFeature if one commit cannot contain both changes of one table."""
    where = branch.table.root_url
    both_change = earlier.staged.changes_data and later.staged.changes_data
    has_change_files = earlier.staged.change_files or later.staged.change_files
    if not (both_change and has_change_files) and not later.staged.removes:
        return
    newest: Snapshot = branch.newest
    if both_change and has_change_files and newest.configuration.is_active("changeDataFeed"):
        raise UnsupportedFeature(
            f"{where}: in one transaction, a table with a change data feed allows one change of rows, or several "
            "appends. Write it as one MERGE, or in two transactions"
        )
    if not row_tracking.is_enabled(newest.configuration):
        return
    # Rewritten rows retain their row ids, but only the final commit assigns the ids.
    added = {canonical_path(add.path) for add in earlier.staged.adds}
    if any(canonical_path(remove.path) in added for remove in later.staged.removes):
        raise UnsupportedFeature(
            f"{where}: in a table with row tracking, a transaction cannot change rows that it wrote itself. Write it "
            "as one MERGE, or in two transactions"
        )
