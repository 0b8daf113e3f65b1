"""Logs as other engines wrote them or misread them: deletion vectors that go with their files, removes of few words."""

from __future__ import annotations

import base64
import json
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot
from slackwater.errors import ConcurrentDeleteDeleteException, ConcurrentDeleteReadException, OperationNotAllowed
from slackwater.spark.dml.dml_command import DmlCommand
from tests.interop.peers import with_datafusion
from tests.spark.written import actions, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def vector_id(action: dict[str, Any]) -> str | None:
    vector = action.get("deletionVector")
    if vector is None:
        return None
    offset = f"@{vector['offset']}" if "offset" in vector else ""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def replayed(path: str) -> list[dict[str, Any]]:
    """The live files by the bare JSON alone: each remove takes one away, and no path is live twice at any version."""
    live: dict[tuple[str, str | None], dict[str, Any]] = {}
    for version in range(len(list(Path(path, "_delta_log").glob("[0-9]*[0-9].json")))):
        adds = {(add["path"], vector_id(add)): add for add in actions(path, version, "add")}
        removes = {(remove["path"], vector_id(remove)) for remove in actions(path, version, "remove")}
        assert len(adds) == len(actions(path, version, "add")), version
        assert len(removes) == len(actions(path, version, "remove")), version
        assert removes <= live.keys(), (version, removes - live.keys())
        assert not removes & adds.keys(), version
        live = {key: add for key, add in live.items() if key not in removes} | adds
        assert len({file for file, _ in live}) == len(live), version
    return list(live.values())


def _place(path: str, name: str) -> Path:
    return Path(path, unquote(urlsplit(name).path))


def deleted_rows(path: str, vector: dict[str, Any] | None) -> BitMap64:
    """The rows that a deletion vector in a file marks, by pyroaring's reader."""
    if vector is None:
        return BitMap64()
    text = vector["pathOrInlineDv"]
    if vector["storageType"] == "u":
        name = uuid.UUID(bytes=base64.b85decode(text[-20:].encode().translate(bytes.maketrans(_Z85, _B85))))
        text = f"{text[:-20]}/deletion_vector_{name}.bin".lstrip("/")
    data = _place(path, text).read_bytes()[vector["offset"] + 8 :]
    found = BitMap64.deserialize(data[: vector["sizeInBytes"] - 4])
    assert len(found) == vector["cardinality"]
    return found


def bare_rows(path: str) -> list[tuple[Any, ...]]:
    """The rows (id, p) of the live files, by pyarrow."""
    found: list[tuple[Any, ...]] = []
    for add in replayed(path):
        gone = deleted_rows(path, add.get("deletionVector"))
        ids = pq.ParquetFile(_place(path, add["path"])).read(["id"])["id"].to_pylist()
        assert json.loads(add["stats"])["numRecords"] == len(ids)
        found += [(i, int(add["partitionValues"]["p"])) for row, i in enumerate(ids) if row not in gone]
    return sorted(found)


def peer_rows(path: str) -> list[tuple[Any, ...]]:
    """The rows (id, p), by deltalake."""
    found = with_datafusion(path)
    return sorted(zip(found["id"].to_pylist(), found["p"].to_pylist(), strict=True))


class Went(NamedTuple):
    """Statements that take whole files away, the ids that are left, and what the last commit's metrics count."""

    statements: list[str]
    left: list[int]
    metrics: Mapping[str, str] = MappingProxyType({})


