"""Every golden table, as its log alone tells it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from slackwater import errors
from slackwater.errors import CommitOwnerRequired, UnsupportedFeature
from slackwater.log.files.file_actions import unique_ids
from slackwater.log.snapshot import LogSnapshot
from slackwater.log.table import Table
from slackwater.owner.api.commits import Commit, GetCommitsResponse
from slackwater.owner.api.owner_registry import OwnedTable, attach, detach
from slackwater.owner.api.staged_files import staged_files
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructType
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore

from .golden import EXPECTATIONS, ExpectedContent, GoldenTable, each, expected_contents, tables

_REFUSED: Mapping[str, Mapping[str, str]] = EXPECTATIONS["refused"]
_OTHER_FILES: Mapping[str, Mapping[str, Any]] = EXPECTATIONS["live_files_unlike_the_index"]
_IN_CATALOG = [t for t in tables() if t.validity == "needs-catalog"]
_WITH_LOG = [t for t in tables() if t.id not in _REFUSED and not t.foreign_features and t not in _IN_CATALOG]
_COUNTED = [t for t in _WITH_LOG if t.truth and not t.record["features"].get("add_without_stats")]


@pytest.mark.parametrize("table", each(t for t in _WITH_LOG if t.id not in _OTHER_FILES))
def test_replay_finds_the_live_files_of_the_index(table: GoldenTable) -> None:
    snapshot = LogSnapshot.load(table.root)
    assert snapshot.version == table.record["latest_version"]
    assert len(snapshot.live_files(["path"])) == table.record["active_files"]
    assert _active_set_sha256(snapshot) == table.record["active_set_sha256"]


@pytest.mark.parametrize("table", each(t for t in _WITH_LOG if t.id in _OTHER_FILES))
def test_replay_differs_from_the_index_where_it_is_meant_to(table: GoldenTable) -> None:
    snapshot = LogSnapshot.load(table.root)
    assert snapshot.version == table.record["latest_version"]
    assert len(snapshot.live_files(["path"])) == _OTHER_FILES[table.id]["live_files"]
    assert _active_set_sha256(snapshot) != table.record["active_set_sha256"]


@pytest.mark.parametrize("table", each(_WITH_LOG))
def test_protocol_metadata_and_columns_are_those_of_the_index(table: GoldenTable) -> None:
    snapshot = LogSnapshot.load(table.root)
    latest = table.record["latest_protocol"]
    assert snapshot.protocol.min_reader_version == latest["minReaderVersion"]
    assert snapshot.protocol.min_writer_version == latest["minWriterVersion"]
    assert sorted(snapshot.protocol.reader_features or ()) == sorted(latest.get("readerFeatures", ()))
    assert sorted(snapshot.protocol.writer_features or ()) == sorted(latest.get("writerFeatures", ()))
    assert list(snapshot.metadata.partition_columns) == table.record.get("partition_columns", [])
    assert dict(snapshot.metadata.configuration) == table.record.get("configuration", {})
    assert [(column.name, _kind(column.type)) for column in snapshot.schema] == table.column_kinds


@pytest.mark.parametrize("table", each(_COUNTED))
def test_statistics_less_deletion_vectors_add_up_to_the_rows_of_the_truth(table: GoldenTable) -> None:
    files = LogSnapshot.load(table.root).live_files(["stats", "deletionVector"]).to_pylist()
    if any(file["stats"] is None for file in files):
        pytest.skip("the checkpoint keeps its statistics as columns only")
    rows = sum(json.loads(file["stats"])["numRecords"] for file in files)
    hidden = sum(file["deletionVector"]["cardinality"] for file in files if file["deletionVector"])
    assert rows - hidden == table.truth["rows"]


@pytest.mark.parametrize("content", each(c for c in expected_contents() if "metadata" in c.record))
def test_a_version_has_the_protocol_and_properties_that_upstream_says(content: ExpectedContent) -> None:
    expected = content.record["metadata"]
    snapshot = LogSnapshot.load(content.table.root, content.version)
    assert snapshot.version == expected["version"]
    assert snapshot.protocol.min_reader_version == expected["min_reader_version"]
    assert snapshot.protocol.min_writer_version == expected["min_writer_version"]
    assert dict(snapshot.metadata.configuration) == expected["properties"]


@pytest.mark.parametrize("table", each(t for t in tables() if t.id in _REFUSED))
def test_a_table_that_is_none_is_refused_with_the_fault_named(table: GoldenTable) -> None:
    refusal = _REFUSED[table.id]
    with pytest.raises(getattr(errors, refusal["error"])) as caught:
        LogSnapshot.load(table.root).live_files()
    assert type(caught.value).__name__ == refusal["error"]
    assert refusal["message"] in str(caught.value)


@pytest.mark.parametrize("table", each(t for t in tables() if t.foreign_features and t.id not in _REFUSED))
def test_features_outside_the_documents_are_refused_by_name(table: GoldenTable) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        LogSnapshot.load(table.root)
    named = str(caught.value).split("the table needs reader feature")[1].split(", which this version")[0]
    assert sorted(named.removeprefix("s").strip().split(", ")) == sorted(table.foreign_features)


@pytest.mark.parametrize("table", each(_IN_CATALOG))
def test_a_table_of_a_catalog_is_refused_without_it_and_read_as_far_as_it_is_published(table: GoldenTable) -> None:
    with pytest.raises(CommitOwnerRequired, match=r"catalogManaged: only (the catalog of the table|its catalog)"):
        LogSnapshot.load(table.root)
    published = LogSnapshot.load(table.root, published_only=True)
    assert published.version == table.record["latest_version"]
    assert len(published.live_files(["path"])) == table.record["active_files"]
    assert _active_set_sha256(published) == table.record["active_set_sha256"]


class _Catalog:
    """A catalog that ratified every staged commit of one table, and answers as a commit owner."""

    owner_id = "a catalog"

    def __init__(self, store: ObjectStore) -> None:
        self._commits = [
            Commit(staged.file.version, staged.file_name, staged.meta.modified_ms, staged.meta.size_bytes)
            for staged in staged_files(store)
        ]

    def get_commits(self, table_id: str, start: int, end: int = -1, with_data: bool = False) -> GetCommitsResponse:
        found = [commit for commit in self._commits if commit.version >= start]
        return GetCommitsResponse(found, self._commits[-1].version)


@pytest.mark.parametrize("table", each(t for t in _IN_CATALOG if t.record["staged_commits"]))
def test_a_table_of_a_catalog_is_read_through_a_registered_catalog(table: GoldenTable) -> None:
    store = open_store(table.root)
    catalog: Any = _Catalog(store)
    attach(catalog)
    try:
        snapshot = LogSnapshot.open(Table(store, OwnedTable(catalog, "t")))
        assert snapshot.version == table.record["staged_commits"]
        added = snapshot.live_files(["path"])["path"].to_pylist()
        assert sorted(path.split("/")[0] for path in added) == ["part1=0", "part1=1"]
        assert all((Path(table.root) / path).exists() for path in added)
    finally:
        detach(catalog)


def test_every_invalid_table_has_its_refusal_and_every_expectation_its_table() -> None:
    by_id = {table.id: table for table in tables()}
    invalid = {table.id for table in tables() if table.validity == "invalid"}
    assert invalid <= set(_REFUSED)
    contradicted = {name for name in _REFUSED if "the log 0" in _REFUSED[name]["message"]}
    assert {by_id[name].validity for name in set(_REFUSED) - invalid - contradicted} == {"ambiguous"}
    assert {*_REFUSED, *_OTHER_FILES} <= set(by_id)
    used = {feature for table in tables() for feature in table.foreign_features}
    assert used == set(EXPECTATIONS["features_outside_the_documents"])


def _active_set_sha256(snapshot: LogSnapshot) -> str:
    files = snapshot.live_files(["path", "deletionVector"])
    vectors = unique_ids(files["deletionVector"]).to_pylist()
    lines = [
        f"{unquote(path)}\t{vector or ''}" for path, vector in zip(files["path"].to_pylist(), vectors, strict=True)
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _kind(data_type: DataType) -> str:
    nested = {StructType: "struct", ArrayType: "array", MapType: "map"}
    return nested.get(type(data_type)) or str(data_type)
