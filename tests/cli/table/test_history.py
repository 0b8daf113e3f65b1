from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.commands import PARAMETERS, PARTITIONED, STAMPED, document, lines, run, usage_error
from tests.log.tables import TableLog, add, commit_info

HISTORY_COLUMNS = [
    "version",
    "timestamp",
    "userId",
    "userName",
    "operation",
    "operationParameters",
    "job",
    "notebook",
    "clusterId",
    "readVersion",
    "isolationLevel",
    "isBlindAppend",
    "operationMetrics",
    "userMetadata",
    "engineInfo",
]


def test_the_newest_commit_comes_first() -> None:
    shown = lines("history", STAMPED, "--wide")
    assert [line for line in shown if line and not line.startswith(" ")] == [
        "3 2026-07-12 16:36:53.881 UPDATE",
        "2 2026-07-12 16:36:52.175 DELETE",
        "1 2023-05-12 06:50:06.883 WRITE",
        "0 2026-07-12 16:36:43.271 CREATE OR REPLACE TABLE",
    ]


def test_wide_history_is_one_block_for_each_commit() -> None:
    text = run("history", STAMPED, "--wide").stdout
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    assert [block[0].partition(" ")[0] for block in blocks] == ["3", "2", "1", "0"]
    names = [line.split()[0] for line in blocks[1][1:]]
    assert names == sorted(names, key=("parameters", "metrics", "user", "noted", "engine").index)
    assert names[-1] == "engine"


def test_people_see_no_parameters_and_metrics_that_say_nothing() -> None:
    text = "\n".join(lines("history", STAMPED, "--wide"))
    assert 'predicate=["((birthyear#132 = 1995) AND (age#133 < 30))"]' in text
    assert "numDeletedRows=2" in text
    assert "numCopiedRows" not in text
    assert "clusterBy" not in text


@pytest.mark.parametrize("columns", [None, 80, 100, 200])
def test_a_commit_is_one_line_that_fits(columns: int | None) -> None:
    shown = lines("history", STAMPED, columns=columns)
    assert len(shown) == 5
    assert max(map(len, shown)) <= (columns or 100)
    assert shown[0].split() == ["version", "timestamp", "(UTC)", "operation", "rows", "files", "details"]
    assert shown[1].split() == ["3", "2026-07-12", "16:36:53.881", "UPDATE", "~2", "+2", "-2"]
    assert shown[2].split()[3:6] == ["DELETE", "-2", "-2"]
    assert shown[3].split()[3:] == ["WRITE", "+4", "+4", "mode=Append"]
    cut = columns in (None, 80, 100)
    assert ("(age#133 < 30))" in shown[2]) is not cut
    assert shown[2].endswith("…") is cut


def test_what_a_merge_wrote_anew_is_not_what_it_inserted(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path)).create(add("f0"))
    metrics = {"numOutputRows": "9", "numTargetRowsInserted": "0", "numTargetRowsUpdated": "4"}
    log.commit(1, commit_info(operation="MERGE", operationMetrics=metrics, userName="Ann " * 9, userMetadata="why"))
    (_, row, _) = lines("history", str(tmp_path))
    assert row.split()[3:] == ["MERGE", "~4", *["Ann"] * 3, "Ann…", "“why”"]


def test_rows_of_csv_have_what_json_has() -> None:
    rows = list(csv.DictReader(io.StringIO(run("history", STAMPED, "--csv").stdout)))
    assert [list(row) for row in rows] == [HISTORY_COLUMNS] * 4
    for row, record in zip(rows, document("history", STAMPED), strict=True):
        assert json.loads(row["operationMetrics"] or "null") == record["operationMetrics"]
        assert (row["version"], row["timestamp"]) == (str(record["version"]), record["timestamp"])
        assert row["isBlindAppend"] == json.dumps(record["isBlindAppend"])
        assert row["job"] == ""
    assert "use one of them, not both" in usage_error("history", STAMPED, "--csv", "--json")


def test_machines_see_every_column_and_every_metric() -> None:
    records = document("history", STAMPED)
    assert [list(record) for record in records] == [HISTORY_COLUMNS] * 4
    deletion = records[1]
    assert deletion["version"] == 2
    assert deletion["timestamp"] == "2026-07-12T16:36:52.175Z"
    assert (deletion["readVersion"], deletion["isBlindAppend"]) == (1, False)
    assert deletion["operationMetrics"]["numCopiedRows"] == "0"
    assert deletion["engineInfo"] == "Apache-Spark/4.1.2 Delta-Lake/4.3.1"
    assert deletion["job"] is None


def test_parameters_that_are_no_text_are_json_text() -> None:
    optimize, _, create = document("history", PARAMETERS)
    assert optimize["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": '["id"]',
        "clusterBy": "[]",
        "auto": "false",
    }
    assert create["operationParameters"]["description"] is None


def test_a_limit_keeps_the_newest_commits() -> None:
    assert [record["version"] for record in document("history", STAMPED, "--limit", "2")] == [3, 2]


def test_a_version_ends_the_history_there() -> None:
    assert [record["version"] for record in document("history", STAMPED, "--version", "1")] == [1, 0]


def test_a_commit_without_a_read_version_shows_none() -> None:
    assert [record["readVersion"] for record in document("history", PARTITIONED)] == [0, None]
