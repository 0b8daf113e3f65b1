"""Log compaction files: many commits in one file, so that readers open fewer files.

Source: delta-protocol.md "Log Compaction Files", "Action Reconciliation".
"""

from __future__ import annotations

from contextlib import suppress

import orjson

from slackwater.errors import CorruptLog, InvalidArgument, ObjectExists, ObjectNotFound, UnsupportedFeature
from slackwater.log.files.reconciliation import STATEFUL, Action, reconcile
from slackwater.protocol.actions.actions import parse_commit
from slackwater.protocol.actions.file_names import LOG, commit_name, compacted_name
from slackwater.protocol.actions.transaction_groups import ACTION
from slackwater.storage.conditional_puts import put_assuming_single_writer
from slackwater.storage.store import ObjectStore

# Provenance, and actions not allowed in a commit, are not part of the table's state.
_WITHOUT_STATE = frozenset({"commitInfo", "cdc", "checkpointMetadata", "sidecar", ACTION})


def compact_log(store: ObjectStore, start_version: int, end_version: int) -> str:
    """Write the compaction of the commits `[start_version, end_version]`. Return its path relative to the table's root.

    It contains the newest reference to every file, the newest protocol, metadata and transaction identifiers, and the
    newest metadata domains. It includes tombstones of any age and removed domains, because they may override earlier
    versions. An existing compaction stays unchanged. Commits without such actions get no compaction, because a file
    without actions would be taken for a truncated file. Raises InvalidArgument for a range of fewer than two versions
    or with a commit not in the log, CorruptLog, UnsupportedFeature for an unknown kind of action, StorageError.
    """
    if start_version >= end_version:
        raise InvalidArgument(f"a compaction needs at least two versions, found {start_version} to {end_version}")
    path = f"{LOG}/{compacted_name(start_version, end_version)}"
    names = [f"{LOG}/{commit_name(version)}" for version in range(start_version, end_version + 1)]
    try:
        contents = store.read_many(names)
    except ObjectNotFound as error:
        raise InvalidArgument(
            f"{store.root_url}: versions {start_version} to {end_version} cannot be compacted, because a commit is "
            f"not in the log: {error}"
        ) from error
    commits = [(f"{store.root_url}/{name}", data) for name, data in zip(names, contents, strict=True)]
    reconciled = reconcile(action for where, data in commits for action in _stateful(data, where))
    content = b"".join(orjson.dumps(action) + b"\n" for action in reconciled)
    if content:
        with suppress(ObjectExists):
            put_assuming_single_writer(store, path, content)
    return path


def _stateful(data: bytes, where: str) -> list[Action]:
    """Return the actions of the table's state. Raises CorruptLog, UnsupportedFeature."""
    found: list[Action] = []
    for line in parse_commit(data, where):
        action = {kind: node for kind, node in line.items() if node is not None}
        if len(action) > 1:
            raise CorruptLog(f"{where}: expected one action in each line, found {', '.join(action)} in one line")
        kind = next(iter(action), None)
        if kind is None or kind in _WITHOUT_STATE:
            continue
        if kind not in STATEFUL:
            raise UnsupportedFeature(
                f"{where}: the action {kind!r} is unknown to this version, so the commit is not compacted. Upgrade "
                "Slackwater"
            )
        found.append(action)
    try:
        reconcile(found)
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(f"{where}: an action lacks a key field: {error!r}") from error
    return found
