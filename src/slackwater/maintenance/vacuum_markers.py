"""Marker commits of VACUUM. They prevent VACUUM from deleting a file re-added by a concurrent commit.

VACUUM commits a START marker, then reads the log before each delete batch. A writer that re-adds files aborts if it
sees the marker. If the writer committed first, VACUUM sees the commit.
Source: docs/guides/maintenance.md "What may go on meanwhile".
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from slackwater.errors import DataFileNotFound, SlackwaterError
from slackwater.maintenance.referenced_files import files_named
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectMeta
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.running_vacuum import END, SIGN, SIGN_OF_LIFE_MS, SPARES, START

_NAMED = 5
_log = logging.getLogger(__name__)


class ReferencedFiles:
    """Files named by commits after `snapshot`. Versions current at `cutoff_ms` or later are retained."""

    def __init__(self, snapshot: Snapshot, cutoff_ms: int) -> None:
        self._first = self._newest = snapshot
        self._cutoff_ms = cutoff_ms
        self._named: set[str] = set()

    def named(self) -> Collection[str]:
        """Return the locations of files named by the commits so far. VACUUM retains them.

        Raises the errors of reading the log.
        """
        newest = self._newest.update()
        self._named |= files_named(newest, self._newest.version, self._cutoff_ms)
        self._newest = newest
        return self._named

    def require_not_named(self, deleted: Collection[str]) -> None:
        """Raise DataFileNotFound if a `deleted` file was re-added between the last read of the log and the deletion."""
        named = self.named() if deleted else ()
        gone = [path for path in deleted if path in named]
        if gone:
            shown = ", ".join(gone[:_NAMED]) + (", …" if len(gone) > _NAMED else "")
            raise DataFileNotFound(
                f"{self._first.store.root_url}: VACUUM deleted {len(gone)} files ({shown}) that other writers "
                f"re-added at the same time, by a commit after version {self._first.version}. The newest version may "
                "need them, older ones do not. Restore the version before that commit"
            )


@dataclass(frozen=True, slots=True)
class VacuumLogging:
    """Options of the history entries: whether to write entries, with which user name and metadata.

    `spares_ms` is the minimum age of deleted untracked files, in milliseconds.
    """

    logs: bool
    spares_ms: int
    user_metadata: str | None
    user_name: str | None


class VacuumMarkers:
    """History entries of one VACUUM of `snapshot`'s table. `parameters` are the parameters of the START entry."""

    def __init__(self, snapshot: Snapshot, telling: VacuumLogging, parameters: Mapping[str, str], clock: Clock) -> None:
        self._snapshot = snapshot
        self._telling = telling
        self._parameters = parameters
        self._clock = clock
        self._sign = clock.new_id()
        self._told_ms = 0

    def commit_start(self, files: Sequence[ObjectMeta]) -> None:
        """Commit the START marker for the deletion of `files`. Raises the errors of a commit."""
        metrics = {
            "numFilesToDelete": str(len(files)),
            "sizeOfDataToDelete": str(sum(meta.size_bytes for meta in files)),
        }
        # Use the time before the commit, because the marker may be old after a slow commit.
        self._told_ms = self._clock.now_ms()
        self._commit(START, self._parameters, metrics)

    def renew_start(self, files: Sequence[ObjectMeta]) -> None:
        """Commit the START marker again if the last one is older than SIGN_OF_LIFE_MS.

        Raises the errors of a commit.
        """
        if self._clock.now_ms() - self._told_ms >= SIGN_OF_LIFE_MS:
            self.commit_start(files)

    def commit_end(self, status: str, files: int, directories: int, quietly: bool = False) -> None:
        """Commit the END marker with `status` and the numbers of deleted files and directories.

        Raises the errors of a commit; if `quietly`, a SlackwaterError is only logged.
        """
        metrics = {"numDeletedFiles": str(files), "numVacuumedDirectories": str(directories)}
        try:
            self._commit(END, {"status": status}, metrics)
        except SlackwaterError as error:
            if not quietly:
                raise
            root = self._snapshot.store.root_url
            _log.warning("%s: VACUUM failed, and its end could not be recorded: %s", root, error)

    def _commit(self, operation: str, parameters: Mapping[str, str], metrics: Mapping[str, str]) -> None:
        if not self._telling.logs:
            return
        self._snapshot = self._snapshot.update()
        begin(self._snapshot, clock=self._clock).commit(
            operation,
            parameters,
            metrics,
            self._telling.user_metadata,
            tags={SIGN: self._sign, SPARES: str(self._telling.spares_ms)},
            user_name=self._telling.user_name,
        )
