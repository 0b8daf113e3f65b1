"""Two that change the same files at the same time: each row is one transaction's, and what was read stays true."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from slackwater.errors import (
    CommitFailed,
    CommitUnknown,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    StorageError,
    StorageRefused,
)
from slackwater.log.table import Table
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.committer import Conflict
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.row_reads import RowsRead
from slackwater.transaction.rows.file_action_rows import as_adds, as_removes
from slackwater.transaction.rows.vector_files import write_deletion_vectors
from tests.transaction.tables import (
    START_MS,
    VECTORS,
    StepStore,
    add,
    append,
    begin,
    commit_actions,
    delete,
    delete_rows,
    delete_rows_of,
    live,
    live_rows,
    only,
    removes,
    set_props,
    table,
    vector_files,
    where,
)

SERIALIZABLE = {**VECTORS, "delta.isolationLevel": "Serializable"}
ROW_TRACKING = {**VECTORS, "delta.enableRowTracking": "true"}


def _table(*files: AddFile, **properties: str) -> Snapshot:
    """A table with vectors on, and `files`, by default `a` (id 0 to 9) and `b` (id 10 to 19)."""
    settings = {**VECTORS, **{key.replace("__", "."): value for key, value in properties.items()}}
    return append(table(properties=settings), *(files or (add("a", 0, 9), add("b", 10, 19)))).snapshot


def _deleting(before: Snapshot, rows: Mapping[str, Iterable[int]], committer: Any = None) -> TableTransaction:
    mine = begin(before, committer=committer)
    delete_rows(mine, rows)
    return mine


def _reading(before: Snapshot, sql: str, rows: Mapping[str, Iterable[int] | None], **more: Any) -> TableTransaction:
    """A transaction that adds a file because of the rows that it found."""
    mine = begin(before)
    found = {path: None if r is None else BitMap64(r) for path, r in rows.items()}
    mine.read_where(where(before, sql), RowsRead(found, **more))
    mine.add(add("mine"), fresh=True)
    return mine


def _compact(before: Snapshot, *paths: str, into: str = "ab", rows: int = 20) -> Snapshot:
    theirs = begin(before)
    theirs.remove(removes(before, *paths, data_change=False))
    theirs.add(add(into, 0, 19, rows, data_change=False))
    return theirs.commit("OPTIMIZE").snapshot


def _one_file(before: Snapshot, path: str) -> pa.Table:
    files = before.live_files()
    return files.filter(pa.compute.equal(files["path"], path))


def _replace_vector(before: Snapshot, path: str, deleted: Iterable[int], data_change: bool, **more: Any) -> None:
    """Another engine's commit: the file under a vector of exactly these rows, none for no rows."""
    theirs = begin(before)
    file = _one_file(before, path)
    bitmap = BitMap64(deleted)
    (descriptor,) = write_deletion_vectors(before.store, [bitmap], theirs.clock.new_uuid).descriptors
    theirs.remove(as_removes(file, START_MS, data_change))
    again = replace(as_adds(file, data_change)[0], deletion_vector=descriptor if bitmap else None, **more)
    theirs.add(again)
    theirs.commit("RESTORE")


# Rows that both delete.


def test_two_deletes_of_disjoint_rows_of_one_file_both_land() -> None:
    before = _table()
    mine, theirs = _deleting(before, {"a": [1, 2]}), _deleting(before, {"a": [3], "b": [0]})
    theirs.commit("DELETE")
    result = mine.commit("DELETE")
    assert (result.version, result.attempts) == (3, 2)
    assert live_rows(before.store) == {"a": [0, 4, 5, 6, 7, 8, 9], "b": [1, 2, 3, 4, 5, 6, 7, 8, 9]}


def test_the_second_removes_the_file_as_the_first_left_it() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    delete_rows_of(before, {"a": [3]})
    mine.commit("DELETE")
    first, second = only(before.store, 2, "add"), only(before.store, 3, "remove")
    assert second["deletionVector"] == first["deletionVector"]
    assert only(before.store, 3, "add")["deletionVector"]["cardinality"] == 2
    assert second["dataChange"] is True


