"""What a verification looked at, and the faults that it found."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class FaultKind(enum.Enum):
    """What is at fault."""

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


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `where` is a file (relative to the table's root, if below it) or a version; `says` a sentence."""

    kind: FaultKind
    where: str
    says: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The verification of the table at `location` up to `version`; `oldest` is the first version that was looked at.

    `looked_at` counts what was, by its name in the plural. `notes`: what was not, and why.
    """

    location: str
    oldest: int
    version: int
    looked_at: Mapping[str, int]
    notes: tuple[str, ...]
    faults: tuple[Fault, ...]


@dataclass(slots=True)
class Findings:
    """Where checks write down what they see."""

    faults: list[Fault] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def looked(self, what: str, number: int = 1) -> None:
        """So many of `what`, a noun in the plural, were looked at."""
        self.counts[what] = self.counts.get(what, 0) + number

    def fault(self, kind: FaultKind, where: str, says: str) -> None:
        """Write down a fault."""
        self.faults.append(Fault(kind, where, says))
