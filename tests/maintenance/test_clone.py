"""Shallow clones: a table of its own over the files of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import ConcurrentWriteException, InvalidArgument, PathNotAllowed, TableAlreadyExists
from slackwater.log.table import Table
from slackwater.maintenance.clone import shallow_clone
from slackwater.protocol.features.managed_commits import ownership
from slackwater.protocol.features.row_tracking import high_water_mark
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.alteration import cluster_by
from tests.lake.test_transaction import Kit
from tests.lake.test_transaction import add as add_to_lake
from tests.transaction.tables import (
    VECTORS,
    StepStore,
    add,
    append,
    begin,
    delete,
    delete_rows_of,
    live,
    only,
    set_props,
    table,
)


def _source(tmp_path: Path, **properties: str) -> Snapshot:
    return append(table(path=str(tmp_path / "source"), properties=properties), add("a"), add("b%20c", rows=5)).snapshot


def _url(tmp_path: Path) -> str:
    """The source as Hadoop spells it."""
    return f"file:{tmp_path}/source"


def _clone(source: Snapshot, to: Path, **more: Any) -> Snapshot:
    shallow_clone(source, Table.at(str(to)), **more)
    return Snapshot.load(str(to))


def test_a_clone_names_the_files_where_they_are(tmp_path: Path) -> None:
    source = _source(tmp_path, mine="1")
    result = shallow_clone(source, Table.at(str(tmp_path / "clone")), user_metadata="why")
    clone = Snapshot.load(str(tmp_path / "clone"))
    root = _url(tmp_path)
    assert live(clone.store) == [f"{root}/a", f"{root}/b%20c"]
    assert (clone.version, dict(clone.metadata.configuration)) == (0, {"mine": "1"})
    assert clone.metadata.id != source.metadata.id
    assert clone.schema == source.schema
    assert result.to_dict() == {
        "source_table_size": 200,
        "source_num_of_files": 2,
        "num_removed_files": 0,
        "num_copied_files": 0,
        "removed_files_size": 0,
        "copied_files_size": 0,
    }
    info = only(clone.store, 0, "commitInfo")
    assert (info["operation"], info["userMetadata"]) == ("CLONE", "why")
    assert info["operationParameters"] == {
        "source": f"delta.`{tmp_path / 'source'}`",
        "sourceVersion": "1",
        "isShallow": "true",
    }
    assert clone.files().select(["stats", "size"]).equals(source.files().select(["stats", "size"]))


def test_what_is_written_to_one_is_not_seen_by_the_other(tmp_path: Path) -> None:
    source = _source(tmp_path)
    clone = _clone(source, tmp_path / "clone")
    after = delete(append(clone, add("own")).snapshot, f"{_url(tmp_path)}/a").snapshot
    append(source, add("z"))
    assert live(after.store) == [f"{_url(tmp_path)}/b%20c", "own"]
    assert live(source.store) == ["a", "b%20c", "z"]


def test_deletion_vectors_are_named_where_they_are(tmp_path: Path) -> None:
    source = delete_rows_of(_source(tmp_path, **VECTORS), {"a": [1, 3]}).snapshot
    clone = _clone(source, tmp_path / "clone")
    vector = next(f["deletionVector"] for f in clone.files().to_pylist() if f["deletionVector"])
    assert vector["storageType"] == "p"
    assert list(load_deletion_vectors(clone.store, [vector], True)[0]) == [1, 3]
    # Of the clone too, where it says so.
    trusted = Snapshot.open(Table.at(str(tmp_path / "clone"), follows_outside=True))
    again = delete_rows_of(trusted, {f"{_url(tmp_path)}/a": [4]}).snapshot
    vectors = [f["deletionVector"] for f in again.files().to_pylist() if f["deletionVector"]]
    assert [list(rows) for rows in load_deletion_vectors(again.store, vectors, True)] == [[1, 3, 4]]


def test_a_clone_of_a_clone_names_the_first(tmp_path: Path) -> None:
    source = delete_rows_of(_source(tmp_path, **VECTORS), {"a": [1]}).snapshot
    first = _clone(source, tmp_path / "clone")
    with pytest.raises(PathNotAllowed, match="allowPathsOutsideRoot"):
        _clone(Snapshot.open(Table.at(str(tmp_path / "clone"))), tmp_path / "again")
    assert not (tmp_path / "again").exists()
    clone = _clone(first, tmp_path / "again")
    assert {path.rpartition("/")[0] for path in live(clone.store)} == {_url(tmp_path)}
    vector = next(f["deletionVector"] for f in clone.files().to_pylist() if f["deletionVector"])
    assert list(load_deletion_vectors(clone.store, [vector], True)[0]) == [1]


def test_a_source_that_climbs_out_of_its_root_is_not_cloned(tmp_path: Path) -> None:
    source = append(table(path=str(tmp_path / "source")), add("../secret")).snapshot
    with pytest.raises(PathNotAllowed):
        _clone(source, tmp_path / "clone")
    assert not (tmp_path / "clone").exists()


def test_row_ids_are_those_of_the_source_and_new_ones_come_behind(tmp_path: Path) -> None:
    source = _source(tmp_path, **{"delta.enableRowTracking": "true"})
    clone = _clone(source, tmp_path / "clone")
    assert clone.files()["baseRowId"].to_pylist() == source.files()["baseRowId"].to_pylist() == [0, 10]
    assert high_water_mark(clone.domain_metadata) == high_water_mark(source.domain_metadata) == 14
    grown = append(clone, add("own")).snapshot
    assert {f["path"]: f["baseRowId"] for f in grown.files().to_pylist()}["own"] == 15


def test_files_that_the_clone_has_get_row_ids_when_the_source_has_them(tmp_path: Path) -> None:
    source = _source(tmp_path)
    _clone(source, tmp_path / "clone")
    tracked = set_props(source, delta__enableRowTracking="true").snapshot
    clone = _clone(append(tracked, add("z")).snapshot, tmp_path / "clone", is_replaced=True)
    ids = {f["path"].rpartition("/")[2]: f["baseRowId"] for f in clone.files().to_pylist()}
    assert len(ids) == len(set(ids.values())) == 3
    assert None not in ids.values()


def test_a_replacing_clone_gives_out_no_id_of_a_column_again(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    source = table({"a": "long"}, path=str(tmp_path / "source"), properties=mapped)
    table({"a": "long", "b": "long"}, path=str(tmp_path / "clone"), properties=mapped)
    clone = _clone(source, tmp_path / "clone", is_replaced=True)
    assert clone.properties["delta.columnMapping.maxColumnId"] == "2"


def test_clustering_comes_along(tmp_path: Path) -> None:
    source = _source(tmp_path)
    clustered = cluster_by(source, [("id",)]).commit(begin(source)).snapshot
    clone = _clone(clustered, tmp_path / "clone")
    assert clone.domain_metadata == clustered.domain_metadata
    assert clone.protocol == clustered.protocol


def test_properties_go_before_those_of_the_source(tmp_path: Path) -> None:
    source = _source(tmp_path, mine="1", other="2")
    clone = _clone(source, tmp_path / "clone", properties={"MINE": "3", "delta.enableDeletionVectors": "true"})
    assert dict(clone.metadata.configuration) == {"other": "2", "MINE": "3", "delta.enableDeletionVectors": "true"}
    assert clone.configuration.supports("deletionVectors")
    with pytest.raises(InvalidArgument):
        _clone(source, tmp_path / "wrong", properties={"delta.appendOnly": "maybe"})
    with pytest.raises(InvalidArgument, match="that of its source"):
        _clone(source, tmp_path / "wrong", properties={"delta.columnMapping.mode": "name"})
    assert not (tmp_path / "wrong").exists()


def test_an_earlier_version(tmp_path: Path) -> None:
    source = _source(tmp_path)
    delete(source, "a")
    clone = _clone(Snapshot.load(str(tmp_path / "source"), 1), tmp_path / "clone")
    assert clone.live_files(["path"]).num_rows == 2


def test_a_table_that_is_there_is_replaced_only_where_that_is_said(tmp_path: Path) -> None:
    source = _source(tmp_path)
    old = append(table({"x": "string"}, path=str(tmp_path / "clone")), add("mine")).snapshot
    with pytest.raises(TableAlreadyExists, match="replace it explicitly"):
        _clone(source, tmp_path / "clone")
    clone = _clone(source, tmp_path / "clone", is_replaced=True)
    assert (clone.version, clone.metadata.id, clone.schema) == (2, old.metadata.id, source.schema)
    assert len(live(clone.store)) == 2
    assert only(clone.store, 2, "commitInfo")["operationMetrics"]["numRemovedFiles"] == "1"
    assert live(Snapshot.load(str(tmp_path / "clone"), 1).store)


def test_a_clone_is_brought_up_to_date_by_cloning_again(tmp_path: Path) -> None:
    source = delete_rows_of(_source(tmp_path, **VECTORS), {"a": [1]}).snapshot
    _clone(source, tmp_path / "clone")
    newer = append(delete_rows_of(source, {"a": [2]}).snapshot, add("z")).snapshot
    clone = _clone(newer, tmp_path / "clone", is_replaced=True)
    assert clone.live_files(["path"]).num_rows == 3
    info = only(clone.store, 1, "commitInfo")
    assert (info["operationMetrics"]["numRemovedFiles"], info["operationMetrics"]["sourceNumOfFiles"]) == ("1", "3")
    vectors = [f["deletionVector"] for f in clone.files().to_pylist() if f["deletionVector"]]
    assert [list(rows) for rows in load_deletion_vectors(clone.store, vectors, True)] == [[1, 2]]
    again = shallow_clone(newer, Table.at(str(tmp_path / "clone")), is_replaced=True)
    assert again.num_removed_files == 0


def test_a_place_with_other_files_is_left_alone(tmp_path: Path) -> None:
    source = _source(tmp_path)
    (tmp_path / "full" / "p=1").mkdir(parents=True)
    (tmp_path / "full" / "p=1" / "data.parquet").write_bytes(b"x")
    for replaced in (False, True):
        with pytest.raises(InvalidArgument, match=r"not empty.*p=1/data.parquet"):
            _clone(source, tmp_path / "full", is_replaced=replaced)
    assert not (tmp_path / "full" / "_delta_log").exists()


def test_a_table_is_not_cloned_onto_itself(tmp_path: Path) -> None:
    source = _source(tmp_path)
    with pytest.raises(InvalidArgument, match="onto itself"):
        _clone(source, tmp_path / "source", is_replaced=True)


def test_a_clone_across_stores_names_the_others(tmp_path: Path) -> None:
    source = append(table(), add("a")).snapshot
    clone = _clone(source, tmp_path / "clone")
    assert live(clone.store) == [f"{source.store.root_url}/a"]
    assert source.store.root_url.startswith("memory://")


def test_the_owner_stays_with_the_source(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    with kit.lake.transaction() as tx:
        add_to_lake(tx, "a", "f")
    clone = _clone(kit.lake.snapshot("a"), tmp_path / "clone")
    assert ownership(clone.configuration, "") is None
    assert clone.live_files(["path"]).num_rows == 1
    assert clone.configuration.is_active("inCommitTimestamp")
    assert append(clone, add("own")).version == 1
    kit.lake.close()


def test_who_is_faster_at_a_table_that_is_replaced(tmp_path: Path) -> None:
    source = _source(tmp_path)
    old = table(path=str(tmp_path / "clone"))
    done: list[int] = []

    def before(operation: str, path: str) -> None:
        if operation == "put_if_absent" and not done:
            done.append(append(old, add("theirs")).version)

    store: Any = StepStore(old.store, before)
    with pytest.raises(ConcurrentWriteException):
        shallow_clone(source, Table(store), is_replaced=True)
    assert live(old.store) == ["theirs"]


def test_in_commit_timestamps_begin_anew(tmp_path: Path) -> None:
    source = set_props(_source(tmp_path), delta__enableInCommitTimestamps="true").snapshot
    assert "delta.inCommitTimestampEnablementVersion" in source.properties
    clone = _clone(source, tmp_path / "clone")
    assert "delta.inCommitTimestampEnablementVersion" not in clone.properties
    assert only(clone.store, 0, "commitInfo")["inCommitTimestamp"]
