"""Reading a table whose owner has commits that are not backfilled. Source: managed-commits.md "Reading …"."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from slackwater.errors import (
    CommitOwnerUnavailable,
    CorruptLog,
    MissingCommit,
    ObjectNotFound,
    TableNotFound,
    TimestampOutOfRange,
    UnratifiedCommit,
    VersionNotFound,
)
from slackwater.log.snapshot import LogSnapshot
from slackwater.log.table import Table
from slackwater.owner.api.commits import Commit, GetCommitsResponse
from slackwater.owner.api.owner_registry import OwnedTable, attach, detach
from slackwater.protocol.actions.file_names import commit_name
from tests.log.tables import Action, TableLog, add, commit_info, json_lines, metadata, paths, protocol

T = 1_700_000_000_000
OWNER_ID, TABLE_ID = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
MANAGED = {
    "delta.enableInCommitTimestamps": "true",
    "delta.managedCommit.commitOwner": "slackwater",
    "delta.managedCommit.commitOwnerConf": json.dumps({"ownerId": OWNER_ID, "tableId": TABLE_ID}),
}
FEATURES = protocol(1, 7, writers=["inCommitTimestamp", "managedCommit"])


def content(version: int) -> bytes:
    """Version v adds the file `f<v>`, 10 ms after the one before."""
    first: list[Action] = [FEATURES, metadata(MANAGED)] if version == 0 else []
    return json_lines([commit_info(inCommitTimestamp=T + 10 * version), *first, add(f"f{version}")])


def staged_name(version: int, number: int = 0) -> str:
    return f"{version:020d}.{uuid.UUID(int=number)}.json"


@dataclass
class ScriptedOwner:
    """Answers `get_commits` from a list of versions, and as `script` says, which is called before each answer."""

    log: TableLog
    unbackfilled: list[int] = field(default_factory=list)
    latest: int = -1
    inline: bool = True
    script: Callable[[], None] = lambda: None
    asked: list[tuple[int, int, bool]] = field(default_factory=list)
    owner_id: str = OWNER_ID

    def get_commits(self, table_id: str, start: int, end: int = -1, with_data: bool = False) -> GetCommitsResponse:
        assert table_id == TABLE_ID
        self.asked.append((start, end, with_data))
        self.script()
        found = [v for v in self.unbackfilled if v >= start and (end == -1 or v <= end)]
        commits = [
            Commit(v, staged_name(v), T + 10 * v, len(content(v)), content(v) if with_data and self.inline else None)
            for v in found
        ]
        return GetCommitsResponse(commits, self.latest)

    def table(self, store: Any) -> Table:
        """The table in `store`, known as this owner's."""
        return Table(store, OwnedTable(self, TABLE_ID))  # type: ignore[arg-type]

    def ratify(self, *versions: int) -> None:
        """Stage and ratify versions."""
        for version in versions:
            self.log.put(f"_commits/{staged_name(version)}", content(version))
            self.unbackfilled.append(version)
            self.latest = version

    def backfill(self, *versions: int) -> None:
        """Backfill versions, and forget them."""
        for version in versions:
            self.log.put(commit_name(version), content(version))
            self.unbackfilled.remove(version)


class CountedStore:
    """A store that counts its listings and reads, and calls `after_listing` with the number of each."""

    def __init__(self, store: Any, after_listing: Callable[[int], None] = lambda _: None) -> None:
        self._store = store
        self._after_listing = after_listing
        self.listings = 0
        self.reads: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list_from(self, *arguments: Any) -> Any:
        found = self._store.list_from(*arguments)
        self.listings += 1
        self._after_listing(self.listings)
        return found

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        found: bytes = self._store.read(path)
        return found

    def read_many(self, wanted: Sequence[str]) -> list[bytes]:
        self.reads += wanted
        found: list[bytes] = self._store.read_many(wanted)
        return found


@pytest.fixture
def log() -> TableLog:
    """Versions 0 and 1, backfilled."""
    table = TableLog()
    for version in (0, 1):
        table.put(commit_name(version), content(version))
    return table


@pytest.fixture
def owner(log: TableLog) -> Iterator[ScriptedOwner]:
    """The owner of `log`, which this process knows."""
    found = ScriptedOwner(log, latest=1)
    attach(found)  # type: ignore[arg-type]
    yield found
    detach(found)  # type: ignore[arg-type]


