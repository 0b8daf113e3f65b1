"""Results of a verification: checked items and faults."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class FaultKind(enum.Enum):
    """Kind of the faulty item."""

    GAP = "gap"
    COMMIT = "commit"
    TIMESTAMP = "timestamp"
    CHECKPOINT = "checkpoint"
    SIDECAR = "sidecar"
    COMPACTION = "compaction"
    CHECKSUM = "checksum"
    HINT = "last checkpoint"
    SCHEMA = "schema"
    DATA_FILE = "data file"
    VECTOR = "deletion vector"
    STATISTICS = "statistics"
    GROUP = "transaction group"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: `where` is a version or a file (relative to the table's root if below). `says` is a sentence."""

    kind: FaultKind
    where: str
    says: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The verification of the table at `location` up to `version`. `oldest` is the first version checked.

    `looked_at` maps plural names of items to the number checked. `notes` lists omitted checks and the reasons.
    """

    location: str
    oldest: int
    version: int
    looked_at: Mapping[str, int]
    notes: tuple[str, ...]
    faults: tuple[Fault, ...]


@dataclass(slots=True)
class Findings:
    """Collector of check results."""

    faults: list[Fault] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def looked(self, what: str, number: int = 1) -> None:
        """Add `number` to the checked items of kind `what`, a plural noun."""
        self.counts[what] = self.counts.get(what, 0) + number

    def fault(self, kind: FaultKind, where: str, says: str) -> None:
        """Add a fault."""
        self.faults.append(Fault(kind, where, says))
