"""Reading tables through Spark; runs in a classic or a Connect session."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater import errors
from slackwater.log.table import Table
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.file_relations import KeptRelations
from slackwater.spark.read.load import load
from slackwater.spark.read.table_scan import TableScan
from tests.spark.tables import TABLES, write_table
from tests.spark.written import first_row

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_a_table_reads_as_its_rows_in_the_schemas_column_order(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"part": [1, 1], "id": [1, 2]}, {"part": [2], "id": [3]}], partition_by="part")
    frame = load(spark, path)
    assert frame.columns == ["part", "id"]
    assert rows(frame) == [(1, 1), (1, 2), (2, 3)]


def test_format_delta_works_after_enable_and_options_count_before_and_after_format(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}, {"id": [2]}], commits=True)
    slackwater.enable(spark)
    slackwater.enable(spark)
    assert rows(spark.read.format("delta").load(path)) == [(1,), (2,)]
    assert rows(spark.read.option("versionAsOf", 0).format("delta").load(path)) == [(1,)]
    assert rows(spark.read.format("DELTA").option("versionasof", "0").load(path)) == [(1,)]
    assert rows(spark.read.load(path, format="delta", versionAsOf=0)) == [(1,)]
    assert rows(spark.read.format("delta").options(versionAsOf=0, path=path).load()) == [(1,)]


def test_other_formats_read_as_before_after_enable(spark: SparkSession, tmp_path: Path) -> None:
    slackwater.enable(spark)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    assert rows(spark.read.format("parquet").load(str(tmp_path / "a.parquet"))) == [(1,)]
    assert rows(spark.read.parquet(str(tmp_path / "a.parquet"))) == [(1,)]


def test_a_version_can_stand_behind_the_path(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}, {"id": [2]}], commits=True)
    assert rows(load(spark, f"{path}@v0")) == [(1,)]
    at = dt.datetime.fromtimestamp(commit_time(path, 0), dt.timezone.utc)
    stamp = at.strftime("%Y%m%d%H%M%S") + f"{at.microsecond // 1000 + 1:03d}"
    assert rows(load(spark, f"{path}@{stamp}")) == [(1,)]


def test_a_table_whose_name_ends_in_a_version_goes_before_the_version_of_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_table(tmp_path / "t", [{"id": [1]}])
    literal = write_table(tmp_path / "t@v0", [{"id": [7]}])
    assert rows(load(spark, literal)) == [(7,)]


def commit_time(path: str, version: int) -> float:
    """The commit file's time, set to whole seconds apart so that versions have times of their own."""
    log = Path(path) / "_delta_log"
    for number, file in enumerate(sorted(log.glob("*.json"))):
        import os

        os.utime(file, (1_700_000_000 + number * 60, 1_700_000_000 + number * 60))
    return 1_700_000_000 + version * 60


def test_timestamp_as_of_takes_the_sessions_zone_and_ends_with_the_last_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}, {"id": [2]}], commits=True)
    commit_time(path, 0)
    assert rows(load(spark, path, {"timestampAsOf": "2023-11-14 22:13:20"})) == [(1,)]
    assert rows(load(spark, path, {"timestampAsOf": "2023-11-14T22:14:20Z"})) == [(1,), (2,)]
    late: dict[str, Any] = {"timestampAsOf": "2030-01-01"}
    for unsure in ({}, {"strict": "true"}, {"allowAfterLastCommit": "false"}):
        with pytest.raises(errors.TimestampOutOfRange, match="after the last commit"):
            load(spark, path, late | unsure)
    for sure in ({"strict": "false"}, {"allowAfterLastCommit": "true"}, {"ALLOWAFTERLASTCOMMIT": True}):
        assert rows(load(spark, path, late | sure)) == [(1,), (2,)]
    with pytest.raises(errors.TimestampOutOfRange, match="after the last commit"):
        load(spark, f"{path}@20300101000000000")
    with pytest.raises(errors.InvalidArgument, match="strict"):
        load(spark, path, late | {"strict": "true", "allowAfterLastCommit": "true"})
    with pytest.raises(errors.TimestampOutOfRange, match="no version is as old"):
        load(spark, path, {"timestampAsOf": "2020-01-01"})


def test_deleted_rows_do_not_come_back(spark: SparkSession) -> None:
    assert rows(load(spark, str(TABLES / "table-with-dv-small"))) == [(i,) for i in range(1, 9)]


