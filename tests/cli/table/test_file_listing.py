from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import MAPPED, PARTITIONED, WITH_DELETED_ROWS, document, error, lines, run
from tests.log.tables import TableLog, add, metadata, protocol

FOURTH = "letter=a/part-00000-0dbe0cc5-e3bf-4fb0-b36a-b5fdd67fe843.c000.snappy.parquet"


def test_every_live_file_is_a_row() -> None:
    header, *rows, total = lines("files", PARTITIONED)
    assert header.split() == ["path", "size", "rows", "partition", "deleted", "modified", "(UTC)"]
    assert f"{FOURTH}                            751     1  letter=a              2023-01-25 01:50:29.937" in rows
    assert sum("letter=null" in row for row in rows) == 1
    assert (len(rows), total) == (6, "6 files")


def test_machines_get_records_with_exact_values() -> None:
    records = document("files", PARTITIONED)
    assert len(records) == 6
    assert {
        "path": FOURTH,
        "size": 751,
        "numRecords": 1,
        "partitionValues": {"letter": "a"},
        "deletionVectorCardinality": None,
        "modificationTime": "2023-01-25T01:50:29.937Z",
    } in records


@pytest.mark.parametrize(
    ("where", "paths", "account"),
    [
        (
            "letter = 'a' AND number > 2",
            [FOURTH],
            "1 of 6 files {} (ruled out: 4 by partition values, 1 by statistics)",
        ),
        ("number = 7", [], "0 of 6 files {} (ruled out: 0 by partition values, 6 by statistics)"),
    ],
)
def test_a_condition_prunes_and_says_how_many_files_it_left(where: str, paths: list[str], account: str) -> None:
    said = account.format(f"may hold a match of {where}")
    *rows, last = lines("files", PARTITIONED, "--where", where)[1:]
    assert [row.split()[0] for row in rows] == paths
    assert last == said
    machine = run("files", PARTITIONED, "--where", where, "--json")
    assert machine.stderr == said + "\n"
    assert [record["path"] for record in document("files", PARTITIONED, "--where", where)] == paths


def test_a_limit_shows_the_first_files_and_says_so() -> None:
    *rows, last = lines("files", PARTITIONED, "--limit", "2")[1:]
    assert len(rows) == 2
    assert last == "6 files; the first 2 shown"
    assert document("files", PARTITIONED, "--limit", "2") == document("files", PARTITIONED)[:2]


def test_a_limit_beyond_the_last_file_is_not_mentioned() -> None:
    assert lines("files", PARTITIONED, "--limit", "6")[-1] == "6 files"


def test_rows_are_those_in_the_file_and_deleted_those_in_its_vector() -> None:
    (record,) = document("files", WITH_DELETED_ROWS)
    assert (record["numRecords"], record["deletionVectorCardinality"]) == (10, 2)
    (before,) = document("files", WITH_DELETED_ROWS, "--version", "0")
    assert (before["numRecords"], before["deletionVectorCardinality"]) == (10, None)


def test_partition_values_stand_under_display_names() -> None:
    values = [record["partitionValues"] for record in document("files", MAPPED)]
    assert sorted(values, key=str) == [
        {"tsNtzPartition": "2013-07-05 17:01:00.123456"},
        {"tsNtzPartition": "2013-07-05 17:01:00.123456"},
        {"tsNtzPartition": "2021-11-18 02:30:00.123456"},
        {"tsNtzPartition": None},
    ]


def test_a_condition_finds_mapped_columns_by_display_name() -> None:
    records = document("files", MAPPED, "--where", "id >= 6")
    assert [record["numRecords"] for record in records] == [3]


def test_a_file_without_statistics_has_no_row_count(tmp_path: Path) -> None:
    TableLog(str(tmp_path)).create(add("plain"), add("counted", stats='{"numRecords":7}'))
    assert {r["path"]: r["numRecords"] for r in document("files", str(tmp_path))} == {"plain": None, "counted": 7}


def test_a_table_without_files_is_an_empty_list(tmp_path: Path) -> None:
    TableLog(str(tmp_path)).create()
    assert document("files", str(tmp_path)) == []
    assert lines("files", str(tmp_path))[-1] == "0 files"
    assert document("files", str(tmp_path), "--where", "id = 1") == []


def test_files_of_a_checkpoint_and_of_later_commits_stand_in_one_list(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path)).create(add("f0", stats='{"numRecords":3}'))
    log.classic(0, protocol(), metadata(), add("f0", stats='{"numRecords":3}'))
    log.commit(1, add("f1", stats='{"numRecords":4}'))
    assert {r["path"]: r["numRecords"] for r in document("files", str(tmp_path))} == {"f0": 3, "f1": 4}


def test_a_column_that_is_not_there_is_one_plain_line() -> None:
    assert error("files", PARTITIONED, "--where", "nope = 1") == (
        "error: no column nope: the columns are letter, number, a_float"
    )


def test_text_that_is_no_condition_is_one_plain_line() -> None:
    assert error("files", PARTITIONED, "--where", "number =").startswith("error: not an SQL condition: 'number ='")
