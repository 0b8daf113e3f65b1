"""Many processes that append to one managed table, some of them killed: each acknowledged commit is there once."""

from __future__ import annotations

import random

import pytest

from tests.faults.owner_processes import writing
from tests.faults.shared_lake import Place

PROCESSES = 16
HOUR_MS = 3_600_000


def test_no_commit_is_lost_or_doubled_while_one_process_after_another_is_killed(
    place: Place, request: pytest.FixtureRequest
) -> None:
    kills = 40 if request.config.getoption("--long") else 2
    chance = random.Random(kills)  # noqa: S311  (who is killed is no secret)
    name, _ = place.managed(published=0, ratified=0)
    with writing(place.root, place.database, name) as writers:
        writers.start(PROCESSES)
        for _ in range(kills):
            writers.let_land(chance.randrange(10, 40))
            writers.kill(chance)
            writers.start(1)
        writers.let_land(PROCESSES)
        writers.stop()
        assert not writers.failed
        assert not writers.unknown
        with place.opened() as lake:
            lake.repair(name)
            assert lake.repair(name) == []
        writers.check()


def test_no_commit_is_lost_or_doubled_where_the_clocks_of_processes_are_hours_apart(place: Place) -> None:
    name, _ = place.managed(published=0, ratified=0)
    with writing(place.root, place.database, name) as writers:
        for hours in (-1, 0, 1):
            writers.start(1, later_ms=hours * HOUR_MS)
        writers.let_land(30)
        writers.stop()
        with place.opened() as lake:
            lake.backfill(name)
        writers.check()
