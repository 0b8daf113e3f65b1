"""Commits by put-if-absent: whoever creates `<version>.json` has committed that version.

Source: delta-protocol.md "Delta Log Entries", "Creation of New Log Entries".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from slackwater.errors import CommitUnknown, ObjectNotFound, StorageError
from slackwater.log.segment import LOG
from slackwater.protocol.file_names import commit_name
from slackwater.storage.store import ObjectStore
from slackwater.transaction.committer import Committed, Conflict


class FilesystemCommitter:
    """Commits to the table in `store`; an existing commit is never overwritten."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> Committed | Conflict:
        """As `Committer.commit`: what the file holds afterwards decides, also where a request was repeated."""
        path = f"{LOG}/{commit_name(version)}"
        data = b"".join(orjson.dumps(action) + b"\n" for action in actions)
        try:
            self._store.put_if_absent(path, data)
        except StorageError as error:
            # Even "it exists" may speak of our own file, where the store repeated the request.
            return self._settle(path, version, data, error)
        return Committed(version)

    def _settle(self, path: str, version: int, data: bytes, error: StorageError) -> Committed | Conflict:
        try:
            found = self._store.read(path)
        except ObjectNotFound:
            # It is not there now, but the request may still be on its way.
            raise CommitUnknown(
                f"{self._store.root_url}/{path}: the commit may or may not have landed ({error}); its data files are "
                "kept: read the table again before the work is repeated"
            ) from error
        except StorageError:
            raise CommitUnknown(
                f"{self._store.root_url}/{path}: the commit may or may not have landed ({error}), and reading it back "
                "failed; its data files are kept: read the table again before the work is repeated"
            ) from error
        return Committed(version) if found == data else Conflict(version)
