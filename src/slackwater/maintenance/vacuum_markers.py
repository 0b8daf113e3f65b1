"""What a VACUUM and others tell each other by the log while files go: nothing goes that has come back.

It says that it is at work before it looks, and looks before each batch. Who brings files back and sees the first
refrains; who has brought them back before is seen by the second.
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
from slackwater.transaction.conflicts.running_vacuum import END, SIGN, SIGN_OF_LIFE_MS, SPARES, START
from slackwater.transaction.factory import begin

_NAMED = 5
_log = logging.getLogger(__name__)


class ReferencedFiles:
    """What others commit after `snapshot`; versions that were current at `cutoff_ms` or later are retained."""

    def __init__(self, snapshot: Snapshot, cutoff_ms: int) -> None:
        self._first = self._newest = snapshot
        self._cutoff_ms = cutoff_ms
        self._named: set[str] = set()

    def named(self) -> Collection[str]:
        """Where the files are that commits since then name, as of now: these stay. Raises as reading the log does."""
        newest = self._newest.update()
        self._named |= files_named(newest, self._newest.version, self._cutoff_ms)
        self._newest = newest
        return self._named

    def require_not_named(self, deleted: Collection[str]) -> None:
        """Raise DataFileNotFound where a file that is `deleted` came back all the same, between look and deletion."""
        named = self.named() if deleted else ()
        gone = [path for path in deleted if path in named]
        if gone:
            shown = ", ".join(gone[:_NAMED]) + (", …" if len(gone) > _NAMED else "")
            raise DataFileNotFound(
                f"{self._first.store.root_url}: while VACUUM deleted them others brought back {len(gone)} files "
                f"({shown}), by a commit after version {self._first.version}: no retained version needed them then, "
                "and the newest one may now. Restore the version before that commit"
            )


@dataclass(frozen=True, slots=True)
class VacuumLogging:
    """Whether the history tells of a VACUUM, and of whom and what for.

    `spares_ms` is how old the files at least are that go though the log never named them.
    """

    logs: bool
    spares_ms: int
    user_metadata: str | None
    user_name: str | None


class VacuumMarkers:
    """The entries of one VACUUM in the history of `snapshot`'s table; `parameters` are those of its beginning."""

    def __init__(self, snapshot: Snapshot, telling: VacuumLogging, parameters: Mapping[str, str], clock: Clock) -> None:
        self._snapshot = snapshot
        self._telling = telling
        self._parameters = parameters
        self._clock = clock
        self._sign = clock.new_id()
        self._told_ms = 0

    def commit_start(self, files: Sequence[ObjectMeta]) -> None:
        """Say that `files` are about to go. Raises as a commit does."""
        metrics = {
            "numFilesToDelete": str(len(files)),
            "sizeOfDataToDelete": str(sum(meta.size_bytes for meta in files)),
        }
        # Of the time before the commit: later it may be old already.
        self._told_ms = self._clock.now_ms()
        self._commit(START, self._parameters, metrics)

    def renew_start(self, files: Sequence[ObjectMeta]) -> None:
        """Say again that `files` are about to go, where it was said a while ago."""
        if self._clock.now_ms() - self._told_ms >= SIGN_OF_LIFE_MS:
            self.commit_start(files)

    def commit_end(self, status: str, files: int, directories: int, quietly: bool = False) -> None:
        """Say how it ended, and how many files and directories went; raises nothing where it is to be quiet."""
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
