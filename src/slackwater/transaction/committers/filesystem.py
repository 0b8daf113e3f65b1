"""Commits by put-if-absent: the writer that creates `<version>.json` has committed the version.

Source: delta-protocol.md "Delta Log Entries", "Creation of New Log Entries".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from slackwater.errors import CommitFailed, CommitUnknown, ObjectExists, StorageError, StorageRefused
from slackwater.log.files.bulk_commit import commit_data
from slackwater.log.files.commits import ParsedCommit, commits_after, written_commit
from slackwater.log.files.segment import list_log
from slackwater.protocol.actions.file_names import LOG, commit_path
from slackwater.storage.store import ChunkedBytes, ObjectStore
from slackwater.transaction.committer import Committed, Conflict
from slackwater.transaction.committers.truncated_versions import Actions, forgotten, is_remembered, require_next

_log = logging.getLogger(__name__)
_MAX_PUTS = 4
_FIRST_WAIT_S = 0.05


class FilesystemCommitter:
    """Commits to the table in `store`. An existing commit is never overwritten.

    A put with a lost response is retried. One of several equal puts creates the file, and the content of the file
    decides the outcome. A version removed by log cleanup is never treated as free. This is checked before and after the
    put, because the writer may be suspended in between. A store that ignores the condition of a put is rejected.
    `sleep` waits between retries, in seconds.
    """

    def __init__(self, store: ObjectStore, sleep: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._sleep = sleep

    @property
    def publishes_at_once(self) -> bool:
        return True

    def published_version(self, version: int) -> int:
        """Return `version`, because every committed version is in `_delta_log`. See `Committer.published_version`."""
        return version

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        may_move: bool = False,  # noqa: ARG002  (only an owner assigns a later version)
    ) -> Committed | Conflict:
        """See `Committer.commit`. Raises CommitFailed if the store certainly wrote nothing.

        Raises ConcurrentWriteException if log cleanup removed the version.
        """
        data = commit_data(actions)
        try:
            require_next(self._store, version)
            # An error here cannot make the outcome unknown, because no put was tried.
            self._store.require_conditional_puts(LOG)
        except StorageError as error:
            raise self._failed(version, error) from error
        last: StorageError | None = None
        for attempt in range(_MAX_PUTS):
            if attempt:
                self._sleep(_FIRST_WAIT_S * 2**attempt)
            try:
                self._store.put_if_absent(commit_path(version), data)
            except StorageRefused as error:
                # The outcome of an earlier put without a response is still unknown.
                return self._settle(version, data, actions, error, refused=attempt == 0)
            except ObjectExists as error:
                # The existing file may be our own, because the store or this loop retried the request.
                return self._settle(version, data, actions, error, refused=False)
            except StorageError as error:
                last = error
                if (found := self._found(version)) is not None:
                    return self._decide(version, data, actions, found)
            else:
                return self._put(version, data, actions)
        raise self._unknown(version, last) from last

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:
        """See `Committer.commits_after`."""
        return commits_after(self._store, version)

    def _settle(
        self, version: int, data: bytes | ChunkedBytes, actions: Actions, error: StorageError, refused: bool
    ) -> Committed | Conflict:
        found = self._found(version)
        if found is not None:
            return self._decide(version, data, actions, found)
        if refused:
            raise self._failed(version, error) from error
        raise self._unknown(version, error) from error

    def _decide(self, version: int, data: bytes | ChunkedBytes, actions: Actions, found: bytes) -> Committed | Conflict:
        # Every commit has a unique txnId, so equal bytes are ours.
        return self._put(version, data, actions) if found == bytes(data) else Conflict(version)

    def _put(self, version: int, data: bytes | ChunkedBytes, actions: Actions) -> Committed:
        """Return the commit after its file was put, if the file became a version of the table.

        Raises CommitUnknown if this cannot be determined. If the log starts after `version`, the file is deleted and
        ConcurrentWriteException is raised.
        """
        remembered = self._remembered(version, actions)
        if remembered:
            return Committed(written_commit(self._store, version, data, actions))
        if remembered is None:
            raise CommitUnknown(
                f"{self._store.root_url}/{commit_path(version)}: other writers committed during the write and the log "
                "was cleaned up, so it is unknown if the commit is part of the table. Its data files stay. Read the "
                "table again before you retry"
            )
        # The log starts later, so no reader reads this file and no other writer writes it.
        with suppress(StorageError):
            self._store.delete([commit_path(version)])
        raise forgotten(self._store, version, list_log(self._store, version))

    def _remembered(self, version: int, actions: Actions) -> bool | None:
        for attempt in range(_MAX_PUTS):
            if attempt:
                self._sleep(_FIRST_WAIT_S * 2**attempt)
            try:
                return is_remembered(self._store, version, actions)
            except Exception as error:  # noqa: BLE001  (the file exists, so no error may report a failed commit)
                _log.warning("%s: the outcome of version %d is unknown: %s", self._store.root_url, version, error)
        return None

    def _failed(self, version: int, error: StorageError) -> CommitFailed:
        return CommitFailed(
            f"{self._store.root_url}/{commit_path(version)} was not written, the table is unchanged: {error}"
        )

    def _found(self, version: int) -> bytes | None:
        """Return the content of the commit's file, None if the file does not exist or cannot be read."""
        try:
            return self._store.read(commit_path(version))
        except StorageError:
            return None

    def _unknown(self, version: int, error: StorageError | None) -> CommitUnknown:
        return CommitUnknown(
            f"{self._store.root_url}/{commit_path(version)}: the outcome of the commit is unknown ({error}), and its "
            "file could not be read back. Its data files stay. Read the table again before you retry"
        )
