"""Writes of rows without Spark: modes, columns, partitions, and what the log says afterwards."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater
from slackwater.errors import (
    InvalidArgument,
    InvariantViolationException,
    OperationNotAllowed,
    TableAlreadyExists,
    WrongArgumentType,
)
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.transaction import TableTransaction
from tests.transaction.tables import change_metadata, commit_actions, table

IDS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def place() -> str:
    return f"memory://{uuid.uuid4()}"


def rows(at: Any, **options: Any) -> list[dict[str, Any]]:
    found = slackwater.Snapshot.load(at).to_arrow(**options).to_pylist()
    return sorted(found, key=repr)


def ids(at: Any) -> list[int]:
    return sorted(slackwater.Snapshot.load(at).to_arrow(["id"])["id"].to_pylist())


def names(at: str) -> list[str]:
    return sorted(meta.path for meta in Snapshot.load(at).store.list_from("", recursive=True))


@pytest.mark.parametrize("mode", ["error", "append", "overwrite", "ignore"])
def test_each_mode_creates_a_missing_table(mode: str) -> None:
    at = place()
    result = slackwater.write(at, IDS, mode)
    assert result is not None
    assert result.version == 0
    assert ids(at) == [1, 2, 3]


def test_append_adds_rows_and_overwrite_replaces_them() -> None:
    at = place()
    slackwater.write(at, IDS)
    slackwater.write(at, IDS, "append")
    assert ids(at) == [1, 1, 2, 2, 3, 3]
    slackwater.write(at, pa.table({"id": [7]}), "overwrite")
    assert ids(at) == [7]


def test_an_existing_table_is_an_error_or_is_left_alone() -> None:
    at = place()
    slackwater.write(at, IDS)
    with pytest.raises(TableAlreadyExists, match="Use mode append or overwrite"):
        slackwater.write(at, IDS)
    assert slackwater.write(at, IDS, "ignore") is None
    assert Snapshot.load(at).version == 0


def test_a_new_table_does_not_hide_plain_parquet_files(tmp_path: Path) -> None:
    pq.write_table(IDS, tmp_path / "a.parquet")
    with pytest.raises(InvalidArgument, match="holds Parquet files that are not a Delta table"):
        slackwater.write(tmp_path, IDS, "append")
    assert slackwater.write(tmp_path, IDS, "overwrite") is not None


def test_the_history_names_the_write_as_delta_spark_does() -> None:
    at = place()
    rows = IDS.append_column("day", pa.array(["a", "b", "c"]))
    slackwater.write(at, rows, partition_by="day", user_metadata="first")
    info = commit_actions(Snapshot.load(at).store, 0)[0]["commitInfo"]
    assert info["operation"] == "WRITE"
    assert info["operationParameters"] == {"mode": "ErrorIfExists", "partitionBy": '["day"]'}
    assert info["userMetadata"] == "first"
    assert info["operationMetrics"]["numFiles"] == "3"
    assert info["operationMetrics"]["numOutputRows"] == "3"
    slackwater.write(at, rows, "overwrite")
    info = commit_actions(Snapshot.load(at).store, 1)[0]["commitInfo"]
    assert info["operationParameters"] == {"mode": "Overwrite", "partitionBy": "[]"}
    assert info["operationMetrics"]["numRemovedFiles"] == "3"
    assert info["isBlindAppend"] is False


def test_an_append_is_blind_and_its_file_names_are_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    at = place()
    slackwater.write(at, IDS)
    plain, moves = TableTransaction.commit, []

    def noted(self: TableTransaction, *arguments: Any, **options: Any) -> Any:
        moves.append(self.may_move)
        return plain(self, *arguments, **options)

    monkeypatch.setattr(TableTransaction, "commit", noted)
    slackwater.write(at, IDS, "append")
    assert moves == [True]
    assert commit_actions(Snapshot.load(at).store, 1)[0]["commitInfo"]["isBlindAppend"] is True


def test_no_rows_make_a_version_without_files() -> None:
    at = place()
    result = slackwater.write(at, IDS.slice(3))
    assert result is not None
    assert (result.version, rows(at)) == (0, [])
    assert slackwater.Snapshot.load(at).files().num_rows == 0


def test_the_files_have_statistics() -> None:
    at = place()
    slackwater.write(at, pa.table({"id": [1, 5], "name": ["a", None]}))
    (stats,) = slackwater.Snapshot.load(at).files()["stats"].to_pylist()
    assert stats == (
        '{"numRecords":2,"minValues":{"id":1,"name":"a"},"maxValues":{"id":5,"name":"a"},'
        '"nullCount":{"id":0,"name":1},"tightBounds":true}'
    )


# Columns.


def test_columns_match_by_name_in_any_case_and_order_and_missing_ones_are_null() -> None:
    at = place()
    slackwater.write(at, pa.table({"id": [1], "Name": ["a"], "x": [0.5]}))
    slackwater.write(at, pa.table({"NAME": ["b"], "ID": [2]}), "append")
    assert rows(at) == [{"id": 1, "Name": "a", "x": 0.5}, {"id": 2, "Name": "b", "x": None}]


def test_new_columns_need_schema_mode_merge() -> None:
    at = place()
    slackwater.write(at, IDS)
    wider = pa.table({"id": [4], "note": ["new"]})
    with pytest.raises(InvalidArgument, match=r"columns that the table lacks: note.*schema_mode='merge'"):
        slackwater.write(at, wider, "append")
    slackwater.write(at, wider, "append", schema_mode="merge")
    assert rows(at, where="id > 2") == [{"id": 3, "note": None}, {"id": 4, "note": "new"}]


def test_schema_mode_overwrite_replaces_the_columns_and_keeps_the_partitioning() -> None:
    at = place()
    slackwater.write(at, pa.table({"id": [1], "day": ["a"]}), partition_by=["day"])
    slackwater.write(at, pa.table({"x": [1.5], "day": ["b"]}), "overwrite", schema_mode="overwrite")
    assert rows(at) == [{"x": 1.5, "day": "b"}]
    assert Snapshot.load(at).metadata.partition_columns == ("day",)
    slackwater.write(at, pa.table({"x": ["t"]}), "overwrite", schema_mode="overwrite", partition_by=[])
    assert rows(at) == [{"x": "t"}]
    assert not Snapshot.load(at).metadata.partition_columns


def test_a_type_that_does_not_fit_is_refused_before_anything_is_written() -> None:
    at = place()
    slackwater.write(at, IDS)
    before = names(at)
    with pytest.raises(InvalidArgument, match="column id is of type long in the table and of type string in the data"):
        slackwater.write(at, pa.table({"id": ["1"]}), "append")
    assert names(at) == before


def test_rows_without_columns_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="the rows have no columns"):
        slackwater.write(place(), pa.table({}))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "upsert"}, "unknown write mode 'upsert'"),
        ({"mode": "append", "schema_mode": "fix"}, "schema_mode is 'merge', 'overwrite' or None"),
        ({"mode": "append", "predicate": "id = 1"}, "predicate needs mode overwrite, found mode append"),
        ({"mode": "append", "schema_mode": "overwrite"}, "schema_mode='overwrite' needs mode overwrite"),
        (
            {"mode": "overwrite", "schema_mode": "overwrite", "predicate": "id = 1"},
            "cannot be combined with a predicate",
        ),
    ],
)
def test_contradicting_parameters_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        slackwater.write(place(), IDS, **options)  # type: ignore[arg-type]


def test_the_table_is_a_path_a_url_or_a_snapshot(tmp_path: Path) -> None:
    slackwater.write(tmp_path, IDS)
    slackwater.write(slackwater.Snapshot.load(tmp_path), IDS, "append")
    assert len(ids(tmp_path)) == 6
    with pytest.raises(WrongArgumentType, match="must be a path, a URL or a Snapshot, found int"):
        slackwater.write(7, IDS)  # type: ignore[arg-type]


def test_a_snapshot_of_an_older_version_means_its_newest_version() -> None:
    at = place()
    slackwater.write(at, IDS)
    old = slackwater.Snapshot.load(at)
    slackwater.write(at, IDS, "append")
    result = slackwater.write(old, IDS, "append")
    assert result is not None
    assert (result.version, result.attempts) == (2, 1)


# Partitions.


def test_rows_go_to_the_files_of_their_partitions() -> None:
    at = place()
    data = pa.table({"id": [1, 2, 3, 4, 5], "day": ["b", "a", None, "b", ""]})
    slackwater.write(at, data, partition_by=["day"])
    files = slackwater.Snapshot.load(at).files(columns=["path", "partitionValues"])
    values = sorted((dict(each)["day"] or "") for each in files["partitionValues"].to_pylist())
    assert values == ["", "a", "b"]
    assert sorted(path.split("/")[0] for path in files["path"].to_pylist()) == [
        "day=__HIVE_DEFAULT_PARTITION__",
        "day=a",
        "day=b",
    ]
    assert rows(at, where="day = 'b'") == [{"id": 1, "day": "b"}, {"id": 4, "day": "b"}]
    assert rows(at, where="day IS NULL") == [{"id": 3, "day": None}, {"id": 5, "day": None}]


def test_more_partitions_than_open_files_lose_no_row() -> None:
    at = place()
    count = 300
    data = pa.table({"id": range(2 * count), "part": [n % count for n in range(2 * count)]})
    slackwater.write(at, data, partition_by=["part"])
    assert ids(at) == list(range(2 * count))
    assert len(set(map(str, slackwater.Snapshot.load(at).files()["partitionValues"].to_pylist()))) == count


def test_zeros_of_both_signs_and_nans_are_one_partition_each() -> None:
    at = place()
    data = pa.table({"id": [1, 2, 3, 4], "x": [0.0, -0.0, float("nan"), float("nan")]})
    slackwater.write(at, data, partition_by=["x"])
    values = [dict(each)["x"] for each in slackwater.Snapshot.load(at).files()["partitionValues"].to_pylist()]
    assert sorted(map(str, values)) == ["0.0", "NaN"]


def test_another_partitioning_than_the_tables_is_refused() -> None:
    at = place()
    slackwater.write(at, pa.table({"id": [1], "day": ["a"]}), partition_by=["day"])
    more = pa.table({"id": [2], "day": ["b"]})
    with pytest.raises(InvalidArgument, match=r"is partitioned by \['day'\], not by \['id'\]"):
        slackwater.write(at, more, "append", partition_by="id")
    slackwater.write(at, more, "append", partition_by=["DAY"])
    with pytest.raises(InvalidArgument, match="the rows have no partition column day"):
        slackwater.write(at, IDS, "append")


def test_files_are_completed_at_the_target_size() -> None:
    at = place()
    slackwater.write(at, IDS.slice(3), properties={"delta.targetFileSize": "1b"})
    batches = [pa.record_batch({"id": range(n, n + 10)}) for n in (0, 10)]
    slackwater.write(at, batches, "append")
    # Rows in memory are no complete row group, so small batches share one file.
    assert slackwater.Snapshot.load(at).files().num_rows == 1


# Overwrites of some rows.


def _three_days() -> str:
    at = place()
    slackwater.write(at, pa.table({"id": [1, 2, 3, 4], "day": ["a", "a", "b", "c"]}), partition_by=["day"])
    return at


def test_a_predicate_on_partitions_replaces_only_their_files() -> None:
    at = _three_days()
    kept = slackwater.Snapshot.load(at).files(where="day != 'a'")["path"].to_pylist()
    slackwater.write(at, pa.table({"id": [9], "day": ["a"]}), "overwrite", predicate="day = 'a'")
    assert rows(at) == [{"id": 3, "day": "b"}, {"id": 4, "day": "c"}, {"id": 9, "day": "a"}]
    assert set(kept) < set(slackwater.Snapshot.load(at).files()["path"].to_pylist())


def test_a_predicate_on_data_keeps_the_other_rows_of_the_files() -> None:
    at = place()
    slackwater.write(at, pa.table({"id": [1, 2, 3], "x": ["a", "b", None]}))
    slackwater.write(at, pa.table({"id": [2, 2], "x": ["n", "m"]}), "overwrite", predicate="id = 2")
    assert rows(at) == [
        {"id": 1, "x": "a"},
        {"id": 2, "x": "m"},
        {"id": 2, "x": "n"},
        {"id": 3, "x": None},
    ]
    info = commit_actions(Snapshot.load(at).store, 1)[0]["commitInfo"]
    assert info["operationParameters"]["predicate"] == "id = 2"
    metrics = info["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numCopiedRows"], metrics["numRemovedFiles"]) == ("1", "2", "1")


def test_new_rows_must_satisfy_the_predicate() -> None:
    at = _three_days()
    before = names(at)
    with pytest.raises(
        InvariantViolationException, match=r"the predicate of the overwrite \(day = 'a'\).*\"day\":\"b\""
    ):
        slackwater.write(at, pa.table({"id": [9], "day": ["b"]}), "overwrite", predicate="day = 'a'")
    assert names(at) == before


def test_a_predicate_that_only_spark_evaluates_is_refused() -> None:
    at = _three_days()
    with pytest.raises(InvalidArgument, match=r"not filtered by UPPER\(day\) = 'A'.*change the rows with Spark"):
        slackwater.write(at, pa.table({"id": [9], "day": ["a"]}), "overwrite", predicate="upper(day) = 'A'")


def test_an_append_only_table_takes_appends_only() -> None:
    base = table(properties={"delta.appendOnly": "true"}, path=place())
    slackwater.write(base, IDS, "append")

    def unread() -> Any:
        yield pa.record_batch({"id": [1]})
        raise AssertionError("the rows were read")

    with pytest.raises(OperationNotAllowed, match="append-only"):
        slackwater.write(base, unread(), "overwrite")
    assert ids(base.store.root_url) == [1, 2, 3]


def test_a_concurrent_append_does_not_stop_an_append() -> None:
    base = table(path=place())
    slackwater.write(base, IDS, "append")

    def batches() -> Any:
        yield pa.record_batch({"id": [10]})
        slackwater.write(base, IDS, "append")

    result = slackwater.write(base, batches(), "append")
    assert result is not None
    assert (result.version, len(ids(base.store.root_url))) == (3, 7)


def test_a_concurrent_append_stops_a_serializable_overwrite() -> None:
    base = table(path=place(), properties={"delta.isolationLevel": "Serializable"})

    def batches() -> Any:
        yield pa.record_batch({"id": [10]})
        slackwater.write(base, IDS, "append")

    with pytest.raises(slackwater.errors.ConcurrentAppendException):
        slackwater.write(base, batches(), "overwrite")
    assert ids(base.store.root_url) == [1, 2, 3]


def test_a_concurrent_change_of_the_columns_stops_an_append() -> None:
    base = table(path=place())
    before = names(base.store.root_url)

    def batches() -> Any:
        yield pa.record_batch({"id": [10]})
        stricter = {**base.metadata.configuration, "delta.constraints.positive": "id > 0"}
        change_metadata(base, replace(base.metadata, configuration=stricter))

    with pytest.raises(slackwater.errors.MetadataChangedException):
        slackwater.write(base, batches(), "append")
    assert [name for name in names(base.store.root_url) if name.endswith(".parquet")] == [
        name for name in before if name.endswith(".parquet")
    ]