def test_the_table_of_the_rfc_is_version_9_with_its_owner_and_7_without() -> None:
    log = TableLog()
    for version in range(8):
        log.put(commit_name(version), content(version))
    log.classic(2, FEATURES, metadata(MANAGED), add("f0"), add("f1"), add("f2"))
    log.compaction(3, 5, add("f3"), add("f4"), add("f5"))
    owner = ScriptedOwner(log, [6, 7, 8, 9], 9)
    for version in (6, 7, 8, 9):
        log.put(f"_commits/{staged_name(version)}", content(version))
    for version, number in ((8, 1), (10, 0), (10, 1)):
        log.put(f"_commits/{staged_name(version, number)}", json_lines([commit_info(), add("stray")]))
    assert log.load().version == 7
    assert paths(log.load()) == [f"f{v}" for v in range(8)]
    attach(owner)  # type: ignore[arg-type]
    table = owner.table(log.store)
    snapshot = LogSnapshot.open(table)
    assert snapshot.version == 9
    assert paths(snapshot) == [f"f{v}" for v in range(10)]
    assert snapshot.segment.checkpoint is not None
    assert [(file.version, file.is_staged) for file in snapshot.segment.commits] == [
        (3, False),
        (6, True),
        (7, True),
        (8, True),
        (9, True),
    ]
    with pytest.raises(VersionNotFound, match="newest version is 9"):
        LogSnapshot.open(table, 10)
    detach(owner)  # type: ignore[arg-type]
    assert LogSnapshot.open(table).version == 7


