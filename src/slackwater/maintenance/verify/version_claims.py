"""A version reconstructed from one part of the log, and the difference between two reconstructions.

Source: delta-protocol.md "Action Reconciliation", "Checkpoints".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.log.files.commits import ParsedCommit
from slackwater.log.files.file_actions import file_keys, not_among, select_rows
from slackwater.log.files.segment import CheckpointFiles, CommitFile, LogSegment
from slackwater.log.files.version_checksum import VersionChecksum, contradiction
from slackwater.log.live_files import CheckpointAdds, LiveFiles
from slackwater.log.replay import LogState, advance, advance_by, replay, replay_first
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import SET_TRANSACTION_RETENTION
from slackwater.storage.store import ObjectStore

_KEY = ("path", "deletionVector")
_COMPARED = ("size", "modificationTime", "partitionValues", "baseRowId", "defaultRowCommitVersion")
_NAMED = 3


@dataclass(frozen=True, slots=True)
class VersionClaim:
    """A version reconstructed from a checkpoint, or from commits starting at version 0 or at a checkpoint."""

    state: LogState
    base: CheckpointAdds
    store: ObjectStore

    @classmethod
    def by_checkpoint(cls, files: CheckpointFiles, store: ObjectStore) -> VersionClaim:
        """Return the version of this checkpoint alone. Raises CorruptCheckpoint, UnsupportedFeature."""
        _, state = replay(LogSegment(files.version, files, ()), store)
        return cls(state, CheckpointAdds(state.checkpoint, store), store)

    @classmethod
    def by_first(cls, commit: ParsedCommit, store: ObjectStore) -> VersionClaim:
        """Return the version of the first commit, version 0. Raises CorruptLog, UnsupportedFeature."""
        return cls(replay_first(commit, store), CheckpointAdds(None, store), store)

    def after(self, commit: ParsedCommit) -> VersionClaim:
        """Return the version after the next commit. Raises CorruptLog, UnsupportedFeature."""
        return VersionClaim(advance_by(self.state, [commit], self.store), self.base, self.store)

    def after_compaction(self, file: CommitFile) -> VersionClaim:
        """Return the version after a compaction that starts at the next commit. Raises CorruptLog, StorageError."""
        return VersionClaim(advance(self.state, [file], self.store), self.base, self.store)

    @classmethod
    def by_compaction(cls, file: CommitFile, store: ObjectStore) -> VersionClaim:
        """Return the version of a compaction that starts at version 0. Raises the errors of `after_compaction`."""
        _, state = replay(LogSegment(file.end_version, None, (file,)), store)
        return cls(state, CheckpointAdds(None, store), store)

    @property
    def version(self) -> int:
        """The version number."""
        return self.state.version

    @property
    def configuration(self) -> TableConfiguration:
        """The protocol and metadata of the version."""
        return self.state.configuration

    def files(self, columns: Sequence[str]) -> pa.Table:
        """Return the live files with `columns` of ADD_SCHEMA. Raises CorruptCheckpoint."""
        return LiveFiles(self.base, self.state.newest).read(columns)

    def totals(self) -> tuple[int, int | None]:
        """Return the number of live files and their bytes, None if sizes are missing. Raises CorruptCheckpoint."""
        sizes = self.files(["size"])["size"]
        return len(sizes), None if sizes.null_count else pc.sum(sizes, min_count=0).as_py()


def difference(found: VersionClaim, expected: VersionClaim) -> str | None:
    """Return the first difference between `found` and `expected`, the version from commits; None if equal.

    A checkpoint may omit expired application transactions if the table permits this. Tombstones are not compared,
    because checkpoints omit old tombstones. Raises CorruptCheckpoint.
    """
    said = VersionChecksum(found.version, 0, 0, found.configuration)
    about_the_table = contradiction(said, expected.configuration, 0, None)
    if about_the_table is not None:
        return about_the_table
    return _files_differ(found, expected) or _small_actions_differ(found.state, expected.state)


def _files_differ(found: VersionClaim, expected: VersionClaim) -> str | None:
    ours, theirs = (told.files([*_KEY, *_COMPARED]) for told in (found, expected))
    for lacking, holding, says in ((ours, theirs, "it lacks"), (theirs, ours, "it has, but the commits do not,")):
        alone = select_rows(holding, not_among(holding, lacking))["path"].to_pylist()
        if alone:
            return f"{says} {_some(alone)}, of {len(theirs)} live files"
    if len(ours) != len(theirs):
        return f"it names {len(ours)} live files, but the commits name {len(theirs)}"
    rows = pc.index_in(file_keys(theirs), file_keys(ours).combine_chunks())
    aligned = ours.take(rows)
    for column in _COMPARED:
        ours_then, theirs_then = aligned[column].to_pylist(), theirs[column].to_pylist()
        for path, ours_is, theirs_is in zip(theirs["path"].to_pylist(), ours_then, theirs_then, strict=True):
            if _plain(ours_is) != _plain(theirs_is):
                return f"it has {column} {_plain(ours_is)!r} of {path}, but the commits have {_plain(theirs_is)!r}"
    return None


def _small_actions_differ(found: LogState, expected: LogState) -> str | None:
    forgets = found.configuration.properties.get(SET_TRANSACTION_RETENTION) is not None
    kinds: tuple[tuple[str, Mapping[str, Any], Mapping[str, Any], bool], ...] = (
        ("transaction of the application", found.transactions, expected.transactions, forgets),
        ("metadata domain", found.domains, expected.domains, False),
    )
    for noun, ours, theirs, may_lack in kinds:
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name) and not (may_lack and name not in ours):
                return f"its {noun} {name} is {ours.get(name)}, but that of the commits is {theirs.get(name)}"
    return None


def _plain(value: Any) -> Any:
    """Return a map from Arrow, a list of pairs, as a dict."""
    return dict(value) if isinstance(value, list) else value


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more