def test_overlapping_rows_are_a_conflict_that_names_the_winner() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1, 2]})
    delete_rows_of(before, {"a": [2, 3]})
    with pytest.raises(ConcurrentDeleteDeleteException, match=r"version 2 \(DELETE\) deleted rows of the file a") as e:
        mine.commit("DELETE")
    assert (e.value.retryable, e.value.conflict) == (True, True)
    mine.discard_vectors()
    assert live_rows(before.store)["a"] == [0, 1, 4, 5, 6, 7, 8, 9]
    assert len(vector_files(before.store)) == 1


def test_overlap_counts_against_every_one_of_several_winners() -> None:
    before = _table()
    mine, late = _deleting(before, {"a": [1, 2]}), _deleting(before, {"a": [4, 5]})
    for row in (3, 4, 6):
        delete_rows_of(Snapshot.open(before.store), {"a": [row]})
    assert mine.commit("DELETE").attempts == 2
    with pytest.raises(ConcurrentDeleteDeleteException, match=r"version 3 \(DELETE\)"):
        late.commit("DELETE")
    assert live_rows(before.store)["a"] == [0, 5, 7, 8, 9]


def test_a_file_that_has_a_vector_already_gets_the_union_of_three() -> None:
    before = delete_rows_of(_table(), {"a": [0]}).snapshot
    mine = _deleting(before, {"a": [1]})
    delete_rows_of(before, {"a": [2]})
    mine.commit("DELETE")
    assert live_rows(before.store)["a"] == [3, 4, 5, 6, 7, 8, 9]


def test_what_both_leave_nothing_of_is_removed_as_a_whole() -> None:
    before = _table()
    mine = _deleting(before, {"a": range(5)})
    delete_rows_of(before, {"a": range(5, 10)})
    mine.commit("DELETE")
    assert live(before.store) == ["b"]
    assert [next(iter(action)) for action in commit_actions(before.store, 3)] == ["commitInfo", "remove"]
    assert len(vector_files(before.store)) == 1


def test_a_file_of_which_all_rows_are_deleted_overlaps_with_any_other_deletion() -> None:
    before = _table()
    mine = _deleting(before, {"a": range(10)})
    delete_rows_of(before, {"a": [3]})
    with pytest.raises(ConcurrentDeleteDeleteException):
        mine.commit("DELETE")


def test_rows_of_a_file_that_a_winner_removed_are_a_conflict() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    delete(before, "a")
    with pytest.raises(ConcurrentDeleteDeleteException, match=r"removed or replaced the file a"):
        mine.commit("DELETE")


def test_rows_of_a_file_that_was_compacted_are_neither_lost_nor_resurrected() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    _compact(before, "a", "b")
    with pytest.raises(ConcurrentDeleteDeleteException, match=r"\(OPTIMIZE\)"):
        mine.commit("DELETE")
    assert {path: len(rows) for path, rows in live_rows(before.store).items()} == {"ab": 20}


def test_compaction_and_removal_of_a_file_whose_rows_another_deleted_conflict() -> None:
    before = _table()
    compacting, removing = begin(before), begin(before)
    compacting.remove(removes(before, "a", "b", data_change=False))
    compacting.add(add("ab", 0, 19, 20, data_change=False))
    removing.remove(removes(before, "a"))
    delete_rows_of(before, {"a": [1]})
    for mine in (compacting, removing):
        with pytest.raises(ConcurrentDeleteDeleteException):
            mine.commit("OPTIMIZE")


def test_a_restore_that_brings_rows_back_is_not_merged_with() -> None:
    before = delete_rows_of(_table(), {"a": [0, 1]}).snapshot
    mine = _deleting(before, {"a": [5]})
    _replace_vector(before, "a", [1], data_change=True)
    with pytest.raises(ConcurrentDeleteDeleteException):
        mine.commit("DELETE")


def test_a_restore_of_all_rows_is_not_merged_with() -> None:
    before = delete_rows_of(_table(), {"a": [0, 1]}).snapshot
    mine = _deleting(before, {"a": [5]})
    _replace_vector(before, "a", [], data_change=True)
    with pytest.raises(ConcurrentDeleteDeleteException):
        mine.commit("DELETE")


def test_a_vector_that_was_only_stored_elsewhere_is_followed() -> None:
    before = delete_rows_of(_table(), {"a": [0, 1]}).snapshot
    mine = _deleting(before, {"a": [5]})
    _replace_vector(before, "a", [0, 1], data_change=False)
    mine.commit("DELETE")
    assert live_rows(before.store)["a"] == [2, 3, 4, 6, 7, 8, 9]


