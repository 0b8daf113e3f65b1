from __future__ import annotations

from pathlib import Path

from tests.cli.commands import MAPPED, PARTITIONED, STAMPED, WITH_DELETED_ROWS, document, lines


def test_machines_get_the_fifteen_columns_with_exact_numbers() -> None:
    assert document("detail", STAMPED) == {
        "format": "delta",
        "id": "76cd2cf5-ee8f-487e-8725-785a2c6bbb07",
        "name": None,
        "description": None,
        "location": Path(STAMPED).as_uri(),
        "createdAt": "2026-07-12T16:36:43.198Z",
        "lastModified": "2026-07-12T16:36:53.881Z",
        "partitionColumns": ["birthyear"],
        "clusteringColumns": [],
        "numFiles": 2,
        "sizeInBytes": 1851,
        "properties": {"delta.enableChangeDataFeed": "true", "delta.enableInCommitTimestamps": "true"},
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "tableFeatures": ["appendOnly", "changeDataFeed", "inCommitTimestamp", "invariants"],
    }


def test_people_get_a_line_for_each() -> None:
    shown = lines("detail", STAMPED)
    assert "createdAt          2026-07-12T16:36:43.198Z" in shown
    assert "sizeInBytes        1851 (1.8 KiB)" in shown
    assert "properties         delta.enableChangeDataFeed=true" in shown
    assert "                   delta.enableInCommitTimestamps=true" in shown


def test_features_that_a_legacy_protocol_implies_are_listed() -> None:
    record = document("detail", PARTITIONED)
    assert (record["minReaderVersion"], record["minWriterVersion"]) == (1, 2)
    assert record["tableFeatures"] == ["appendOnly", "invariants"]
    assert (record["numFiles"], record["sizeInBytes"]) == (6, 4505)


def test_an_older_version_is_described_as_it_was() -> None:
    record = document("detail", PARTITIONED, "--version", "0")
    assert (record["numFiles"], record["sizeInBytes"]) == (3, 2253)
    assert document("detail", MAPPED, "--version", "0")["sizeInBytes"] == 0


def test_a_timestamp_picks_the_version_of_that_moment() -> None:
    at = document("detail", STAMPED, "--timestamp", "2026-07-12 16:36:53.880")
    assert (at["lastModified"], at["numFiles"]) == ("2026-07-12T16:36:52.175Z", 2)


def test_a_file_with_deleted_rows_counts_once() -> None:
    record = document("detail", WITH_DELETED_ROWS)
    assert (record["numFiles"], record["sizeInBytes"]) == (1, 635)
