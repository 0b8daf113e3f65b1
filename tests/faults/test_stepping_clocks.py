"""Clocks that step back between commits, in one process and in another: the timestamps of a table rise all the same.

Source: in-commit-timestamps.md "Writer Requirements"; docs/guarantees.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.owner.state.clock import OwnerClock
from slackwater.scan.snapshot import Snapshot
from tests.faults.checked_log import check_log
from tests.faults.dying_owner import append, let
from tests.faults.shared_lake import MOST_WAITS, Place

HOUR_MS = 3_600_000


@dataclass
class SteppingClock:
    """The system's clock, and what it is wrong by."""

    wrong_ms: int = 0

    def now_ms(self) -> int:
        return OwnerClock().now_ms() + self.wrong_ms


def test_timestamps_rise_where_the_clock_steps_back_an_hour_in_the_same_process_or_another(place: Place) -> None:
    name, told = place.managed(published=0, ratified=1)
    clock = SteppingClock()
    with place.opened(clock=OwnerClock(now_ms=clock.now_ms)) as lake:
        before = append(lake.snapshot(name), "before").timestamp_ms
        clock.wrong_ms = -HOUR_MS
        after = append(lake.snapshot(name), "after").timestamp_ms
        assert after == before + 1
        let("commit", place.root, place.database, name, later_ms=-2 * HOUR_MS)
        snapshot = lake.snapshot(name)
        assert snapshot.timestamp_ms == before + 2
        # A table that is made, taken or handed back meanwhile is not older than what there is.
        other = place.new_name()
        let("create", place.root, place.database, other, later_ms=-HOUR_MS)
        assert lake.snapshot(other).timestamp_ms >= before + 2
        lake.backfill(name)
        let("release", place.root, place.database, name, later_ms=-HOUR_MS)
    assert append(Snapshot.load(place.path(name)), "free").version == 6
    check_log(place.path(name), [*told, "before", "after", "in-doubt", None, "free"])


def test_nobody_waits_an_hour_for_a_process_that_was_killed_before_the_clock_stepped_back(
    place: Place, waits: list[float]
) -> None:
    name, told = place.managed(published=0, ratified=1)
    place.kill_while("commit", "a version given out", name)
    with place.opened(later_ms=-HOUR_MS) as lake:
        assert append(lake.snapshot(name), "later", may_move=False).version == 2
        assert len(waits) <= MOST_WAITS
        lake.backfill(name)
    check_log(place.path(name), [*told, "later"])
