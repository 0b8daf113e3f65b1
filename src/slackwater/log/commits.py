"""Commits that are read and parsed: what a snapshot is moved forward by, and what a conflict is judged by.

Source: delta-protocol.md "Delta Log Entries".
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slackwater.errors import ObjectNotFound
from slackwater.log.bulk_commit import Action, LargeActionSequence
from slackwater.log.segment import CommitFile
from slackwater.protocol.actions.actions import parse_commit
from slackwater.protocol.actions.file_names import commit_path
from slackwater.storage.store import ChunkedBytes, ObjectStore


@dataclass(frozen=True, slots=True)
class ParsedCommit:
    """One commit: its file, where that is for messages, and its actions in order."""

    file: CommitFile
    where: str
    actions: Sequence[Action]

    @property
    def version(self) -> int:
        """The version that the commit made."""
        return self.file.version

    @property
    def info(self) -> Action:
        """The content of its `commitInfo`, empty where it has none."""
        for action in self.actions:
            info = action.get("commitInfo")
            if isinstance(info, Mapping):
                return info
        return {}


def parsed_commit(store: ObjectStore, version: int, data: bytes, file: CommitFile | None = None) -> ParsedCommit:
    """The commit of `version` from its bytes, `file` where it is not in `_delta_log`. Raises CorruptLog, naming it."""
    if file is None:
        file = CommitFile(version, version, commit_path(version), time.time_ns() // 1_000_000, len(data))
    where = f"{store.root_url}/{file.path}"
    return ParsedCommit(file, where, parse_commit(data, where))


def written_commit(
    store: ObjectStore, version: int, data: bytes | ChunkedBytes, actions: Sequence[Action]
) -> ParsedCommit:
    """The commit of `version` as a reader parses it; its bytes `data` were made of `actions`."""
    if not isinstance(actions, LargeActionSequence):
        return parsed_commit(store, version, bytes(data))
    file = CommitFile(version, version, commit_path(version), time.time_ns() // 1_000_000, len(data))
    return ParsedCommit(file, f"{store.root_url}/{file.path}", actions.read_back())


def commits_after(store: ObjectStore, version: int) -> list[ParsedCommit]:
    """The commits that follow `version` without a gap, ascending; read one by one, so nothing is listed."""
    found: list[ParsedCommit] = []
    while True:
        version += 1
        try:
            data = store.read(commit_path(version))
        except ObjectNotFound:
            return found
        found.append(parsed_commit(store, version, data))
