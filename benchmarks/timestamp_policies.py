"""How a transaction's timestamp is chosen and what is remembered of readers: the policies that the model compares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias
from zlib import crc32

from benchmarks.timestamp_workload import Granule

Control: TypeAlias = Literal["optimistic", "locking"]
Hold: TypeAlias = Literal["none", "writers", "all", "exclusive"]


@dataclass(frozen=True, slots=True)
class Policy:
    """`slots` of the read timestamp table: 0 keeps exact stamps; `last` aborts every time that is not after LAST.

    `at_start` fixes the time when a transaction begins. `past`: a late chooser whose read was overtaken may choose a
    time before that. Answers run `ahead_ms` ahead of the clock, or by the quantile `ahead_quantile` of how long recent
    transactions went on after they asked; the commit waits for that instant.

    `hold` keeps what was promised: once the clock has passed the instant given to a transaction, commits that write
    the tables it declared ("writers"), or also those that read them ("all"), wait for its end; "exclusive": an ask
    waits for the holders of its tables too. `below`: who need not wait for that slips below the promised instant,
    that is, who does not change what the holder reads. What is not `declared` is held from when it is written.

    With locking `hold` takes the locks of the declared tables when it asks. `reads_as_of`: a read after the ask takes
    no lock; it is of the promised instant, and stamps what it reads at once.
    """

    name: str
    slots: int = 0
    last: bool = False
    at_start: bool = False
    past: bool = True
    ahead_ms: float = 0.0
    ahead_quantile: float | None = None
    hold: Hold = "none"
    below: bool = False
    declared: bool = True
    reads_as_of: bool = False

    @property
    def is_ahead(self) -> bool:
        """Whether commits wait for the clock."""
        return self.ahead_ms > 0 or self.ahead_quantile is not None


EXACT = Policy("exact stamps")
STAMPS = (
    EXACT,
    Policy("RTT 4096", slots=4096),
    Policy("RTT 512", slots=512),
    Policy("RTT 64", slots=64),
    Policy("RTT 1", slots=1),
    Policy("LAST", last=True),
    Policy("stamp at start", at_start=True),
)
"""What is remembered of readers."""


class ReadStamps:
    """The greatest time at which each item was read, kept exactly or in `slots` that items share by their hash."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._stamps: dict[int, int] = defaultdict(int)
        self._slot_of: dict[tuple[int, int | None], int] = {}

    def stamp(self, granules: Iterable[Granule], timestamp_ms: int) -> None:
        """`granules` were read by a transaction of this time."""
        for granule in granules:
            slot = self._slot(granule.table, granule.partition)
            self._stamps[slot] = max(self._stamps[slot], timestamp_ms)

    def of_writes(self, granules: Iterable[Granule]) -> int:
        """What the time of a transaction that writes `granules` has to exceed; 0 where nothing is known."""
        greatest = 0
        for granule in granules:
            greatest = max(greatest, self._stamps[self._slot(granule.table, None)])
            if granule.partition is not None:
                greatest = max(greatest, self._stamps[self._slot(granule.table, granule.partition)])
        return greatest

    def _slot(self, table: int, partition: int | None) -> int:
        slot = self._slot_of.get((table, partition))
        if slot is None:
            slot = crc32(f"{table}/{partition}".encode()) % self._slots if self._slots else len(self._slot_of)
            self._slot_of[table, partition] = slot
        return slot
