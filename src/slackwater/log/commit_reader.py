"""Commits read from their files: small actions as Python values, file actions in Arrow.

Source: delta-protocol.md "Delta Log Entries", "Log Compaction Files".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from slackwater.errors import CorruptLog, ObjectNotFound
from slackwater.log.files.file_actions import ACTION_SCHEMA, file_actions, newest_per_file
from slackwater.log.files.managed_log import read_commits
from slackwater.log.files.plain_arrays import empty_table
from slackwater.log.files.reconciliation import STATEFUL, reconcile
from slackwater.log.files.segment import CommitFile
from slackwater.protocol.actions.actions import parse_actions, parse_commit
from slackwater.storage.store import ObjectStore

Commit = tuple[int, str, Sequence[Mapping[str, Any]]]
"""Version, location for messages, and actions of a commit."""

# Parsed file actions are converted to Arrow in batches, because garbage collection of many objects takes as long as
# parsing them.
_IN_ONE_BATCH = 500
_log = logging.getLogger(__name__)


class CommitReader:
    """The commits of some files, ascending by version.

    An unreadable commit contributes only its protocol actions. The protocol check must see them first, because an
    unsupported protocol explains the unreadable rest. `unreadable` is the error of the first such commit.
    """

    def __init__(self, store: ObjectStore, files: Sequence[CommitFile]) -> None:
        """Read the files. Raises CorruptLog if a commit no longer exists."""
        self._store = store
        self._pending: list[Commit] = []
        self._num_pending = 0
        self._tables: list[pa.Table] = []
        self._malformed: CorruptLog | None = None
        self.unreadable: CorruptLog | None = None
        self.used: list[CommitFile] = []
        """The files read: the commits of a compaction instead of a damaged or missing one."""
        self.small: list[Commit] = []
        """Commits without file actions. Only the last commit has its commitInfo."""
        self._read(files)

    def newest_files(self) -> pa.Table:
        """Return the newest reference to each logical file. Raises CorruptLog for a malformed file action."""
        self._convert()
        if self._malformed is not None:
            raise self._malformed
        if not self._tables:
            return empty_table(ACTION_SCHEMA)
        return newest_per_file(pa.concat_tables(self._tables).combine_chunks())

    def _read(self, files: Sequence[CommitFile]) -> None:
        try:
            contents = read_commits(self._store, files)
        except ObjectNotFound as error:
            single = [commit for file in files for commit in file.stands_for or (file,)]
            if len(single) > len(files):
                # Log cleanup deletes compactions before their commits, so the commits may still exist.
                self._read(single)
                return
            raise CorruptLog(f"{self._store.root_url}: a listed commit does not exist any more: {error}") from error
        for file, data in zip(files, contents, strict=True):
            where = f"{self._store.root_url}/{file.path}"
            try:
                actions = (_compacted if file.compacted else parse_commit)(data, where)
            except CorruptLog as error:
                if file.stands_for:
                    _log.warning("ignoring a log compaction and reading its commits instead: %s", error)
                    self._read(file.stands_for)
                    continue
                self.unreadable = self.unreadable or error
                actions = _protocols(data, where)
            self._add(file.end_version, where, actions)
            self.used.append(file)

    def _add(self, version: int, where: str, actions: list[dict[str, Any]]) -> None:
        if self.small:
            self.small[-1] = _without_info(self.small[-1])
            if not self.small[-1][2]:
                del self.small[-1]
        of_files = [action for action in actions if _is_of_file(action)]
        others = actions
        if of_files:
            others = [action for action in actions if "protocol" in action or not _is_of_file(action)]
            self._pending.append((version, where, of_files))
            self._num_pending += len(of_files)
            if self._num_pending >= _IN_ONE_BATCH:
                self._convert()
        self.small.append((version, where, others))

    def _convert(self) -> None:
        """Convert the pending file actions to Arrow."""
        pending, self._pending, self._num_pending = self._pending, [], 0
        if not pending or self._malformed is not None:
            return
        try:
            self._tables.append(file_actions(pending))
        except CorruptLog as error:
            # Raised later, because errors of the protocol take precedence.
            self._malformed = error


def _is_of_file(action: Mapping[str, Any]) -> bool:
    return action.get("add") is not None or action.get("remove") is not None


def _without_info(commit: Commit) -> Commit:
    version, where, actions = commit
    return version, where, [action for action in actions if action.keys() != {"commitInfo"}]


def _compacted(data: bytes, where: str) -> list[dict[str, Any]]:
    """Return the actions of a compaction.

    Raises CorruptLog for a truncated file without actions, and for two actions of one key: a compaction has no order.
    """
    actions = parse_actions(data, where)
    if not actions:
        raise CorruptLog(
            f"{where}: a compaction must hold an action, but the file has none. It was not written completely"
        )
    stateful = [action for action in actions if next(iter(action), None) in STATEFUL]
    try:
        reconciled = reconcile(stateful)
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(f"{where}: an action lacks a key field: {error!r}") from error
    if len(reconciled) < len(stateful):
        kept = set(map(id, reconciled))
        twice = next(action for action in stateful if id(action) not in kept)
        raise CorruptLog(
            f"{where}: a compaction must hold at most one action of each file, application and domain. Another action "
            f"contradicts {str(twice)[:200]}"
        )
    return actions


def _protocols(data: bytes, where: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in data.split(b"\n"):
        if b'"protocol"' in line:
            with suppress(CorruptLog):
                found += [action for action in parse_actions(line, where) if "protocol" in action]
    return found
