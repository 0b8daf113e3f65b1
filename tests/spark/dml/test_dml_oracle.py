"""DELETE, UPDATE and MERGE do to tables of every kind what they do in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, Snapshot, errors
from tests.spark.changed import FEED, VECTORS, WRITTEN_ALIKE, ids
from tests.spark.dml.dml_oracle import (
    COLUMNS,
    Delete,
    Merge,
    Outcome,
    Row,
    SeveralSourceRows,
    Update,
    frame,
    plain,
    random_delete,
    random_merge,
    random_rows,
    random_update,
)
from tests.spark.written import actions, changes, first_row, read

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

_LONG_RUNS = 12


@dataclass(frozen=True)
class Kind:
    """How a table is kept; together the kinds below have every pair of values."""

    vectors: bool
    mapping: str
    feed: bool
    tracking: bool
    partitioned: bool

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return {
            "delta.enableDeletionVectors": str(self.vectors).lower(),
            "delta.columnMapping.mode": self.mapping,
            "delta.enableChangeDataFeed": str(self.feed).lower(),
            "delta.enableRowTracking": str(self.tracking).lower(),
        }

    def __str__(self) -> str:
        words = {"feed": self.feed, "tracking": self.tracking, "partitioned": self.partitioned}
        return "-".join(["dv" if self.vectors else "cow", self.mapping, *(word for word, on in words.items() if on)])


KINDS = [
    Kind(vectors=False, mapping="none", feed=False, tracking=False, partitioned=True),
    Kind(vectors=True, mapping="none", feed=True, tracking=True, partitioned=False),
    Kind(vectors=False, mapping="name", feed=False, tracking=True, partitioned=False),
    Kind(vectors=True, mapping="name", feed=True, tracking=False, partitioned=True),
    Kind(vectors=False, mapping="id", feed=True, tracking=False, partitioned=False),
    Kind(vectors=True, mapping="id", feed=False, tracking=True, partitioned=True),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_table_becomes_what_plain_python_makes_of_it(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, kind: Kind
) -> None:
    is_long = request.config.getoption("--long")
    for seed in range(_LONG_RUNS if is_long else 1):
        random = Random(f"{kind} {seed}")  # noqa: S311  (examples, not secrets)
        table = Table.create(spark, tmp_path / str(seed), kind, random)
        makers: list[Callable[[Random], Delete | Update]] = [random_delete, random_update]
        plain_steps = random.choices(makers, k=2) if is_long else [makers[KINDS.index(kind) % 2]]
        steps = [*plain_steps, *[None] * len(plain_steps)]
        random.shuffle(steps)
        for make in steps:
            operation: Delete | Update | Merge = make(random) if make else random_merge(random, table.rows)
            table.change(operation, aliased=random.random() < 0.5)


@dataclass
class Table:
    """A Delta table, and the rows that it must have."""

    spark: SparkSession
    path: str
    kind: Kind
    rows: Sequence[Row]

    @staticmethod
    def create(spark: SparkSession, path: Path, kind: Kind, random: Random) -> Table:
        """A table of random rows in a few files, some of them sorted."""
        rows = random_rows(random, random.randint(20, 60))
        data, files = frame(spark, rows), random.randint(2, 4)
        data = data.repartition(files) if random.random() < 0.5 else data.repartitionByRange(files, "k")
        writer = data.write.format("delta").options(**kind.properties)
        (writer.partitionBy("p") if kind.partitioned else writer).save(str(path))
        table = Table(spark, str(path), kind, [Row(row) for row in rows])
        table.rows = table.found(table.rows, 0, -1)
        return table

    def change(self, operation: Delete | Update | Merge, aliased: bool) -> None:
        """Do what is to be done, and look at everything that it leaves behind."""
        version = Snapshot.load(self.path).version
        try:
            expected = operation.expected(self.rows)
        except SeveralSourceRows:
            with pytest.raises(errors.MergeCardinalityViolation):
                operation.run(self.spark, self.path, aliased)
            assert Snapshot.load(self.path).version == version
            return
        counts = operation.run(self.spark, self.path, aliased)
        said = f"{self.kind}, version {version + 1}: {operation}"
        if isinstance(operation, Merge):
            wanted = (expected.affected, expected.updated, expected.deleted, expected.inserted)
            assert counts == wanted, said
        if not expected.affected:
            assert Snapshot.load(self.path).version == version, said
            return
        mark = high_water_mark(self.path, version) if self.kind.tracking else -1
        version += 1
        self.rows = self.found(expected.rows, version, mark, said)
        self._require_log(operation, expected, version, said)
        if self.kind.feed:
            feed = Counter(plain(row) for row in changes(self.spark, self.path, version, *COLUMNS))
            assert feed == expected.feed, said

    def found(self, expected: Sequence[Row], version: int, high_water: int, said: str = "") -> list[Row]:
        """The rows of the table, which are those `expected`; ids of new rows are above `high_water`."""
        if not self.kind.tracking:
            rows = Counter(plain(row) for row in read(self.spark, self.path).select(*COLUMNS).collect())
            assert rows == Counter(row.key for row in expected), said
            return list(expected)
        data = read(self.spark, self.path, rowTracking="true").select(*COLUMNS, "_row_id", "_row_commit_version")
        rows = Counter(plain(row) for row in data.collect())
        old = Counter(
            (*row.key, row.row_id, version if row.commit_version is None else row.commit_version)
            for row in expected
            if row.row_id is not None
        )
        assert not old - rows, said
        new = rows - old
        assert Counter(row[:-2] for row in new.elements()) == Counter(r.key for r in expected if r.row_id is None), said
        assert all(row[-2] > high_water and row[-1] == version for row in new), said
        assert len({row[-2] for row in rows}) == len(expected), said
        return [Row(dict(zip(COLUMNS, row, strict=False)), *row[-2:]) for row in rows.elements()]

    def _require_log(self, operation: Delete | Update | Merge, expected: Outcome, version: int, said: str) -> None:
        """Counts in the history are true; files hold the changed rows, and copies only where there are no vectors."""
        (info,) = actions(self.path, version, "commitInfo")
        metrics = {key: int(value) for key, value in info["operationMetrics"].items()}
        if isinstance(operation, Merge):
            wanted = {
                "numSourceRows": len(operation.source),
                "numTargetRowsInserted": expected.inserted,
                "numTargetRowsUpdated": expected.updated,
                "numTargetRowsDeleted": expected.deleted,
            }
            copied = metrics["numTargetRowsCopied"]
        else:
            wanted = {f"num{'Deleted' if isinstance(operation, Delete) else 'Updated'}Rows": expected.affected}
            copied = metrics["numCopiedRows"]
        assert {key: metrics[key] for key in wanted} == wanted, said
        adds = [add for add in actions(self.path, version, "add") if "deletionVector" not in add]
        written = sum(json.loads(add["stats"])["numRecords"] for add in adds)
        assert written == expected.updated + expected.inserted + copied, said
        if self.kind.vectors:
            assert copied == 0, said
        else:
            assert not any("deletionVector" in add for add in actions(self.path, version, "add")), said
        if self.kind.tracking:
            assert info["tags"]["delta.rowTracking.preserved"] == "true"


def high_water_mark(path: str, version: int) -> int:
    """The highest row id that was ever given, up to a version."""
    domain = Snapshot.load(path, version).domain_metadata["delta.rowTracking"]
    return int(json.loads(domain.configuration)["rowIdHighWaterMark"])


# Files.


def numbers(spark: SparkSession, path: Path, partitioned: bool = False, **properties: str) -> str:
    """The numbers from 0 to 39 as `id`, ten to a file, in their order; `p` is 0 for the first half, else 1."""
    data = spark.range(0, 40, 1, 4).selectExpr("id", "id % 5 AS k", "concat('n', id) AS s", "id DIV 20 AS p")
    writer = data.write.format("delta").options(**properties)
    (writer.partitionBy("p") if partitioned else writer).save(str(path))
    return str(path)


def parquet_names(path: str) -> set[str]:
    return {file.relative_to(path).as_posix() for file in Path(path).rglob("*.parquet")}


def delete_one_of_ten(spark: SparkSession, path: str) -> None:
    DeltaTable.forPath(spark, path).delete("id % 40 = 15")


def update_one_of_ten(spark: SparkSession, path: str) -> None:
    DeltaTable.forPath(spark, path).update("concat('n', id) = 'n15'", {"k": "k + 1"})


def merge_one_of_ten(spark: SparkSession, path: str) -> None:
    source = spark.createDataFrame([(15, 7)], "id LONG, n LONG").alias("src")
    table = DeltaTable.forPath(spark, path).alias("tgt")
    table.merge(source, "tgt.id = src.id").whenMatchedUpdate(set={"k": "src.n"}).execute()


CHANGES_OF_ONE = pytest.mark.parametrize("change", [delete_one_of_ten, update_one_of_ten, merge_one_of_ten])


@CHANGES_OF_ONE
def test_copy_on_write_replaces_the_one_file_with_a_match(spark: SparkSession, tmp_path: Path, change: Any) -> None:
    path = numbers(spark, tmp_path / "t")
    touched = next(a["path"] for a in actions(path, 0, "add") if '"minValues":{"id":10' in a["stats"].replace(" ", ""))
    change(spark, path)
    assert [remove["path"] for remove in actions(path, 1, "remove")] == [touched]
    assert sum(json.loads(add["stats"])["numRecords"] for add in actions(path, 1, "add")) in (9, 10)


@CHANGES_OF_ONE
def test_with_vectors_only_updated_rows_are_written(spark: SparkSession, tmp_path: Path, change: Any) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=False, **{VECTORS: "true"})
    before = parquet_names(path)
    change(spark, path)
    (remove,) = actions(path, 1, "remove")
    marked = [add for add in actions(path, 1, "add") if "deletionVector" in add]
    assert [(add["path"], add["deletionVector"]["cardinality"]) for add in marked] == [(remove["path"], 1)]
    assert json.loads(marked[0]["stats"])["tightBounds"] is False
    written = [add for add in actions(path, 1, "add") if "deletionVector" not in add]
    assert sum(json.loads(add["stats"])["numRecords"] for add in written) == (change is not delete_one_of_ten)
    assert parquet_names(path) - before == {add["path"] for add in written}


def test_vectors_of_one_delete_share_a_file(spark: SparkSession, tmp_path: Path) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=False, **{VECTORS: "true"})
    DeltaTable.forPath(spark, path).delete("id % 10 = 3")
    adds = actions(path, 1, "add")
    assert [add["deletionVector"]["storageType"] for add in adds] == ["u"] * 4
    assert len({add["deletionVector"]["pathOrInlineDv"] for add in adds}) == 1
    assert len(list(Path(path).glob("deletion_vector_*.bin"))) == 1
    # Another one of the same files takes over the rows of the first.
    DeltaTable.forPath(spark, path).delete("id % 10 = 4")
    assert {add["deletionVector"]["cardinality"] for add in actions(path, 2, "add")} == {2}
    assert ids(spark, path) == [n for n in range(40) if n % 10 not in (3, 4)]


@pytest.mark.parametrize(
    ("condition", "gone"),
    [("p = 1", 20), ("p % 2 = 1", 20), ("id < 20", 20), ("p = 0 OR id >= 30", 30), ("s IS NOT NULL", 40), (None, 40)],
)
@WRITTEN_ALIKE
def test_what_the_log_decides_is_deleted_without_reading_data(
    spark: SparkSession, tmp_path: Path, vectors: str, condition: str | None, gone: int
) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=True, **{VECTORS: vectors, FEED: "true"})
    for name in parquet_names(path):
        (Path(path) / name).unlink()
    DeltaTable.forPath(spark, path).delete(condition)
    assert actions(path, 1, "add") == actions(path, 1, "cdc") == []
    assert len(actions(path, 1, "remove")) == gone // 10
    (info,) = actions(path, 1, "commitInfo")
    assert info["operationMetrics"]["numDeletedRows"] == str(gone)


def test_files_whose_every_row_goes_are_removed(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=False, **{VECTORS: vectors, FEED: "true"})
    before = parquet_names(path)
    DeltaTable.forPath(spark, path).delete("concat('n', id) = s AND id DIV 10 = 2")
    assert actions(path, 1, "add") == actions(path, 1, "cdc") == []
    assert len(actions(path, 1, "remove")) == 1
    assert parquet_names(path) == before
    assert not list(Path(path).glob("deletion_vector_*.bin"))
    assert changes(spark, path, 1, "id") == [("delete", n) for n in range(20, 30)]


def test_the_last_rows_of_a_file_take_it_and_its_vector_along(spark: SparkSession, tmp_path: Path) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=False, **{VECTORS: "true"})
    DeltaTable.forPath(spark, path).delete("id % 10 < 5")
    source = spark.range(0, 40).alias("src")
    table = DeltaTable.forPath(spark, path).alias("tgt")
    table.merge(source, "tgt.id = src.id").whenMatchedDelete("src.id < 20").execute()
    assert actions(path, 2, "add") == []
    assert [remove["deletionVector"]["cardinality"] for remove in actions(path, 2, "remove")] == [5, 5]
    assert ids(spark, path) == [*range(25, 30), *range(35, 40)]


def test_nothing_to_do_makes_no_commit_and_leaves_no_files(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=False, **{VECTORS: vectors, FEED: "true"})
    before = sorted(Path(path).rglob("*"))
    table = DeltaTable.forPath(spark, path).alias("tgt")
    table.delete("id > 100")
    table.delete("id % 10 = 11")
    table.delete("k + NULL > 1")
    table.update("s = 'x'", {"k": "1"})
    source = spark.range(38, 42).alias("src")
    merge = table.merge(source, "tgt.id = src.id")
    merges = [
        merge.whenMatchedDelete("src.id > 100"),
        merge.whenMatchedUpdate("NULL", {"k": "1"}).whenNotMatchedInsert("src.id > 100", {"id": "src.id"}),
        merge.whenNotMatchedBySourceDelete("tgt.id > 50"),
    ]
    for nothing in merges:
        assert tuple(first_row(nothing.execute())) == (0, 0, 0, 0)
    empty = spark.range(0).selectExpr("id", "0L AS k", "'' AS s", "0L AS p").alias("src")
    none = table.merge(empty, "tgt.id = src.id").whenMatchedDelete().whenNotMatchedInsertAll()
    assert tuple(first_row(none.execute())) == (0, 0, 0, 0)
    assert sorted(Path(path).rglob("*")) == before


# Several source rows for one target row.


def doubled(spark: SparkSession) -> Any:
    """A source that has 3 twice, once with `n` above 5."""
    return spark.createDataFrame([(3, 1), (3, 9), (50, 2)], "id LONG, n LONG").alias("src")


def test_two_source_rows_may_mean_one_row_that_one_of_them_modifies(
    spark: SparkSession, tmp_path: Path, vectors: str
) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=False, **{VECTORS: vectors})
    merge = DeltaTable.forPath(spark, path).alias("tgt").merge(doubled(spark), "tgt.id = src.id")
    counts = merge.whenMatchedUpdate("src.n > 5", {"k": "src.n"}).execute()
    assert tuple(first_row(counts)) == (1, 1, 0, 0)
    assert first_row(read(spark, path).where("id = 3"))["k"] == 9
    # Rows that match are not inserted, and are not without a source row, whatever the number of their pairs.
    counts = merge.whenNotMatchedInsert(values={"id": "src.id"}).whenNotMatchedBySourceDelete("tgt.id < 6").execute()
    assert tuple(first_row(counts)) == (6, 0, 5, 1)
    assert ids(spark, path) == [3, *range(6, 40), 50]
    counts = merge.whenMatchedDelete().execute()
    assert tuple(first_row(counts)) == (2, 0, 2, 0)
    assert ids(spark, path) == list(range(6, 40))


# A source that is different each time.


@WRITTEN_ALIKE
def test_a_source_of_chance_is_read_once(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=False, **{VECTORS: vectors, FEED: "true"})
    source = spark.range(0, 40, 1, 3).selectExpr(
        "id * 2 + CAST(rand() * 2 AS LONG) AS id", "CAST(rand() * 10 AS LONG) AS k", "uuid() AS s", "0L AS p"
    )
    table = DeltaTable.forPath(spark, path).alias("tgt")
    merge = table.merge(source.alias("src"), "tgt.id = src.id").whenMatchedDelete("src.k < 5")
    merge = merge.whenMatchedUpdateAll().whenNotMatchedInsert(
        "src.k >= 5", {"id": "src.id", "k": "src.k", "s": "src.s"}
    )
    _, updated, deleted, inserted = first_row(merge.execute())
    now = {row["id"]: row for row in read(spark, path).collect()}
    assert updated + deleted == 20
    assert len(now) == 40 - deleted + inserted
    written = [row for row in now.values() if not row["s"].startswith("n")]
    assert len(written) == updated + inserted
    assert all(row["k"] >= 5 for row in written)
    # The feed tells of the same values as the table.
    recorded = changes(spark, path, 1, "id", "k", "s")
    new = {row[1]: row[2:] for row in recorded if row[0] in ("insert", "update_postimage")}
    assert new == {row["id"]: (row["k"], row["s"]) for row in written}


def test_what_a_python_function_gives_is_asked_for_once(spark: SparkSession, tmp_path: Path) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=False, **{FEED: "true"})
    calls = tmp_path / "calls"
    calls.touch()
    log = str(calls)

    def noted(number: int) -> int:
        with open(log, "a") as file:  # noqa: PTH123  (the function travels to the executors)
            file.write(f"{number}\n")
        return number % 5 + 100

    source = spark.range(30, 50, 1, 2).withColumn("k", F.udf(noted, "long", useArrow=False)("id")).alias("src")
    table = DeltaTable.forPath(spark, path).alias("tgt")
    merge = table.merge(source, "tgt.id = src.id").whenMatchedUpdate("src.k <> 101", {"k": "src.k"})
    counts = merge.whenNotMatchedInsert(values={"id": "src.id", "k": "src.k"}).execute()
    assert tuple(first_row(counts)) == (18, 8, 0, 10)
    assert sorted(map(int, calls.read_text().split())) == list(range(30, 50))


@WRITTEN_ALIKE
def test_a_table_is_merged_with_itself(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    path = numbers(spark, tmp_path / "t", partitioned=False, **{VECTORS: vectors})
    table = DeltaTable.forPath(spark, path).alias("tgt")
    source = table.toDF().selectExpr("id + 30 AS id", "k", "monotonically_increasing_id() AS n").alias("src")
    merge = table.merge(source, "tgt.id = src.id").whenMatchedDelete("tgt.id % 2 = 0")
    counts = merge.whenNotMatchedInsert("src.id < 45", {"id": "src.id", "k": "src.n"}).execute()
    assert tuple(first_row(counts)) == (10, 0, 5, 5)
    assert ids(spark, path) == [*range(30), *range(31, 40, 2), *range(40, 45)]
