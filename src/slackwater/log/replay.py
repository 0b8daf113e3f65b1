"""From a log segment to the state of the table: action reconciliation.

Small actions are Python values, file actions stay in Arrow; those of the checkpoint are read when asked for.
Source: delta-protocol.md "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from slackwater.errors import CorruptLog, ObjectNotFound
from slackwater.log.checkpoint import Checkpoint, open_checkpoint
from slackwater.log.file_actions import ACTION_SCHEMA, file_actions, newest_per_file
from slackwater.log.segment import CommitFile, LogSegment
from slackwater.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction, parse_actions
from slackwater.protocol.features import validate_readable
from slackwater.storage.store import ObjectStore


@dataclass(frozen=True, slots=True)
class TableState:
    """What the log says at `version`, but for the file actions of the checkpoint, which `checkpoint` can read.

    `newest`: the newest reference to every file that a commit after the checkpoint speaks of, as ACTION_SCHEMA;
    it overrides the checkpoint. `domains` holds no removed domain.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    transactions: Mapping[str, SetTransaction]
    domains: Mapping[str, DomainMetadata]
    checkpoint: Checkpoint | None
    newest: pa.Table
    last_commit_info: Mapping[str, Any] | None = None


@dataclass(slots=True)
class _Draft:
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, SetTransaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    last_commit_info: Mapping[str, Any] | None = None


_Commits = Sequence[tuple[int, str, list[dict[str, Any]]]]


def replay(segment: LogSegment, store: ObjectStore) -> TableState:
    """The state of the table that `segment` builds.

    The newest protocol is checked before anything else is trusted. Raises UnsupportedFeature, CorruptCheckpoint and
    CorruptLog, the latter two naming the file. Source: delta-protocol.md "Action Reconciliation".
    """
    commits = _read_commits(store, segment.commits)
    gate = _newest_protocol(commits)
    if gate is not None:
        validate_readable(gate, store.root_url)
    draft = _Draft()
    checkpoint = None
    if segment.checkpoint is not None:
        checkpoint = open_checkpoint(store, segment.checkpoint)
        inherited = [(checkpoint.version, segment.checkpoint.paths[0], list(checkpoint.actions))]
        if gate is None and (gate := _newest_protocol(inherited)) is not None:
            validate_readable(gate, store.root_url)
        _apply(draft, inherited)
    _apply(draft, commits)
    return _finish(draft, store, segment.version, checkpoint, newest_per_file(_file_actions(commits)))


def advance(state: TableState, commits: Sequence[CommitFile], store: ObjectStore) -> TableState:
    """`state` moved forward by `commits`, which follow its version without a gap; cost O(new + newest).

    Raises as `replay` does.
    """
    read = _read_commits(store, commits)
    gate = _newest_protocol(read)
    if gate is not None:
        validate_readable(gate, store.root_url)
    draft = _Draft(
        state.protocol, state.metadata, dict(state.transactions), dict(state.domains), state.last_commit_info
    )
    _apply(draft, read)
    newest = newest_per_file(pa.concat_tables([state.newest, _file_actions(read)]))
    return _finish(draft, store, commits[-1].end_version, state.checkpoint, newest)


def _read_commits(store: ObjectStore, files: Sequence[CommitFile]) -> _Commits:
    try:
        contents = store.read_many([file.path for file in files])
    except ObjectNotFound as error:
        raise CorruptLog(f"{store.root_url}: a commit that was listed is gone: {error}") from error
    return [
        (file.end_version, f"{store.root_url}/{file.path}", parse_actions(data, f"{store.root_url}/{file.path}"))
        for file, data in zip(files, contents, strict=True)
    ]


def _newest_protocol(commits: _Commits) -> Protocol | None:
    for _, where, actions in reversed(commits):
        for action in reversed(actions):
            if action.get("protocol") is not None:
                return Protocol.from_json(action["protocol"], where)
    return None


def _file_actions(commits: _Commits) -> pa.Table:
    return file_actions(commits) if commits else ACTION_SCHEMA.empty_table()


def _apply(draft: _Draft, commits: _Commits) -> None:
    for _, where, actions in commits:
        draft.last_commit_info = None
        for action in actions:
            if "add" in action or "remove" in action:
                continue
            if action.get("protocol") is not None:
                draft.protocol = Protocol.from_json(action["protocol"], where)
            elif action.get("metaData") is not None:
                draft.metadata = Metadata.from_json(action["metaData"], where)
            elif action.get("txn") is not None:
                transaction = SetTransaction.from_json(action["txn"], where)
                draft.transactions[transaction.app_id] = transaction
            elif action.get("domainMetadata") is not None:
                _apply_domain(draft, DomainMetadata.from_json(action["domainMetadata"], where))
            elif isinstance(action.get("commitInfo"), dict):
                draft.last_commit_info = action["commitInfo"]


def _apply_domain(draft: _Draft, domain: DomainMetadata) -> None:
    if domain.removed:
        draft.domains.pop(domain.domain, None)
    else:
        draft.domains[domain.domain] = domain


def _finish(
    draft: _Draft, store: ObjectStore, version: int, checkpoint: Checkpoint | None, newest: pa.Table
) -> TableState:
    for name, action in (("protocol", draft.protocol), ("metaData", draft.metadata)):
        if action is None:
            source = f"the checkpoint of version {checkpoint.version}" if checkpoint else "the log"
            raise CorruptLog(
                f"{store.root_url}: version {version} has no {name} action: {source} must hold one; restore the log "
                "or read an older version"
            )
    assert draft.protocol is not None  # noqa: S101  (the loop above has seen to it)
    assert draft.metadata is not None  # noqa: S101
    return TableState(
        version,
        draft.protocol,
        draft.metadata,
        draft.transactions,
        draft.domains,
        checkpoint,
        newest,
        draft.last_commit_info,
    )