def test_a_broken_deletion_vector_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(TABLES / "table-with-dv-small", path)
    vector = next(path.glob("*deletion_vector*.bin"))
    data = bytearray(vector.read_bytes())
    data[-5] ^= 1
    vector.write_bytes(bytes(data))
    with pytest.raises(errors.CorruptDeletionVector, match=r"deletion_vector.*CRC"):
        load(spark, str(path)).collect()
    vector.unlink()
    with pytest.raises(errors.DataFileNotFound, match="deletion vector file"):
        load(spark, str(path)).collect()


def test_a_data_file_that_is_gone_is_named_with_the_version(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}, {"id": [2]}])
    next(Path(path).glob("*.parquet")).unlink()
    with pytest.raises(errors.DataFileNotFound, match=r"version 0.*does not exist"):
        load(spark, path).collect()


def test_row_tracking_columns_survive_a_rewrite(spark: SparkSession) -> None:
    frame = load(spark, str(TABLES / "row-tracking"), {"rowTracking": "true"})
    found = {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in frame.collect()}
    # A merge rewrote the file: five rows keep their ids, one of them changed in version 2, and one is new.
    assert sorted(row_id for row_id, _ in found.values())[:5] == [0, 1, 2, 3, 4]
    assert len({row_id for row_id, _ in found.values()}) == 6
    assert sorted(version for _, version in found.values()) == [1, 1, 1, 1, 2, 2]
    assert found[6][1] == 2


def test_row_ids_are_refused_where_they_are_not_tracked(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    with pytest.raises(errors.InvalidArgument, match="enableRowTracking"):
        load(spark, path, {"rowTracking": "true"})


def test_columns_are_found_by_field_id(spark: SparkSession) -> None:
    frame = (
        load(spark, str(TABLES / "ntz-id-mode" / "golden_data"))
        if (TABLES / "ntz-id-mode" / "golden_data").exists()
        else load(spark, str(TABLES / "ntz-id-mode" / "delta"))
    )
    assert frame.columns == ["id", "tsNtz", "tsNtzPartition"]
    assert dict(frame.dtypes)["tsNtzPartition"] == "timestamp_ntz"
    assert frame.count() == 9
    assert frame.where("tsNtz is not null").count() > 0


def test_void_columns_read_as_null(spark: SparkSession) -> None:
    frame = load(spark, str(TABLES / "void-column"))
    assert dict(frame.dtypes)["void_col"] == "void"
    assert frame.where("void_col is null").count() == 3


def test_a_widening_that_spark_cannot_read_is_read_by_arrow(spark: SparkSession) -> None:
    root = TABLES / "type-widening"
    path = root / "delta" if (root / "delta").exists() else root
    columns = ["byte_decimal", "short_decimal", "int_decimal"]
    found = [tuple(map(str, row)) for row in load(spark, str(path)).select(*columns).collect()]
    expected = [tuple(map(str, row.values())) for row in Snapshot.load(path).to_arrow(columns).to_pylist()]
    assert sorted(found) == sorted(expected)
    with pytest.raises(errors.UnsupportedFeature, match="byte_decimal was widened from byte to decimal"):
        load(spark, str(path), {"rows": "spark"}).collect()


def test_columns_that_old_files_lack_are_null(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}, {"id": [2], "late": ["x"]}])
    assert sorted((r[0], r[1] or "") for r in load(spark, path).collect()) == [(1, ""), (2, "x")]


