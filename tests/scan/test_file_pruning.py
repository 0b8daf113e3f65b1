from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.schema.schema import DATE, LONG, STRING, StructField, StructType
from slackwater.scan.pruning.file_pruning import PruneReport, plan, prune

SCHEMA = StructType((StructField("day", DATE), StructField("id", LONG), StructField("name", STRING)))


def _file(day: str | None, low: int, high: int) -> dict[str, Any]:
    stats = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
    return {"path": f"{day}/{low}", "partitionValues": [("day", day)], "stats": json.dumps(stats), "size": low}


FILES = pa.Table.from_pylist(
    [_file("2024-01-01", 0, 9), _file("2024-01-01", 10, 19), _file("2024-01-02", 0, 9), _file(None, 0, 9)],
    pa.schema(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("stats", pa.string()),
            ("size", pa.int64()),
        ]
    ),
)


def _where(text: str) -> Predicate:
    return parse_predicate(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "paths", "report"),
    [
        ("day = '2024-01-01' AND id = 12", ["2024-01-01/10"], PruneReport(4, 2, 1)),
        ("day > '2024-01-01'", ["2024-01-02/0"], PruneReport(4, 3, 0)),
        ("NOT (day > '2024-01-01')", ["2024-01-01/0", "2024-01-01/10"], PruneReport(4, 2, 0)),
        ("day IS NULL", ["None/0"], PruneReport(4, 3, 0)),
        ("day <=> NULL OR id = 15", ["2024-01-01/10", "None/0"], PruneReport(4, 0, 2)),
        ("id > 100", [], PruneReport(4, 0, 4)),
        ("length(name) > 3", FILES.column("path").to_pylist(), PruneReport(4, 0, 0)),
        ("day = '2030-01-01' AND id = 1", [], PruneReport(4, 4, 0)),
    ],
)
def test_files_go_by_partition_first_and_then_by_statistics(text: str, paths: list[str], report: PruneReport) -> None:
    planned = plan(FILES, _where(text), SCHEMA, ["day"])
    assert planned.files.column("path").to_pylist() == paths
    assert planned.report == report
    assert planned.report.kept_files == len(paths)


def test_all_columns_of_the_files_are_kept() -> None:
    kept = prune(FILES, _where("id >= 10"), SCHEMA, ["day"])
    assert kept.schema == FILES.schema
    assert kept.column("size").to_pylist() == [10]


def test_a_table_without_files_has_nothing_to_prune() -> None:
    assert prune(FILES.slice(0, 0), _where("id = 1 AND day = '2024-01-01'"), SCHEMA, ["day"]).num_rows == 0


def test_files_in_many_chunks_are_one_table() -> None:
    chunked = pa.concat_tables([FILES.slice(0, 1), FILES.slice(1, 2), FILES.slice(3)])
    assert prune(chunked, _where("id = 12"), SCHEMA, ["day"]).column("path").to_pylist() == ["2024-01-01/10"]