def test_rows_that_were_marked_because_they_are_elsewhere_now_are_a_conflict() -> None:
    before = _table()
    mine = _deleting(before, {"a": [5]})
    theirs = begin(before)
    theirs.add(add("elsewhere", 0, 1, 2, data_change=False), fresh=True)
    (descriptor,) = write_deletion_vectors(before.store, [BitMap64([0, 1])], theirs.clock.new_uuid).descriptors
    theirs.remove(removes(before, "a", data_change=False))
    theirs.add(replace(as_adds(_one_file(before, "a"), False)[0], deletion_vector=descriptor))
    theirs.commit("OPTIMIZE")
    with pytest.raises(ConcurrentDeleteDeleteException):
        mine.commit("DELETE")


def test_a_path_is_one_file_however_a_winner_writes_it() -> None:
    before = _table(add("a%20b"))
    mine = _deleting(before, {"a%20b": [1]})
    theirs = begin(before)
    delete_rows(theirs, {"a%20b": [2]})
    theirs.staged.removes[:] = [replace(r, path="a%20%62") for r in theirs.staged.removes]
    theirs.staged.adds[:] = [replace(a, path="a%20%62") for a in theirs.staged.adds]
    theirs.commit("DELETE")
    mine.commit("DELETE")
    assert live_rows(before.store) == {"a%20%62": [0, 3, 4, 5, 6, 7, 8, 9]}


# What else a winner said of the file.


def test_row_ids_and_tags_are_those_that_the_winner_gave() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    set_props(before, delta__enableRowTracking="true")
    newest = Snapshot.open(before.store)
    tagged = begin(newest)
    tagged.add(replace(as_adds(_one_file(newest, "a"), False)[0], tags={"k": "v"}))
    tagged.commit("COMPUTE STATS")
    mine.commit("DELETE")
    added = only(before.store, 4, "add")
    given = {f["path"]: f["baseRowId"] for f in newest.live_files().to_pylist()}
    assert (added["baseRowId"], added["defaultRowCommitVersion"]) == (given["a"], 2)
    assert added["tags"] == {"k": "v"}
    assert live_rows(before.store)["a"] == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    assert len(vector_files(before.store)) == 1


def test_statistics_are_the_winners_and_wide() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    newest = append(before, add("c")).snapshot
    restated = begin(newest)
    restated.add(replace(as_adds(_one_file(newest, "a"), False)[0], stats='{"maxValues":{"id":9}}'))
    restated.commit("COMPUTE STATS")
    mine.commit("DELETE")
    assert orjson.loads(only(before.store, 4, "add")["stats"]) == {
        "numRecords": 10,
        "maxValues": {"id": 9},
        "tightBounds": False,
    }


def test_a_file_that_came_back_with_another_vector_is_a_conflict() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    delete(before, "a")
    newest = Snapshot.open(before.store)
    append(newest, add("a"))
    with pytest.raises(ConcurrentDeleteDeleteException, match="version 2"):
        mine.commit("DELETE")


def test_vectors_that_were_turned_off_meanwhile_are_a_conflict() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    set_props(before, delta__enableDeletionVectors="false")
    with pytest.raises(MetadataChangedException):
        mine.commit("DELETE")
    assert live(before.store) == ["a", "b"]


def test_a_winner_that_touches_other_files_costs_no_new_vector() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    written = vector_files(before.store)
    append(before, add("c"))
    assert mine.commit("DELETE").attempts == 2
    assert vector_files(before.store) == written


# Rows that were read.


def test_deleted_rows_that_were_not_read_are_no_conflict() -> None:
    before = _table(delta__isolationLevel="Serializable")
    mine = _reading(before, "id < 5", {"a": [0, 1]})
    delete_rows_of(before, {"a": [7], "b": [1]})
    assert mine.commit("MERGE").version == 3


def test_deleted_rows_that_were_read_are_a_conflict() -> None:
    before = _table()
    mine = _reading(before, "id < 5", {"a": [0, 1]})
    delete_rows_of(before, {"a": [1, 7]})
    with pytest.raises(ConcurrentDeleteReadException, match=r"version 2 \(DELETE\) removed rows.*file a\)"):
        mine.commit("MERGE")


