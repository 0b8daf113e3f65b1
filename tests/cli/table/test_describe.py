"""`slackwater.log.table_detail`, which the command line and the Spark face share."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import pytest

from slackwater.errors import CorruptTable
from slackwater.log.table_detail import clustering_columns, describe_detail, describe_history, to_moment
from tests.log.tables import DEFAULT, TableLog, add, commit_info, domain, metadata, protocol, remove

UTC = dt.timezone.utc
MAPPED = protocol(3, 7, ["columnMapping"], ["columnMapping", "clustering", "domainMetadata"])


def _column(name: str, data_type: Any = "long") -> dict[str, Any]:
    mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": f"col-{name}"}
    return {"name": name, "type": data_type, "nullable": True, "metadata": mapping}


def _clustered(columns: Any) -> TableLog:
    """A table in column mapping mode `name`, columns `a`, `b.c`, and `s` with the field `x`."""
    fields = [_column("a"), _column("b.c"), _column("s", {"type": "struct", "fields": [_column("x")]})]
    table = metadata(
        {"delta.columnMapping.mode": "name"}, schemaString=json.dumps({"type": "struct", "fields": fields})
    )
    log = TableLog()
    log.commit(0, MAPPED, table, domain("delta.clustering", json.dumps({"clusteringColumns": columns})))
    return log


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ([["col-a"]], ["a"]),
        (["col-a"], ["a"]),
        ([["col-s", "col-x"], ["col-b.c"]], ["s.x", "`b.c`"]),
        ([], []),
    ],
)
def test_clustering_columns_have_their_display_names(columns: Sequence[Any], names: list[str]) -> None:
    snapshot = _clustered(columns).load()
    assert clustering_columns(snapshot) == names
    assert describe_detail(snapshot)["clusteringColumns"] == names


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([["gone"]], "names the column gone, which is not in the schema"),
        ([["col-a", "col-x"]], "names the column col-a.col-x, which is not in the schema"),
        (7, "must list its clusteringColumns, found"),
        ([None], "must list its clusteringColumns, found"),
    ],
)
def test_clustering_columns_that_make_no_sense_are_corrupt(columns: Any, message: str) -> None:
    with pytest.raises(CorruptTable, match=message):
        clustering_columns(_clustered(columns).load())


def test_a_table_that_is_no_longer_clustered_has_no_clustering_columns() -> None:
    log = _clustered([["col-a"]])
    log.commit(1, domain("delta.clustering", "", removed=True))
    assert clustering_columns(log.load()) == []


def test_size_and_number_are_those_of_the_live_files() -> None:
    log = TableLog().create(add("a", size=2**40), add("b", size=7))
    log.commit(1, remove("a"), add("c", size=2**53 + 1))
    record = describe_detail(log.load())
    assert (record["numFiles"], record["sizeInBytes"]) == (2, 2**53 + 8)
    assert record["createdAt"] == dt.datetime(2020, 4, 27, 6, 23, 5, 495000, UTC)


def test_a_table_without_files_has_size_zero() -> None:
    record = describe_detail(TableLog().create().load())
    assert (record["numFiles"], record["sizeInBytes"]) == (0, 0)


def test_a_version_whose_commit_was_cleaned_up_has_no_last_modification() -> None:
    log = TableLog().create(add("f0"))
    log.classic(0, *DEFAULT, add("f0"))
    log.delete_commits(0)
    record = describe_detail(log.load())
    assert record["lastModified"] is None
    assert record["numFiles"] == 1
    assert describe_history(log.load()) == []


def test_a_snapshot_does_not_tell_of_later_commits() -> None:
    log = TableLog().create().grow(3)
    old = log.load(1)
    log.commit(4, commit_info(operation="DELETE"))
    assert [record["version"] for record in describe_history(old)] == [1, 0]
    assert [record["version"] for record in describe_history(log.load(), limit=2)] == [4, 3]
    assert describe_history(log.load(), limit=0) == []


def test_provenance_of_any_shape_fits_its_columns() -> None:
    odd = commit_info(
        operation=7,
        operationParameters={"n": 1, "list": ["a"], "nothing": None, "flag": True, "text": "x"},
        operationMetrics=["not", "a", "map"],
        readVersion="3",
        isBlindAppend="true",
        job={"jobId": 5},
        notebook="n",
        userMetadata={"k": "v"},
    )
    log = TableLog()
    log.commit(0, *DEFAULT, odd)
    (record,) = describe_history(log.load())
    assert record["operation"] == "7"
    assert record["operationParameters"] == {"n": "1", "list": '["a"]', "nothing": None, "flag": "true", "text": "x"}
    assert record["userMetadata"] == '{"k":"v"}'
    assert record["job"] == {"jobId": 5}
    for name in ("operationMetrics", "readVersion", "isBlindAppend", "notebook", "engineInfo"):
        assert record[name] is None


def test_a_commit_without_provenance_has_a_version_and_a_time() -> None:
    log = TableLog()
    log.commit(0, *DEFAULT)
    (record,) = describe_history(log.load())
    assert isinstance(record["timestamp"], dt.datetime)
    assert {name for name, value in record.items() if value is not None} == {"version", "timestamp"}


@pytest.mark.parametrize(
    ("timestamp_ms", "moment"),
    [
        (0, dt.datetime(1970, 1, 1, tzinfo=UTC)),
        (-1, dt.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        (None, None),
        (2**62, None),
    ],
)
def test_moments_are_in_utc_and_absent_where_no_calendar_reaches(
    timestamp_ms: int | None, moment: dt.datetime | None
) -> None:
    assert to_moment(timestamp_ms) == moment