def test_partition_values_come_from_the_log_and_not_from_directories(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(
        tmp_path / "t",
        [{"id": [1]}, {"id": [2]}, {"id": [3]}],
        directories=["part=lie", "elsewhere", ""],
        values=[{"part": "a/b=ü %"}, {"part": None}, {"part": ""}],
        extra_columns=[("part", "string")],
    )
    assert {row["id"]: row["part"] for row in load(spark, path).collect()} == {1: "a/b=ü %", 2: None, 3: None}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("timestamp", "2024-01-02 03:04:05", dt.datetime(2024, 1, 2, 3, 4, 5)),
        ("timestamp", "2024-01-02T03:04:05.123456Z", dt.datetime(2024, 1, 2, 3, 4, 5, 123456)),
        ("timestamp_ntz", "2024-01-02 03:04:05.5", dt.datetime(2024, 1, 2, 3, 4, 5, 500000)),
        ("date", "2024-01-02", dt.date(2024, 1, 2)),
        ("boolean", "true", True),
        ("double", "-1.5E10", -1.5e10),
        ("decimal(10,2)", "-12.30", __import__("decimal").Decimal("-12.30")),
        ("binary", "abc", b"abc"),
        ("byte", "-128", -128),
    ],
)
@pytest.mark.parametrize("varying", [False, True])
def test_partition_values_of_every_type(
    spark: SparkSession, tmp_path: Path, kind: str, text: str, expected: Any, varying: bool
) -> None:
    files = [{"id": [1]}, {"id": [2]}] if varying else [{"id": [1]}]
    both: list[dict[str, str | None]] = [{"part": text}, {"part": None}]
    values = both[: len(files)]
    path = write_table(tmp_path / "t", files, values=values, extra_columns=[("part", kind)])
    frame = load(spark, path).where("id = 1")
    if kind == "timestamp":
        frame = frame.select(F.date_format("part", "yyyy-MM-dd HH:mm:ss.SSSSSS").alias("part"))
        expected = expected.strftime("%Y-%m-%d %H:%M:%S.%f")
    value = first_row(frame.select("part"))[0]
    assert (bytes(value) if isinstance(value, bytearray) else value) == expected


def test_awkward_file_names_read(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a b", "100%", "x[1]*", "{y}", "ünï", "q?z", "plus+and&", "semi;colon,"]
    path = write_table(
        tmp_path / "my table %20",
        [{"id": [i]} for i in range(len(names))],
        names=[f"{n}.parquet" for n in names],
        values=[{"part": str(i % 2)} for i in range(len(names))],
        extra_columns=[("part", "integer")],
    )
    assert rows(load(spark, path)) == [(i, i % 2) for i in range(len(names))]
    assert rows(load(spark, path).where("part = 1")) == [(i, 1) for i in range(1, len(names), 2)]


def test_paths_that_leave_the_table_are_read_unless_the_reader_excludes_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [9]}), tmp_path / "outside.parquet")
    path = write_table(tmp_path / "t", [{"id": [1]}], actions=[(tmp_path / "outside.parquet").as_uri()])
    with pytest.raises(errors.PathNotAllowed, match="allowPathsOutsideRoot"):
        load(spark, path, {"allowPathsOutsideRoot": "false"}).collect()
    assert rows(load(spark, path)) == [(1,), (9,)]
    never = {"../outside.parquet": r"\.\.", "http://127.0.0.1:1/f.parquet": "never followed", "gopher://h/f": "never"}
    for number, (named, told) in enumerate(never.items()):
        refused = write_table(tmp_path / f"u{number}", [{"id": [1]}], actions=[named])
        with pytest.raises(errors.PathNotAllowed, match=told):
            load(spark, refused, {"allowPathsOutsideRoot": "true"}).collect()


def test_an_empty_table_has_columns_and_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [], extra_columns=[("id", "long")])
    frame = load(spark, path)
    assert frame.columns == ["id"]
    assert frame.count() == 0


def test_a_schema_given_to_the_reader_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    slackwater.enable(spark)
    with pytest.raises(errors.InvalidArgument, match="its own schema"):
        spark.read.format("delta").schema("id long").load(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"versionAsOf": "x"}, "versionAsOf"),
        ({"versionAsOf": 0, "timestampAsOf": "2024-01-01"}, "not both"),
        ({"timestampAsOf": "yesterday"}, "cannot be converted to a valid timestamp"),
        ({"rowTracking": "maybe"}, "rowTracking"),
        ({"readChangeFeed": "true"}, "startingVersion"),
    ],
)
def test_options_that_make_no_sense_are_named(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    with pytest.raises(errors.InvalidArgument, match=message):
        load(spark, path, options)


def test_a_path_without_a_table_says_so(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(errors.TableNotFound, match="not a Delta table"):
        load(spark, str(tmp_path))
    path = write_table(tmp_path / "t", [{"id": [1]}])
    with pytest.raises(errors.VersionNotFound, match="no version 5"):
        load(spark, path, {"versionAsOf": 5})


def test_a_log_is_replayed_by_spark_on_request_with_the_same_result(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"part": [n % 2], "id": [n]} for n in range(4)], partition_by="part")
    frame = load(spark, path, {"replay": "spark"})
    assert rows(frame) == rows(load(spark, path, {"replay": "driver"}))
    assert len(frame.where("id = 2").inputFiles()) == 1
    with pytest.raises(errors.InvalidArgument, match="replay"):
        load(spark, path, {"replay": "elsewhere"})


