"""Engines of this process that write to a table of Slackwater: docs/guides/versions.md has a row for each feature."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import slackwater

from .peers import PEERS, duckdb_extension, why_absent

pytestmark = pytest.mark.interop

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "versions.md"
WRITES, REJECTS, NULLS = "write", "rejected", "writes NULL"
_NEW = {"id": [7], "s": ["x"]}


def _append_with_polars(path: str) -> None:
    import polars

    polars.DataFrame(_NEW).write_delta(path, mode="append")


def _append_with_deltalake(path: str) -> None:
    import deltalake

    deltalake.write_deltalake(path, pa.table(_NEW), mode="append")


def _merge_with_deltalake(path: str) -> None:
    import deltalake

    source = pa.table({"id": [2, 7], "s": ["m", "m"]})
    merge = deltalake.DeltaTable(path).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _insert_with_duckdb(path: str) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{duckdb_extension()}'")
        connection.execute(f"ATTACH '{path}' AS t (TYPE delta)")
        connection.execute("INSERT INTO t VALUES (7, 'x')")


WRITERS: dict[str, tuple[str, Callable[[str], None]]] = {
    "Polars": ("polars", _append_with_polars),
    "deltalake": ("datafusion", _append_with_deltalake),
    "deltalake, merge": ("datafusion", _merge_with_deltalake),
    "DuckDB": ("duckdb", _insert_with_duckdb),
}
FEATURES: dict[str, tuple[dict[str, str], tuple[str, str, str, str]]] = {
    "none": ({}, (WRITES, WRITES, WRITES, WRITES)),
    "changeDataFeed": ({"delta.enableChangeDataFeed": "true"}, (WRITES, WRITES, WRITES, WRITES)),
    "deletionVectors": ({"delta.enableDeletionVectors": "true"}, (WRITES, WRITES, WRITES, WRITES)),
    "v2Checkpoint": ({"delta.checkpointPolicy": "v2"}, (WRITES, WRITES, WRITES, WRITES)),
    "appendOnly": ({"delta.appendOnly": "true"}, (WRITES, WRITES, REJECTS, WRITES)),
    "columnMapping": ({"delta.columnMapping.mode": "name"}, (WRITES, WRITES, WRITES, NULLS)),
    "checkConstraints": ({"delta.constraints.small": "id < 100"}, (WRITES, WRITES, WRITES, REJECTS)),
    "inCommitTimestamp": ({"delta.enableInCommitTimestamps": "true"}, (REJECTS, REJECTS, REJECTS, WRITES)),
    "rowTracking": ({"delta.enableRowTracking": "true"}, (REJECTS, REJECTS, REJECTS, WRITES)),
    "typeWidening": ({"delta.enableTypeWidening": "true"}, (REJECTS, REJECTS, REJECTS, REJECTS)),
}
"""Properties of the table by its feature, and the outcomes of WRITERS."""
CASES = [(feature, number, writer) for feature in FEATURES for number, writer in enumerate(WRITERS)]


@pytest.mark.parametrize(("feature", "number", "writer"), CASES)
def test_engine_writes_to_a_table_with_the_feature(feature: str, number: int, writer: str, tmp_path: Path) -> None:
    _require(WRITERS[writer][0])
    path = str(tmp_path / "table")
    properties, outcomes = FEATURES[feature]
    slackwater.write(path, pa.table({"id": [1, 2, 3, 4], "s": ["a", "b", "c", "d"]}), properties=properties)
    if feature == "appendOnly":
        rows = 4
    else:
        slackwater.delete(path, "id = 4")  # a vector, if the table has the feature
        rows = 3
    version = slackwater.Snapshot.load(path).version
    if outcomes[number] == REJECTS:
        with pytest.raises(Exception, match=r"[Uu]nsupported|append-only"):
            WRITERS[writer][1](path)
        assert slackwater.Snapshot.load(path).version == version
        return
    WRITERS[writer][1](path)
    found = slackwater.Snapshot.load(path).to_arrow()["id"].to_pylist()
    assert (None in found, 7 in found, len(found)) == (outcomes[number] == NULLS, outcomes[number] == WRITES, rows + 1)


@pytest.mark.parametrize("writer", ["Polars", "deltalake"])
def test_deltalake_checks_the_constraints_of_the_table(writer: str, tmp_path: Path) -> None:
    _require(WRITERS[writer][0])
    path = str(tmp_path / "table")
    slackwater.write(path, pa.table({"id": [1], "s": ["a"]}), properties={"delta.constraints.small": "id < 5"})
    with pytest.raises(Exception, match="validation check"):
        WRITERS[writer][1](path)


def test_each_engine_reads_the_writes_of_the_others(tmp_path: Path) -> None:
    for peer in PEERS:
        _require(peer)
    import deltalake

    path = str(tmp_path / "table")
    slackwater.write(path, pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]}))
    table = deltalake.DeltaTable(path)

    def ids() -> set[tuple[int, ...]]:
        own = slackwater.Snapshot.load(path).to_arrow()
        read = [own, *(reader(path) for reader in PEERS.values())]
        return {tuple(sorted(each["id"].to_pylist())) for each in read}

    steps: list[tuple[Callable[[], object], tuple[int, ...]]] = [
        (lambda: _append_with_polars(path), (1, 2, 3, 7)),
        (lambda: slackwater.delete(path, "id = 7"), (1, 2, 3)),
        (lambda: _insert_with_duckdb(path), (1, 2, 3, 7)),
        (lambda: deltalake.DeltaTable(path).delete("id = 1"), (2, 3, 7)),
        (lambda: slackwater.write(path, pa.table({"id": [8], "s": ["y"]}), "append"), (2, 3, 7, 8)),
        (lambda: _merge_with_deltalake(path), (2, 3, 7, 8)),
        (table.optimize.compact, (2, 3, 7, 8)),
        (lambda: deltalake.DeltaTable(path).create_checkpoint(), (2, 3, 7, 8)),
        (lambda: slackwater.write(path, pa.table({"id": [9], "s": ["z"]}), "append"), (2, 3, 7, 8, 9)),
    ]
    for write, expected in steps:
        table.update_incremental()
        write()
        assert ids() == {expected}


def test_the_page_has_a_row_for_each_feature() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for feature, (_, outcomes) in FEATURES.items():
        assert f"| {feature} | {' | '.join(outcomes)} |\n" in text


def _require(peer: str) -> None:
    if (reason := why_absent(peer)) is not None:
        pytest.skip(reason)
