"""Commits to a branch, in memory until the enclosing transaction commits.

Source: paper §4.2.1 (a transaction sees its own updates before it has a timestamp); docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from slackwater.errors import UnsupportedFeature
from slackwater.log.files.commits import ParsedCommit, parsed_commit
from slackwater.log.table import UncommittedVersions
from slackwater.protocol.actions.commit_info import CommitInfo
from slackwater.protocol.actions.paths import canonical_path
from slackwater.protocol.features import row_tracking
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
        self._next: DeferredCommit | None = None

    @property
    def publishes_at_once(self) -> bool:
        return False

    def published_version(self, version: int) -> int:  # noqa: ARG002  (a branch is never published)
        """Return 0, because a branch needs no log maintenance. See `Committer.published_version`."""
        return 0

    def join(self, transaction: StagedTransaction, info: CommitInfo) -> None:
        """See `TransactionScopedCommitter.join`."""
        for earlier in self._branch.joined:
            _validate_together(self._branch.newest, earlier.transaction, transaction)
        self._next = DeferredCommit(transaction, info)

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        may_move: bool = False,  # noqa: ARG002  (there is no other writer)
    ) -> Committed | Conflict:
        """Append the commit to the branch. Nothing is written. See `Committer.commit`."""
        newest = self._branch.newest.version
        if version != newest + 1:
            return Conflict(newest)
        # The branch contains the actions in the form read from a log.
        data = b"\n".join(orjson.dumps(action) for action in actions)
        commit = parsed_commit(self._branch.table.store, version, data)
        self._branch.add(commit)
        if self._next is not None:
            self._branch.joined.append(self._next)
            self._next = None
        return Committed(commit)

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:  # noqa: ARG002  (a branch has no other writers)
        """Return no commits, because a branch has no other writers. See `Committer.commits_after`."""
        return ()


def _validate_together(newest: Snapshot, earlier: StagedTransaction, later: StagedTransaction) -> None:
    """Raise UnsupportedFeature if one commit cannot contain both changes of one table."""
    where = newest.store.root_url
    both_change = earlier.staged.changes_data and later.staged.changes_data
    if (
        both_change
        and newest.configuration.is_active("changeDataFeed")
        and (earlier.staged.change_files or later.staged.change_files)
    ):
        raise UnsupportedFeature(
            f"{where}: a table with a change data feed takes one change of rows in a transaction, or several appends: "
            "say it as one MERGE, or in two transactions"
        )
    if not row_tracking.is_enabled(newest.configuration):
        return
    # Rewritten rows retain their row ids, but only the final commit assigns the ids.
    added = {canonical_path(add.path) for add in earlier.staged.adds}
    if any(canonical_path(remove.path) in added for remove in later.staged.removes):
        raise UnsupportedFeature(
            f"{where}: in a table with row tracking a transaction cannot change rows that it has written itself: say "
            "it as one MERGE, or in two transactions"
        )