def test_deletion_vectors_and_partition_values_find_their_files_without_distinct_checksums_of_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: list[dict[str, str | None]] = [{"part": "1.5"}, {"part": None}]
    path = write_table(tmp_path / "t", [{"id": [1]}, {"id": [2]}], values=values, extra_columns=[("part", "double")])
    expected = (rows(load(spark, str(TABLES / "table-with-dv-small"))), load(spark, path).where("id = 1").collect())
    for module in ("file_columns", "row_sources"):
        monkeypatch.setattr(f"slackwater.spark.read.{module}.file_numbers", lambda urls: None)
    found = (rows(load(spark, str(TABLES / "table-with-dv-small"))), load(spark, path).where("id = 1").collect())
    assert found == expected
    assert len(found[0]) == 8


def test_a_table_of_many_files_reads_whole_and_by_part(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [n]} for n in range(60)])
    frame = load(spark, path)
    assert rows(frame) == [(n,) for n in range(60)]
    assert rows(frame.where("id >= 25")) == [(n,) for n in range(25, 60)]
    next(Path(path).glob("*.parquet")).unlink()
    with pytest.raises(errors.DataFileNotFound, match=r"version 0.*does not exist"):
        load(spark, path).collect()


def test_a_frame_and_its_view_stay_at_their_version_until_they_are_refreshed(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    table = slackwater.DeltaTable.forPath(spark, path)
    frame, given = load(spark, path), table.toDF()
    old, feedless = load(spark, path, {"versionAsOf": 0}), frame.filter("id > 0")
    frame.createOrReplaceTempView("of_one_version")
    table.update(set={"id": F.lit(2)})
    assert rows(frame) == rows(given) == rows(spark.table("of_one_version")) == [(1,)]
    assert rows(frame.join(frame.select("id"), "id")) == [(1,)]
    assert rows(slackwater.refresh(frame)) == rows(slackwater.refresh(given)) == rows(table.toDF()) == [(2,)]
    assert rows(slackwater.refresh(slackwater.refresh(frame)).where("id = 2")) == [(2,)]
    assert rows(slackwater.refresh(old)) == [(1,)]
    slackwater.refresh(frame).createOrReplaceTempView("of_one_version")
    assert rows(spark.table("of_one_version")) == [(2,)]
    spark.catalog.dropTempView("of_one_version")
    for other in (feedless, spark.range(1)):
        with pytest.raises(errors.InvalidArgument, match="refresh takes a frame"):
            slackwater.refresh(other)


@pytest.mark.classic
def test_two_frames_of_the_same_files_can_be_joined_by_their_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1, 2], "of": [2, 1]}])
    one, other = (load(spark, path) for _ in range(2))
    assert sorted(tuple(row) for row in one.join(other, one.of == other.id).select(one.id, other.of).collect()) == [
        (1, 1),
        (2, 2),
    ]


def test_a_table_that_was_made_anew_under_the_same_names_is_read_anew(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}], names=["a.parquet"])
    assert rows(load(spark, path)) == [(1,)]
    shutil.rmtree(path)
    write_table(tmp_path / "t", [{"id": list(range(5000))}], names=["a.parquet"])
    assert load(spark, path).count() == 5000
    shutil.rmtree(path)
    write_table(tmp_path / "t", [{"id": [1], "v": ["x"]}], names=["a.parquet"])
    assert rows(load(spark, path)) == [(1, "x")]


def test_what_is_added_to_a_frames_schema_is_in_no_other(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    for _ in range(3):
        assert load(spark, path).schema.add("more", "integer").names == ["id", "more"]


def test_a_file_that_vanished_between_two_reads_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}], names=["a.parquet"])
    assert rows(load(spark, path)) == [(1,)]
    (tmp_path / "t" / "a.parquet").unlink()
    with pytest.raises(errors.DataFileNotFound, match=r"a\.parquet"):
        load(spark, path).collect()


@pytest.mark.classic
def test_relations_that_are_kept_are_limited(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(40):
        path = write_table(tmp_path / f"t{number}", [{"id": [number]}])
        snapshot = Snapshot.open(Table.at(path))
        TableScan(spark, snapshot).frame_of(snapshot.files())
    assert len(KeptRelations.of(spark)) == 32
    assert rows(load(spark, str(tmp_path / "t0"))) == [(0,)]
