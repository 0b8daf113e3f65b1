"""Processes with an embedded owner that are killed at each step: what was told stays, the rest is whole or gone.

Source: managed-commits.md "Commit Protocol", "Commit Backfills", "Creating a new managed-commit table", "Converting an
existing filesystem based table to managed-commit table", "Converting a managed-commit table to filesystem table".
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import cast

import pytest

from slackwater.errors import CommitOwnerRequired, TableNotFound
from slackwater.lake.lake import LogLake
from slackwater.owner.publish.orphaned_files import GRACE_MS
from slackwater.owner.state.clock import OwnerClock, is_dead
from slackwater.scan.snapshot import Snapshot
from tests.contract.owners import eventually
from tests.faults.checked_log import check_log
from tests.faults.dying_owner import (
    BACKFILL,
    BACKFILL_BY_ITSELF,
    COMMIT,
    LOST_TAKE,
    RELEASE,
    REPAIR,
    SCHEMA,
    TAKE,
    append,
)
from tests.faults.shared_lake import MOST_WAITS, Place


def _files(lake: LogLake, name: str) -> list[str]:
    """What is in the table, by its owner."""
    found: list[str] = lake.snapshot(name).live_files(["path"])["path"].to_pylist()
    return sorted(found)


def _repaired(lake: LogLake, name: str) -> list[str]:
    """What a repair of the table says; nothing where it is not the owner's. The next one has nothing to do."""
    done: list[str] = []
    with suppress(TableNotFound):
        done = lake.repair(name)
    with suppress(TableNotFound):
        assert lake.repair(name) == []
    return done


def _require_unknown(lake: LogLake, name: str) -> None:
    assert name not in [table.name for table in lake.tables()]
    with pytest.raises(TableNotFound):
        lake.snapshot(name)


# Commits.

RATIFIED = {"ratified, not yet answered", "answered, its backfill not asked for"}
GIVEN_OUT = {"a version given out", "the commit written, not yet visible", "the commit staged"} | {
    "ratified, its database transaction open"
}
LEAVES_STAGED = {"the commit staged", "ratified, its database transaction open"}


@pytest.mark.parametrize("point", COMMIT)
def test_a_commit_that_was_killed_is_whole_or_absent_and_nobody_waits_for_it(
    place: Place, waits: list[float], point: str
) -> None:
    name, told = place.managed(published=1, ratified=1)
    place.kill_while("commit", point, name)
    told += ["in-doubt"] * (point in RATIFIED)
    assert place.alone(name) == ["a1"]
    with place.opened() as lake:
        assert _files(lake, name) == sorted(told)
        for later in ("later", "latest"):
            told.append(later)
            assert append(lake.snapshot(name), later, may_move=later == "later").version == len(told)
        assert len(waits) <= MOST_WAITS
        assert _files(lake, name) == sorted(told)
        assert _repaired(lake, name) == [f"{name}: versions 2 to {len(told)} were backfilled"]
    assert place.alone(name) == sorted(told)
    check_log(place.path(name), told)


@pytest.mark.parametrize("point", COMMIT)
def test_a_repair_gives_back_what_a_killed_commit_held(place: Place, point: str) -> None:
    name, told = place.managed(published=1, ratified=1)
    place.kill_while("commit in place", point, name)
    told += ["in-doubt"] * (point in RATIFIED)
    said = [f"{name}: the versions allocated to a crashed process were released"] * (point in GIVEN_OUT)
    with place.opened() as lake:
        assert _repaired(lake, name) == [*said, f"{name}: versions 2 to {len(told)} were backfilled"]
        assert _files(lake, name) == sorted(told)
    assert place.alone(name) == sorted(told)
    with place.after_grace() as lake:
        deleted = [f"{name}: 1 staged files without a record were deleted"] * (point in LEAVES_STAGED)
        assert _repaired(lake, name) == deleted
        assert len(place.staged(name)) == len(told) + 1
        told.append("later")
        assert append(lake.snapshot(name), "later").version == len(told)
        assert _repaired(lake, name) == [f"{name}: versions {len(told)} to {len(told)} were backfilled"]
    check_log(place.path(name), told)


