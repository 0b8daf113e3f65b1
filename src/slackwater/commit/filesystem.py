"""Commits by put-if-absent: whoever creates `<version>.json` has committed that version.

Source: delta-protocol.md "Delta Log Entries", "Creation of New Log Entries".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from slackwater.errors import CommitFailed, CommitUnknown, ObjectExists, StorageError, StorageRefused
from slackwater.log.commits import ParsedCommit, commit_path, commits_after, parsed_commit
from slackwater.storage.store import ObjectStore
from slackwater.transaction.committer import Committed, Conflict

_MAX_PUTS = 4
_FIRST_WAIT_S = 0.05


class FilesystemCommitter:
    """Commits to the table in `store`; an existing commit is never overwritten.

    A put whose answer was lost is put again: of any number of equal puts one creates the file, and what the file then
    holds decides. `sleep` waits between them, in seconds.
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
        """As `Committer.commit`; raises CommitFailed where the store certainly did nothing."""
        data = b"".join(orjson.dumps(action) + b"\n" for action in actions)
        last: StorageError | None = None
        for attempt in range(_MAX_PUTS):
            if attempt:
                self._sleep(_FIRST_WAIT_S * 2**attempt)
            try:
                self._store.put_if_absent(commit_path(version), data)
            except StorageRefused as error:
                # Whatever an earlier, unanswered put did is still open.
                return self._settle(version, data, error, refused=attempt == 0)
            except ObjectExists as error:
                # It may speak of our own file, where the store or this loop repeated the request.
                return self._settle(version, data, error, refused=False)
            except StorageError as error:
                last = error
                if (found := self._found(version)) is not None:
                    return self._decide(version, data, found)
            else:
                return self._committed(version, data)
        raise self._unknown(version, last) from last

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:
        """As `Committer.commits_after`."""
        return commits_after(self._store, version)

    def _settle(self, version: int, data: bytes, error: StorageError, refused: bool) -> Committed | Conflict:
        found = self._found(version)
        if found is not None:
            return self._decide(version, data, found)
        if refused:
            raise CommitFailed(
                f"{self._store.root_url}/{commit_path(version)} was not written, the table is unchanged: {error}"
            ) from error
        raise self._unknown(version, error) from error

    def _decide(self, version: int, data: bytes, found: bytes) -> Committed | Conflict:
        # Every commit carries an identity of its own (txnId), so equal bytes are ours.
        return self._committed(version, data) if found == data else Conflict(version)

    def _committed(self, version: int, data: bytes) -> Committed:
        return Committed(parsed_commit(self._store, version, data))

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
