"""What is made anew when a version was lost: row ids, timestamps, backfills; and how long it is tried."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from slackwater.errors import (
    CommitFailed,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    StorageRefused,
)
from slackwater.protocol.actions.actions import DomainMetadata, Protocol
from slackwater.protocol.features.row_tracking import DOMAIN, high_water_mark
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.committer import Committed, Conflict
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.conflicts import commit_loop as race_module
from slackwater.transaction.post_commit import PostCommitHook
from slackwater.transaction.table.alteration import set_properties
from tests.examples import examples
from tests.transaction.tables import (
    START_MS,
    FakeTime,
    StepStore,
    add,
    append,
    begin,
    commit_actions,
    delete,
    live,
    only,
    put_commit,
    removes,
    set_props,
    table,
)

ROW_TRACKING = {"delta.enableRowTracking": "true"}
TIMESTAMPS = {"delta.enableInCommitTimestamps": "true"}


def _adds(before: Snapshot, version: int) -> list[dict[str, Any]]:
    return [action["add"] for action in commit_actions(before.store, version) if "add" in action]


def _stamp(before: Snapshot, version: int) -> int:
    return int(only(before.store, version, "commitInfo")["inCommitTimestamp"])


# Row ids.


def test_row_ids_are_given_out_behind_those_of_the_winners() -> None:
    before = append(table(properties=ROW_TRACKING), add("a", rows=10)).snapshot
    mine = begin(before)
    mine.add([add("mine-1", rows=5), add("mine-2", rows=7)])
    append(before, add("theirs", rows=100))
    assert mine.commit("WRITE").version == 3
    assert [(a["baseRowId"], a["defaultRowCommitVersion"]) for a in _adds(before, 3)] == [(110, 3), (115, 3)]
    assert high_water_mark(Snapshot.open(before.store).domain_metadata) == 121
    assert only(before.store, 3, "domainMetadata")["domain"] == DOMAIN


def test_a_commit_that_adds_no_rows_leaves_the_high_water_mark_alone() -> None:
    before = append(table(properties=ROW_TRACKING), add("a")).snapshot
    delete(before, "a")
    assert not [a for a in commit_actions(before.store, 2) if "domainMetadata" in a]
    assert high_water_mark(Snapshot.open(before.store).domain_metadata) == 9


def test_a_file_that_is_committed_again_keeps_its_row_ids() -> None:
    before = append(table(properties=ROW_TRACKING), add("a"), add("b")).snapshot
    again = begin(before)
    again.add(add("b", data_change=False, tags={"k": "v"}))
    append(before, add("theirs"))
    again.commit("COMPUTE STATS")
    (added,) = _adds(before, 3)
    assert (added["baseRowId"], added["defaultRowCommitVersion"]) == (10, 1)


def test_enabling_row_tracking_gives_every_file_row_ids_also_one_that_won_meanwhile() -> None:
    before = append(table(), add("a", rows=3), add("b", rows=4), add("gone")).snapshot
    enabling = set_properties(before, ROW_TRACKING)
    mine = begin(before)
    delete(append(before, add("theirs", rows=5)).snapshot, "gone")
    assert enabling.commit(mine).version == 4
    files = Snapshot.open(before.store).live_files().to_pylist()
    taken = sorted((f["baseRowId"], orjson.loads(f["stats"])["numRecords"], f["path"]) for f in files)
    assert [path for _, _, path in taken] == ["a", "b", "theirs"]
    assert [base for base, _, _ in taken] == [0, 3, 7]
    assert {f["defaultRowCommitVersion"] for f in files} == {4}
    assert not any(a["dataChange"] for a in _adds(before, 4))
    assert high_water_mark(Snapshot.open(before.store).domain_metadata) == 11


def test_rows_rewritten_while_another_enabled_row_tracking_are_not_said_to_be_preserved() -> None:
    before = append(table(), add("a")).snapshot
    mine, appending = begin(before), begin(before)
    mine.remove(removes(before, "a"))
    mine.add(add("a2"))
    appending.add(add("b"))
    set_props(before, delta__enableRowTracking="true")
    mine.commit("UPDATE")
    appending.commit("WRITE")
    tags = [only(before.store, version, "commitInfo")["tags"]["delta.rowTracking.preserved"] for version in (3, 4)]
    assert tags == ["false", "true"]


# In-commit timestamps.


def test_a_timestamp_is_later_than_the_one_before_also_where_the_clock_runs_backwards() -> None:
    time = FakeTime()
    before = table(properties=TIMESTAMPS, time=time)
    stamps = [_stamp(before, 0)]
    for step in (5_000, -60_000, 0, 0, 100_000):
        time.now_ms += step
        result = append(before.update(), add(f"f{len(stamps)}"), time=time)
        stamps.append(result.timestamp_ms)
        assert _stamp(before, result.version) == result.timestamp_ms == result.snapshot.timestamp_ms
    assert stamps == [START_MS, *(START_MS + ms for ms in (5_000, 5_001, 5_002, 5_003, 45_000))]


def test_a_timestamp_is_behind_that_of_the_winner() -> None:
    before = table(properties=TIMESTAMPS)
    mine = begin(before)
    mine.add(add("mine"))
    append(before, add("theirs"), time=FakeTime(START_MS + 777))
    assert mine.commit("WRITE").timestamp_ms == START_MS + 778


def test_the_record_of_enablement_names_the_version_that_was_won_and_its_time() -> None:
    before = append(table(), add("a")).snapshot
    enabling = set_properties(before, TIMESTAMPS)
    mine = begin(before)
    append(before, add("theirs"))
    done = enabling.commit(mine)
    assert (done.version, done.attempts) == (3, 2)
    configuration = only(before.store, 3, "metaData")["configuration"]
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "3"
    assert configuration["delta.inCommitTimestampEnablementTimestamp"] == str(done.timestamp_ms)
    assert done.timestamp_ms == _stamp(before, 3)


def test_a_protocol_that_makes_an_earlier_property_count_records_since_when() -> None:
    before = table()
    # By another engine, to which the property said nothing yet.
    asked = replace(before.metadata, configuration=TIMESTAMPS)
    put_commit(before.store, 1, asked.to_json())
    mine = begin(before.update())
    mine.set_protocol(Protocol(1, 7, None, ("appendOnly", "invariants", "inCommitTimestamp")))
    assert mine.commit("UPGRADE PROTOCOL").version == 2
    configuration = only(before.store, 2, "metaData")["configuration"]
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "2"
    assert configuration["delta.inCommitTimestampEnablementTimestamp"] == str(_stamp(before, 2))


def test_the_first_timestamp_is_later_than_the_file_time_of_the_commit_before() -> None:
    # The store's own times are those of today, the transaction's clock is years behind.
    before = append(table(), add("a")).snapshot
    (previous,) = [m for m in before.store.list_from("_delta_log") if m.path.endswith("1.json")]
    done = set_props(before, delta__enableInCommitTimestamps="true")
    assert previous.modified_ms > START_MS
    assert done.timestamp_ms > previous.modified_ms


def test_a_new_table_with_timestamps_has_no_record_of_enablement() -> None:
    before = table(properties=TIMESTAMPS)
    assert not [key for key in before.metadata.configuration if "Enablement" in key]


def test_the_record_of_enablement_survives_other_changes_and_goes_with_the_property() -> None:
    before = append(table(), add("a")).snapshot
    enabled = set_props(before, delta__enableInCommitTimestamps="true").snapshot
    record = {k: v for k, v in enabled.metadata.configuration.items() if "Enablement" in k}
    assert len(record) == 2
    changed = set_props(enabled, owner="me").snapshot
    assert record.items() <= changed.metadata.configuration.items()
    off = set_props(changed, delta__enableInCommitTimestamps="false").snapshot
    assert not [key for key in off.metadata.configuration if "Enablement" in key]


# The commitInfo of each attempt.


def test_commit_info_is_first_and_tells_what_was_read_and_who_did_it() -> None:
    before = append(table(properties=TIMESTAMPS), add("a")).snapshot
    mine = begin(before)
    mine.add(add("mine"))
    append(before, add("theirs"))
    mine.commit("WRITE", {"mode": "Append"}, {"numFiles": "1"}, user_metadata="hello", tags={"k": "v"})
    first, *others = commit_actions(before.store, 3)
    info = first["commitInfo"]
    assert not [action for action in others if "commitInfo" in action]
    assert next(iter(info)) == "inCommitTimestamp"
    assert info["readVersion"] == 1
    assert info["operation"] == "WRITE"
    assert (info["operationParameters"], info["operationMetrics"]) == ({"mode": "Append"}, {"numFiles": "1"})
    assert (info["userMetadata"], info["tags"]) == ("hello", {"k": "v"})
    assert info["txnId"] == mine.txn_id
    assert info["engineInfo"].startswith("Slackwater/")


def test_the_first_commit_of_a_table_has_read_no_version() -> None:
    assert "readVersion" not in only(table().store, 0, "commitInfo")


# How long it is tried.


class _Crowd:
    """A committer before whom another always commits, as long as there are `others`."""

    def __init__(self, before: Snapshot, others: int) -> None:
        self.inner = FilesystemCommitter(before.store)
        self.others = others
        self.made = 0

    @property
    def publishes_at_once(self) -> bool:
        return True

    def published_version(self, version: int) -> int:
        return version

    def commit(self, version: int, actions: Sequence[Any], may_move: bool = False) -> Committed | Conflict:
        if self.made < self.others:
            self.made += 1
            info = {"commitInfo": {"operation": "WRITE", "isBlindAppend": True}}
            assert isinstance(self.inner.commit(version, [info, add(f"other-{version}").to_json()]), Committed)
        return self.inner.commit(version, actions)

    def commits_after(self, version: int) -> Sequence[Any]:
        return self.inner.commits_after(version)


def test_attempts_are_counted_and_the_waits_between_them_grow_up_to_a_bound() -> None:
    before, time = table(), FakeTime()
    mine = begin(before, time, _Crowd(before, 70))
    mine.add(add("mine"))
    done = mine.commit("WRITE")
    assert (done.version, done.attempts) == (71, 71)
    assert time.slept == sorted(time.slept)
    assert 0 < time.slept[0] < time.slept[-1] == 0.1
    assert len(time.slept) < 70


def test_chance_shortens_the_waits() -> None:
    before = table()
    slept: list[list[float]] = []
    for jitter in (0.0, 0.5):
        time = FakeTime()
        current = before.update()
        mine = TableTransaction(before.table, _Crowd(current, 10), current, time.clock(jitter), PostCommitHook(False))
        mine.add(add(f"mine-{jitter}"))
        mine.commit("WRITE")
        slept.append(time.slept)
    assert set(slept[0]) == {0.0}
    assert slept[1][0] > 0


def test_after_the_last_attempt_the_others_have_won(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_module, "MAX_ATTEMPTS", 6)
    before = table()
    crowd = _Crowd(before, 100)
    mine = begin(before, committer=crowd)
    mine.add(add("mine"))
    with pytest.raises(ConcurrentWriteException, match=r"each of 6 attempts\. Nothing was committed") as caught:
        mine.commit("WRITE")
    assert (caught.value.retryable, caught.value.conflict) == (True, True)
    assert crowd.made == 6
    assert "mine" not in live(before.store)


def test_a_version_that_is_taken_but_cannot_be_read_back_ends_the_transaction() -> None:
    before = table()

    class Blind(FilesystemCommitter):
        def commits_after(self, version: int) -> Sequence[Any]:
            return []

    mine = begin(before, committer=Blind(before.store))
    mine.add(add("mine"))
    append(before, add("theirs"))
    with pytest.raises(ConcurrentWriteException, match=r"version 1 exists, but cannot be read back"):
        mine.commit("WRITE")


def test_our_own_commit_among_the_winners_is_the_commit() -> None:
    before = table()

    class Forgetful(FilesystemCommitter):
        """Says that it lost although it won, as a committer may whose answers get lost."""

        def commit(self, version: int, actions: Sequence[Any], may_move: bool = False) -> Committed | Conflict:
            super().commit(version, actions)
            append(before.update(), add(f"later-{version}"))
            return Conflict(version)

    mine = begin(before, committer=Forgetful(before.store))
    mine.add(add("mine"))
    done = mine.commit("WRITE")
    assert done.version == 1
    assert done.snapshot.version == 1
    assert live(before.store) == ["later-1", "mine"]


def test_a_refusal_after_a_lost_race_says_that_nothing_landed() -> None:
    before = table()
    full = False

    def refuse(operation: str, path: str) -> None:
        if full and operation == "put_if_absent":
            raise StorageRefused("the disk is full")

    store = StepStore(before.store, refuse)
    mine = begin(before, committer=FilesystemCommitter(store))
    mine.add(add("mine"))
    append(before, add("theirs"))
    full = True
    with pytest.raises(CommitFailed, match="disk is full") as caught:
        mine.commit("WRITE")
    assert (caught.value.retryable, caught.value.conflict) == (True, False)
    assert live(before.store) == ["theirs"]


# Any interleaving.


@dataclass
class _Run:
    """Several transactions on one table, begun and committed in any order; what landed is written down."""

    start: Snapshot
    time: FakeTime = field(default_factory=FakeTime)
    open: dict[int, tuple[TableTransaction, set[str], set[str]]] = field(default_factory=dict)
    landed: list[tuple[CommitResult, set[str], set[str]]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    names: int = 0

    def step(self, writer: int, kind: str, rows: int, moved_ms: int) -> None:
        self.time.now_ms += moved_ms
        if writer in self.open:
            self._commit(*self.open.pop(writer))
        else:
            self.open[writer] = self._begin(kind, rows)

    def _begin(self, kind: str, rows: int) -> tuple[TableTransaction, set[str], set[str]]:
        snapshot = Snapshot.open(self.start.store)
        transaction = begin(snapshot, self.time, after=PostCommitHook(checkpoints=False, cleanup=False))
        files = snapshot.live_files(["path"])["path"].to_pylist()
        gone: list[str] = files[rows % len(files) :][:2] if files and kind in ("delete", "update", "optimize") else []
        if gone:
            transaction.read_whole_table() if kind == "update" else None
            transaction.remove(removes(snapshot, *gone, data_change=kind != "optimize"))
        added: list[str] = []
        if kind != "delete":
            added = [self._name() for _ in range(1 + rows % 2)]
            transaction.add([add(name, rows=rows, data_change=kind != "optimize") for name in added])
        if kind == "domain":
            transaction.set_domain(DomainMetadata("com.example.d", str(rows)))
        if kind == "properties":
            transaction.set_metadata(replace(snapshot.metadata, description=f"d{self.names}"))
        return transaction, set(added), set(gone)

    def _name(self) -> str:
        self.names += 1
        return f"f{self.names}"

    def _commit(self, transaction: TableTransaction, added: set[str], gone: set[str]) -> None:
        try:
            self.landed.append((transaction.commit("WRITE"), added, gone))
        except DeltaConcurrentModificationException:
            self.refused |= added


KINDS = ["append", "append", "delete", "update", "optimize", "domain", "properties"]
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(KINDS), st.integers(1, 9), st.integers(-50, 50)), max_size=40
)


@given(STEPS)
@example_settings(max_examples=examples(20), deadline=None)
def test_however_transactions_interleave_nothing_is_lost_doubled_or_out_of_order(
    steps: list[tuple[int, str, int, int]],
) -> None:
    properties = {**ROW_TRACKING, **TIMESTAMPS, "delta.feature.domainMetadata": "supported"}
    start = table(properties=properties)
    run = _Run(start)
    for step in [*steps, *((writer, "append", 1, 0) for writer in range(4))]:
        if step in steps or step[0] in run.open:
            run.step(*step)
    end = Snapshot.open(start.store)
    assert [result.version for result, _, _ in run.landed] == list(range(1, end.version + 1))
    _check_files(run, end)
    _check_row_ids(start, end)
    stamps = [_stamp(start, version) for version in range(end.version + 1)]
    assert all(earlier < later for earlier, later in pairwise(stamps))
    assert [result.timestamp_ms for result, _, _ in run.landed] == stamps[1:]


def _check_files(run: _Run, end: Snapshot) -> None:
    added = [name for _, names, _ in run.landed for name in names]
    gone = [name for _, _, names in run.landed for name in names]
    assert len(set(gone)) == len(gone)
    assert live(end.store) == sorted(set(added) - set(gone))
    assert not run.refused & set(live(end.store))
    for result, names, _ in run.landed:
        assert {node["path"] for node in _adds(end, result.version)} == names


def _check_row_ids(start: Snapshot, end: Snapshot) -> None:
    mark = -1
    for version in range(1, end.version + 1):
        for node in _adds(start, version):
            assert node["defaultRowCommitVersion"] == version
            assert node["baseRowId"] == mark + 1
            mark += orjson.loads(node["stats"])["numRecords"]
        assert high_water_mark(Snapshot.open(start.store, version).domain_metadata) == mark


def test_a_winner_of_another_engine_without_commit_info_is_followed() -> None:
    before = table()
    mine = begin(before)
    mine.add(add("mine"))
    put_commit(before.store, 1, add("theirs").to_json())
    assert mine.commit("WRITE").version == 2


# What is told of a lost race.


def test_a_race_that_is_lost_is_told_with_table_version_and_why(caplog: pytest.LogCaptureFixture) -> None:
    before = append(table(), add("a")).snapshot
    moves, conflicts = begin(before), begin(before)
    moves.add([add("mine")])
    conflicts.remove(removes(before, "a"))
    append(before, add("theirs"), operation="STREAMING UPDATE")
    with caplog.at_level(logging.INFO, "slackwater.transaction"):
        assert moves.commit("WRITE").version == 3
    where = before.store.root_url
    assert caplog.messages == [
        f"{where}: version 2 belongs to another writer (STREAMING UPDATE): rebasing this WRITE onto it"
    ]
    caplog.clear()
    delete(before, "a", operation="MERGE")
    with caplog.at_level(logging.INFO, "slackwater.transaction"), pytest.raises(DeltaConcurrentModificationException):
        conflicts.commit("UPDATE")
    told = caplog.messages[-1]
    assert told.startswith(f"{where}: this UPDATE lost to version 4: ")
    assert "removed" in told