@pytest.mark.parametrize("point", ["a version given out", "the commit staged", "ratified, not yet answered"])
def test_of_commits_that_are_killed_together_each_is_whole_or_absent(
    place: Place, waits: list[float], point: str
) -> None:
    name, told = place.managed(published=1, ratified=1)
    place.kill_while("commit together", point, name)
    with place.opened() as lake:
        landed = [file for file in _files(lake, name) if file.startswith("in-doubt")]
        # A batch that does not begin with the first version that was given out ratifies nothing.
        assert not landed or point in RATIFIED
        assert append(lake.snapshot(name), "later").version == len(told) + len(landed) + 1
        assert len(waits) <= MOST_WAITS
        assert _files(lake, name) == sorted([*told, *landed, "later"])
        lake.backfill(name)
    found = check_log(place.path(name))
    assert found[:2] == told
    assert sorted(cast("list[str]", found[2:-1])) == landed
    assert found[-1] == "later"


def test_a_killed_process_is_dead_before_anybody_has_fetched_its_status() -> None:
    program = (
        "import sys; from slackwater.owner.state.clock import this_process; print(this_process()); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        holder = process.stdout.readline().decode().strip()
        assert not is_dead(holder)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(holder)
        process.wait()
    assert is_dead(holder)


# Backfills.

COPIED = {"before the first copy": 0, "one copied": 1, "two copied": 2}
UNRECORDED = {*COPIED, "all copied, none recorded", "recorded, its database transaction open"}


@pytest.mark.parametrize("point", BACKFILL)
def test_a_backfill_that_was_killed_is_completed_and_copies_nothing_twice(place: Place, point: str) -> None:
    name, told = place.managed(published=0, ratified=3)
    place.kill_while("backfill", point, name)
    assert place.alone(name) == told[: COPIED.get(point, 3)]
    with place.opened() as lake:
        assert _files(lake, name) == told
        told.append("later")
        assert append(lake.snapshot(name), "later").version == 4
        assert _files(lake, name) == sorted(told)
        first = 1 if point in UNRECORDED else 4
        assert _repaired(lake, name) == [f"{name}: versions {first} to 4 were backfilled"]
    assert place.alone(name) == sorted(told)
    check_log(place.path(name), told)


@pytest.mark.parametrize("point", BACKFILL_BY_ITSELF)
def test_a_process_that_was_killed_in_its_backfill_keeps_no_other_from_it(place: Place, point: str) -> None:
    name, told = place.managed(published=0, ratified=1)
    place.kill_while("commit and wait", point, name, backfill_delay_s=0.001)
    told += ["in-doubt", "later"]
    with place.opened(backfill_delay_s=0.001) as lake:
        assert append(lake.snapshot(name), "later").version == 3
        # The claim of the dead has no end while this clock stands still.
        eventually((place.path(name) / f"_delta_log/{3:020d}.json").exists)
    assert place.alone(name) == sorted(told)
    check_log(place.path(name), told)


# Creation and take-over.

UNPROMISED = set(list(TAKE)[: list(TAKE).index("promised")])
PUT = {"after the put-if-absent", "activated, its database transaction open", "activated, not yet answered"}


@pytest.mark.parametrize("point", TAKE)
@pytest.mark.parametrize("operation", ["create", "adopt"])
def test_a_table_whose_taker_was_killed_is_owned_or_not(place: Place, operation: str, point: str) -> None:
    name, told = (place.new_name(), []) if operation == "create" else place.of_the_file_system()
    before = list(told)
    version = len(told) and len(told) + 1
    place.kill_while(operation, point, name)
    assert (place.path(name) / f"_delta_log/{version:020d}.json").exists() is (point in PUT)
    if before or point in PUT:
        assert place.alone(name) == before
    with place.opened() as lake:
        said = [] if point in UNPROMISED or point.endswith("answered") else [f"completed by version {version}"]
        assert [text.partition(": the ownership was ")[2] for text in _repaired(lake, name)] == said
        if point in UNPROMISED:
            _require_unknown(lake, name)
            lake._create_log(name, SCHEMA) if operation == "create" else lake.adopt(name, place.path(name))
        assert _files(lake, name) == before
        assert append(lake.snapshot(name), "later").version == version + 1
        assert _repaired(lake, name) == [f"{name}: versions {version + 1} to {version + 1} were backfilled"]
    assert place.alone(name) == sorted([*before, "later"])
    check_log(place.path(name), [*before, *[None] * (version > 0), "later"])
    with pytest.raises(CommitOwnerRequired):
        append(Snapshot.load(place.path(name)), "around the owner")


def test_a_writer_of_the_file_system_wins_against_a_promise_of_the_dead(place: Place) -> None:
    name, told = place.of_the_file_system()
    place.kill_while("adopt", "promised", name)
    assert append(Snapshot.load(place.path(name)), "faster").version == 3
    with place.opened() as lake:
        assert _repaired(lake, name) == [
            f"{name}: the ownership was abandoned, because version 3 belongs to another writer"
        ]
        _require_unknown(lake, name)
        lake.adopt(name, place.path(name))
        assert append(lake.snapshot(name), "later").version == 5
        lake.backfill(name)
    check_log(place.path(name), [*told, "faster", None, "later"])


@pytest.mark.parametrize("point", LOST_TAKE)
def test_a_take_over_that_came_too_late_and_was_killed_is_forgotten(place: Place, point: str) -> None:
    name, told = place.of_the_file_system()
    place.kill_while("adopt too late", point, name)
    assert place.alone(name) == sorted([*told, "faster"])
    assert append(Snapshot.load(place.path(name)), "unhindered").version == 4
    with place.opened() as lake:
        said = [f"{name}: the ownership was abandoned, because version 3 belongs to another writer"]
        assert _repaired(lake, name) == said * (point != "forgotten, its file not yet deleted")
        _require_unknown(lake, name)
        lake.adopt(name, place.path(name))
        assert append(lake.snapshot(name), "later").version == 6
        lake.backfill(name)
    check_log(place.path(name), [*told, "faster", "unhindered", None, "later"])


# Hand-back.

UNSTOPPED = set(list(RELEASE)[: list(RELEASE).index("commits stopped")])
HANDED_BACK = {"after the put-if-absent", "let go, its database transaction open", "let go, not yet answered"}


@pytest.mark.parametrize("point", RELEASE)
def test_a_table_whose_hand_back_was_killed_is_handed_back_or_not(place: Place, point: str) -> None:
    name, told = place.managed(published=1, ratified=1)
    place.kill_while("release", point, name)
    assert (place.path(name) / f"_delta_log/{3:020d}.json").exists() is (point in HANDED_BACK)
    assert place.alone(name) == told
    with place.opened() as lake:
        said = [] if point in UNSTOPPED or point.endswith("answered") else ["completed by version 3"]
        assert [text.partition(": the release was ")[2] for text in _repaired(lake, name)] == said
        if point in UNSTOPPED:
            assert append(lake.snapshot(name), "later").version == 3
            lake.release(name)
        _require_unknown(lake, name)
    files = [*told, *["later"] * (point in UNSTOPPED), None, "free"]
    assert append(Snapshot.load(place.path(name)), "free").version == len(files)
    assert place.alone(name) == sorted(file for file in files if file is not None)
    check_log(place.path(name), files)


def test_a_hand_back_does_not_wait_for_a_commit_of_the_dead(place: Place) -> None:
    name, told = place.managed(published=1, ratified=0)
    place.kill_while("commit", "the commit staged", name)
    slept: list[float] = []
    with place.opened(clock=OwnerClock(sleep=slept.append)) as lake:
        lake.release(name)
        _require_unknown(lake, name)
    assert len(slept) <= 1
    check_log(place.path(name), [*told, None])


# Repair.


@pytest.mark.parametrize("point", REPAIR)
def test_a_repair_that_was_killed_is_completed_by_the_next(place: Place, point: str) -> None:
    name, told = place.managed(published=0, ratified=2)
    place.kill_while("commit", "the commit staged", name)
    place.kill_while("repair", point, name, later_ms=2 * GRACE_MS)
    with place.after_grace() as lake:
        said = [text.partition(": ")[2] for text in _repaired(lake, name)]
        everything = [
            "the versions allocated to a crashed process were released",
            "versions 1 to 2 were backfilled",
            "1 staged files without a record were deleted",
        ]
        done = {"versions given back": 1, "one copied": 1, "backfilled": 2, "before the deletion": 2}
        assert said == everything[3 if point == "after the deletion" else done.get(point, 0) :]
        assert len(place.staged(name)) == 3
        told.append("later")
        assert append(lake.snapshot(name), "later").version == 3
        lake.backfill(name)
    assert place.alone(name) == sorted(told)
    check_log(place.path(name), told)
