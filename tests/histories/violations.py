"""What can be wrong with a history: one name for each anomaly."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """An anomaly by the field's name for it, with Adya's in brackets where there is one."""

    LOST_VALUE = "lost value"
    DOUBLED_VALUE = "doubled value"
    PHANTOM_VALUE = "value that nobody appended"
    ABORTED_READ = "dirty read of an aborted value (G1a)"
    NOT_A_PREFIX = "list that never was"
    OWN_APPEND_UNSEEN = "own append unseen"
    OWN_APPENDS_OUT_OF_ORDER = "own appends out of order"
    OWN_FUTURE_SEEN = "own append seen before it was made"
    OUTSIDE_OF_READ = "row outside of what was read"

    UNREPEATABLE_READ = "unrepeatable read"
    PARTIAL_VISIBILITY = "partial visibility of a transaction"
    INTERMEDIATE_READ = "intermediate read (G1b)"

    WRITE_CYCLE = "write cycle (G0)"
    CIRCULAR_INFORMATION = "circular information flow (G1c)"
    LOST_UPDATE = "lost update (G-single on one item)"
    READ_SKEW = "read skew (G-single)"
    WRITE_SKEW = "write skew (G2-item)"
    PHANTOM = "phantom (G2)"

    WRITE_BEFORE_WRITE = "ww edge backward in commit time"
    READ_OF_LATER_WRITE = "wr edge backward in commit time"
    WRITE_UNDER_READ_STAMP = "rw edge backward in commit time"
    REAL_TIME_INVERSION = "real-time inversion"
    STALE_READ = "stale read"
    BEFORE_ITS_BEGIN = "commit timestamp before the begin"

    ROW_STAMP = "row stamp differs from the commit timestamp"
    OUTSIDE_ASKED_RANGE = "commit timestamp outside of the range asked for"
    SLICE_WRONG = "time slice is not the state at its instant"
    SLICE_CHANGED = "time slice changed its answer"
    VERSIONS_NOT_RISING = "timestamps do not rise with versions"
    VERSION_TAKEN_TWICE = "version taken twice"
    VERSION_LOST = "version not in the log"
    TABLES_DISAGREE = "tables of a transaction carry different timestamps"
    GROUP_DIFFERS = "group in a log is not its transaction"

    BATCH_LOST = "micro-batch lost"
    BATCH_TWICE = "micro-batch there more than once"
    BATCH_IN_PART = "micro-batch not in all of its tables"
    BATCHES_OUT_OF_ORDER = "micro-batches out of order"


@dataclass(frozen=True, slots=True)
class Violation:
    """One anomaly: the ids of the transactions in it, those of the time slices in it, and one sentence."""

    kind: Kind
    transactions: tuple[str, ...]
    message: str
    slices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}"