def test_rows_of_a_file_in_which_nobody_knows_what_was_read_are_a_conflict() -> None:
    before = _table()
    mine = _reading(before, "id < 5", {"a": None})
    delete_rows_of(before, {"a": [9]})
    with pytest.raises(ConcurrentDeleteReadException):
        mine.commit("MERGE")


def test_a_condition_that_does_not_say_what_it_found_conflicts_with_any_row_of_its_files() -> None:
    before = _table()
    mine, elsewhere = begin(before), begin(before)
    for transaction, sql in ((mine, "id < 5"), (elsewhere, "id > 10")):
        transaction.read_where(where(before, sql))
        transaction.add(add(sql), fresh=True)
    delete_rows_of(before, {"a": [9]})
    with pytest.raises(ConcurrentDeleteReadException):
        mine.commit("MERGE")
    assert elsewhere.commit("MERGE").version == 3


@pytest.mark.parametrize(("path", "conflicts"), [("a", True), ("b", False)])
def test_a_file_that_was_removed_conflicts_where_rows_of_it_were_found(path: str, conflicts: bool) -> None:
    before = _table()
    mine = _reading(before, "id < 15", {"a": [0]})
    delete(before, path)
    if conflicts:
        with pytest.raises(ConcurrentDeleteReadException):
            mine.commit("MERGE")
    else:
        assert mine.commit("MERGE").version == 3


def test_a_file_that_has_fewer_rows_now_has_no_new_ones() -> None:
    before = delete_rows_of(_table(delta__isolationLevel="Serializable"), {"a": [0]}).snapshot
    mine = _reading(before, "id < 100", {})
    delete_rows_of(before, {"a": [7], "b": [1]})
    assert mine.commit("MERGE").version == 4


def test_rows_that_came_back_are_rows_that_were_added() -> None:
    before = delete_rows_of(_table(), {"a": [0, 1]}).snapshot
    mine = _reading(before, "id < 5", {})
    _replace_vector(before, "a", [1], data_change=True)
    with pytest.raises(ConcurrentAppendException):
        mine.commit("MERGE")


@pytest.mark.parametrize("found", [True, False])
def test_rows_that_were_read_are_followed_into_the_file_that_they_were_moved_to(found: bool) -> None:
    before = _table(delta__isolationLevel="Serializable")
    mine = begin(before)
    mine.read_where(where(before, "id < 5"), RowsRead({"a": BitMap64([0])}) if found else None)
    mine.add(add("mine"), fresh=True)
    compacted = _compact(before, "a", "b")
    delete_rows_of(compacted, {"ab": [19]})
    with pytest.raises(ConcurrentDeleteReadException, match="version 3"):
        mine.commit("MERGE")


def test_a_compaction_of_files_without_rows_that_were_read_is_not_followed() -> None:
    before = _table(delta__isolationLevel="Serializable")
    mine = _reading(before, "id < 15", {})
    delete_rows_of(_compact(before, "a", "b"), {"ab": [1]})
    assert mine.commit("MERGE").version == 4


# Rows that others add, where the condition can be asked.


