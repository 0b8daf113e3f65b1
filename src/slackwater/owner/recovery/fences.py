"""Fences: what stops an owner from ratifying in tables that were recovered for another one.

An owner whose database was lost, or set back, may still run somewhere. A recovery puts a fence into each table before
it looks which commits are staged; an owner looks for its own after it staged a commit and before it ratifies it. So a
commit that it ratifies is one that the recovery has seen. Source: managed-commits.md "Commit Files".
"""

from __future__ import annotations

from contextlib import suppress

import orjson

from slackwater.errors import CommitOwnerRequired, CommitUnknown, ObjectExists
from slackwater.protocol.actions.file_names import staged_path
from slackwater.storage.conditional_puts import put_assuming_single_writer
from slackwater.storage.store import ObjectStore


def fence_path(owner_id: str) -> str:
    """Where the fence of an owner is in a table, relative to its root: no reader of a log takes it for a commit."""
    return staged_path(f"{owner_id}.fenced")


def put_fence(store: ObjectStore, owner_id: str, now_ms: int) -> None:
    """Let the owner ratify nothing in the table any more, as soon as this returns. Raises StorageError."""
    with suppress(ObjectExists):
        put_assuming_single_writer(
            store, fence_path(owner_id), orjson.dumps({"fenced": owner_id, "timestamp": now_ms}) + b"\n"
        )


class Fences:
    """Looks for the fences of one owner; one that was found stays."""

    def __init__(self, owner_id: str) -> None:
        self._owner_id = owner_id
        self._found: set[str] = set()

    def require_none(self, store: ObjectStore) -> None:
        """Raise CommitOwnerRequired where the owner is known to be fenced off: nothing of a commit is written yet."""
        if store.root_url in self._found:
            raise CommitOwnerRequired(f"{self._why(store)}; nothing was committed")

    def require_none_after_staging(self, store: ObjectStore, file_name: str) -> None:
        """Raise CommitUnknown where the owner is fenced off: the recovery may have seen the commit, or not."""
        if store.head(fence_path(self._owner_id)) is None:
            return
        self._found.add(store.root_url)
        raise CommitUnknown(
            f"{self._why(store)}; whether it counts {staged_path(file_name)} as a commit the table's history says there"
        )

    def _why(self, store: ObjectStore) -> str:
        return (
            f"{store.root_url} was recovered for another commit owner, and {self._owner_id} must not ratify commits to "
            "it any more: open the lake anew, with the database that it was recovered to"
        )
