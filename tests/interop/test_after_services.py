"""Tables that were looked after: other engines read them, and delta-spark's VACUUM and RESTORE find the same files."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater import DeltaTable, Snapshot
from slackwater.log.table import Table
from slackwater.maintenance.vacuum import VacuumRequest, vacuum
from slackwater.protocol.actions.paths import canonical_path

from .delta_spark import DeltaSpark
from .peers import PEERS, require_same_rows, why_absent
from .rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_EVERYTHING = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
_NOTHING_KEPT = VacuumRequest(0, dry_run=True, untracked_hours=0, checks_retention=False)
_NO_VECTORS = {"deltalake-pyarrow": "its pyarrow dataset reads no table with deletion vectors"}
_NO_CLONES = {
    **_NO_VECTORS,
    "duckdb": "it takes the URL of a file for a path below the table",
    "polars": "it does not know file:/ as Hadoop spells it",
}


@pytest.fixture
def unchecked(ours: SparkSession) -> Iterator[None]:
    """Any retention is taken."""
    ours.conf.set(_CHECK, "false")
    yield
    ours.conf.unset(_CHECK)


def _changed(ours: SparkSession, path: Path) -> DeltaTable:
    """Rows 0 to 9, without some, in files with deletion vectors and in others."""
    for low in (0, 5):
        frame = ours.range(low, low + 5).selectExpr("id", "concat('v', id) AS v").coalesce(1)
        frame.write.format("delta").mode("append").options(**_EVERYTHING).save(str(path))
    table = DeltaTable.forPath(ours, str(path))
    table.delete("id = 1")
    table.update("id = 7", {"v": "'seven'"})
    return table


def _peer(peer: str) -> None:
    if why_absent(peer) is not None:
        pytest.skip(why_absent(peer) or "")


@pytest.mark.parametrize("peer", PEERS)
def test_other_engines_read_what_was_optimized_vacuumed_and_restored(
    ours: SparkSession, tmp_path: Path, unchecked: None, peer: str
) -> None:
    _peer(peer)
    table = _changed(ours, tmp_path / "t")
    wanted = table.toDF().toArrow()
    table.reorg().applyPurge()
    table.optimize().executeCompaction()
    table.vacuum(0, untracked_hours=0)
    unreadable = _NO_VECTORS.get(peer)
    require_same_rows(lambda: PEERS[peer](str(tmp_path / "t")), wanted, unreadable)
    newest = Snapshot.load(str(tmp_path / "t")).version
    table.delete("id > 5")
    table.restoreToVersion(newest)
    table.truncateHistory()
    require_same_rows(lambda: PEERS[peer](str(tmp_path / "t")), wanted, unreadable)


def test_delta_spark_reads_it_in_every_version_that_is_retained(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    table = _changed(ours, path)
    table.optimize().executeCompaction()
    table.vacuum()
    table.restoreToVersion(1)
    for version in range(Snapshot.load(str(path)).version + 1):
        ours_then = ours.read.format("delta").option("versionAsOf", version).load(str(path)).toArrow()
        assert rows_of(delta_spark.read(str(path), versionAsOf=str(version)).rows) == rows_of(ours_then), version
    operations = [entry["operation"] for entry in delta_spark.history(str(path))]
    assert operations[:4] == ["RESTORE", "VACUUM END", "VACUUM START", "OPTIMIZE"]
    table.truncateHistory()
    assert rows_of(delta_spark.read(str(path)).rows) == rows_of(table.toDF().toArrow())


@pytest.mark.long
def test_other_engines_read_what_becomes_of_files_with_vectors_that_go_whole(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    table = _changed(ours, path)
    marked = Snapshot.load(str(path)).version
    for statement in (
        "OPTIMIZE {} ZORDER BY (id)",
        "INSERT INTO {} REPLACE WHERE id < 5 VALUES (1, 'one')",
        "MERGE INTO {} t USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE",
        "CREATE OR REPLACE TABLE {} USING delta AS SELECT 1L AS id, 'one' AS v",
    ):
        ours.sql(statement.format(f"delta.`{path}`"))
        table.restoreToVersion(marked)
    table.delete("id = 3")
    for version in range(marked, Snapshot.load(str(path)).version + 1):
        ours_then = ours.read.format("delta").option("versionAsOf", version).load(str(path)).toArrow()
        assert rows_of(delta_spark.read(str(path), versionAsOf=str(version)).rows) == rows_of(ours_then), version
    for checkpointed in (False, True):
        if checkpointed:
            table.checkpoint()
        for peer, read in PEERS.items():
            if why_absent(peer) is None:
                require_same_rows(partial(read, str(path)), table.toDF().toArrow(), _NO_VECTORS.get(peer))
    delta_spark.forget()
    delta_spark.run(f"DELETE FROM delta.`{path}` WHERE id = 4")
    assert sorted(row.id for row in table.toDF().collect()) == [0, 2, 5, 6, 7, 8, 9]


def test_a_vacuum_finds_the_files_that_delta_sparks_does(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    """Of a table that delta-spark wrote, with deletion vectors and change data."""
    del ours
    path = tmp_path / "t"
    delta_spark.write("SELECT id, concat('v', id) AS v FROM range(10)", str(path), "append", **_EVERYTHING)
    delta_spark.run(f"DELETE FROM delta.`{path}` WHERE id = 1")
    delta_spark.run(f"UPDATE delta.`{path}` SET v = 'seven' WHERE id = 7")
    delta_spark.run(f"OPTIMIZE delta.`{path}`")
    delta_spark.run(f"SET {_CHECK} = false")
    listed = delta_spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS DRY RUN").rows["path"].to_pylist()
    theirs = {canonical_path(each).removeprefix(f"{path}/") for each in listed}
    mine = set(vacuum(Table.at(str(path)), _NOTHING_KEPT).paths)
    assert mine == theirs
    assert {name.partition("/")[0] for name in mine} >= {"_change_data"}


def test_delta_spark_restores_to_the_same_files(ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    _changed(ours, mine)
    shutil.copytree(mine, theirs)
    answer = DeltaTable.forPath(ours, str(mine)).restoreToVersion(2).toArrow()
    told = delta_spark.sql(f"RESTORE TABLE delta.`{theirs}` TO VERSION AS OF 2").rows
    assert answer.to_pylist() == told.to_pylist()
    assert answer.column_names == told.column_names
    assert _files(mine) == _files(theirs)
    (we, *_), (they, *_) = delta_spark.history(str(mine)), delta_spark.history(str(theirs))
    assert we["operation"] == they["operation"]
    assert we["operationMetrics"] == they["operationMetrics"]
    assert dict(we["operationParameters"])["version"] == dict(they["operationParameters"])["version"]


def _files(path: Path) -> set[tuple[str, str | None]]:
    files = Snapshot.load(str(path)).files().to_pylist()
    return {(f["path"], f["deletionVector"] and f["deletionVector"]["pathOrInlineDv"]) for f in files}


def test_delta_spark_reads_and_writes_a_clone(ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path) -> None:
    table = _changed(ours, tmp_path / "t")
    clone = table.clone(str(tmp_path / "clone"), isShallow=True)
    assert rows_of(delta_spark.read(str(tmp_path / "clone")).rows) == rows_of(table.toDF().toArrow())
    delta_spark.run(f"DELETE FROM delta.`{tmp_path / 'clone'}` WHERE id = 2")
    assert sorted(row.id for row in clone.toDF().collect()) == [0, 3, 4, 5, 6, 7, 8, 9]
    assert table.toDF().count() == 9


@pytest.mark.parametrize("peer", PEERS)
def test_clones_by_other_engines(ours: SparkSession, tmp_path: Path, peer: str) -> None:
    _peer(peer)
    table = _changed(ours, tmp_path / "t")
    table.clone(str(tmp_path / "clone"), isShallow=True)
    require_same_rows(lambda: PEERS[peer](str(tmp_path / "clone")), table.toDF().toArrow(), _NO_CLONES.get(peer))


@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview"])
def test_delta_spark_reads_columns_that_were_widened_and_has_the_same_history_of_their_types(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, feature: str
) -> None:
    """Source: delta-spark's own ALTER TABLE of a table of the same definition. Only delta-spark adds the preview."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    create = (
        "CREATE TABLE delta.`{t}` (i INT, b TINYINT, f FLOAT, n DECIMAL(4, 1), a ARRAY<INT>, m MAP<INT, SMALLINT>, "
        f"s STRUCT<x: SMALLINT>) USING delta TBLPROPERTIES ('delta.feature.{feature}' = 'supported')"
    )
    statements = (
        "ALTER TABLE delta.`{t}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "INSERT INTO delta.`{t}` VALUES (1, 2, 0.5, 1.5, array(3), map(4, 5), named_struct('x', 6))",
        *(
            f"ALTER TABLE delta.`{{t}}` ALTER COLUMN {column} TYPE {kind}"
            for column, kind in {
                "i": "BIGINT", "b": "SMALLINT", "f": "DOUBLE", "n": "DECIMAL(12, 3)", "a.element": "BIGINT",
                "m.key": "BIGINT", "m.value": "DOUBLE", "s.x": "DECIMAL(10, 0)",
            }.items()
        ),
        "ALTER TABLE delta.`{t}` ALTER COLUMN b TYPE BIGINT",
        "INSERT INTO delta.`{t}` VALUES (3000000000, 3000000000, 1e300, 12345678.125, array(3000000000), "
        "map(3000000000, 0.5D), named_struct('x', 1234567890))",
    )  # fmt: skip
    for path in (mine, theirs):
        delta_spark.run(create.format(t=path))
    for statement in statements:
        ours.sql(statement.format(t=mine))
        delta_spark.run(statement.format(t=theirs))
    wanted = rows_of(delta_spark.read(str(theirs)).rows)
    for path in (mine, theirs):
        assert rows_of(DeltaTable.forPath(ours, str(path)).toDF().toArrow()) == wanted
        assert rows_of(delta_spark.read(str(path)).rows) == wanted
    schemas = [Snapshot.load(str(path)).schema for path in (mine, theirs)]
    assert schemas[0] == schemas[1]
    assert (b"tableVersion" in _log_of(mine)) == (feature == "typeWidening-preview")
    assert set(delta_spark.detail(str(mine))["tableFeatures"]) == set(delta_spark.detail(str(theirs))["tableFeatures"])
    again = "ALTER TABLE delta.`{t}` ALTER COLUMN i TYPE DECIMAL(20, 0)"
    delta_spark.run(again.format(t=mine))
    ours.sql(again.format(t=theirs))
    schemas = [Snapshot.load(str(path)).schema for path in (mine, theirs)]
    assert schemas[0] == schemas[1]
    found = [rows_of(delta_spark.read(str(path)).rows) for path in (mine, theirs)]
    assert found[0] == found[1] == rows_of(DeltaTable.forPath(ours, str(mine)).toDF().toArrow())