class _Asked:
    """The answer to whether added files match, and what was asked."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.calls: list[tuple[int, list[str]]] = []

    def __call__(self, snapshot: Snapshot, files: pa.Table) -> bool:
        self.calls.append((snapshot.version, files["path"].to_pylist()))
        assert set(files["path"].to_pylist()) <= set(snapshot.live_files(["path"])["path"].to_pylist())
        return self.answer


def _append_twice(before: Snapshot) -> None:
    for number in range(2):
        theirs = begin(Snapshot.open(before.store))
        theirs.read_whole_table()
        theirs.add([add(f"near-{number}", 0, 9), add(f"nearer-{number}", 0, 9), add(f"far-{number}", 50, 60)])
        theirs.commit("MERGE")


def test_a_condition_is_asked_once_for_each_winner_about_the_files_that_may_match() -> None:
    before = _table()
    asked = _Asked(False)
    mine = _reading(before, "id < 5", {}, matches=asked)
    _append_twice(before)
    assert mine.commit("MERGE").version == 4
    assert asked.calls == [(2, ["near-0", "nearer-0"]), (3, ["near-1", "nearer-1"])]


def test_a_condition_that_new_rows_fulfil_is_a_conflict() -> None:
    before = _table()
    mine = _reading(before, "id < 5", {}, matches=_Asked(True))
    _append_twice(before)
    with pytest.raises(ConcurrentAppendException, match=r"version 2 \(MERGE\) added rows"):
        mine.commit("MERGE")


def test_a_condition_that_cannot_answer_is_a_conflict_that_says_why() -> None:
    before = _table()

    def fails(_snapshot: Snapshot, _files: pa.Table) -> bool:
        raise RuntimeError("the session is gone")

    mine = _reading(before, "id < 5", {}, matches=fails)
    _append_twice(before)
    with pytest.raises(ConcurrentAppendException, match="the session is gone"):
        mine.commit("MERGE")


def test_nobody_is_asked_about_a_conflict_that_is_known() -> None:
    before = _table()
    asked = _Asked(False)
    mine = _reading(before, "id < 5", {"a": [0]}, matches=asked)
    theirs = begin(before)
    delete_rows(theirs, {"a": [0]})
    theirs.add(add("updated", 0, 0, 1), fresh=True)
    theirs.commit("UPDATE")
    with pytest.raises(ConcurrentDeleteReadException):
        mine.commit("MERGE")
    assert asked.calls == []


@pytest.mark.parametrize(("level", "questions"), [("Serializable", 1), ("WriteSerializable", 0)])
def test_blind_appends_are_asked_about_only_under_serializable(level: str, questions: int) -> None:
    before = _table(delta__isolationLevel=level)
    asked = _Asked(False)
    mine = _reading(before, "id < 5", {}, matches=asked)
    append(before, add("near"))
    mine.commit("MERGE")
    assert len(asked.calls) == questions


# Vector files, and what becomes of them.


def test_the_vectors_of_lost_attempts_go_when_the_commit_has_landed() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    delete_rows_of(before, {"a": [2]})
    delete_rows_of(Snapshot.open(before.store), {"a": [3]})
    mine.commit("DELETE")
    referred = {only(before.store, v, "add")["deletionVector"]["pathOrInlineDv"] for v in (2, 3, 4)}
    assert len(referred) == len(vector_files(before.store)) == 3
    mine.discard_vectors()
    assert live_rows(before.store)["a"] == [0, 4, 5, 6, 7, 8, 9]


def test_a_file_with_one_vector_that_still_counts_stays() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1], "b": [1]})
    delete_rows_of(before, {"a": [2]})
    mine.commit("DELETE")
    assert live_rows(before.store) == {"a": [0, 3, 4, 5, 6, 7, 8, 9], "b": [0, 2, 3, 4, 5, 6, 7, 8, 9]}
    assert len(vector_files(before.store)) == 3


def test_a_commit_stands_when_vectors_of_lost_attempts_cannot_be_deleted() -> None:
    before = _table()

    def fails(operation: str, path: str) -> None:
        if operation == "delete":
            raise StorageError("no")

    mine = _deleting(before, {"a": [1]})
    mine.table = Table(StepStore(before.store, fails))
    delete_rows_of(before, {"a": [2]})
    result = mine.commit("DELETE")
    assert result.version == 3
    assert any("deletion vector files" in problem for problem in result.upkeep_errors)


def _commit_that(before: Snapshot, step: Callable[[], None]) -> TableTransaction:
    """A deletion whose commit calls `step` before its file is put."""

    def before_call(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".json"):
            step()

    store = StepStore(before.store, before_call)
    return _deleting(before, {"a": [1]}, FilesystemCommitter(store, lambda _s: None))


def test_refused_commits_leave_vectors_to_be_discarded() -> None:
    before = _table()

    def refuse() -> None:
        raise StorageRefused("read-only")

    mine = _commit_that(before, refuse)
    with pytest.raises(CommitFailed):
        mine.commit("DELETE")
    assert len(vector_files(before.store)) == 1
    mine.discard_vectors()
    assert vector_files(before.store) == []


def test_the_vectors_of_a_commit_that_may_have_landed_stay() -> None:
    before = _table()

    def lose() -> None:
        raise StorageError("no answer")

    mine = _commit_that(before, lose)
    with pytest.raises(CommitUnknown):
        mine.commit("DELETE")
    mine.discard_vectors()
    assert len(vector_files(before.store)) == 1


def test_the_vectors_of_a_commit_that_was_interrupted_stay() -> None:
    before = _table()

    def interrupt() -> None:
        raise KeyboardInterrupt

    mine = _commit_that(before, interrupt)
    with pytest.raises(KeyboardInterrupt):
        mine.commit("DELETE")
    mine.discard_vectors()
    assert len(vector_files(before.store)) == 1


def test_a_commit_that_landed_although_a_conflict_was_reported_keeps_its_vectors() -> None:
    before = _table()

    class Liar:
        """Commits, and says that another was there first."""

        def __init__(self) -> None:
            self.true = FilesystemCommitter(before.store)
            self.commits_after = self.true.commits_after
            self.publishes_at_once = True
            self.published_version = self.true.published_version

        def commit(self, version: int, actions: Any, may_move: bool = False) -> Any:
            self.true.commit(version, actions)
            return Conflict(version)

    mine = _deleting(before, {"a": [1]}, Liar())
    assert mine.commit("DELETE").version == 2
    mine.discard_vectors()
    assert live_rows(before.store)["a"] == [0, 2, 3, 4, 5, 6, 7, 8, 9]


def test_vectors_that_cannot_be_written_anew_mean_that_nothing_was_committed() -> None:
    before = _table()
    mine = _deleting(before, {"a": [1]})
    delete_rows_of(before, {"a": [2]})

    def refuse(operation: str, path: str) -> None:
        if path.endswith(".bin") and operation == "put_if_absent":
            raise StorageRefused("full")

    mine.table = Table(StepStore(before.store, refuse))
    with pytest.raises(StorageRefused):
        mine.commit("DELETE")
    assert Snapshot.open(before.store).version == 2
    mine.discard_vectors()
    assert len(vector_files(before.store)) == 1


def test_vectors_of_a_winner_are_read_once_and_only_of_files_that_matter() -> None:
    before = _table(*(add(f"f{n}", n * 10, n * 10 + 9) for n in range(6)))
    mine = _deleting(before, {"f0": [1]})
    mine.read_where(where(before, "id < 10"), RowsRead({"f0": BitMap64([1])}))
    for row in (2, 3):
        delete_rows_of(Snapshot.open(before.store), {f"f{n}": [row] for n in range(6)})
    ranges: list[int] = []

    class Counting(StepStore):
        def read_range(self, path: str, start: int, length: int) -> bytes:
            ranges.append(length)
            return self._store.read_range(path, start, length)

    mine.read_snapshot._store = Counting(before.store, lambda _o, _p: None)  # type: ignore[union-attr]
    mine.commit("DELETE")
    assert len(ranges) == 2
    assert live_rows(before.store)["f0"] == [0, 4, 5, 6, 7, 8, 9]


def test_the_checksum_of_a_version_is_right_after_a_rebase() -> None:
    from slackwater.log.checksum_totals import checksum_of
    from slackwater.log.files.version_checksum import read_version_checksum
    from slackwater.transaction.post_commit import PostCommitHook

    before = _table()
    mine = begin(before, after=PostCommitHook(checkpoints=False, cleanup=False))
    delete_rows(mine, {"a": [1], "b": range(5)})
    delete_rows_of(before, {"a": [2], "b": range(5, 10)})
    done = mine.commit("DELETE")
    found, true = read_version_checksum(before.store, 3), checksum_of(Snapshot.open(before.store))
    assert found is not None
    assert (found.num_files, found.table_size_bytes) == (true.num_files, true.table_size_bytes) == (1, 100)
    assert done.snapshot.live_files(["path"])["path"].to_pylist() == ["a"]


@pytest.mark.parametrize("tracked", [True, False])
def test_rows_keep_their_ids_when_others_append_meanwhile(tracked: bool) -> None:
    before = append(table(properties=ROW_TRACKING if tracked else VECTORS), add("a")).snapshot
    mine = _deleting(before, {"a": [1]})
    append(before, add("c"))
    mine.commit("DELETE")
    added = only(before.store, 3, "add")
    assert added.get("baseRowId") == (0 if tracked else None)
    assert added.get("defaultRowCommitVersion") == (1 if tracked else None)


def test_conflicts_are_all_of_one_kind_that_says_try_again() -> None:
    before = append(table(properties=SERIALIZABLE), add("a")).snapshot
    mine = _deleting(before, {"a": [1]})
    mine.read_whole_table()
    append(before, add("c"))
    with pytest.raises(DeltaConcurrentModificationException) as caught:
        mine.commit("DELETE")
    assert caught.value.retryable
