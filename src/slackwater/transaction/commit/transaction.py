"""A transaction of one table, and its commit in competition with other writers.

Source: delta-protocol.md "Requirements for Writers"; docs/architecture.md "The life of a write".
"""

from __future__ import annotations

from collections.abc import Mapping

from slackwater.errors import CommitUnknown, InvalidArgument, SlackwaterError
from slackwater.protocol.actions.commit_info import CommitInfo
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.commit_validation import prepare
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.conflicts.commit_loop import CommitLoop
from slackwater.transaction.conflicts.isolation import IsolationLevel, isolation_level
from slackwater.transaction.rows.bulk_file_stream import StreamNotReplayable
from slackwater.transaction.staged_transaction import StagedTransaction
from slackwater.version import __version__

ENGINE_INFO = f"Slackwater/{__version__}"


class TableTransaction(StagedTransaction):
    """Work on one table that becomes the table's next version.

    Nothing is visible to other readers before `commit` returns. A transaction commits once.
    """

    _done = False

    @property
    def is_done(self) -> bool:
        """Return whether a commit was started."""
        return self._done

    def commit(
        self,
        operation: str,
        parameters: Mapping[str, str] | None = None,
        metrics: Mapping[str, str] | None = None,
        user_metadata: str | None = None,
        tags: Mapping[str, str] | None = None,
        user_name: str | None = None,
    ) -> CommitResult:
        """Commit the staged actions as the next version. `user_name` None means the user of this process.

        If other writers took the version, the commit is rebased onto the winning commits. A winning commit that touches
        what the transaction read or changes is a conflict. The history records `operation`, `parameters`, `metrics`,
        `user_metadata` and `tags`.

        Raises:
            DeltaConcurrentModificationException: If a winning commit conflicts. The subclass names the conflict.
            CommitFailed: If the store rejected the commit.
            CommitUnknown: If the outcome is unknown. After any other error the commit failed without effect.
            UnsupportedFeature: If this package cannot write the table, before the first attempt.
            OperationNotAllowed: If the table does not permit a staged action, before the first attempt.
            InvalidArgument: If staged actions are invalid, before the first attempt.
        """
        told = operation, parameters, metrics, user_metadata, tags
        try:
            return self._run(self.prepared(*told, user_name=user_name))
        except StreamNotReplayable:
            # Nothing was written. Files in memory give a precise error, or commit without a stream.
            self.staged.hold(self.clock.now_ms())
            self._done = False
            return self._run(self.prepared(*told, user_name=user_name))

    def _run(self, race: CommitLoop) -> CommitResult:
        try:
            return race.run()
        except SlackwaterError as error:
            if isinstance(error, CommitUnknown):
                self.keep_vectors()
            raise
        except BaseException:
            # The outcome is unknown, so vectors that the commit may refer to remain.
            self.keep_vectors()
            raise

    def prepared(
        self,
        operation: str,
        parameters: Mapping[str, str] | None = None,
        metrics: Mapping[str, str] | None = None,
        user_metadata: str | None = None,
        tags: Mapping[str, str] | None = None,
        isolation: IsolationLevel | None = None,
        user_name: str | None = None,
        is_validated: bool = False,
    ) -> CommitLoop:
        """Return the commit, ready for its attempts. Call this once. Raises the errors of `commit`.

        `isolation` defaults to the isolation level of the table. `is_validated`: the staged actions passed the
        validation of an earlier commit, or need none.
        """
        if self._done:
            raise InvalidArgument("this transaction was already committed. Begin another one")
        if not is_validated:
            if not isinstance(self.committer, FilesystemCommitter):
                # Other committers forward single actions.
                self.staged.unpack(self.clock.now_ms())
            prepare(self.staged, self.read_snapshot, self.clock)
        isolation = self._isolation() if isolation is None else isolation
        self._done = True
        user = self.clock.user()
        info = CommitInfo(
            timestamp=0,
            operation=operation,
            txn_id=self.txn_id,
            engine_info=ENGINE_INFO,
            operation_parameters=parameters or {},
            operation_metrics=metrics or {},
            read_version=self.read_snapshot.version if self.read_snapshot else None,
            isolation_level=isolation.value,
            is_blind_append=self.reads_and_removes_nothing,
            user_metadata=user_metadata,
            tags=tags,
            user_id=user.user_id,
            user_name=user_name or user.user_name,
        )
        return CommitLoop(self, info, isolation)

    def _isolation(self) -> IsolationLevel:
        if self.read_snapshot is None:
            return IsolationLevel.SERIALIZABLE
        staged = self.staged
        only_files = not (staged.metadata or staged.protocol or staged.transactions or staged.domains)
        if only_files and staged.has_file_actions and not staged.changes_data:
            return IsolationLevel.SNAPSHOT_ISOLATION
        return isolation_level(self.read_snapshot.properties)
