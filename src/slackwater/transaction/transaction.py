"""One table's transaction: what was read, what is to be committed, and the race with other writers.

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
    """Work on one table that becomes its next version.

    Nothing is visible to others before `commit` returns; a transaction commits once.
    """

    _done = False

    @property
    def is_done(self) -> bool:
        """Whether it was committed, or tried to be."""
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
        """Make the staged actions the next version of the table, by `user_name`, None: by the user of this process.

        Others may have won that version: then the commit moves behind theirs, where nothing that it read or wrote is
        touched. Raises the DeltaConcurrentModificationException that says why it cannot; CommitFailed where the store
        refused; CommitUnknown where it is not known whether it landed; UnsupportedFeature, OperationNotAllowed and
        InvalidArgument before anything is tried. Except after CommitUnknown, an error means that it did not land.
        """
        told = operation, parameters, metrics, user_metadata, tags
        try:
            return self._run(self.prepared(*told, user_name=user_name))
        except StreamNotReplayable:
            # Nothing was put. With all files in memory, an error says what is wrong, or no stream is needed.
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
            # It is not known how far the commit came, so what it may refer to stays.
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
    ) -> CommitLoop:
        """The commit, ready to be tried; once. `isolation` by default as the table asks. Raises as `commit` does."""
        if self._done:
            raise InvalidArgument("this transaction was committed before: begin another one")
        if not isinstance(self.committer, FilesystemCommitter):
            # Others hand the actions on, one by one.
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
