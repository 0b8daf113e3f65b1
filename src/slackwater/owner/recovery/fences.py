"""Fences: prevent a former owner from ratifying commits in recovered tables.

A former owner with a lost or outdated database may still run. A recovery first writes a fence into each table, then
lists the staged commits. An owner checks for its fence after staging a commit and before ratifying. Therefore the
recovery has found every commit ratified by the former owner. Source: managed-commits.md "Commit Files".
"""

from __future__ import annotations

from contextlib import suppress

import orjson

from slackwater.errors import CommitOwnerRequired, CommitUnknown, ObjectExists
from slackwater.protocol.actions.file_names import staged_path
from slackwater.storage.conditional_puts import put_assuming_single_writer
from slackwater.storage.store import ObjectStore

_REOPEN = "Reopen the lake with the database of the recovery"


def fence_path(owner_id: str) -> str:
    """Return the path of an owner's fence relative to the table's root. Log readers ignore this file name."""
    return staged_path(f"{owner_id}.fenced")


def put_fence(store: ObjectStore, owner_id: str, now_ms: int) -> None:
    """Write the fence of the owner. Afterwards the owner ratifies nothing in the table. Raises StorageError."""
    with suppress(ObjectExists):
        put_assuming_single_writer(
            store, fence_path(owner_id), orjson.dumps({"fenced": owner_id, "timestamp": now_ms}) + b"\n"
        )


class Fences:
    """Checks the fences of one owner, and remembers found fences."""

    def __init__(self, owner_id: str) -> None:
        self._owner_id = owner_id
        self._found: set[str] = set()

    def require_none(self, store: ObjectStore) -> None:
        """Raise CommitOwnerRequired if a fence is known. Called before any write of a commit."""
        if store.root_url in self._found:
            raise CommitOwnerRequired(f"{self._why(store)}. Nothing was committed. {_REOPEN}")

    def require_none_after_staging(self, store: ObjectStore, file_name: str) -> None:
        """Raise CommitUnknown if there is a fence, because the recovery may have found the commit."""
        if store.head(fence_path(self._owner_id)) is None:
            return
        self._found.add(store.root_url)
        raise CommitUnknown(
            f"{self._why(store)}. {staged_path(file_name)} is committed only if the table's history there contains it. "
            f"{_REOPEN}"
        )

    def _why(self, store: ObjectStore) -> str:
        return (
            f"{store.root_url} was recovered for another commit owner, so {self._owner_id} must not ratify commits to "
            "it"
        )
