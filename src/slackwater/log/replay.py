"""Action reconciliation: builds the state of a table from a log segment.

Small actions are Python values, and file actions stay in Arrow. File actions of the checkpoint are read on demand.
Source: delta-protocol.md "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from slackwater.errors import CorruptCheckpoint, CorruptLog
from slackwater.log.commit_reader import Commit, CommitReader
from slackwater.log.files.bulk_commit import BulkActions, small_actions
from slackwater.log.files.checkpoint import Checkpoint, open_checkpoint
from slackwater.log.files.commits import ParsedCommit
from slackwater.log.files.file_actions import (
    ACTION_SCHEMA,
    file_actions,
    newest_per_file,
    not_among,
    select_rows,
)
from slackwater.log.files.plain_arrays import empty_table
from slackwater.log.files.segment import CheckpointFiles, CommitFile, LogSegment
from slackwater.protocol.actions.actions import (
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.table_features import validate_readable
from slackwater.protocol.unsupported.redirects import refuse_redirect_of_readers
from slackwater.storage.store import ObjectStore


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of the log at `version`, without the file actions of the checkpoint: `checkpoint` reads them.

    `newest` has the columns of ACTION_SCHEMA: the newest reference to every file named by a commit after the
    checkpoint. These references override the checkpoint. `domains` holds no removed domain.
    """

    version: int
    configuration: TableConfiguration
    transactions: Mapping[str, SetTransaction]
    domains: Mapping[str, DomainMetadata]
    checkpoint: Checkpoint | None
    newest: pa.Table
    last_commit_info: Mapping[str, Any] | None = None

    @property
    def protocol(self) -> Protocol:
        """The reader and writer requirements of this version."""
        return self.configuration.protocol

    @property
    def metadata(self) -> Metadata:
        """Schema, partitioning and configuration."""
        return self.configuration.metadata


@dataclass(slots=True)
class _Draft:
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, SetTransaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    last_commit_info: Mapping[str, Any] | None = None

    def configuration(self, before: TableConfiguration | None) -> TableConfiguration | None:
        """Return the configuration: `before` itself if nothing changed, None without a protocol or without metadata."""
        if self.protocol is None or self.metadata is None:
            return None
        if before is None:
            return TableConfiguration(self.protocol, self.metadata)
        return before.changed(self.protocol, self.metadata)


# Bounds the number of chunks after many single-commit updates; few rows are cheap to combine more often.
_MOST_CHUNKS, _FEW_CHUNKS, _FEW_ROWS = 64, 12, 10_000

# Small actions and their key field. A checkpoint has one action per key; an empty key field means one action in all.
_SMALL = {"protocol": "", "metaData": "", "txn": "appId", "domainMetadata": "domain"}

_Commits = Sequence[Commit]


def replay(segment: LogSegment, store: ObjectStore) -> tuple[LogSegment, LogState]:
    """Return the state of the table built from `segment`, and the segment actually used.

    A compaction that is damaged or contradicts itself is replaced by the commits of its range. The newest protocol is
    checked first, before any other action is used. Raises UnsupportedFeature, and CorruptCheckpoint or CorruptLog with
    the name of the file. Source: delta-protocol.md "Action Reconciliation".
    """
    read = CommitReader(store, segment.commits)
    passed = _pass_gate(read.small, store)
    draft = _Draft()
    checkpoint = None
    if segment.checkpoint is not None:
        checkpoint = _inherit(draft, segment.checkpoint, store, passed)
    if read.unreadable is not None:
        raise read.unreadable
    _apply(draft, read.small)
    state = _finish(draft, store, segment.version, checkpoint, read.newest_files())
    return replace(segment, commits=tuple(read.used)), state


def advance(state: LogState, commits: Sequence[CommitFile], store: ObjectStore) -> LogState:
    """Return `state` moved forward by `commits`, which follow its version without a gap; cost O(new + newest).

    Raises as `replay` does.
    """
    read = CommitReader(store, commits)
    _pass_gate(read.small, store)
    if read.unreadable is not None:
        raise read.unreadable
    return _advance(state, read.small, read.newest_files, store)


def replay_first(commit: ParsedCommit, store: ObjectStore) -> LogState:
    """Return the state after the parsed first commit of a table. Raises as `replay` does."""
    read = [(commit.version, commit.where, commit.actions)]
    _pass_gate(read, store)
    draft = _Draft()
    _apply(draft, read)
    return _finish(draft, store, commit.version, None, _newest_per_file(read))


def advance_by(state: LogState, commits: Sequence[ParsedCommit], store: ObjectStore) -> LogState:
    """Return `state` moved forward by parsed `commits`, see `advance`."""
    read = [(commit.version, commit.where, commit.actions) for commit in commits]
    _pass_gate(read, store)
    return _advance(state, read, lambda: _newest_per_file(read), store)


