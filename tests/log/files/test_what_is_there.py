"""Messages for a location without a log: what is there, and what to name instead."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater
from slackwater.errors import TableNotFound


def told(path: Path) -> str:
    with pytest.raises(TableNotFound) as caught:
        slackwater.Snapshot.load(path)
    place, _, text = str(caught.value).partition(" is not a Delta table: ")
    assert place.startswith("file:///")
    return text


def test_a_lake_is_named_with_its_tables(tmp_path: Path) -> None:
    with slackwater.LogLake.open(tmp_path / "lake") as lake:
        assert told(tmp_path / "lake") == (
            "it is a lake of tables. Open it with Lake.open, or name the directory of one of its tables"
        )
        for number in range(11):
            lake.create_table(f"t{number:02}", "id INT")
    assert "it is a lake with the tables t00, t01, t02, t03, t04, t05, t06, t07, t08, t09, …. Open" in told(
        tmp_path / "lake"
    )


def test_a_partition_is_named_with_its_table_and_condition(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "day": ["a:b", "tue", None], "p": [1, 2, 3]})
    slackwater.write(tmp_path / "t", rows, partition_by=["day", "p"])
    text = told(tmp_path / "t" / "day=a%3Ab" / "p=1")
    assert text == (
        f"it is a partition of the table {tmp_path}/t. Name the table, and choose the rows with "
        "where=\"day = 'a:b' AND p = '1'\""
    )
    found = slackwater.Snapshot.load(tmp_path / "t").to_arrow(where=text.split('"')[1])
    assert found["id"].to_pylist() == [1]
    assert "day IS NULL AND p = '3'" in told(tmp_path / "t" / "day=__HIVE_DEFAULT_PARTITION__" / "p=3")


def test_parquet_files_are_named_with_what_makes_them_a_table(tmp_path: Path) -> None:
    place = tmp_path / "day=mon"
    place.mkdir()
    pq.write_table(pa.table({"id": [1]}), place / "a.parquet")
    assert told(place).startswith("it holds plain Parquet files (a.parquet). Read them with format parquet")
    assert "`slackwater convert`" in told(place)


def test_an_empty_directory_and_a_missing_one_have_the_same_message(tmp_path: Path) -> None:
    assert told(tmp_path) == told(tmp_path / "no") == "its _delta_log directory is missing or holds no commit"
