"""What a coordinator decided of transactions over several owners, and for how long it is remembered."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.two_phase_commit import KEPT_MS
from tests.contract.owners import DATABASES, START_MS, FakeClock, new_lake

ONE, OTHER = str(uuid.uuid4()), str(uuid.uuid4())
TIME_MS = START_MS - 1000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START_MS)


@pytest.fixture(params=DATABASES)
def owner(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[EmbeddedOwner]:
    lake = new_lake(tmp_path, request.param)
    yield lake.embedded(clock=clock.owner_clock())
    lake.close()


def test_what_was_decided_first_stands(owner: EmbeddedOwner) -> None:
    commits, aborts = str(uuid.uuid4()), str(uuid.uuid4())
    assert owner.decide(commits, TIME_MS, [ONE, OTHER]) == TIME_MS
    assert owner.decide(commits, None, []) == owner.decision(commits) == TIME_MS
    # Who asks before anything is decided decides that it does not commit.
    assert owner.decision(aborts) is None
    assert owner.decide(aborts, TIME_MS, [ONE]) is None


def test_a_decision_is_remembered_until_each_participant_has_carried_it_out(owner: EmbeddedOwner) -> None:
    txn_id = str(uuid.uuid4())
    owner.decide(txn_id, TIME_MS, [ONE, OTHER])
    for participant in (str(uuid.uuid4()), ONE, ONE):
        owner.acknowledge(txn_id, participant)
        assert owner.decision(txn_id) == TIME_MS
    owner.acknowledge(txn_id, OTHER)
    assert owner.decision(txn_id) is None
    alone = str(uuid.uuid4())
    owner.decide(alone, TIME_MS, [ONE])
    owner.acknowledge(alone, ONE)
    assert owner.decision(alone) is None


def test_that_it_does_not_commit_is_remembered_for_long(owner: EmbeddedOwner, clock: FakeClock) -> None:
    aborted, committed = str(uuid.uuid4()), str(uuid.uuid4())
    owner.decide(aborted, None, [ONE])
    owner.decide(committed, TIME_MS, [ONE])
    owner.acknowledge(aborted, ONE)
    clock.now_ms += KEPT_MS
    owner.decision(str(uuid.uuid4()))
    assert owner.decide(aborted, TIME_MS, []) is None
    clock.now_ms += 1
    owner.decision(str(uuid.uuid4()))
    assert owner.decide(aborted, TIME_MS, [ONE]) == TIME_MS
    # One that commits waits for its participants, however long that takes.
    assert owner.decision(committed) == TIME_MS
