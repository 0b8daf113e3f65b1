"""The result of a successful commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.html.components import badge, card, card_or_reason, facts, moment, muted, pairs
from slackwater.html.element import Markup, fragment
from slackwater.html.redaction import without_secrets
from slackwater.log.table import Table
from slackwater.log.table_detail import to_moment
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A successful commit: version, time in milliseconds since the epoch, and number of attempts.

    `upkeep` lists the completed maintenance after the commit: checkpoint, checksum, cleanup. `upkeep_errors` lists the
    failed maintenance. The commit is valid regardless.
    """

    table: Table
    version: int
    timestamp_ms: int
    attempts: int
    upkeep: tuple[str, ...] = ()
    upkeep_errors: tuple[str, ...] = ()
    known: Snapshot | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        return card_or_reason("CommitResult", self.table.location, self._card)

    def _card(self) -> Markup:
        at = to_moment(self.timestamp_ms)
        return card(
            "CommitResult",
            without_secrets(self.table.location),
            facts(
                {
                    "version": self.version,
                    "committed": None if at is None else fragment(moment(at), muted(" UTC")),
                    "attempts": self.attempts,
                }
            ),
            pairs(
                {
                    "done afterwards": ", ".join(self.upkeep) or None,
                    "what of that failed": without_secrets("; ".join(self.upkeep_errors)) or None,
                }
            ),
            badges=[badge("committed", "good")],
        )

    @property
    def store(self) -> ObjectStore:
        """The object store of the table's files."""
        return self.table.store

    @property
    def snapshot(self) -> Snapshot:
        """The table as of this version. Raises the errors of `Snapshot.load` if the version must be read.

        Within a transaction over several tables, the table with all changes of the transaction so far.
        """
        if self.table.branch is not None:
            return Snapshot.open(self.table)
        return self.known or Snapshot.open(self.table, self.version)
