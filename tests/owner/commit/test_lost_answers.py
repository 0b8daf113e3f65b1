"""A database transaction that gave out versions, and whose answer was lost: its second run gives out the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.owner.commit.allocation_outcomes import Attempt, RetryAfterStaging, VersionsAllocated
from slackwater.owner.embedded import EmbeddedOwner
from tests.contract.owners import DATABASES, OwnedLake, Table, added, created, new_id, new_lake, with_row_ids


@pytest.fixture(params=DATABASES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path, request.param)
    yield found
    found.close()


def _attempt(table: Table, *actions: object, version: int) -> Attempt:
    request = replace(table.request(version, *actions), may_move=True)  # type: ignore[arg-type]
    return Attempt.for_single_table(request, new_id(), "nobody", 30_000)


def _run(owner: EmbeddedOwner, attempts: list[Attempt], is_rerun: bool = False) -> list[object]:
    allocation = owner._commits._allocation
    return list(owner.database.write(lambda c: allocation.allocate(c, attempts, is_rerun)))


def test_the_same_versions_and_row_ids_are_given_again(lake: OwnedLake) -> None:
    owner = lake.embedded()
    table = created(lake, owner)
    table.commit(table.latest + 1, *with_row_ids(table.latest + 1, -1, 5))
    based_on = table.latest
    attempts = [
        _attempt(table, *with_row_ids(based_on + 1, 4, 10), version=based_on + 1),
        _attempt(table, *with_row_ids(based_on + 1, 4, 7), version=based_on + 1),
        _attempt(table, added(), version=based_on + 1),
    ]
    first = _run(owner, attempts)
    given = [part for each in first if isinstance(each, VersionsAllocated) for part in each.parts.values()]
    assert [(each.version - based_on, each.shift) for each in given] == [
        (1, None), (2, 10), (3, None),
    ]  # fmt: skip
    assert _run(owner, attempts, is_rerun=True) == first
    # Of another attempt at the same commit nobody knows yet what becomes of it.
    others = [replace(attempt, file_id=new_id()) for attempt in attempts]
    assert _run(owner, others, is_rerun=True) == [RetryAfterStaging()] * 3
