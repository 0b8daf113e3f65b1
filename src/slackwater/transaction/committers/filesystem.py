"""Commits by put-if-absent: the writer that creates `<version>.json` has committed that version.

Source: delta-protocol.md "Delta Log Entries", "Creation of New Log Entries".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from slackwater.errors import CommitFailed, CommitUnknown, ObjectExists, StorageError, StorageRefused
from slackwater.log.bulk_commit import commit_data
from slackwater.log.commits import ParsedCommit, commits_after, written_commit
from slackwater.log.segment import list_log
from slackwater.protocol.actions.file_names import LOG, commit_path
from slackwater.storage.store import ChunkedBytes, ObjectStore
from slackwater.transaction.committer import Committed, Conflict
from slackwater.transaction.committers.truncated_versions import Actions, forgotten, is_remembered, require_next

_log = logging.getLogger(__name__)
_MAX_PUTS = 4
_FIRST_WAIT_S = 0.05


class FilesystemCommitter:
    """Commits to the table in `store`; an existing commit is never overwritten.

    A put whose answer was lost is put again: of any number of equal puts one creates the file, and what the file then
    holds decides. A version that others committed and a cleanup has deleted is not taken for a free one, neither before
    the put nor after it: the writer may have slept in between. A store that ignores the condition of a put is refused.
    `sleep` waits between tries, in seconds.
    """

    def __init__(self, store: ObjectStore, sleep: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._sleep = sleep

    @property
    def publishes_at_once(self) -> bool:
        return True

    def published_version(self, version: int) -> int:
        """As `Committer.published_version`: whatever counts is there."""
        return version

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        may_move: bool = False,  # noqa: ARG002  (only an owner knows where to)
    ) -> Committed | Conflict:
        """As `Committer.commit`; raises CommitFailed where the store certainly did nothing.

        Raises ConcurrentWriteException for a version that the log has forgotten.
        """
        data = commit_data(actions)
        try:
            require_next(self._store, version)
            # Of nothing that this finds is the commit in doubt: it was not tried yet.
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
                # Whatever an earlier, unanswered put did is still open.
                return self._settle(version, data, actions, error, refused=attempt == 0)
            except ObjectExists as error:
                # It may speak of our own file, where the store or this loop repeated the request.
                return self._settle(version, data, actions, error, refused=False)
            except StorageError as error:
                last = error
                if (found := self._found(version)) is not None:
                    return self._decide(version, data, actions, found)
            else:
                return self._put(version, data, actions)
        raise self._unknown(version, last) from last

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:
        """As `Committer.commits_after`."""
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
        # Every commit carries an identity of its own (txnId), so equal bytes are ours.
        return self._put(version, data, actions) if found == bytes(data) else Conflict(version)

    def _put(self, version: int, data: bytes | ChunkedBytes, actions: Actions) -> Committed:
        """The commit whose file is there, where that makes it a version of the table; else the file is taken away."""
        remembered = self._remembered(version, actions)
        if remembered:
            return Committed(written_commit(self._store, version, data, actions))
        if remembered is None:
            raise CommitUnknown(
                f"{self._store.root_url}/{commit_path(version)}: while it was written others committed, and the log "
                "was cleaned up, so that nobody can say whether the commit is part of the table; its data files are "
                "kept: read the table again before the work is repeated"
            )
        # The log begins beyond: a reader of the table looks at no earlier file, and no other writer writes this one.
        with suppress(StorageError):
            self._store.delete([commit_path(version)])
        raise forgotten(self._store, version, list_log(self._store, version))

    def _remembered(self, version: int, actions: Actions) -> bool | None:
        for attempt in range(_MAX_PUTS):
            if attempt:
                self._sleep(_FIRST_WAIT_S * 2**attempt)
            try:
                return is_remembered(self._store, version, actions)
            except Exception as error:  # noqa: BLE001  (the file is there: no error may deny it)
                _log.warning("%s: what became of version %d is not seen: %s", self._store.root_url, version, error)
        return None

    def _failed(self, version: int, error: StorageError) -> CommitFailed:
        return CommitFailed(
            f"{self._store.root_url}/{commit_path(version)} was not written, the table is unchanged: {error}"
        )

    def _found(self, version: int) -> bytes | None:
        """What the commit's file holds; None where there is none, or where that cannot be known."""
        try:
            return self._store.read(commit_path(version))
        except StorageError:
            return None

    def _unknown(self, version: int, error: StorageError | None) -> CommitUnknown:
        return CommitUnknown(
            f"{self._store.root_url}/{commit_path(version)}: the commit may or may not have landed ({error}), and what "
            "is there could not be read back; its data files are kept: read the table again before the work is repeated"
        )
