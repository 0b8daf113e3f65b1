"""Verifies the log commit by commit: gaps, timestamps, checksums, checkpoints, sidecars and compactions.

Source: delta-protocol.md "Delta Log Entries", "Checkpoints", "Log Compaction Files", "In-Commit Timestamps"; the public
protocol's "Version Checksum File".
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import orjson

from slackwater.errors import CorruptLog, ObjectNotFound, SlackwaterError, UnsupportedFeature
from slackwater.log.files.checkpoint import sidecar_sizes
from slackwater.log.files.commits import ParsedCommit, parsed_commit
from slackwater.log.files.last_checkpoint import LAST_CHECKPOINT, read_last_checkpoint
from slackwater.log.files.managed_log import read_commits
from slackwater.log.files.segment import CheckpointFiles, CommitFile, LogListing
from slackwater.log.files.version_checksum import (
    contradiction,
    contradiction_of_files,
    parsed_version_checksum,
)
from slackwater.maintenance.verify.findings import FaultKind, Findings
from slackwater.maintenance.verify.version_claims import VersionClaim, difference
from slackwater.protocol.actions.actions import SetTransaction
from slackwater.protocol.actions.file_names import LOG, crc_name
from slackwater.protocol.features.in_commit_timestamps import is_enabled
from slackwater.protocol.properties.properties import SET_TRANSACTION_RETENTION
from slackwater.storage.store import ObjectStore

_READ_AT_ONCE = 256


class LogWalk:
    """A walk over the log of `store` in `listing`, up to version `target`. Results are added to `findings`."""

    def __init__(
        self,
        store: ObjectStore,
        listing: LogListing,
        target: int,
        findings: Findings,
        on_commit: Callable[[ParsedCommit], None],
    ) -> None:
        """Create the walk. `on_commit` is called with each readable commit."""
        self._store = store
        self._listing = listing
        self._target = target
        self._findings = findings
        self._on_commit = on_commit
        self._checkpoints: dict[int, list[CheckpointFiles]] = defaultdict(list)
        for checkpoint in listing.checkpoints:
            self._checkpoints[checkpoint.version].append(checkpoint)
        self._compactions: dict[int, list[CommitFile]] = defaultdict(list)
        for file in listing.compacted:
            self._compactions[file.end_version].append(file)
        self._begun: dict[int, VersionClaim] = {}
        self._last_ms: tuple[int, int] | None = None

    @property
    def oldest(self) -> int:
        """The oldest version in the log."""
        return min([*self._listing.commits, *self._checkpoints])

    def run(self) -> VersionClaim | None:
        """Walk the log and return the target version; None if the log cannot reconstruct it.

        Raises UnsupportedFeature for a version that this package cannot read.
        """
        self._look_for_gaps()
        told: VersionClaim | None = None
        for version, commit in self._commits():
            self._note_beginnings(told, version)
            told = self._next(told, version, commit)
            if told is not None and commit is not None:
                self._look_at_time(commit, told)
            told = self._look_at_checkpoints(told, version)
            if told is not None:
                self._look_at_compactions(told)
                self._look_at_checksum(told, commit)
        self._look_at_hint()
        return told if told is not None and told.version == self._target else None

    def _look_for_gaps(self) -> None:
        """Add faults for gaps between commits, and for commits missing before the oldest without a checkpoint."""
        commits = self._listing.commits
        inside = [version for version in commits if version <= self._target]
        oldest = min(inside, default=None)
        if oldest is not None:
            for first, last in _gaps(sorted(inside)):
                self._findings.fault(FaultKind.GAP, _versions(first, last), "commits are missing from the log")
        begins = min((version for version in self._checkpoints if version <= self._target), default=None)
        if oldest != 0 and begins is None:
            self._findings.fault(
                FaultKind.GAP,
                _versions(0, (oldest or self._target + 1) - 1),
                "commits are missing from the log, and no checkpoint replaces them",
            )
        newest = max(inside, default=-1)
        since = max((version for version in self._checkpoints if version <= self._target), default=-1)
        if max(newest, since) < self._target:
            self._findings.fault(FaultKind.GAP, _versions(max(newest, since) + 1, self._target), "commits are missing")

    def _commits(self) -> Iterator[tuple[int, ParsedCommit | None]]:
        """Yield the versions with a commit or a checkpoint, ascending, with the commit if readable."""
        versions = sorted(v for v in {*self._listing.commits, *self._checkpoints} if v <= self._target)
        for start in range(0, len(versions), _READ_AT_ONCE):
            some = versions[start : start + _READ_AT_ONCE]
            contents = self._contents([self._listing.commits[v] for v in some if v in self._listing.commits])
            for version in some:
                data = contents.get(version)
                yield version, None if data is None else self._parsed(version, data)

    def _contents(self, files: Sequence[CommitFile]) -> dict[int, bytes]:
        try:
            found = read_commits(self._store, files)
            return {file.version: data for file, data in zip(files, found, strict=True)}
        except SlackwaterError:
            return {file.version: data for file in files for data in self._content(file)}

    def _content(self, file: CommitFile) -> list[bytes]:
        try:
            return read_commits(self._store, [file])
        except SlackwaterError as error:
            self._findings.fault(FaultKind.COMMIT, file.path, f"it cannot be read: {error}")
            return []

    def _parsed(self, version: int, data: bytes) -> ParsedCommit | None:
        file = self._listing.commits[version]
        self._findings.looked("commits")
        try:
            commit = parsed_commit(self._store, version, data, file)
        except CorruptLog as error:
            self._findings.fault(FaultKind.COMMIT, file.path, str(error))
            return None
        self._on_commit(commit)
        return commit

    def _next(self, told: VersionClaim | None, version: int, commit: ParsedCommit | None) -> VersionClaim | None:
        """Return the version after `commit`, or None until the next checkpoint.

        None follows an unreadable commit or a gap in the log.
        """
        if commit is None or (version != 0 if told is None else version != told.version + 1):
            return None
        try:
            return VersionClaim.by_first(commit, self._store) if told is None else told.after(commit)
        except UnsupportedFeature:
            raise
        except SlackwaterError as error:
            self._findings.fault(FaultKind.COMMIT, commit.file.path, str(error))
            return None

    def _look_at_time(self, commit: ParsedCommit, told: VersionClaim) -> None:
        if not is_enabled(told.configuration):
            self._last_ms = None
            return
        self._findings.looked("in-commit timestamps")
        found = commit.info.get("inCommitTimestamp")
        before, self._last_ms = self._last_ms, None
        if isinstance(found, bool) or not isinstance(found, int):
            says = f"the table has in-commit timestamps, but this commit has none: {str(found)[:80]}"
            self._findings.fault(FaultKind.TIMESTAMP, commit.file.path, says)
            return
        self._last_ms = commit.version, found
        if before is not None and before[0] == commit.version - 1 and found <= before[1]:
            says = f"its timestamp {found} is not after {before[1]}, that of version {before[0]}"
            self._findings.fault(FaultKind.TIMESTAMP, commit.file.path, says)

    def _look_at_checkpoints(self, told: VersionClaim | None, version: int) -> VersionClaim | None:
        """Compare the version from commits with the checkpoints of the version.

        Return the version from commits, or from a valid checkpoint if commits do not provide the version.
        """
        for files in self._checkpoints.get(version, ()):
            self._findings.looked("checkpoints")
            if not self._look_at_sidecars(files):
                continue
            try:
                found = VersionClaim.by_checkpoint(files, self._store)
                says = None if told is None else difference(found, told)
                found.files(["path", "size"])
            except UnsupportedFeature:
                raise
            except SlackwaterError as error:
                self._findings.fault(FaultKind.CHECKPOINT, files.paths[0], str(error))
                continue
            if says is not None:
                self._findings.fault(FaultKind.CHECKPOINT, files.paths[0], f"it differs from the commits: {says}")
            told = told or found
        return told

    def _look_at_sidecars(self, files: CheckpointFiles) -> bool:
        """Return whether all sidecars of a checkpoint exist. Adds a fault for a missing sidecar or a different size."""
        try:
            sizes = sidecar_sizes(self._store, files)
        except SlackwaterError as error:
            self._findings.fault(FaultKind.CHECKPOINT, files.paths[0], str(error))
            return False
        are_there = True
        for path, size in sizes.items():
            self._findings.looked("sidecars")
            meta = self._store.head(path)
            if meta is None:
                self._findings.fault(FaultKind.SIDECAR, path, f"it does not exist, but {files.paths[0]} needs it")
                are_there = False
            elif size is not None and meta.size_bytes != size:
                says = f"it has {meta.size_bytes} bytes, but {files.paths[0]} records {size}"
                self._findings.fault(FaultKind.SIDECAR, path, says)
        return are_there

    def _note_beginnings(self, told: VersionClaim | None, version: int) -> None:
        """Store the version before a compaction for the comparison at its end."""
        if told is not None and any(file.version == version == told.version + 1 for file in self._listing.compacted):
            self._begun[version] = told

    def _look_at_compactions(self, told: VersionClaim) -> None:
        for file in self._compactions.get(told.version, ()):
            before = self._begun.get(file.version)
            if before is None and file.version != 0:
                continue
            self._findings.looked("compactions")
            try:
                by = VersionClaim.by_compaction(file, self._store) if before is None else before.after_compaction(file)
                says = difference(by, told)
            except (CorruptLog, ObjectNotFound) as error:
                says = str(error)
            if says is not None:
                self._findings.fault(FaultKind.COMPACTION, file.path, f"it differs from the commits: {says}")

    def _look_at_checksum(self, told: VersionClaim, commit: ParsedCommit | None) -> None:
        if told.version not in self._listing.checksums:
            return
        path = f"{LOG}/{crc_name(told.version)}"
        try:
            data = self._store.read(path)
            if _is_of_before(data):
                self._findings.looked("version checksums of an older form, passed over")
                return
            self._findings.looked("version checksums")
            checksum = parsed_version_checksum(data, told.version, path)
            says = contradiction(checksum, told.configuration, *told.totals())
            says = says or contradiction_of_files(checksum, told.files(["path", "size", "deletionVector"]))
        except SlackwaterError as error:
            self._findings.fault(FaultKind.CHECKSUM, path, f"it cannot be used: {error}")
            return
        for said in checksum.transactions or ():
            if says is None and told.state.transactions.get(said.app_id) != said:
                says = f"it has version {said.version} of the application {said.app_id}, but the log has another one"
        if says is None and checksum.transactions is not None:
            says = _missing_applications(checksum.transactions, told)
        if says is None and checksum.domains is not None:
            live = {domain.domain: domain for domain in checksum.domains if not domain.removed}
            if live != told.state.domains:
                says = (
                    f"it has the metadata domains {sorted(live)}, but the log has {sorted(told.state.domains)} or "
                    "others"
                )
        found_ms = None if commit is None else commit.info.get("inCommitTimestamp")
        said_ms = checksum.in_commit_timestamp_ms
        if says is None and None not in (found_ms, said_ms) and found_ms != said_ms:
            says = f"its timestamp is {said_ms}, but that of the commit is {found_ms}"
        if says is not None:
            self._findings.fault(FaultKind.CHECKSUM, path, f"it differs from the log: {says}")

    def _look_at_hint(self) -> None:
        if self._store.head(LAST_CHECKPOINT) is None:
            return
        hint = read_last_checkpoint(self._store)
        if hint is None:
            says = "it is not JSON, has no version, or does not match its own checksum. Readers list the whole log"
            self._findings.fault(FaultKind.HINT, LAST_CHECKPOINT, says)
        elif hint.version not in self._checkpoints:
            says = f"it names version {hint.version}, which has no complete checkpoint. Readers list the whole log"
            self._findings.fault(FaultKind.HINT, LAST_CHECKPOINT, says)


def _missing_applications(listed: Sequence[SetTransaction], told: VersionClaim) -> str | None:
    """Return text for an application missing in a checksum. A checksum may lack applications that can expire."""
    if told.configuration.properties.get(SET_TRANSACTION_RETENTION) is not None:
        return None
    missing = told.state.transactions.keys() - {transaction.app_id for transaction in listed}
    return f"it lacks the application {min(missing)}" if missing else None


def _is_of_before(data: bytes) -> bool:
    """Return whether this is a checksum of the older form without metadata. Readers ignore such checksums."""
    try:
        node = orjson.loads(data)
    except ValueError:
        return False
    return isinstance(node, Mapping) and "tableSizeBytes" in node and "metadata" not in node


def _gaps(versions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last missing version of each gap in ascending `versions`."""
    for before, after in itertools.pairwise(versions):
        if after > before + 1:
            yield before + 1, after - 1


def _versions(first: int, last: int) -> str:
    return f"version {first}" if first == last else f"versions {first} to {last}"
