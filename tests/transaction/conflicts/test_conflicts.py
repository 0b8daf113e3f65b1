"""Which commits of others a transaction may follow, and what it is told where it may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from slackwater.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
)
from slackwater.protocol.actions.actions import DomainMetadata
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.table.alteration import set_domain
from tests.transaction.tables import (
    START_MS,
    add,
    append,
    begin,
    delete,
    live,
    only,
    put_commit,
    removes,
    table,
    vector,
    where,
)


def _reader(before: Snapshot, sql: str = "id < 5") -> TableTransaction:
    """A transaction whose new file depends on the rows that satisfy `sql`."""
    mine = begin(before)
    mine.read_where(where(before, sql))
    mine.add(add("mine"), fresh=True)
    return mine


def _not_blind(before: Snapshot, *files: object) -> None:
    """Another transaction that has read, and adds `files`."""
    theirs = begin(before)
    theirs.read_whole_table()
    theirs.add(files)  # type: ignore[arg-type]
    theirs.commit("MERGE")


def _two_partitions() -> Snapshot:
    before = table({"id": "long", "p": "string"}, ["p"])
    files = (add("a", partition={"p": "x"}), add("b", partition={"p": "y"}))
    return append(before, *files).snapshot


# Reads against appended rows.


def test_rows_that_should_have_been_read_are_a_conflict_that_names_version_operation_and_file() -> None:
    before = table()
    mine = _reader(before)
    _not_blind(before, add("theirs", 0, 3))
    with pytest.raises(ConcurrentAppendException) as caught:
        mine.commit("DELETE")
    for part in (before.store.root_url, "on version 0", "version 1 (MERGE)", "file theirs", "Retry"):
        assert part in str(caught.value)
    assert (caught.value.retryable, caught.value.conflict) == (True, True)
    assert live(before.store) == ["theirs"]


def test_a_file_whose_statistics_leave_no_room_for_a_match_is_no_conflict() -> None:
    before = table()
    mine = _reader(before, "id < 5")
    _not_blind(before, add("theirs", 10, 20))
    assert mine.commit("DELETE").version == 2


def test_a_file_without_statistics_may_hold_anything() -> None:
    before = table()
    mine = _reader(before, "id < 5")
    _not_blind(before, add("theirs", rows=None))
    with pytest.raises(ConcurrentAppendException):
        mine.commit("DELETE")


def test_a_file_of_another_partition_is_no_conflict_and_one_of_the_same_names_it() -> None:
    before = _two_partitions()
    mine, also_mine = _reader(before, "p = 'x'"), _reader(before, "p = 'y'")
    for transaction, p in ((mine, "x"), (also_mine, "y")):
        transaction.staged.adds[:] = [add(f"mine-{p}", partition={"p": p})]
    _not_blind(before, add("theirs", partition={"p": "y"}))
    assert mine.commit("DELETE").version == 3
    with pytest.raises(ConcurrentAppendException, match=r"in the partition \{'p': 'y'\}"):
        also_mine.commit("DELETE")


def test_partition_and_data_conditions_count_together() -> None:
    before = _two_partitions()
    mine = _reader(before, "p = 'x' AND id > 100")
    mine.staged.adds[:] = [add("mine", partition={"p": "x"})]
    _not_blind(before, add("theirs", 0, 100, partition={"p": "x"}))
    assert mine.commit("DELETE").version == 3


def test_of_several_conditions_each_one_counts() -> None:
    before = table()
    mine = _reader(before, "id < 5")
    mine.read_where(where(before, "id > 100"))
    _not_blind(before, add("theirs", 90, 200))
    with pytest.raises(ConcurrentAppendException):
        mine.commit("DELETE")


def test_physical_names_of_a_mapped_table_are_those_of_statistics() -> None:
    before = table({"id": "long"}, properties={"delta.columnMapping.mode": "name"})
    (column,) = before.schema
    physical = column.metadata["delta.columnMapping.physicalName"]
    mine = _reader(before, "id < 5")
    theirs = add("theirs", 10, 20)
    assert theirs.stats is not None
    _not_blind(before, replace(theirs, stats=theirs.stats.replace('"id"', f'"{physical}"')))
    assert mine.commit("DELETE").version == 2


def test_a_whole_table_that_was_read_conflicts_with_any_row() -> None:
    before = table()
    mine = begin(before)
    mine.read_whole_table()
    mine.add(add("mine"))
    _not_blind(before, add("theirs", 10, 20))
    with pytest.raises(ConcurrentAppendException):
        mine.commit("WRITE")


def test_files_that_only_rearrange_rows_conflict_with_no_reader() -> None:
    before = append(table(), add("a"), add("b")).snapshot
    mine = _reader(before, "id < 5")
    theirs = begin(before)
    theirs.read_whole_table()
    theirs.remove(removes(before, "a", "b", data_change=False))
    theirs.add(add("ab", data_change=False))
    theirs.commit("OPTIMIZE")
    assert mine.commit("UPDATE").version == 3
    assert live(before.store) == ["ab", "mine"]


# Isolation levels.


@pytest.mark.parametrize(
    ("level", "passes"),
    [(None, True), ("WriteSerializable", True), ("Serializable", False), ("SnapshotIsolation", True)],
)
def test_a_blind_append_is_overlooked_except_under_serializable(level: str | None, passes: bool) -> None:
    before = table(properties={"delta.isolationLevel": level} if level else {})
    mine = _reader(before)
    append(before, add("theirs"))
    if passes:
        assert mine.commit("UPDATE").version == 2
        assert only(before.store, 2, "commitInfo")["isolationLevel"] == (level or "WriteSerializable")
    else:
        with pytest.raises(ConcurrentAppendException):
            mine.commit("UPDATE")


@pytest.mark.parametrize(("level", "passes"), [("WriteSerializable", False), ("SnapshotIsolation", True)])
def test_rows_of_one_that_read_are_overlooked_only_by_snapshot_isolation(level: str, passes: bool) -> None:
    before = table(properties={"delta.isolationLevel": level})
    mine = _reader(before)
    _not_blind(before, add("theirs"))
    if passes:
        assert mine.commit("UPDATE").version == 2
    else:
        with pytest.raises(ConcurrentAppendException):
            mine.commit("UPDATE")


def test_a_blind_append_is_not_overlooked_by_one_that_changes_the_metadata() -> None:
    before = table()
    mine = _reader(before)
    mine.set_metadata(replace(before.metadata, description="new"))
    append(before, add("theirs"))
    with pytest.raises(ConcurrentAppendException):
        mine.commit("REPLACE TABLE")


def test_a_commit_that_does_not_say_that_it_was_blind_was_not() -> None:
    before = table()
    mine = _reader(before)
    put_commit(before.store, 1, add("theirs").to_json())
    with pytest.raises(ConcurrentAppendException, match=r"version 1 added rows"):
        mine.commit("UPDATE")


def test_a_commit_that_only_rearranges_is_under_snapshot_isolation_whatever_the_table_says() -> None:
    before = append(table(properties={"delta.isolationLevel": "Serializable"}), add("a"), add("b")).snapshot
    mine = begin(before)
    mine.read_whole_table()
    mine.remove(removes(before, "a", "b", data_change=False))
    mine.add(add("ab", data_change=False))
    append(before, add("theirs"))
    assert mine.commit("OPTIMIZE").version == 3
    assert only(before.store, 3, "commitInfo")["isolationLevel"] == "SnapshotIsolation"
    assert live(before.store) == ["ab", "theirs"]


def test_a_rearrangement_that_also_records_progress_is_judged_by_the_tables_level() -> None:
    before = append(table(properties={"delta.isolationLevel": "Serializable"}), add("a")).snapshot
    mine = begin(before)
    mine.read_whole_table()
    mine.set_transaction("app", 1)
    mine.remove(removes(before, "a", data_change=False))
    mine.add(add("a2", data_change=False))
    append(before, add("theirs"))
    with pytest.raises(ConcurrentAppendException):
        mine.commit("OPTIMIZE")


# Blind appends.


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable", "SnapshotIsolation"])
def test_a_blind_append_moves_behind_appends_deletes_and_rearrangements(level: str) -> None:
    before = append(table(properties={"delta.isolationLevel": level}), add("a"), add("b")).snapshot
    mine = begin(before)
    mine.add(add("mine"))
    assert mine.is_blind_append
    append(before, add("theirs"))
    delete(before, "a")
    set_domain(before.update(), "com.example.x", "1").commit(begin(before.update()))
    result = mine.commit("WRITE")
    assert (result.version, result.attempts) == (5, 2)
    assert live(before.store) == ["b", "mine", "theirs"]
    assert only(before.store, 5, "commitInfo")["isBlindAppend"] is True


@pytest.mark.parametrize("kind", ["read", "remove", "metadata", "nothing added"])
def test_what_has_read_or_does_more_than_add_is_no_blind_append(kind: str) -> None:
    before = append(table(), add("a")).snapshot
    mine = begin(before)
    if kind != "nothing added":
        mine.add(add("mine"))
    if kind == "read":
        mine.read_where(where(before, "id = 1"))
    elif kind == "remove":
        mine.remove(removes(before, "a"))
    elif kind == "metadata":
        mine.set_metadata(replace(before.metadata, description="d"))
    else:
        mine.set_transaction("app", 1)
    assert not mine.is_blind_append
    mine.commit("WRITE")
    # The history tells what delta-spark's does: whether anything was read or removed.
    assert only(before.store, 2, "commitInfo")["isBlindAppend"] is (kind in ("metadata", "nothing added"))


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (lambda mine: mine.add(add("b"), fresh=True), True),
        (lambda mine: mine.add([]), True),
        (lambda mine: mine.add(add("b")), False),
        (lambda mine: mine.read_whole_table(), False),
        (lambda mine: mine.remove(removes(mine.read_snapshot, "a")), False),
        (lambda mine: mine.set_transaction("app", 1), False),
        (lambda mine: mine.set_domain(DomainMetadata("com.example.x", "1")), False),
        (lambda mine: mine.set_metadata(replace(mine.read_snapshot.metadata, description="d")), False),
    ],
    ids=["fresh", "no more", "an old name", "read", "remove", "application", "domain", "metadata"],
)
def test_only_new_files_of_one_that_read_nothing_may_be_moved_by_an_owner(
    stage: Callable[[TableTransaction], None], expected: bool
) -> None:
    created = table(properties={"delta.feature.domainMetadata": "supported"})
    mine = begin(append(created, add("a")).snapshot)
    mine.add(add("mine"), fresh=True)
    stage(mine)
    assert mine.may_move is expected


# Removed files.


def test_removed_rows_that_were_read_are_a_conflict() -> None:
    before = append(table(), add("a", 0, 4), add("b", 10, 20)).snapshot
    mine, elsewhere = _reader(before, "id < 5"), _reader(before, "id > 100")
    elsewhere.staged.adds[:] = [add("elsewhere")]
    delete(before, "a")
    with pytest.raises(ConcurrentDeleteReadException, match=r"version 2 \(DELETE\) removed rows.*file a\)") as caught:
        mine.commit("UPDATE")
    assert (caught.value.retryable, caught.value.conflict) == (True, True)
    assert elsewhere.commit("UPDATE").version == 3


def test_even_snapshot_isolation_sees_that_rows_which_were_read_are_gone() -> None:
    before = append(table(properties={"delta.isolationLevel": "SnapshotIsolation"}), add("a", 0, 4)).snapshot
    mine = _reader(before, "id < 5")
    delete(before, "a")
    with pytest.raises(ConcurrentDeleteReadException):
        mine.commit("UPDATE")


@pytest.mark.parametrize("data_change", [True, False])
def test_two_that_remove_one_file_conflict_also_where_one_only_rearranges(data_change: bool) -> None:
    before = append(table(), add("a"), add("b")).snapshot
    mine = begin(before)
    mine.remove(removes(before, "a"))
    theirs = begin(before)
    theirs.remove(removes(before, "a", "b", data_change=data_change))
    theirs.add(add("ab", data_change=data_change))
    theirs.commit("OPTIMIZE")
    with pytest.raises(ConcurrentDeleteDeleteException, match=r"removed the file a that this transaction removes") as e:
        mine.commit("DELETE")
    assert (e.value.retryable, e.value.conflict) == (True, True)


def test_two_that_remove_different_files_both_land() -> None:
    before = append(table(), add("a", 0, 4), add("b", 10, 20)).snapshot
    mine = begin(before)
    mine.read_where(where(before, "id > 5"))
    mine.remove(removes(before, "b"))
    delete(before, "a")
    assert mine.commit("DELETE").version == 3
    assert live(before.store) == []


def test_a_path_is_one_file_however_it_is_written() -> None:
    before = append(table(), add("a%20b")).snapshot
    mine, theirs = begin(before), begin(before)
    mine.remove(removes(before, "a%20b"))
    theirs.remove([replace(removes(before, "a%20b")[0], path="a%20b".replace("b", "%62"))])
    theirs.commit("DELETE")
    with pytest.raises(ConcurrentDeleteDeleteException):
        mine.commit("DELETE")


def test_two_deletion_vectors_for_one_file_conflict() -> None:
    before = append(table(properties={"delta.enableDeletionVectors": "true"}), add("a")).snapshot
    transactions = []
    for name in ("ab", "cd"):
        transaction = begin(before)
        transaction.remove(removes(before, "a"))
        transaction.add(add("a", deletion_vector=vector(name)))
        transactions.append(transaction)
    transactions[0].commit("DELETE")
    with pytest.raises(DeltaConcurrentModificationException):
        transactions[1].commit("DELETE")
    (file,) = Snapshot.open(before.store).live_files().to_pylist()
    assert file["deletionVector"]["pathOrInlineDv"].startswith("ab")


@pytest.mark.parametrize("what", ["added", "removed"])
def test_a_path_that_a_winner_added_or_removed_is_not_added_again(what: str) -> None:
    before = append(table(), add("a")).snapshot
    mine = begin(before)
    mine.add(add("a" if what == "removed" else "new"))
    if what == "removed":
        delete(before, "a")
    else:
        append(before, add("new"))
    with pytest.raises(ConcurrentDeleteReadException, match="that this transaction adds"):
        mine.commit("WRITE")
    assert live(before.store) == ([] if what == "removed" else ["a", "new"])


def test_names_that_are_promised_to_be_new_are_not_compared() -> None:
    before = table()
    mine = begin(before)
    mine.add(add("mine"), fresh=True)
    append(before, add("theirs"))
    assert mine.commit("WRITE").version == 2


# Applications and domains.


def test_two_that_move_one_application_conflict() -> None:
    before = table()
    mine, theirs, other = begin(before), begin(before), begin(before)
    for transaction, app in ((mine, "app"), (theirs, "app"), (other, "other")):
        transaction.add(add(f"{app}-{id(transaction)}"))
        transaction.set_transaction(app, 7)
    theirs.commit("WRITE")
    with pytest.raises(ConcurrentTransactionException, match=r"same application id 'app'.*already done") as caught:
        mine.commit("WRITE")
    assert (caught.value.retryable, caught.value.conflict) == (True, True)
    assert other.commit("WRITE").version == 2
    assert Snapshot.open(before.store).transactions["app"].last_updated == START_MS


def test_progress_that_was_only_looked_at_conflicts_as_well() -> None:
    before = table()
    mine, theirs = begin(before), begin(before)
    assert mine.application_version("app") is None
    mine.add(add("mine"))
    theirs.set_transaction("app", 1)
    theirs.commit("WRITE")
    with pytest.raises(ConcurrentTransactionException):
        mine.commit("WRITE")


def _domain(before: Snapshot, name: str, removed: bool = False) -> TableTransaction:
    transaction = begin(before)
    transaction.set_domain(DomainMetadata(name, "{}", removed))
    return transaction


@pytest.mark.parametrize("removed", [False, True])
def test_two_that_set_one_domain_conflict(removed: bool) -> None:
    created = table()
    before = set_domain(created, "com.example.a", "1").commit(begin(created)).snapshot
    mine, other = _domain(before, "com.example.a"), _domain(before, "com.example.b")
    _domain(before, "com.example.a", removed).commit("Manual Update")
    with pytest.raises(ConcurrentTransactionException, match=r"metadata domain com\.example\.a"):
        mine.commit("Manual Update")
    assert other.commit("Manual Update").version == 3


# Several winners.


def test_each_of_several_winners_is_looked_at() -> None:
    before = append(table(), add("a", 0, 4)).snapshot
    mine = _reader(before, "id < 5")
    for number in range(3):
        append(before, add(f"harmless-{number}", 100, 200))
    delete(before, "a")
    append(before, add("last", 100, 200))
    with pytest.raises(ConcurrentDeleteReadException, match=r"version 5 \(DELETE\)"):
        mine.commit("UPDATE")


def test_several_harmless_winners_cost_one_more_attempt() -> None:
    before = table()
    mine = _reader(before, "id < 5")
    for number in range(5):
        _not_blind(before.update(), add(f"theirs-{number}", 10, 20))
    done = mine.commit("UPDATE")
    assert (done.version, done.attempts) == (6, 2)
    assert done.snapshot.version == 6
    assert len(live(before.store)) == 6
