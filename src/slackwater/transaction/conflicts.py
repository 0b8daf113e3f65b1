"""Whether a transaction can be moved behind a commit that won the version it wanted.

Rules of delta-spark as the floor, finer where that is right: reads are conditions on rows, so a file conflicts only
where its partition values and statistics leave room for a row that should have been read; files that were only
rearranged conflict with no reader. Source: design §4.3; delta-spark-surface §7.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    MetadataChangedException,
    ProtocolChangedException,
)
from slackwater.protocol import row_tracking
from slackwater.protocol.actions import Metadata, Protocol
from slackwater.protocol.features import supported_features, validate_writable
from slackwater.protocol.paths import canonical_path, canonical_paths
from slackwater.scan.scan import plan
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.isolation import IsolationLevel
from slackwater.transaction.metadata_changes import is_tolerated
from slackwater.transaction.staged import ReadSet, StagedActions
from slackwater.transaction.winner import Winner


@dataclass(frozen=True)
class ConflictCheck:
    """One transaction's side: what it stages and read, and the snapshot that it read.

    `zone` is taken for partition values that name no time zone.
    """

    snapshot: Snapshot
    staged: StagedActions
    reads: ReadSet
    isolation: IsolationLevel
    zone: str = "UTC"

    def check(self, winner: Winner, before: Snapshot) -> None:
        """Return where the transaction may follow `winner`; `before` is the version that `winner` followed.

        Raises the DeltaConcurrentModificationException that says why not, and UnsupportedFeature where the winner's
        protocol asks for what this package cannot write.
        """
        self._dropped_features(winner)
        if winner.protocol is not None:
            self._protocol(winner, winner.protocol, before.protocol)
        if winner.metadata is not None:
            self._metadata(winner, winner.metadata, before.metadata)
        self._domains(winner)
        self._applications(winner)
        self._appended(winner)
        self._deleted(winner)

    def _protocol(self, winner: Winner, new: Protocol, old: Protocol) -> None:
        validate_writable(new, self._where)
        lost = supported_features(old) - supported_features(new)
        if self.staged.protocol is None and not lost:
            return
        what = f"removed the features {', '.join(sorted(lost))}" if lost else "changed the table's protocol as well"
        raise ProtocolChangedException(f"{self._says(winner)} {what}: read the table again and repeat the work")

    def _dropped_features(self, winner: Winner) -> None:
        """Nothing in the table used the features that this transaction drops; what the winner did may."""
        if self.staged.protocol is None or winner.is_blind_append:
            return
        dropped = supported_features(self.snapshot.protocol) - supported_features(self.staged.protocol)
        if dropped:
            raise ProtocolChangedException(
                f"{self._says(winner)} changed the table, which may need {', '.join(sorted(dropped))} now: read the "
                "table again and repeat the work"
            )

    def _metadata(self, winner: Winner, new: Metadata, old: Metadata) -> None:
        if self.staged.metadata is None and is_tolerated(old, new):
            return
        raise MetadataChangedException(
            f"{self._says(winner)} changed the table's schema or settings, so what was written may not fit any more: "
            "read the table again and repeat the work"
        )

    def _domains(self, winner: Winner) -> None:
        both = sorted((set(self.staged.domains) & winner.domains) - {row_tracking.DOMAIN})
        if both:
            raise ConcurrentTransactionException(
                f"{self._says(winner)} changed the metadata domain {both[0]} as well: read the table again and repeat "
                "the work"
            )

    def _applications(self, winner: Winner) -> None:
        both = sorted((self.reads.app_ids | set(self.staged.transactions)) & winner.app_ids)
        if both:
            raise ConcurrentTransactionException(
                f"{self._says(winner)} recorded progress of the same application id {both[0]!r}: two writers use one "
                "id, or this work was done already; look at the table before it is repeated"
            )

    def _appended(self, winner: Winner) -> None:
        """Rows that this transaction should have read, had it run after the winner."""
        self._same_path(winner)
        if not self.reads.predicates or self.isolation is IsolationLevel.SNAPSHOT_ISOLATION:
            return
        overlooked = self.isolation is IsolationLevel.WRITE_SERIALIZABLE and self.staged.metadata is None
        if overlooked and winner.is_blind_append:
            return
        added = winner.added_files
        for predicate in self.reads.predicates:
            found = plan(
                added,
                predicate,
                self.snapshot.schema,
                self.snapshot.metadata.partition_columns,
                self.snapshot.physical_paths,
                zone=self.zone,
            ).files
            if found.num_rows:
                values = dict(found["partitionValues"][0].as_py() or ())
                place = f" in the partition {values}" if values else ""
                raise ConcurrentAppendException(
                    f"{self._says(winner)} added rows{place} that this transaction should have read (file "
                    f"{found['path'][0].as_py()}): repeat the work on the new version"
                )

    def _same_path(self, winner: Winner) -> None:
        if self.staged.fresh_adds or not self.staged.adds:
            return
        paths = {canonical_path(add.path) for add in self.staged.adds}
        for other in (winner.added_paths, winner.removed_paths):
            both = sorted(paths & other)
            if both:
                raise ConcurrentDeleteReadException(
                    f"{self._says(winner)} added or removed the file {both[0]} that this transaction adds: read the "
                    "table again and repeat the work"
                )

    def _deleted(self, winner: Winner) -> None:
        if not winner.removed_paths:
            return
        both = sorted(winner.removed_paths & {canonical_path(remove.path) for remove in self.staged.removes})
        if both:
            raise ConcurrentDeleteDeleteException(
                f"{self._says(winner)} removed the file {both[0]} that this transaction removes as well: repeat the "
                "work on the new version"
            )
        if not winner.removes_rows:
            return
        for predicate in self.reads.predicates:
            read = canonical_paths(self.snapshot.plan(predicate, ["path"], self.zone).files["path"])
            found = pc.is_in(read, value_set=_array(winner.removed_paths))
            if pc.any(found).as_py():
                raise ConcurrentDeleteReadException(
                    f"{self._says(winner)} removed rows that this transaction read (file "
                    f"{read.filter(found)[0].as_py()}): repeat the work on the new version"
                )

    @property
    def _where(self) -> str:
        return self.snapshot.store.root_url

    def _says(self, winner: Winner) -> str:
        return f"{self._where}: while this transaction ran on version {self.snapshot.version}, {winner.description}"


def _array(paths: frozenset[str]) -> pa.Array:
    return pa.array(sorted(paths), pa.string())