ALIVE = [1, 2, 3, 4, 5, 6, 7, 8]
TABLE = "delta.`{path}`"
NEWS = "SELECT CAST(100 AS BIGINT) AS id, 0 AS p"
FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
WENT = {
    "restore and back": Went(
        [f"RESTORE TABLE {TABLE} TO VERSION AS OF 1", f"RESTORE TABLE {TABLE} TO VERSION AS OF 2"],
        ALIVE,
        {"numRestoredFiles": "2", "numRemovedFiles": "2"},
    ),
    "restore": Went([f"RESTORE TABLE {TABLE} TO VERSION AS OF 1"], [0, *ALIVE, 9]),
    "restore to one of two vectors": Went(
        [
            f"DELETE FROM {TABLE} WHERE id = 2",
            f"RESTORE TABLE {TABLE} TO VERSION AS OF 2",
            f"RESTORE TABLE {TABLE} TO VERSION AS OF 3",
        ],
        [1, 3, 4, 5, 6, 7, 8],
        {"numRestoredFiles": "1", "numRemovedFiles": "1"},
    ),
    "restore and delete": Went(
        [f"RESTORE TABLE {TABLE} TO VERSION AS OF 1", f"DELETE FROM {TABLE} WHERE id = 4"],
        [0, 1, 2, 3, 5, 6, 7, 8, 9],
        {"numDeletedRows": "1", "numDeletionVectorsAdded": "1"},
    ),
    "delete all": Went(
        [f"DELETE FROM {TABLE}"], [], {"numDeletedRows": "8", "numDeletionVectorsRemoved": "2", "numRemovedFiles": "4"}
    ),
    "delete a partition": Went(
        [f"DELETE FROM {TABLE} WHERE p = 1"], [2, 4, 6, 8], {"numDeletedRows": "4", "numDeletionVectorsRemoved": "1"}
    ),
    "truncate": Went([f"TRUNCATE TABLE {TABLE}"], [], {"numRemovedFiles": "4"}),
    "update": Went([f"UPDATE {TABLE} SET id = id + 10"], [i + 10 for i in ALIVE], {"numUpdatedRows": "8"}),
    "merge": Went(
        [f"MERGE INTO {TABLE} t USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE"],
        [],
        {"numTargetRowsDeleted": "8", "numTargetDeletionVectorsRemoved": "2"},
    ),
    "optimize": Went([f"OPTIMIZE {TABLE}"], ALIVE, {"numRemovedFiles": "4", "numDeletionVectorsRemoved": "2"}),
    "z-order": Went([f"OPTIMIZE {TABLE} ZORDER BY (id)"], ALIVE, {"numDeletionVectorsRemoved": "2"}),
    "purge": Went([f"REORG TABLE {TABLE} APPLY (PURGE)"], ALIVE, {"numRemovedFiles": "2"}),
    "overwrite": Went([f"INSERT OVERWRITE {TABLE} {NEWS}"], [100], {"numOutputRows": "1", "numRemovedFiles": "4"}),
    "dynamic overwrite": Went([f"INSERT OVERWRITE {TABLE} {NEWS}"], [1, 3, 5, 7, 100], {"numRemovedFiles": "2"}),
    "replace where": Went(
        [f"INSERT INTO {TABLE} REPLACE WHERE p = 0 {NEWS}"], [1, 3, 5, 7, 100], {"numDeletedRows": "4"}
    ),
    "create or replace": Went(
        [f"CREATE OR REPLACE TABLE {TABLE} USING delta PARTITIONED BY (p) {FEED} AS {NEWS}"],
        [100],
        {"numRemovedFiles": "4"},
    ),
    "clone over it": Went([f"CREATE OR REPLACE TABLE {TABLE} SHALLOW CLONE delta.`{{other}}`"], ALIVE),
    "clone of before over it": Went(
        [f"CREATE OR REPLACE TABLE {TABLE} SHALLOW CLONE delta.`{{other}}` VERSION AS OF 1"], [0, *ALIVE, 9]
    ),
}


def hide(path: str, versions: range) -> None:
    """Take commits away, which a checkpoint stands for."""
    for version in versions:
        Path(path, "_delta_log", f"{version:020d}.json").unlink()


