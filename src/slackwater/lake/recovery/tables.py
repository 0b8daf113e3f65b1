"""Tables of a lake with lost or outdated owner state, read from their files only.

Source: managed-commits.md "Commit Files", "Managed Commit Enablement".
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.errors import CorruptLog, ObjectNotFound, SlackwaterError
from slackwater.lake.recovery.plan import Candidate
from slackwater.log.files.segment import load_segment
from slackwater.log.replay import replay
from slackwater.owner.api.staged_files import staged_files
from slackwater.owner.state.commit_content import TRANSACTION_TABLES
from slackwater.protocol.actions.actions import parse_actions
from slackwater.protocol.actions.file_names import LOG, LogFile, commit_path
from slackwater.protocol.actions.paths import is_absolute
from slackwater.protocol.actions.transaction_groups import TransactionGroup
from slackwater.protocol.features.managed_commits import OWNER_NAME, CommitOwnerConfig, ownership
from slackwater.storage.location import LOCAL, Location, parse_location
from slackwater.storage.path_guard import named_place
from slackwater.storage.store import ObjectStore

_MOST_FILES = 100
"""Number of a commit's files to check. A few suffice, because cleanup after a failed commit deletes all of them."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table according to its log, up to the newest backfilled `version`. `owned` is None without an owner."""

    store: ObjectStore
    version: int
    timestamp_ms: int
    owned: CommitOwnerConfig | None

    @property
    def owner_id(self) -> str:
        """The id of the table's Slackwater owner, '' for none."""
        return self.owned.owner_id or "" if self.owned is not None and self.owned.name == OWNER_NAME else ""

    @property
    def table_id(self) -> str:
        """The owner's id of the table."""
        return "" if self.owned is None else self.owned.table_id or ""


def table_places(root_url: str, store: ObjectStore) -> list[str]:
    """Return the sorted URLs of all tables below a lake's root. In an object store, this lists every object."""
    root = parse_location(root_url)
    if store.local_root is not None:
        found = [Location(LOCAL, "", path.strip("/")).url for path in _directories(store.local_root)]
    else:
        logs = (meta.path.partition(f"/{LOG}/") for meta in store.list_from("", recursive=True))
        inside = {path for path, separator, _ in logs if separator}
        found = [Location(root.scheme, root.authority, f"{root.key}/{path}".strip("/")).url for path in inside]
    return sorted(found)


def _directories(root: str) -> Iterator[str]:
    for directory, names, _ in os.walk(root):
        here = [name for name in names if (Path(directory) / name / LOG).is_dir()]
        yield from (str(Path(directory) / name) for name in here)
        names[:] = sorted(set(names) - set(here) - {LOG})


def found_table(store: ObjectStore) -> FoundTable:
    """Return the table in `store`, read without its owner. Raises TableNotFound, CorruptTable, UnsupportedFeature."""
    _, state = replay(load_segment(store), store)
    owned = ownership(state.configuration, store.root_url)
    return FoundTable(store, state.version, _time_at(store, state.version) if owned is not None else 0, owned)


def candidates(table: FoundTable) -> list[Candidate]:
    """Return the staged commits after the backfilled version, by version and name. Raises StorageError."""
    found = []
    for staged in staged_files(table.store, table.version + 1):
        path, file = staged.meta.path, staged.file
        try:
            actions = parse_actions(table.store.read(path), f"{table.store.root_url}/{path}")
            info = _info(actions)
            timestamp_ms, txn_id = int(info["inCommitTimestamp"]), str(info["txnId"])
            attempt, table_ids = _attempt(file, info, TransactionGroup.among(actions, path))
        except (SlackwaterError, KeyError, TypeError, ValueError):
            # Owners stage complete files, so an unreadable file is not a staged commit.
            continue
        found.append(
            Candidate(
                table.table_id, file.version, staged.file_name, attempt, txn_id, timestamp_ms, table_ids,
                _missing(table.store, actions),
            )
        )  # fmt: skip
    return sorted(found, key=lambda c: (c.version, c.file_name))


def _attempt(file: LogFile, info: Mapping[str, Any], group: TransactionGroup | None) -> tuple[str, tuple[str, ...]]:
    """Return the identity that the files of one attempt share, and the tables of its transaction if there are several.

    An owner uses one UUID for all files of an attempt. A client that stages a group itself uses one for each.
    """
    written = info.get(TRANSACTION_TABLES)
    if written or group is None:
        return str(file.uuid), tuple(written or ())
    return f"{group} {info['inCommitTimestamp']}", tuple(group.versions)


def backfilled_since(table: FoundTable, timestamp_ms: int) -> dict[str, int]:
    """Return the transactions of backfilled commits from `timestamp_ms` on, with their timestamps."""
    found: dict[str, int] = {}
    for version in range(table.version, -1, -1):
        try:
            info = _info_at(table.store, version)
        except ObjectNotFound:
            break
        at_ms = info.get("inCommitTimestamp")
        if not isinstance(at_ms, int) or at_ms < timestamp_ms:
            break
        found.setdefault(str(info.get("txnId")), at_ms)
    return found


def adopted_name(table: FoundTable, versions: int = 50) -> str:
    """Return the adopted name from the newest `versions` commits, '' if none has one."""
    for version in range(table.version, max(-1, table.version - versions), -1):
        try:
            info = _info_at(table.store, version)
        except ObjectNotFound:
            break
        parameters = info.get("operationParameters")
        if info.get("operation") == "ADOPT TABLE" and isinstance(parameters, Mapping):
            return str(parameters.get("name") or "").strip('"')
    return ""


def _time_at(store: ObjectStore, version: int) -> int:
    try:
        return int(_info_at(store, version)["inCommitTimestamp"])
    except (ObjectNotFound, KeyError, TypeError, ValueError) as error:
        raise CorruptLog(
            f"{store.root_url}/{commit_path(version)} has no in-commit timestamp, although the table has a commit "
            f"owner. Restore the file ({error})"
        ) from error


def _info_at(store: ObjectStore, version: int) -> Mapping[str, Any]:
    path = commit_path(version)
    return _info(parse_actions(store.read(path), f"{store.root_url}/{path}"))


def _info(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    found = (action.get("commitInfo") for action in actions)
    return next((info for info in found if isinstance(info, Mapping)), {})


def _missing(store: ObjectStore, actions: Collection[Mapping[str, Any]]) -> str:
    """Return a file added by the commit but missing below the table's root, '' for none."""
    added = [a["add"]["path"] for a in actions if isinstance(a.get("add"), dict)]
    for path in added[:_MOST_FILES]:
        inside = named_place(store, path)
        if not is_absolute(inside) and store.head(inside) is None:
            return inside
    return ""