@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview"])
@pytest.mark.long
def test_delta_spark_reads_a_table_whose_type_widening_was_dropped(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, feature: str
) -> None:
    """Source: delta-spark's own DROP FEATURE of a table of the same definition."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    statements = (
        "CREATE TABLE delta.`{t}` (i INT, s STRUCT<x: SMALLINT>, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        f"('delta.feature.{feature}' = 'supported', 'delta.enableRowTracking' = 'true')",
        "ALTER TABLE delta.`{t}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "INSERT INTO delta.`{t}` VALUES (1, named_struct('x', 2), 1), (3, named_struct('x', 4), 2)",
        "ALTER TABLE delta.`{t}` ALTER COLUMN i TYPE BIGINT",
        "ALTER TABLE delta.`{t}` ALTER COLUMN s.x TYPE DOUBLE",
        "INSERT INTO delta.`{t}` VALUES (5000000000, named_struct('x', 0.5D), 2)",
    )
    for statement in statements:
        for path in (mine, theirs):
            delta_spark.run(statement.format(t=path))
    drop = f"ALTER TABLE delta.`{{t}}` DROP FEATURE `{feature}`"
    query = "SELECT *, _metadata.row_id AS id, _metadata.row_commit_version AS v FROM delta.`{t}` ORDER BY i"
    before = delta_spark.sql(query.format(t=mine)).rows
    ours.sql(drop.format(t=mine))
    delta_spark.run(drop.format(t=theirs))
    delta_spark.forget()
    found, wanted = (delta_spark.sql(query.format(t=path)) for path in (mine, theirs))
    assert found.rows.equals(before)
    assert found.schema == wanted.schema
    details = [delta_spark.detail(str(path)) for path in (mine, theirs)]
    assert set(details[0]["tableFeatures"]) == set(details[1]["tableFeatures"])
    assert details[0]["numFiles"] == details[1]["numFiles"] == 3
    snapshots = [Snapshot.load(str(path)) for path in (mine, theirs)]
    assert snapshots[0].schema == snapshots[1].schema
    delta_spark.run(f"INSERT INTO delta.`{mine}` VALUES (7, named_struct('x', 7D), 1)")
    assert DeltaTable.forPath(ours, str(mine)).toDF().count() == 4


def _log_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((path / "_delta_log").glob("*.json")))