def test_a_snapshot_has_the_commits_that_only_the_owner_knows(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    snapshot = log.load()
    assert (snapshot.version, snapshot.timestamp_ms) == (3, T + 30)
    assert paths(snapshot) == ["f0", "f1", "f2", "f3"]
    assert [file.data is not None for file in snapshot.segment.commits] == [False, False, True, True]


def test_contents_that_came_with_the_answer_are_not_read_again(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    store = CountedStore(log.store)
    assert paths(LogSnapshot.open(owner.table(store))) == ["f0", "f1", "f2", "f3"]
    assert [path for path in store.reads if "_commits" in path] == []
    assert (store.listings, len(owner.asked)) == (1, 1)


def test_what_was_read_before_the_owner_was_found_is_not_read_again(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    store = CountedStore(log.store)
    snapshot = LogSnapshot.open(store)
    assert (snapshot.version, paths(snapshot)) == (3, ["f0", "f1", "f2", "f3"])
    assert sorted(path for path in store.reads if path.endswith(".json")) == [
        f"_delta_log/{commit_name(version)}" for version in (0, 1)
    ]
    assert (store.listings, len(owner.asked)) == (1, 1)


def test_what_was_read_before_the_owner_was_found_is_not_kept_where_the_owner_has_another(
    log: TableLog, owner: ScriptedOwner
) -> None:
    # A backfill and a checkpoint came in between.
    def backfilled(number: int) -> None:
        if number == 1:
            owner.backfill(2)
            log.classic(1, FEATURES, metadata(MANAGED), add("f0"), add("f1"))

    owner.ratify(2, 3)
    store = CountedStore(log.store, backfilled)
    snapshot = LogSnapshot.open(store)
    assert (snapshot.version, paths(snapshot)) == (3, ["f0", "f1", "f2", "f3"])
    assert snapshot.segment.checkpoint is not None
    assert store.listings > 1


def test_contents_that_did_not_come_with_the_answer_are_read(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    owner.inline = False
    store = CountedStore(log.store)
    assert paths(LogSnapshot.open(owner.table(store))) == ["f0", "f1", "f2", "f3"]
    assert [path for path in store.reads if "_commits" in path] == [
        f"_delta_log/_commits/{staged_name(v)}" for v in (2, 3)
    ]


def test_a_staged_file_that_was_cleaned_up_after_its_backfill_is_read_from_the_log(
    log: TableLog, owner: ScriptedOwner
) -> None:
    owner.ratify(2, 3)
    owner.inline = False
    log.put(commit_name(2), content(2))
    log.delete(f"_commits/{staged_name(2)}")
    assert paths(log.load()) == ["f0", "f1", "f2", "f3"]
    log.delete(f"_commits/{staged_name(3)}")
    with pytest.raises((ObjectNotFound, CorruptLog)):
        log.load()


# The race between the listing and the owner's answer.


def test_a_backfill_between_listing_and_answer_does_not_hide_a_version(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    store = CountedStore(log.store, lambda number: owner.backfill(2, 3) if number == 1 else None)
    listing = owner.table(store).list_log()
    assert sorted(listing.commits) == [0, 1, 2, 3]
    assert (store.listings, len(owner.asked)) == (2, 2)


def test_a_backfill_of_the_first_of_several_between_listing_and_answer_leaves_no_gap(
    log: TableLog, owner: ScriptedOwner
) -> None:
    owner.ratify(2, 3)
    store = CountedStore(log.store, lambda number: owner.backfill(2) if number == 1 else None)
    listing = owner.table(store).list_log()
    assert [(v, file.is_staged) for v, file in listing.commits.items()] == [
        (0, False),
        (1, False),
        (2, False),
        (3, True),
    ]
    assert store.listings == 2


def test_commits_between_listing_and_answer_are_seen(log: TableLog, owner: ScriptedOwner) -> None:
    store = CountedStore(log.store, lambda number: owner.ratify(2) if number == 1 else None)
    assert owner.table(store).list_log().latest_version == 2
    assert store.listings == 1


def test_an_update_sees_what_was_backfilled_between_listing_and_answer(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2)
    store = CountedStore(log.store)
    before = LogSnapshot.open(owner.table(store))
    owner.ratify(3, 4)
    store._after_listing = lambda number: owner.backfill(2, 3, 4) if owner.unbackfilled else None
    after = before.update()
    assert after.version == 4
    assert paths(after) == [f"f{v}" for v in range(5)]


def test_an_owner_that_does_not_tell_where_its_commits_are_is_given_up(log: TableLog, owner: ScriptedOwner) -> None:
    owner.latest = 5
    with pytest.raises(MissingCommit, match=r"ratified version 5, but the log ends earlier.*lake repair"):
        log.load()
    assert len(owner.asked) > 1


def test_a_gap_that_stays_in_the_owners_answer_is_given_up(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    owner.unbackfilled.remove(2)
    with pytest.raises(MissingCommit):
        log.load()


def test_a_version_0_that_is_not_followed_by_anything_is_found(log: TableLog, owner: ScriptedOwner) -> None:
    log.delete(commit_name(1))
    owner.latest = 0
    assert log.load().version == 0
    owner.ratify(1)
    assert log.load().version == 1


# Updates, time travel, history.


def test_an_update_reads_only_what_is_new_and_asks_from_there(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2)
    store = CountedStore(log.store)
    before = LogSnapshot.open(owner.table(store))
    assert before.update() is before
    owner.ratify(3, 4)
    owner.inline = False
    store.reads.clear()
    after = before.update()
    assert (after.version, paths(after)) == (4, [f"f{v}" for v in range(5)])
    assert store.reads == [f"_delta_log/_commits/{staged_name(v)}" for v in (3, 4)]
    assert owner.asked[-1] == (3, -1, True)


def test_an_update_follows_commits_across_their_backfill(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2)
    snapshot = log.load()
    for version in (3, 4, 5):
        owner.ratify(version)
        owner.backfill(version - 1)
        snapshot = snapshot.update()
        assert (snapshot.version, paths(snapshot)) == (version, [f"f{v}" for v in range(version + 1)])


def test_every_version_can_be_travelled_to(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3, 4)
    for version in range(5):
        assert paths(log.load(version)) == [f"f{v}" for v in range(version + 1)]
        assert log.load(timestamp=T + 10 * version).version == version
        assert log.load(timestamp=T + 10 * version + 9, allow_after_last_commit=version == 4).version == version
    with pytest.raises(TimestampOutOfRange):
        log.load(timestamp=T + 41)
    with pytest.raises(VersionNotFound):
        log.load(5)


def test_the_history_tells_of_commits_that_are_not_backfilled(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    history = log.load().history()
    assert history.versions == [0, 1, 2, 3]
    assert [history.timestamp_ms(v) for v in range(4)] == [T, T + 10, T + 20, T + 30]
    assert [(version, time_ms) for version, time_ms, _ in history.entries()] == [(v, T + 10 * v) for v in (3, 2, 1, 0)]
    assert history.version_at(T + 25) == 2
    assert history.actions(3)[-1] == add("f3")


def test_a_listing_from_a_checkpoint_on_asks_from_there(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2)
    owner.backfill(2)
    log.classic(2, FEATURES, metadata(MANAGED), add("f0"), add("f1"), add("f2"))
    log.hint(2)
    owner.ratify(3)
    snapshot = LogSnapshot.open(owner.table(log.store))
    assert owner.asked == [(2, -1, True)]
    assert paths(snapshot) == ["f0", "f1", "f2", "f3"]


def test_a_log_that_holds_only_a_checkpoint_of_version_0_is_read(log: TableLog, owner: ScriptedOwner) -> None:
    log.classic(0, FEATURES, metadata(MANAGED), add("f0"))
    log.delete_commits(0, 1)
    owner.latest = 0
    owner.ratify(1)
    assert paths(log.load()) == ["f0", "f1"]


# Without the owner.


def test_who_does_not_ask_the_owner_sees_an_older_version_whole(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    detach(owner)  # type: ignore[arg-type]
    assert (log.load().version, paths(log.load())) == (1, ["f0", "f1"])
    with pytest.raises(VersionNotFound):
        log.load(2)


def test_who_reads_by_path_learns_of_the_owner_that_is_open(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    snapshot = log.load()
    assert snapshot.version == 3
    assert snapshot.table.owned == OwnedTable(owner, TABLE_ID)  # type: ignore[arg-type]
    assert log.load(3).version == 3
    assert log.load(timestamp=T + 20).version == 2


@pytest.mark.parametrize(
    "conf",
    [
        {"ownerId": str(uuid.UUID(int=9)), "tableId": TABLE_ID, "endpoint": "http://169.254.169.254/"},
        {"tableId": TABLE_ID},
        {"ownerId": OWNER_ID},
        None,
    ],
)
def test_an_owner_that_only_the_table_names_is_never_called(owner: ScriptedOwner, conf: Any) -> None:
    log = TableLog()
    named = MANAGED | {"delta.managedCommit.commitOwnerConf": json.dumps(conf)}
    if conf is None:
        del named["delta.managedCommit.commitOwnerConf"]
    log.commit(0, commit_info(inCommitTimestamp=T), FEATURES, metadata(named), add("f0"))
    assert paths(log.load()) == ["f0"]
    assert log.load().table.owned is None
    assert owner.asked == []


def test_an_owner_of_another_kind_is_left_alone(owner: ScriptedOwner) -> None:
    log = TableLog()
    named = MANAGED | {"delta.managedCommit.commitOwner": "commit-owner-1"}
    log.commit(0, commit_info(inCommitTimestamp=T), FEATURES, metadata(named), add("f0"))
    assert paths(log.load()) == ["f0"]
    assert owner.asked == []


def test_a_table_in_an_invalid_state_is_read_from_the_file_system(owner: ScriptedOwner) -> None:
    log = TableLog()
    log.commit(0, commit_info(inCommitTimestamp=T), protocol(1, 7, writers=[]), metadata(MANAGED), add("f0"))
    assert paths(log.load()) == ["f0"]
    assert owner.asked == []


def test_a_table_that_the_owner_does_not_have_is_the_file_systems(log: TableLog, owner: ScriptedOwner) -> None:
    def unknown() -> None:
        raise TableNotFound("handed back")

    owner.script = unknown
    assert log.load().version == 1
    assert log.load().table.owned is None
    assert log.load().update().version == 1
    # Also where it was known as the owner's before.
    table = owner.table(log.store)
    assert LogSnapshot.open(table).version == 1
    assert table.owned is None


def test_an_owner_that_does_not_answer_is_not_passed_over(log: TableLog, owner: ScriptedOwner) -> None:
    def broken() -> None:
        raise CommitOwnerUnavailable("down")

    snapshot = log.load()
    owner.script = broken
    for read in (log.load, snapshot.update, snapshot.history):
        with pytest.raises(CommitOwnerUnavailable):
            read()


# What nobody ratified.


def test_a_version_in_the_log_that_the_owner_did_not_ratify_is_reported(log: TableLog, owner: ScriptedOwner) -> None:
    log.put(commit_name(2), content(2))
    with pytest.raises(UnratifiedCommit, match=r"holds version 2.*ratified none after 1.*a writer bypassed the owner"):
        log.load()
    owner.ratify(3)
    owner.unbackfilled, owner.latest = [], 1
    with pytest.raises(UnratifiedCommit):
        log.load()


def test_another_commit_in_the_place_of_a_ratified_one_is_reported(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2)
    log.put(commit_name(2), json_lines([commit_info(), add("theirs")]))
    with pytest.raises(UnratifiedCommit, match=r"00000000000000000002\.json is not the version 2"):
        log.load()


def test_a_backfilled_commit_that_the_owner_still_tells_of_is_taken_once(log: TableLog, owner: ScriptedOwner) -> None:
    owner.ratify(2, 3)
    log.put(commit_name(2), content(2))
    snapshot = log.load()
    assert (snapshot.version, paths(snapshot)) == (3, ["f0", "f1", "f2", "f3"])
