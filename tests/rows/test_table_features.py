"""What the features of a table ask of its writer: names, ids, change feed, timestamps, vectors, statistics."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater
from slackwater.maintenance.verify.verify import verify
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.table.alteration import set_properties
from slackwater.transaction.table.public_transaction import Transaction
from tests.data_files.pages import page_versions
from tests.transaction.tables import commit_actions, schema

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "day": ["a", "b"] * 5, "x": [None, 0.5] * 5})
TRACKED = {"delta.enableRowTracking": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def _new(path: Path, properties: Mapping[str, str], rows: pa.Table = ROWS, **options: Any) -> Snapshot:
    slackwater.write(path, rows, properties=properties, **options)
    return Snapshot.load(path)


def _rows(path: Path) -> list[dict[str, Any]]:
    return sorted(Snapshot.load(path).to_arrow().to_pylist(), key=lambda row: row["id"])


def _files(path: Path) -> list[Path]:
    return [path / file for file in Snapshot.load(path).files()["path"].to_pylist()]


def _fields(file: Path) -> dict[str, bytes | None]:
    schema = pq.ParquetFile(file).schema_arrow
    return {field.name: (field.metadata or {}).get(b"PARQUET:field_id") for field in schema}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_have_physical_names_and_ids(tmp_path: Path, mode: str) -> None:
    rows = ROWS.append_column("s p", pa.array([{"a b": 1}] * 10))
    base = _new(tmp_path, {"delta.columnMapping.mode": mode}, rows, partition_by=["day"])
    columns = {column.name: column.metadata for column in base.schema}
    expected = {
        columns[name]["delta.columnMapping.physicalName"]: str(columns[name]["delta.columnMapping.id"]).encode()
        for name in ("id", "x", "s p")
    }
    assert all(_fields(file) == expected for file in _files(tmp_path))
    values = base.files()["partitionValues"].to_pylist()
    assert {name for each in values for name, _ in each} == {columns["day"]["delta.columnMapping.physicalName"]}
    assert _rows(tmp_path) == rows.to_pylist()
    (stats, *_) = base.files()["stats"].to_pylist()
    assert columns["id"]["delta.columnMapping.physicalName"] in orjson.loads(stats)["minValues"]
    slackwater.delete(tmp_path, "id = 3")
    slackwater.write(tmp_path, rows.slice(4, 1), "overwrite", predicate="id = 4")
    assert [row["id"] for row in _rows(tmp_path)] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert all(_fields(file) == expected for file in _files(tmp_path))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_iceberg_compatible_files_have_partition_values_and_nested_ids(tmp_path: Path, version: int) -> None:
    rows = ROWS if version == 1 else ROWS.append_column("l", pa.array([[n] for n in range(10)]))
    base = _new(tmp_path, {f"delta.enableIcebergCompatV{version}": "true"}, rows, partition_by=["day"])
    assert base.column_mapping_mode == "name"
    hidden = _hidden(base) if version == 3 else []
    slackwater.delete(tmp_path, "id = 3")
    for file in _files(tmp_path):
        table = pq.ParquetFile(file).read()
        assert len([name for name in table.column_names if name not in hidden]) == len(rows.column_names)
        if version >= 2:
            element = table.schema.field(table.column_names.index(_physical(base, "l"))).type.value_field
            assert element.metadata[b"PARQUET:field_id"]
    assert [row["day"] for row in _rows(tmp_path)] == ["a", "b", "a", *["a", "b"] * 3]


def test_hidden_columns_of_row_tracking_have_the_field_ids_of_iceberg(tmp_path: Path) -> None:
    base = _new(tmp_path, {"delta.enableIcebergCompatV3": "true"})
    slackwater.delete(tmp_path, "id = 3")
    (file,) = _files(tmp_path)
    stored = pq.ParquetFile(file).schema_arrow
    fields = [stored.field(name) for name in _hidden(base)]
    assert [field.metadata[b"PARQUET:field_id"] for field in fields] == [b"2147483540", b"2147483539"]


def _hidden(base: Snapshot) -> list[str]:
    names = ("materializedRowIdColumnName", "materializedRowCommitVersionColumnName")
    return [base.properties[f"delta.rowTracking.{name}"] for name in names]


def _physical(base: Snapshot, name: str) -> str:
    (column,) = [c for c in base.schema if c.name == name]
    return str(column.metadata["delta.columnMapping.physicalName"])


def test_new_rows_get_row_ids_and_copied_rows_keep_theirs(tmp_path: Path) -> None:
    _new(tmp_path, TRACKED)
    slackwater.write(tmp_path, ROWS.slice(0, 2), "append")
    bases = sorted(Snapshot.load(tmp_path).files()["baseRowId"].to_pylist())
    assert bases == [0, 10]
    slackwater.delete(tmp_path, "id = 3 OR id = 0")
    found = Snapshot.load(tmp_path)
    properties = found.properties
    id_name = properties["delta.rowTracking.materializedRowIdColumnName"]
    version_name = properties["delta.rowTracking.materializedRowCommitVersionColumnName"]
    (file,) = _files(tmp_path)
    kept = pq.ParquetFile(file).read().to_pylist()
    assert sorted((row["id"], row[id_name], row[version_name]) for row in kept) == [
        (1, 1, 0), (1, 11, 1), (2, 2, 0), *((n, n, 0) for n in range(4, 10)),
    ]  # fmt: skip
    assert commit_actions(found.store, 2)[0]["commitInfo"]["tags"]["delta.rowTracking.preserved"] == "true"


def _changes(path: Path, version: int) -> list[dict[str, Any]]:
    actions = commit_actions(Snapshot.load(path).store, version)
    files = [path / action["cdc"]["path"] for action in actions if "cdc" in action]
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["id"], row["_change_type"]))


@pytest.mark.parametrize("vectors", [True, False])
def test_deleted_rows_are_in_the_change_feed(tmp_path: Path, vectors: bool) -> None:
    _new(tmp_path, {**FEED, **(VECTORS if vectors else {})})
    slackwater.delete(tmp_path, "id >= 8")
    assert [(row["id"], row["_change_type"]) for row in _changes(tmp_path, 1)] == [(8, "delete"), (9, "delete")]
    assert [row["id"] for row in _rows(tmp_path)] == list(range(8))
    # Whole files need no change files, because the removes tell the same.
    slackwater.delete(tmp_path, "id >= 0")
    assert _changes(tmp_path, 2) == []
    assert _rows(tmp_path) == []


def test_replaced_rows_are_in_the_change_feed(tmp_path: Path) -> None:
    _new(tmp_path, FEED)
    slackwater.write(tmp_path, pa.table({"id": [9], "day": ["z"], "x": [1.0]}), "overwrite", predicate="id >= 8")
    told = [(row["id"], row["day"], row["_change_type"]) for row in _changes(tmp_path, 1)]
    assert told == [(8, "a", "delete"), (9, "b", "delete"), (9, "z", "insert")]
    assert [(row["id"], row["day"]) for row in _rows(tmp_path)][-2:] == [(7, "b"), (9, "z")]


def test_deletion_vectors_are_written_where_they_are_enabled(tmp_path: Path) -> None:
    _new(tmp_path, VECTORS)
    before = _files(tmp_path)
    slackwater.delete(tmp_path, "id = 3")
    slackwater.delete(tmp_path, "id = 4 OR id = 3")
    assert _files(tmp_path) == before
    assert [row["id"] for row in _rows(tmp_path)] == [0, 1, 2, 5, 6, 7, 8, 9]
    metrics = commit_actions(Snapshot.load(tmp_path).store, 2)[0]["commitInfo"]["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numDeletionVectorsUpdated"], metrics["numRemovedFiles"]) == (
        "1",
        "1",
        "0",
    )
    slackwater.write(tmp_path, ROWS.slice(5, 1), "overwrite", predicate="id = 5")
    assert [row["id"] for row in _rows(tmp_path)] == [0, 1, 2, 5, 6, 7, 8, 9]


def test_rows_deleted_by_vectors_stay_deleted_where_their_file_is_rewritten(tmp_path: Path) -> None:
    base = _new(tmp_path, VECTORS)
    slackwater.delete(tmp_path, "id = 3")
    set_properties(base.update(), {"delta.enableDeletionVectors": "false"}).commit(begin(base.update()))
    slackwater.delete(tmp_path, "id = 4")
    assert [row["id"] for row in _rows(tmp_path)] == [0, 1, 2, 5, 6, 7, 8, 9]
    assert Snapshot.load(tmp_path).files()["deletionVector"].null_count == 1


def test_in_commit_timestamps_ascend(tmp_path: Path) -> None:
    _new(tmp_path, {"delta.enableInCommitTimestamps": "true"})
    slackwater.write(tmp_path, ROWS, "append")
    store = Snapshot.load(tmp_path).store
    stamps = [commit_actions(store, version)[0]["commitInfo"]["inCommitTimestamp"] for version in (0, 1)]
    assert stamps[0] < stamps[1]


def test_clustering_columns_have_statistics_and_survive_other_columns(tmp_path: Path) -> None:
    text = schema({"a": "long", "id": "long"})
    Transaction.create(tmp_path, text, cluster_by=["id"], properties={"delta.dataSkippingNumIndexedCols": "1"}).commit()
    slackwater.write(tmp_path, pa.table({"a": [1], "id": [2]}), "append")
    (stats,) = Snapshot.load(tmp_path).files()["stats"].to_pylist()
    assert orjson.loads(stats)["minValues"] == {"a": 1, "id": 2}
    slackwater.write(tmp_path, pa.table({"id": [3], "n": [1]}), "overwrite", schema_mode="overwrite")
    assert "id" in Snapshot.load(tmp_path).domain_metadata["delta.clustering"].configuration
    slackwater.write(tmp_path, pa.table({"n": [1]}), "overwrite", schema_mode="overwrite")
    assert '"clusteringColumns":[]' in Snapshot.load(tmp_path).domain_metadata["delta.clustering"].configuration


def test_clustering_columns_follow_their_new_physical_names(tmp_path: Path) -> None:
    text = schema({"id": "long"})
    Transaction.create(tmp_path, text, cluster_by=["id"], properties={"delta.columnMapping.mode": "name"}).commit()
    before = _physical(Snapshot.load(tmp_path), "id")
    slackwater.write(tmp_path, pa.table({"id": ["text"]}), "overwrite", schema_mode="overwrite")
    found = Snapshot.load(tmp_path)
    assert _physical(found, "id") != before
    assert _physical(found, "id") in found.domain_metadata["delta.clustering"].configuration


@pytest.mark.parametrize("codec", ["zstd", "gzip", "uncompressed"])
def test_files_have_the_tables_codec(tmp_path: Path, codec: str) -> None:
    _new(tmp_path, {"delta.parquet.compression.codec": codec})
    (file,) = _files(tmp_path)
    found = pq.ParquetFile(file).metadata.row_group(0).column(0).compression
    assert found.lower() == codec
    assert len(_rows(tmp_path)) == 10


def test_files_name_a_gregorian_writer(tmp_path: Path) -> None:
    _new(tmp_path, {})
    (file,) = _files(tmp_path)
    assert pq.ParquetFile(file).metadata.metadata[b"org.apache.spark.version"] == b"4.0.0"


def test_schema_mode_merge_widens_columns_where_the_table_permits_it(tmp_path: Path) -> None:
    small = pa.table({"id": pa.array([1], pa.int32())})
    _new(tmp_path, {"delta.enableTypeWidening": "true"}, small)
    slackwater.write(tmp_path, pa.table({"id": pa.array([2**40], pa.int64())}), "append", schema_mode="merge")
    assert str(Snapshot.load(tmp_path).schema.fields[0].type) == "long"
    assert [row["id"] for row in _rows(tmp_path)] == [1, 2**40]


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {**TRACKED, **FEED, **VECTORS},
        {"delta.columnMapping.mode": "id", **FEED},
        {"delta.enableIcebergCompatV2": "true"},
        {"delta.enableIcebergCompatV3": "true"},
    ],
    ids=str,
)
def test_a_table_with_many_writes_passes_its_verification(tmp_path: Path, properties: dict[str, str]) -> None:
    _new(tmp_path, properties, partition_by=["day"])
    slackwater.write(tmp_path, ROWS, "append")
    slackwater.delete(tmp_path, "id = 3 OR day = 'a'")
    slackwater.write(tmp_path, ROWS.slice(5, 1), "overwrite", predicate="id = 5")
    assert verify(Snapshot.load(tmp_path).table, footers=True).faults == ()
    assert [row["id"] for row in _rows(tmp_path)] == sorted([1, 1, 5, 7, 7, 9, 9])


def test_shallow_clones_take_deletes(tmp_path: Path) -> None:
    from slackwater.log.table import Table
    from slackwater.maintenance.clone import shallow_clone

    source = _new(tmp_path / "source", {})
    shallow_clone(source, Table.at(tmp_path / "clone"))
    slackwater.delete(tmp_path / "clone", "id < 9")
    assert [row["id"] for row in _rows(tmp_path / "clone")] == [9]
    assert len(_rows(tmp_path / "source")) == 10


def test_a_memory_store_takes_writes_too() -> None:
    at = f"memory://{uuid.uuid4()}"
    slackwater.write(at, ROWS, partition_by=["day"])
    slackwater.delete(at, "id = 1")
    assert slackwater.Snapshot.load(at).to_arrow().num_rows == 9


@pytest.mark.parametrize(("version", "pages"), [("1.0.0", 1), ("2.12.0", 2)])
def test_files_have_the_tables_pages(tmp_path: Path, version: str, pages: int) -> None:
    _new(tmp_path, {"delta.parquet.format.version": version})
    assert page_versions(*_files(tmp_path)) == {pages}
    slackwater.delete(tmp_path, "id = 3")
    assert page_versions(*_files(tmp_path)) == {pages}
    assert len(_rows(tmp_path)) == 9
