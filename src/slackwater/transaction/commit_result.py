"""What a commit that landed answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.log.table import Table
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A commit that landed: its version, its time in ms since the epoch, and how many attempts it took.

    `upkeep` is what was done after the commit (checkpoint, checksum, cleanup), and `upkeep_errors` what of that
    failed: the commit stands regardless.
    """

    table: Table
    version: int
    timestamp_ms: int
    attempts: int
    upkeep: tuple[str, ...] = ()
    upkeep_errors: tuple[str, ...] = ()
    known: Snapshot | None = field(default=None, repr=False)

    @property
    def store(self) -> ObjectStore:
        """Where the table's files are."""
        return self.table.store

    @property
    def snapshot(self) -> Snapshot:
        """The table as of this very version; raises as `Snapshot.load` where it has to be read."""
        return self.known or Snapshot.open(self.table, self.version)
