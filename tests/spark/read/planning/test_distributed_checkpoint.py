"""Checkpoints that Spark reads say what they say on the driver; the same in classic and in Connect sessions."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable
from slackwater.errors import CheckpointFallbackWarning, CorruptCheckpoint, CorruptLog, InvalidArgument
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.predicate.predicate import And, Comparison, In, Not
from slackwater.protocol.actions.file_names import checkpoint_name
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.planning.bucketed_planning import (
    _partition_values,
    log_size_bytes,
    plan_distributed,
    should_distribute,
)
from tests.log.tables import (
    CHECKPOINT_SCHEMA,
    DEFAULT,
    Action,
    TableLog,
    add,
    checkpoint_metadata,
    commit_info,
    metadata,
    parquet,
    protocol,
    remove,
)

pytestmark = pytest.mark.spark

SPELLINGS = (
    ("a.parquet", "./a.parquet"),
    ("a%20b.parquet", "a b.parquet", "%61%20b.parquet"),
    ("p=%C3%BC/g+1.parquet", "p=ü/g+1.parquet", "p=%c3%bc/g%2B1.parquet"),
    ("/abs/h%20i.parquet", "/abs/h i.parquet", "file:/abs/h%20i.parquet", "file:///abs/h%20i.parquet"),
    ("s3://bucket/k%20l.parquet", "s3://bucket/k l.parquet"),
    ("50%.parquet", "50%25.parquet"),
)
CHECKPOINTS = ("classic", "multipart", "json", "sidecars-json", "sidecars-parquet")
KEYED = ["path", "deletionVector"]


def rows(table: pa.Table) -> list[str]:
    """The rows of a table, comparable: in one order, maps as objects."""
    assert table.column_names
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist(maps_as_pydicts="strict"))


def assert_same(spark: SparkSession, log: TableLog, version: int | None = None) -> Snapshot:
    """The files as Spark finds them are those of the driver, row by row and column by column."""
    snapshot = Snapshot.load(log.path, version)
    planned = plan_distributed(spark, snapshot, bucket_files=2)
    assert planned.schema == ADD_SCHEMA
    assert rows(planned) == rows(snapshot.files())
    return snapshot


@pytest.fixture
def log(tmp_path: Path) -> TableLog:
    return TableLog(str(tmp_path / "ta ble[1]%20"))


def checkpoint(log: TableLog, version: int, kind: str, *files: Action) -> None:
    half = len(files) // 2
    if kind == "classic":
        log.classic(version, *DEFAULT, *files, row_group_size=2)
    elif kind == "multipart":
        log.multipart(version, [*files[:half], *DEFAULT[:1]], [*DEFAULT[1:], *files[half:]])
    elif kind == "json":
        log.v2(version, "json", checkpoint_metadata(version), *DEFAULT, *files)
    else:
        sidecars = [log.sidecar(*files[:half]), log.sidecar(*files[half:])]
        log.v2(version, kind.removeprefix("sidecars-"), checkpoint_metadata(version), *DEFAULT, *sidecars)


FULL = add(
    "full",
    "x",
    partitionValues={"p": "a", "q": None},
    stats='{"numRecords":3,"minValues":{"id":1}}',
    tags={"k": "v"},
    baseRowId=7,
    defaultRowCommitVersion=2,
    clusteringProvider="liquid",
)


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_a_checkpoint_and_later_commits_are_reconciled(spark: SparkSession, log: TableLog, kind: str) -> None:
    log.create(add("never mind"))
    files = [add("kept"), add("gone%20soon"), add("b"), FULL, add("c", "x"), remove("old"), add("restated", size=1)]
    checkpoint(log, 0, kind, *files)
    log.commit(1, commit_info(), remove("gone soon"), add("d"), remove("b"), add("b", "y"))
    log.commit(2, remove("c", "x"), add("c", "z"), add("restated", size=2), remove("d"), add("d", "x"))
    log.commit(3, remove("c"), add("old", tags={}))
    snapshot = assert_same(spark, log)
    found = plan_distributed(spark, snapshot, columns=KEYED).to_pylist()
    assert {(row["path"], (row["deletionVector"] or {}).get("pathOrInlineDv")) for row in found} == {
        ("kept", None),
        ("full", "x"),
        ("b", "y"),
        ("c", "z"),
        ("restated", None),
        ("d", "x"),
        ("old", None),
    }


@pytest.mark.parametrize("kind", ["multipart", "json"])
def test_a_checkpoint_without_later_commits_is_all_there_is(spark: SparkSession, log: TableLog, kind: str) -> None:
    log.create(add("a"))
    checkpoint(log, 0, kind, add("a"), remove("b"), FULL)
    assert_same(spark, log)


@pytest.mark.parametrize("kind", ["classic", "sidecars-json"])
def test_a_checkpoint_without_files_is_an_empty_table(spark: SparkSession, log: TableLog, kind: str) -> None:
    log.create()
    checkpoint(log, 0, kind)
    assert assert_same(spark, log).files().num_rows == 0


def test_commits_alone_are_reconciled(spark: SparkSession, log: TableLog) -> None:
    log.create(FULL, add("a")).grow(12)
    log.commit(13, remove("f3"), remove("full", "x"), add("full", "y"))
    log.commit(14, add("f3", size=3), remove("f10"))
    assert_same(spark, log)
    assert_same(spark, log, version=5)


def test_a_compacted_file_stands_for_its_commits(spark: SparkSession, log: TableLog) -> None:
    log.create(add("a"), add("b"))
    for version in (1, 2, 3):
        log.commit(version, add("not read"))
    log.compaction(1, 3, remove("a"), add("c"), remove("d"))
    log.commit(4, add("d"), remove("c"))
    snapshot = assert_same(spark, log)
    assert any(commit.compacted for commit in snapshot.segment.commits)
    assert sorted(snapshot.live_files(["path"])["path"].to_pylist()) == ["b", "d"]


def test_the_last_line_of_a_commit_wins(spark: SparkSession, log: TableLog) -> None:
    log.create(add("a"))
    log.commit(1, remove("a"), add("a", size=2))
    log.commit(2, add("b"), remove("b"))
    snapshot = assert_same(spark, log)
    assert snapshot.live_files(["path", "size"]).to_pylist() == [{"path": "a", "size": 2}]


def test_odd_but_legal_json_is_read_alike(spark: SparkSession, log: TableLog) -> None:
    log.create()
    log.put(
        "00000000000000000001.json",
        b'\n{"add":{"path":"a","size":1e2,"modificationTime":5.0,"future":[1]},"later":1}\r\n  \r\n'
        b'{"add":null,"remove":null,"txn":{"appId":"x","version":1}}\n{}\n{"future":{"add":{"path":"z"}}}\n'
        b'{"remove":{"path":"b"},"add":{"path":"\\u00fc\\n","partitionValues":{"p":null,"q":""},"tags":null}}',
    )
    log.put("00000000000000000002.json", b"{}")
    assert assert_same(spark, log).live_files().num_rows == 2


@pytest.mark.parametrize("checkpointed", [False, True])
def test_all_spellings_of_a_path_are_one_file(spark: SparkSession, log: TableLog, checkpointed: bool) -> None:
    log.create(*(add(spellings[0]) for spellings in SPELLINGS), add("other"))
    if checkpointed:
        checkpoint(log, 0, "classic", *(add(spellings[0]) for spellings in SPELLINGS), add("other"))
    log.commit(1, *(remove(spellings[-1]) for spellings in SPELLINGS))
    assert assert_same(spark, log).live_files(["path"])["path"].to_pylist() == ["other"]


def test_vectors_differ_by_storage_path_and_offset(spark: SparkSession, log: TableLog) -> None:
    def placed(storage: str, offset: int | None) -> dict[str, Any]:
        return {"storageType": storage, "pathOrInlineDv": "p", "offset": offset, "sizeInBytes": 1, "cardinality": 1}

    files = [add("a", deletionVector=placed(s, o)) for s, o in (("u", 1), ("u", 2), ("i", None), ("p", 1))]
    log.create(*files)
    checkpoint(log, 0, "classic", *files)
    log.commit(1, remove("a", deletionVector=placed("i", None)), remove("a", deletionVector=placed("u", 2)))
    assert assert_same(spark, log).live_files().num_rows == 2


@pytest.mark.parametrize("seed", range(4))
def test_random_logs_are_read_alike(spark: SparkSession, log: TableLog, seed: int) -> None:
    numbers = random.Random(seed)  # noqa: S311
    state: dict[tuple[int, str | None], Action] = {}
    kind, at, last = numbers.choice(CHECKPOINTS), numbers.randrange(1, 8), 10
    for version in range(last + 1):
        actions = []
        for key in {(numbers.randrange(len(SPELLINGS)), numbers.choice([None, "x", "y"])) for _ in range(4)}:
            make = numbers.choice([add, add, remove])
            state[key] = make(numbers.choice(SPELLINGS[key[0]]), key[1], size=numbers.randrange(100))
            actions.append(state[key])
        log.commit(version, *(DEFAULT if version == 0 else ()), *actions)
        if version == at:
            checkpoint(log, version, kind, *state.values())
    snapshot = assert_same(spark, log)
    expected = [(n["path"], n["size"]) for a in state.values() if (n := a.get("add"))]
    found = snapshot.live_files(["path", "size"]).to_pylist()
    assert sorted((row["path"], row["size"]) for row in found) == sorted(expected)


def _narrow(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct([(f.name, _narrow(f.type)) for f in data_type if f.name not in ("cardinality", "tags")])
    return {pa.int64(): pa.int32(), pa.int32(): pa.int64()}.get(data_type, data_type)


def test_checkpoint_files_with_other_widths_and_fewer_fields_are_read(spark: SparkSession, log: TableLog) -> None:
    log.create(add("a"))
    odd = pa.schema([pa.field("add", _narrow(CHECKPOINT_SCHEMA.field("add").type))])
    sidecars = []
    for number, schema in enumerate((odd, pa.schema([CHECKPOINT_SCHEMA.field("add")]))):
        log.put(f"_sidecars/{number}.parquet", parquet([add(f"f{number}", "x"), add(f"g{number}")], schema))
        sidecars.append({"sidecar": {"path": f"{number}.parquet", "sizeInBytes": 1, "modificationTime": 1}})
    log.v2(0, "json", checkpoint_metadata(0), *DEFAULT, *sidecars)
    log.commit(1, remove("f0", "x"), add("h"))
    assert assert_same(spark, log).live_files().num_rows == 4


# Files of a table with two partition columns, pruned by both and by statistics.


SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": data_type, "nullable": True, "metadata": {}}
            for name, data_type in (("id", "long"), ("at", "timestamp"), ("p", "string"), ("n", "integer"))
        ],
    }
)
TABLE = (protocol(), metadata(schemaString=SCHEMA, partitionColumns=["p", "n"]))
TEXTS = ("a", "b", "", None, "ü", "a ")


def a_file(number: int, with_stats: bool = True) -> Action:
    stats = {
        "numRecords": 10,
        "minValues": {"id": number * 10, "at": f"2024-01-{number % 28 + 1:02d}T00:00:00.000Z"},
        "maxValues": {"id": number * 10 + 9, "at": f"2024-01-{number % 28 + 1:02d}T10:00:00.000Z"},
        "nullCount": {"id": 0, "at": number % 3},
    }
    values = {"p": TEXTS[number % len(TEXTS)], "n": str(number % 4)}
    if number % 7 == 0:
        del values["p"]
    return add(f"f{number}", partitionValues=values, **({"stats": json.dumps(stats)} if with_stats else {}))


PREDICATES = (
    None,
    "p = 'a'",
    "p = 'a' AND n = 2",
    "p IN ('b', 'ü') AND id < 200",
    "'' = p",
    "p <=> 'a' OR id = 55",
    "NOT (p = 'a') AND n IN (1, 3)",
    "p IS NULL AND at < TIMESTAMP '2024-01-09 00:00:00'",
    "at IS NULL",
    "id BETWEEN 33 AND 71",
    "n = 99",
)


def a_table(log: TableLog, kind: str) -> Snapshot:
    files = [a_file(number, number % 5 != 4) for number in range(30)]
    log.commit(0, *TABLE, *files)
    if kind == "classic":
        log.classic(0, *TABLE, *files)
    elif kind == "json":
        log.v2(0, "json", checkpoint_metadata(0), *TABLE, *files)
    elif kind == "sidecars":
        sidecars = [log.sidecar(*files[:3]), log.sidecar(*files[3:4]), log.sidecar(*files[4:])]
        log.v2(0, "parquet", checkpoint_metadata(0), *TABLE, *sidecars)
    log.commit(1, remove("f3"), remove("f12"), a_file(30), a_file(31) | {}, a_file(12))
    log.commit(2, remove("f5"), add("f5", "x", partitionValues={"p": "a", "n": "1"}))
    return Snapshot.load(log.path)


@pytest.mark.parametrize("kind", ["classic", "sidecars", "json", "none"])
def test_distributed_planning_finds_the_files_that_planning_on_the_driver_finds(
    spark: SparkSession, log: TableLog, kind: str
) -> None:
    snapshot = a_table(log, kind)
    sizes = {}
    for predicate in PREDICATES if kind == "classic" else PREDICATES[:4]:
        found = plan_distributed(spark, snapshot, predicate, ["path", "partitionValues", "size"], bucket_files=12)
        expected = snapshot.files(predicate, ["path", "partitionValues", "size"])
        assert rows(found) == rows(expected), predicate
        sizes[predicate] = found.num_rows
    assert sizes[None] == 31
    assert 0 < sizes["p = 'a' AND n = 2"] < sizes["p = 'a'"] < 31


def test_the_size_of_buckets_does_not_change_the_plan(spark: SparkSession, log: TableLog) -> None:
    snapshot = a_table(log, "sidecars")
    expected = rows(snapshot.files("id < 100", KEYED))
    assert [rows(plan_distributed(spark, snapshot, "id < 100", KEYED, bucket_files=n)) for n in (1, 3, 500_000)] == [
        expected
    ] * 3


def test_statistics_that_a_checkpoint_holds_only_as_columns_prune_too(spark: SparkSession, log: TableLog) -> None:
    log.commit(0, *TABLE)
    parsed = pa.struct(
        [
            ("numRecords", pa.int64()),
            *(
                (group, pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
                for group in ("minValues", "maxValues")
            ),
            ("nullCount", pa.struct([("id", pa.int64()), ("at", pa.int64())])),
        ]
    )
    add_type = pa.struct([*CHECKPOINT_SCHEMA.field("add").type, ("stats_parsed", parsed)])
    schema = CHECKPOINT_SCHEMA.set(CHECKPOINT_SCHEMA.get_field_index("add"), pa.field("add", add_type))
    files = []
    for number in range(20):
        bounds = {"id": number * 10, "at": (1_704_067_200 + number * 86_400) * 1_000_000}
        stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0, "at": 0}}
        files.append(add(f"f{number}", stats_parsed=stats))
    log.put(checkpoint_name(0), parquet([*TABLE, *files], schema))
    log.commit(1, a_file(21), remove("f2"))
    snapshot = Snapshot.load(log.path)
    for predicate in ("id = 30 OR id > 180", "at <= TIMESTAMP '2024-01-02 00:00:00'", "id IS NULL"):
        found = plan_distributed(spark, snapshot, predicate, ["path"], bucket_files=4)
        assert rows(found) == rows(snapshot.files(predicate, ["path"])), predicate
        assert found.num_rows < 6


def test_only_equality_of_plain_text_is_asked_of_spark(log: TableLog) -> None:
    snapshot = a_table(log, "none")
    a, b = Comparison(("p",), "=", "a"), In(("p",), ("a", "b"), has_null=True)
    assert _partition_values(snapshot, And((And((a,)), b))) == {"p": frozenset({b"a"})}
    assert _partition_values(snapshot, Comparison(("p",), "<=>", "ü")) == {"p": frozenset({"ü".encode()})}
    for other in (Not(a), Comparison(("p",), "<", "a"), Comparison(("n",), "=", 1), Comparison(("p",), "=", 1), None):
        assert _partition_values(snapshot, other) == {}


def test_a_wrong_argument_is_named(spark: SparkSession, log: TableLog) -> None:
    snapshot = a_table(log, "none")
    with pytest.raises(InvalidArgument, match="at least 1, found 0"):
        plan_distributed(spark, snapshot, bucket_files=0)
    with pytest.raises(InvalidArgument, match="nothing"):
        plan_distributed(spark, snapshot, columns=["path", "nothing"])
    with pytest.raises(InvalidArgument, match="no column"):
        plan_distributed(spark, snapshot, "nothing = 1")


def test_a_checkpoint_with_a_damaged_footer_gives_way_to_an_older_one(spark: SparkSession, log: TableLog) -> None:
    log.create(add("a")).grow(3)
    checkpoint(log, 2, "multipart", add("a"), add("f1"), add("f2"))
    snapshot = Snapshot.load(log.path)
    part = next(Path(log.path).glob("_delta_log/*.checkpoint.0000000001.*.parquet"))
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.warns(CheckpointFallbackWarning, match="is not a readable Parquet file"):
        found = plan_distributed(spark, snapshot)
    assert sorted(found["path"].to_pylist()) == ["a", "f1", "f2", "f3"]


def test_a_damaged_checkpoint_that_nothing_replaces_is_an_error(spark: SparkSession, log: TableLog) -> None:
    log.create(add("a")).grow(1)
    checkpoint(log, 0, "classic", add("a"))
    snapshot = Snapshot.load(log.path)
    log.delete_commits(0)
    next(Path(log.path).glob("_delta_log/*.checkpoint.parquet")).unlink()
    with pytest.raises(CorruptCheckpoint, match="is missing"):
        plan_distributed(spark, snapshot)


def test_the_choice_goes_by_option_or_by_size(log: TableLog) -> None:
    log.create(add("a")).grow(2)
    checkpoint(log, 1, "sidecars-json", *(add(f"{'long' * 50}{n}") for n in range(50)))
    log.sidecar(*(add(f"of another checkpoint {n}") for n in range(100)))
    snapshot = Snapshot.load(log.path)
    of_segment = [*snapshot.segment.checkpoint.paths, *(c.path for c in snapshot.segment.commits)]  # type: ignore[union-attr]
    used = [action["sidecar"]["path"] for action in _lines(log, of_segment[0]) if "sidecar" in action]
    names = [*of_segment, *(f"_delta_log/_sidecars/{name}" for name in used)]
    size_bytes = sum((Path(log.path) / name).stat().st_size for name in names)
    assert log_size_bytes(snapshot) == size_bytes
    assert not should_distribute(snapshot)
    assert [should_distribute(snapshot, option) for option in ("driver", "spark", "auto", "Spark")] == [
        False,
        True,
        False,
        True,
    ]
    assert should_distribute(snapshot, None, size_bytes - 1)
    assert not should_distribute(snapshot, None, size_bytes)
    with pytest.raises(InvalidArgument, match="replay must be driver, spark or auto"):
        should_distribute(snapshot, "cluster")


def _lines(log: TableLog, path: str) -> list[Action]:
    return [json.loads(line) for line in log.store.read(path).splitlines()]


def test_a_checksum_counts_all_files_and_not_those_of_a_part(spark: SparkSession, path: str) -> None:
    slackwater.enable(spark)
    for first in (0, 2, 4):
        spark.range(first, first + 2, 1, 2).write.format("delta").mode("append").save(path)
        if first == 2:
            DeltaTable.forPath(spark, path).checkpoint()
    version = Snapshot.load(path).version
    assert (Path(path) / "_delta_log" / f"{version:020}.crc").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error", CheckpointFallbackWarning)
        planned = plan_distributed(spark, Snapshot.load(path), bucket_files=1)
        few = plan_distributed(spark, Snapshot.load(path), "id >= 3", bucket_files=1)
    assert rows(planned) == rows(Snapshot.load(path).files())
    assert rows(few) == rows(Snapshot.load(path).files("id >= 3"))
    found = spark.read.format("delta").option("replay", "spark").load(path).collect()
    assert sorted(row.id for row in found) == list(range(6))


def test_a_commit_that_lost_its_end_is_found_by_the_checksum_there_too(spark: SparkSession, path: str) -> None:
    slackwater.enable(spark)
    spark.range(0, 4, 1, 2).write.format("delta").save(path)
    commit = Path(path) / "_delta_log" / f"{0:020}.json"
    commit.write_text("".join(line for line in commit.read_text().splitlines(True)[:-1]))
    with pytest.raises(CorruptLog, match="contradicts the log"):
        plan_distributed(spark, Snapshot.load(path))