@pytest.fixture
def marked(spark: SparkSession, path: str) -> str:
    """Ten rows in four files of two partitions, with a change feed; two of the files have a vector of one row."""
    for low in (0, 5):
        frame = spark.range(low, low + 5).selectExpr("id", "CAST(id % 2 AS INT) AS p").coalesce(1)
        writer = frame.write.format("delta").mode("append").partitionBy("p")
        writer.options(**{"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}).save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (0, 9)")
    assert len(actions(path, 2, "remove")) == len(actions(path, 2, "add")) == 2
    return path


def followed_rows(spark: SparkSession, path: str, version: int) -> list[tuple[Any, ...]]:
    """The rows (id, p) by the ones before `version` and the change feed since."""
    found = Counter(rows(read(spark, path, versionAsOf=str(version - 1))))
    feed = read(spark, path, readChangeFeed="true", startingVersion=str(version))
    for *row, kind in rows(feed.select("id", "p", "_change_type")):
        found[tuple(row)] += 1 if kind in ("insert", "update_postimage") else -1
    assert set(found.values()) <= {0, 1}
    return sorted(found.elements())


@pytest.mark.parametrize("case", WENT)
def test_files_with_a_vector_go_whole(
    spark: SparkSession, marked: str, conf: Callable[[str, str], None], case: str
) -> None:
    went, other, expected = WENT[case], f"{marked}-other", [(i, i % 2) for i in WENT[case].left]
    conf("spark.sql.sources.partitionOverwriteMode", "dynamic" if "dynamic" in case else "static")
    shutil.copytree(marked, other)
    for statement in went.statements:
        spark.sql(statement.format(path=marked, other=other))
    assert bare_rows(marked) == sorted(rows(read(spark, marked))) == peer_rows(marked) == expected
    assert followed_rows(spark, marked, 3) == expected
    table = DeltaTable.forPath(spark, marked)
    (operation,) = table.history(1).collect()
    assert went.metrics.items() <= operation["operationMetrics"].items()
    table.checkpoint()
    hide(marked, range(operation["version"]))
    assert sorted(rows(read(spark, marked))) == peer_rows(marked) == expected


def committed(path: str, *lines: dict[str, Any]) -> int:
    """The version of a commit by another engine, in which `lines` are all that is said."""
    version = Snapshot.load(path).version + 1
    text = "".join(json.dumps(line) + "\n" for line in lines)
    Path(path, "_delta_log", f"{version:020d}.json").write_text(text)
    return version


BARE = [{"partitionValues": {}}, {}, {"partitionValues": None, "size": None, "deletionTimestamp": None}]


@pytest.fixture
def sparse(spark: SparkSession, path: str) -> str:
    """Three files of two rows each: ids 0 to 5, partitioned by `p`, which is text, with a change data feed."""
    for number, value in enumerate(("a", "a", "b")):
        frame = spark.range(number * 2, number * 2 + 2).selectExpr("id", f"'{value}' AS p").coalesce(1)
        writer = frame.write.format("delta").mode("append").partitionBy("p")
        writer.option("delta.enableChangeDataFeed", "true").save(path)
    return path


@pytest.mark.parametrize("fields", BARE, ids=["empty", "none", "null"])
def test_a_remove_that_only_names_its_file_is_a_remove_everywhere(
    spark: SparkSession, sparse: str, conf: Callable[[str, str], None], fields: dict[str, Any]
) -> None:
    conf("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    table = DeltaTable.forPath(spark, sparse)
    (gone,) = actions(sparse, 0, "add")
    version = committed(sparse, {"remove": {"path": gone["path"], "dataChange": True, **fields}})
    left = [(2, "a"), (3, "a"), (4, "b"), (5, "b")]
    assert rows(read(spark, sparse)) == left
    assert rows(read(spark, sparse).where("p = 'a'")) == left[:2]
    feed = read(spark, sparse, readChangeFeed="true", startingVersion=str(version))
    assert rows(feed.select("id", "p", "_change_type")) == [(0, "a", "delete"), (1, "a", "delete")]
    table.history().collect()
    log = Path(sparse, "_delta_log")
    table.compactLog(0, version)
    kept = {commit: commit.read_bytes() for commit in log.glob("*[0-9].json")}
    for commit in kept:
        if "compacted" not in commit.name:
            commit.write_text("hidden")
    assert rows(read(spark, sparse)) == left
    for commit, data in kept.items():
        commit.write_bytes(data)
    table.vacuum()
    assert Path(sparse, gone["path"]).exists()
    spark.sql(f"RESTORE TABLE delta.`{sparse}` TO VERSION AS OF {version - 1}")
    assert rows(read(spark, sparse)) == [(0, "a"), (1, "a"), *left]
    spark.sql(f"RESTORE TABLE delta.`{sparse}` TO VERSION AS OF {version}")
    assert rows(read(spark, sparse)) == left
    committed(sparse, {"remove": {"path": gone["path"], "dataChange": True, **fields}})
    table.checkpoint()
    for commit in sorted(log.glob("*.json"))[:-1]:
        commit.unlink()
    assert rows(read(spark, sparse)) == left
    table.vacuum(0)
    assert not Path(sparse, gone["path"]).exists()
    assert rows(read(spark, sparse)) == left


@pytest.mark.long
@pytest.mark.parametrize("fields", BARE, ids=["empty", "none", "null"])
def test_a_stream_finds_the_partition_of_a_remove_that_only_names_its_file(
    spark: SparkSession, sparse: str, fields: dict[str, Any]
) -> None:
    (gone,) = actions(sparse, 0, "add")
    version = committed(sparse, {"remove": {"path": gone["path"], "dataChange": True, **fields}})
    feed = spark.readStream.format("delta").options(readChangeFeed="true", startingVersion=str(version)).load(sparse)
    feed.writeStream.format("memory").queryName("followed").trigger(availableNow=True).start().awaitTermination()
    followed = spark.table("followed").select("id", "p", "_change_type")
    assert rows(followed) == [(0, "a", "delete"), (1, "a", "delete")]
    spark.catalog.dropTempView("followed")


@pytest.mark.parametrize("fields", BARE, ids=["empty", "none", "null"])
@pytest.mark.long
def test_changes_lose_against_a_remove_that_only_names_its_file(
    spark: SparkSession, sparse: str, vectors: str, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    spark.sql(f"ALTER TABLE delta.`{sparse}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    before, (gone,) = Snapshot.load(sparse).version, actions(sparse, 0, "add")
    read_rows = DmlCommand.read

    def step_in(change: DmlCommand, *args: Any) -> None:
        read_rows(change, *args)
        if Snapshot.load(sparse).version == before:
            committed(sparse, {"remove": {"path": gone["path"], "dataChange": True, **fields}})

    monkeypatch.setattr(DmlCommand, "read", step_in)
    for statement in (
        "DELETE FROM {} WHERE id = 1",
        "DELETE FROM {} WHERE p = 'a'",
        "DELETE FROM {}",
        "UPDATE {} SET id = 7 WHERE id = 0",
        "MERGE INTO {} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises((ConcurrentDeleteDeleteException, ConcurrentDeleteReadException)):
            spark.sql(statement.format(f"delta.`{sparse}`"))
        assert Snapshot.load(sparse).version == before + 1
        Path(sparse, "_delta_log", f"{before + 1:020d}.json").unlink()
    spark.sql(f"DELETE FROM delta.`{sparse}` WHERE id = 4")
    assert rows(read(spark, sparse)) == [(2, "a"), (3, "a"), (5, "b")]


def inline(*marks: int) -> dict[str, Any]:
    """A deletion vector in the action itself, without the optional offset."""
    data = (1681511377).to_bytes(4, "little") + BitMap64(marks).serialize()
    text = base64.b85encode(data + bytes(-len(data) % 4)).translate(bytes.maketrans(_B85, _Z85)).decode()
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(marks)}


def test_an_inline_vector_without_offset_has_none_ever_after(spark: SparkSession, marked: str) -> None:
    vector, (file, *_) = inline(1), [add for add in replayed(marked) if "deletionVector" not in add]
    gone = {"path": file["path"], "dataChange": True, "deletionTimestamp": 1}
    stats = json.dumps({**json.loads(file["stats"]), "tightBounds": False})
    committed(marked, {"add": {**file, "stats": stats, "deletionVector": vector}}, {"remove": gone})
    left = [(i, i % 2) for i in ALIVE if i != 3]
    assert sorted(rows(read(spark, marked))) == peer_rows(marked) == left
    table = DeltaTable.forPath(spark, marked)
    table.checkpoint()
    adds = pq.read_table(Path(marked, "_delta_log", f"{3:020d}.checkpoint.parquet"))["add"].to_pylist()
    assert {**vector, "offset": None} in [add["deletionVector"] for add in adds if add is not None]
    hide(marked, range(3))
    assert sorted(rows(read(spark, marked))) == peer_rows(marked) == left
    table.delete("id = 1")
    (removed,) = actions(marked, 4, "remove")
    assert removed["deletionVector"] == vector
    assert sorted(rows(read(spark, marked))) == peer_rows(marked) == left[1:]


@pytest.mark.long
def test_vectors_are_seen_when_the_table_makes_no_new_ones(spark: SparkSession, marked: str) -> None:
    table = DeltaTable.forPath(spark, marked)
    table.delete("id = 1")
    table.checkpoint()
    spark.sql(f"ALTER TABLE delta.`{marked}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    with pytest.raises(OperationNotAllowed, match="files still have deletion vectors"):
        spark.sql(f"ALTER TABLE delta.`{marked}` DROP FEATURE deletionVectors")
    spark.sql(f"DELETE FROM delta.`{marked}` WHERE id = 2")
    left = [(i, i % 2) for i in ALIVE if i not in (1, 2)]
    assert bare_rows(marked) == sorted(rows(read(spark, marked))) == left
    spark.sql(f"REORG TABLE delta.`{marked}` APPLY (PURGE)")
    assert not any("deletionVector" in add for add in replayed(marked))
    assert bare_rows(marked) == sorted(rows(read(spark, marked))) == left
    spark.sql(f"DELETE FROM delta.`{marked}` WHERE id = 3")
    assert bare_rows(marked) == sorted(rows(read(spark, marked))) == peer_rows(marked) == left[1:]
    hide(marked, range(3))
    assert sorted(rows(read(spark, marked))) == peer_rows(marked) == left[1:]