def _advance(state: LogState, commits: _Commits, newest_files: Callable[[], pa.Table], store: ObjectStore) -> LogState:
    draft = _Draft(
        state.protocol, state.metadata, dict(state.transactions), dict(state.domains), state.last_commit_info
    )
    _apply(draft, commits)
    fresh = newest_files()
    newest = pa.concat_tables([select_rows(state.newest, not_among(state.newest, fresh)), fresh])
    if newest["path"].num_chunks > (_MOST_CHUNKS if newest.num_rows > _FEW_ROWS else _FEW_CHUNKS):
        newest = newest.combine_chunks()
    return _finish(draft, store, commits[-1][0], state.checkpoint, newest, state.configuration)


def _pass_gate(commits: _Commits, store: ObjectStore) -> bool:
    """Return whether the commits have a protocol. Raises UnsupportedFeature for an unsupported protocol."""
    protocol = _newest_protocol(commits)
    if protocol is not None:
        refuse_redirect_of_readers(protocol, _newest_properties(commits), store.root_url)
        validate_readable(protocol, store.root_url)
    return protocol is not None


def _inherit(draft: _Draft, files: CheckpointFiles, store: ObjectStore, passed: bool) -> Checkpoint:
    """Apply the small actions of a checkpoint. Checks its protocol unless a newer protocol has `passed`."""
    where = f"{store.root_url}/{files.paths[0]}"

    def gate(actions: Sequence[Mapping[str, Any]]) -> None:
        if not passed:
            _pass_gate([(files.version, where, list(actions))], store)

    try:
        checkpoint = open_checkpoint(store, files, gate)
        _validate_agreement(checkpoint.actions, where)
        _apply(draft, [(files.version, where, list(checkpoint.actions))])
    except CorruptLog as error:
        raise CorruptCheckpoint(str(error)) from error
    return checkpoint


def _validate_agreement(actions: Sequence[Mapping[str, Any]], where: str) -> None:
    """Raise CorruptLog if two actions of one key differ: a checkpoint has no order, so neither action is newer."""
    seen: dict[tuple[str, Any], Any] = {}
    for action in actions:
        for kind, node in action.items():
            if kind in _SMALL and node is not None:
                name = node.get(_SMALL[kind]) if isinstance(node, Mapping) else None
                if seen.setdefault((kind, str(name)), node) != node:
                    raise CorruptLog(f"{where}: two {kind} actions contradict each other. One is {str(node)[:200]}")


def _newest_protocol(commits: _Commits) -> Protocol | None:
    for _, where, actions in reversed(commits):
        for action in reversed(small_actions(actions)):
            if action.get("protocol") is not None:
                return Protocol.from_json(action["protocol"], where)
    return None


def _newest_properties(commits: _Commits) -> Mapping[str, str]:
    """Return the table properties of the newest metadata in `commits`, empty if it is absent or malformed."""
    for _, where, actions in reversed(commits):
        for action in reversed(small_actions(actions)):
            if action.get("metaData") is not None:
                try:
                    return Metadata.from_json(action["metaData"], where).configuration
                except CorruptLog:
                    return {}
    return {}


def _newest_per_file(commits: _Commits) -> pa.Table:
    if not commits:
        return empty_table(ACTION_SCHEMA)
    found = file_actions(commits)
    names_each_once = len(commits) == 1 and isinstance(commits[0][2], BulkActions)
    return found if names_each_once else newest_per_file(found)


def _apply(draft: _Draft, commits: _Commits) -> None:
    for _, where, actions in commits:
        draft.last_commit_info = None
        for action in small_actions(actions):
            if action.get("add") is not None or action.get("remove") is not None:
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
    draft: _Draft,
    store: ObjectStore,
    version: int,
    checkpoint: Checkpoint | None,
    newest: pa.Table,
    before: TableConfiguration | None = None,
) -> LogState:
    for name, action in (("protocol", draft.protocol), ("metaData", draft.metadata)):
        if action is None:
            source = f"the checkpoint of version {checkpoint.version}" if checkpoint else "the log"
            # A readable checkpoint without this action was written by a faulty writer and may lack more. Therefore no
            # older checkpoint is tried, unlike for a damaged one.
            raise CorruptLog(
                f"{store.root_url}: version {version} has no {name} action, but {source} must hold one. Restore the "
                "log, or read an older version"
            )
    configuration = draft.configuration(before)
    assert configuration is not None  # noqa: S101  (guaranteed by the loop above)
    return LogState(
        version,
        configuration,
        draft.transactions,
        draft.domains,
        checkpoint,
        newest,
        draft.last_commit_info,
    )
