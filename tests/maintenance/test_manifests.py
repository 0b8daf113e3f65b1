"""Manifests say where the files of a table are, partition by partition."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.maintenance.manifests import generate
from slackwater.scan.snapshot import Snapshot
from tests.transaction.tables import VECTORS, add, append, delete, delete_rows_of, new_store, table

MODE = "symlink_format_manifest"


def _manifests(snapshot: Snapshot) -> dict[str, list[str]]:
    found = snapshot.store.list_from("_symlink_format_manifest", recursive=True)
    return {meta.path: snapshot.store.read(meta.path).decode().splitlines() for meta in found}


def _partitioned(**files: str | None) -> Snapshot:
    """A table in memory with a file of each name in the partition `p` of that value."""
    snapshot = table({"id": "long", "p": "string"}, ["p"])
    return append(snapshot, *(add(name, partition={"p": value}) for name, value in files.items())).snapshot


def test_a_table_without_partitions_has_one_manifest(tmp_path: Path) -> None:
    snapshot = append(table(path=tmp_path / "a b"), add("x%20%C3%BC"), add("y")).snapshot
    assert generate(snapshot, "SymLink_Format_Manifest") == ["_symlink_format_manifest/manifest"]
    root = f"file:{tmp_path}/a b"
    assert _manifests(snapshot) == {"_symlink_format_manifest/manifest": [f"{root}/x ü", f"{root}/y"]}


def test_each_partition_has_a_manifest_where_hive_looks_for_it() -> None:
    snapshot = _partitioned(a="1", b="1", c="x/y", d=None)
    generate(snapshot, MODE)
    root = snapshot.store.root_url
    assert _manifests(snapshot) == {
        "_symlink_format_manifest/p=1/manifest": [f"{root}/a", f"{root}/b"],
        "_symlink_format_manifest/p=x%2Fy/manifest": [f"{root}/c"],
        "_symlink_format_manifest/p=__HIVE_DEFAULT_PARTITION__/manifest": [f"{root}/d"],
    }


def test_manifests_of_partitions_that_are_empty_now_go() -> None:
    snapshot = _partitioned(a="1", b="2")
    generate(snapshot, MODE)
    snapshot.store.put("_symlink_format_manifest/p=1/.manifest.crc", b"x")
    snapshot.store.put("_symlink_format_manifest/p=2/.manifest.crc", b"x")
    after = delete(snapshot, "a").snapshot
    assert generate(after, MODE) == ["_symlink_format_manifest/p=2/manifest"]
    assert list(_manifests(after)) == ["_symlink_format_manifest/p=2/manifest"]


def test_a_table_without_files_has_an_empty_manifest_or_none() -> None:
    snapshot = table(path=f"memory://{uuid.uuid4()}")
    generate(snapshot, MODE)
    assert _manifests(snapshot) == {"_symlink_format_manifest/manifest": []}
    assert generate(_partitioned(), MODE) == []


def test_files_elsewhere_are_named_where_they_are() -> None:
    store = new_store()
    root = f"{store.root_url}/a b"
    snapshot = append(table(path=root), add("/data/x"), add("s3://bucket/a%20b"), add("c%20d")).snapshot
    generate(snapshot, MODE)
    listed = _manifests(snapshot)["_symlink_format_manifest/manifest"]
    assert listed == ["file:/data/x", f"{root}/c d", "s3://bucket/a b"]


def test_rows_that_are_deleted_by_vectors_would_come_back() -> None:
    snapshot = append(table(properties=VECTORS), add("a")).snapshot
    assert generate(snapshot, MODE)
    with pytest.raises(UnsupportedFeature, match="DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS"):
        generate(delete_rows_of(snapshot, {"a": [1]}).snapshot, MODE)


def test_columns_by_other_names_are_refused() -> None:
    snapshot = table(properties={"delta.columnMapping.mode": "name"})
    with pytest.raises(UnsupportedFeature, match="DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING"):
        generate(snapshot, MODE)
    assert _manifests(snapshot) == {}


def test_another_mode_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="Use the mode symlink_format_manifest"):
        generate(table(), "iceberg")


def test_a_line_break_in_a_name_would_be_two_files() -> None:
    with pytest.raises(UnsupportedFeature, match="line break"):
        generate(append(table(), add("a%0Ab")).snapshot, MODE)
