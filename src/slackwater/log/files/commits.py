"""Parsed commits, for moving a snapshot forward and for conflict checks.

Source: delta-protocol.md "Delta Log Entries".
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slackwater.errors import ObjectNotFound
from slackwater.log.files.bulk_commit import Action, LargeActionSequence
from slackwater.log.files.segment import CommitFile
from slackwater.protocol.actions.actions import parse_commit
from slackwater.protocol.actions.file_names import commit_path
from slackwater.storage.store import ChunkedBytes, ObjectStore


@dataclass(frozen=True, slots=True)
class ParsedCommit:
    """A commit: its file, the file's location for messages, and its actions in order."""

    file: CommitFile
    where: str
    actions: Sequence[Action]

    @property
    def version(self) -> int:
        """The version made by the commit."""
        return self.file.version

    @property
    def info(self) -> Action:
        """The content of its `commitInfo`, empty if absent."""
        for action in self.actions:
            info = action.get("commitInfo")
            if isinstance(info, Mapping):
                return info
        return {}


def parsed_commit(store: ObjectStore, version: int, data: bytes, file: CommitFile | None = None) -> ParsedCommit:
    """Return the commit of `version` parsed from its bytes; pass `file` if it is not in `_delta_log`.

    Raises CorruptLog, naming the file.
    """
    if file is None:
        file = CommitFile(version, version, commit_path(version), time.time_ns() // 1_000_000, len(data))
    where = f"{store.root_url}/{file.path}"
    return ParsedCommit(file, where, parse_commit(data, where))


def written_commit(
    store: ObjectStore, version: int, data: bytes | ChunkedBytes, actions: Sequence[Action]
) -> ParsedCommit:
    """Return the commit of `version`, parsed the way a reader parses `data`, the bytes of `actions`."""
    if not isinstance(actions, LargeActionSequence):
        return parsed_commit(store, version, bytes(data))
    file = CommitFile(version, version, commit_path(version), time.time_ns() // 1_000_000, len(data))
    return ParsedCommit(file, f"{store.root_url}/{file.path}", actions.read_back())


def commits_after(store: ObjectStore, version: int) -> list[ParsedCommit]:
    """Return the commits after `version` without a gap, ascending. Reads one by one, without a listing."""
    found: list[ParsedCommit] = []
    while True:
        version += 1
        try:
            data = store.read(commit_path(version))
        except ObjectNotFound:
            return found
        found.append(parsed_commit(store, version, data))
