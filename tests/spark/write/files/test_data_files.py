"""The files of a write: types, statistics, partition values, column mapping, what Parquet is told."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, Snapshot, errors
from slackwater.protocol.properties.properties import WRITE_PARTITION_COLUMNS
from slackwater.spark.write.files import staging
from slackwater.spark.write.files.staging import _remove
from tests.spark.written import actions, data_files, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]

ALL_TYPES = (
    "id long, b byte, s short, i int, f float, d double, t string, x binary, flag boolean, day date, ts timestamp, "
    "ntz timestamp_ntz, small decimal(9,2), mid decimal(18,4), big decimal(38,10), "
    "st struct<a: int, b: array<string>>, arr array<struct<x: timestamp, y: double>>, "
    "m map<string, struct<k: decimal(10,3)>>, mm map<int, array<date>>"
)
MOMENT = dt.datetime(2024, 2, 29, 23, 59, 59, 999999)
ROW = (
    1,
    -128,
    -32768,
    2**31 - 1,
    1.5,
    float("-inf"),
    "é \U0001f600 'q' \\ \n",
    b"\x00\xff",
    True,
    dt.date(1582, 10, 4),
    MOMENT,
    MOMENT,
    decimal.Decimal("-1234567.89"),
    decimal.Decimal("0.0001"),
    decimal.Decimal("9999999999999999999999999999.0000000001"),
    (7, ["x", None]),
    [(MOMENT, -0.0), None],
    {"key": (decimal.Decimal("1.500"),), "none": None},
    {1: [dt.date(9999, 12, 31)], 2: None},
)


def _stats(path: Path, version: int = 0) -> dict[str, Any]:
    (add,) = actions(path, version, "add")
    return json.loads(add["stats"])  # type: ignore[no-any-return]


def test_values_of_every_type_come_back_as_they_were_null_ones_too(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([ROW, (2, *[None] * (len(ROW) - 1))], ALL_TYPES)
    save(frame, tmp_path / "t")
    save(frame, tmp_path / "t")
    back = read(spark, tmp_path / "t")
    assert back.schema == frame.schema
    assert [repr(r) for r in rows(back)] == [repr(r) for r in rows(frame) for _ in range(2)]


def test_every_comparable_column_has_statistics_timestamps_and_nested_ones_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    save(spark.createDataFrame([ROW], ALL_TYPES).coalesce(1), tmp_path / "t")
    stats = _stats(tmp_path / "t")
    assert stats["numRecords"] == 1
    assert stats["tightBounds"] is True
    lows = stats["minValues"]
    assert lows["b"] == -128
    assert lows["day"] == "1582-10-04"
    # A datetime without a zone is of this process's zone to Spark, where it becomes an instant.
    instant = MOMENT.astimezone(dt.timezone.utc).replace(tzinfo=None)
    assert lows["ts"] == instant.isoformat(timespec="milliseconds") + "Z"
    assert lows["ntz"] == "2024-02-29T23:59:59.999"
    assert (lows["small"], lows["mid"]) == (-1234567.89, 0.0001)
    assert lows["st"] == {"a": 7}
    assert {"x", "flag", "arr", "m", "mm"}.isdisjoint(lows)
    assert stats["nullCount"]["st"]["a"] == 0


def test_timestamps_are_stored_as_microseconds(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(2).selectExpr("id", "timestamp_micros(id) as ts"), tmp_path / "t")
    (kind,) = {str(pq.read_schema(file).field("ts").type) for file in data_files(tmp_path / "t")}
    assert kind == "timestamp[us, tz=UTC]"


def test_columns_whose_names_hold_dots_and_backticks_are_kept_apart(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(1).selectExpr("1 as `a.b`", "named_struct('b', 2) as a", "3 as `tick``s`", "4 as `p.q`")
    frame.coalesce(1).write.format("delta").partitionBy("p.q").save(str(tmp_path / "t"))
    assert rows(read(spark, tmp_path / "t")) == [(1, (2,), 3, 4)]
    assert _stats(tmp_path / "t")["minValues"] == {"a.b": 1, "a": {"b": 2}, "tick`s": 3}


def test_a_void_column_is_in_no_file_and_null_for_every_row(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(2).selectExpr("id", "null as nothing"), tmp_path / "t")
    assert read(spark, tmp_path / "t").schema["nothing"].dataType.typeName() == "void"
    assert rows(read(spark, tmp_path / "t")) == [(0, None), (1, None)]
    assert all(pq.read_schema(file).names == ["id"] for file in data_files(tmp_path / "t"))


def test_a_type_that_delta_has_not_is_refused_before_anything_is_there(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(1).selectExpr("id", "array(interval '1' day) as waits")
    with pytest.raises(errors.UnsupportedFeature, match=r"waits.*interval"):
        save(frame, tmp_path / "t")
    assert listing(tmp_path) == []


@pytest.mark.parametrize(
    ("compression", "suffix", "codec"),
    [("zstd", ".zstd.parquet", "ZSTD"), ("gzip", ".gz.parquet", "GZIP"), ("uncompressed", ".parquet", "UNCOMPRESSED")],
)
def test_files_are_compressed_as_asked(
    spark: SparkSession, tmp_path: Path, compression: str, suffix: str, codec: str
) -> None:
    save(spark.range(1), tmp_path / "t", compression=compression)
    (file,) = data_files(tmp_path / "t")
    assert file.name.endswith(suffix)
    assert pq.read_metadata(file).row_group(0).column(0).compression == codec


def test_no_file_has_more_rows_than_asked(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(0, 10, 1, 1), tmp_path / "t", maxRecordsPerFile=4)
    counts = sorted(json.loads(add["stats"])["numRecords"] for add in actions(tmp_path / "t", 0, "add"))
    assert counts == [2, 4, 4]
    assert len(rows(read(spark, tmp_path / "t"))) == 10


SPECIAL: dict[str, tuple[str, list[Any]]] = {
    "f": ("float", [float("nan"), float("inf"), 0.1, -0.0, 0.0, None]),
    "d": ("double", [float("nan"), float("-inf"), 1e300, -0.0, 0.0, 0.1]),
    "t": ("string", ["a/b=c%20#?é \U0001f600", "", "None", " ", ".", "{}[]'\"\\:*\x7f\n"]),
    "x": ("binary", [b"\x00\xff", b"plain", b"\\u0041", None, b"\xc3\xa9", b" "]),
    "day": ("date", [dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1582, 10, 4), dt.date(1970, 1, 1), None]),
    "n": (
        "decimal(38,10)",
        [decimal.Decimal(v) for v in ("0.0000000001", "-1", "0", "1e20", "9999999999999999999999999999")] + [None],
    ),
    "ntz": ("timestamp_ntz", [MOMENT, dt.datetime(1, 1, 1), None, dt.datetime(9999, 12, 31, 1), MOMENT, None]),
    "flag": ("boolean", [True, False, None, True, False, None]),
    "s": ("short", [-1, 0, 1, None, 32767, -32768]),
}


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_special_partition_values_come_back_as_they_were(spark: SparkSession, tmp_path: Path, mapping: str) -> None:
    data = [(i, *(values[i] for _, values in SPECIAL.values())) for i in range(6)]
    schema = "id long, " + ", ".join(f"{name} {kind}" for name, (kind, _) in SPECIAL.items())
    frame = spark.createDataFrame(data, schema).coalesce(1)
    writer = frame.write.format("delta").option("delta.columnMapping.mode", mapping)
    writer.partitionBy(*SPECIAL).save(str(tmp_path / "t"))
    # The protocol says that an empty string is null, and Spark writes negative zero without its sign.
    expected = [
        tuple(0.0 if v == 0.0 and isinstance(v, float) else (v if v != "" else None) for v in row)
        for row in rows(frame)
    ]
    assert [repr(r) for r in rows(read(spark, tmp_path / "t"))] == sorted(map(repr, expected))
    for position in range(6):
        condition = " and ".join(f"{name} is null" for name, (_, v) in SPECIAL.items() if v[position] in (None, ""))
        if condition:
            assert position in {r[0] for r in read(spark, tmp_path / "t").filter(condition).collect()}
    assert [r[0] for r in read(spark, tmp_path / "t").filter("d = double('NaN')").collect()] == [0]
    assert sorted(r[0] for r in read(spark, tmp_path / "t").filter("f = 0").collect()) == [3, 4]


def test_zero_of_either_sign_is_one_partition_and_loses_no_row(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, 0.0), (2, -0.0), (3, 0.0)], "id long, d double").coalesce(1)
    frame.write.format("delta").partitionBy("d").save(str(tmp_path / "t"))
    assert rows(read(spark, tmp_path / "t")) == [(1, 0.0), (2, 0.0), (3, 0.0)]
    assert {add["partitionValues"]["d"] for add in actions(tmp_path / "t", 0, "add")} == {"0.0"}


def test_partition_values_in_the_log_are_as_the_protocol_spells_them(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "select 1L id, timestamp'2024-03-10 10:00:00.5+02:00' ts, timestamp_ntz'2024-03-10 10:00:00.5' ntz, "
        "date'2024-03-10' day, x'00ff' x, 1.50BD n, float(1e10) f, true flag, string(null) t"
    )
    frame.write.format("delta").partitionBy(*frame.columns[1:]).save(str(tmp_path / "t"))
    (add,) = actions(tmp_path / "t", 0, "add")
    assert add["partitionValues"] == {
        "ts": "2024-03-10T08:00:00.500000Z",
        "ntz": "2024-03-10 10:00:00.500000",
        "day": "2024-03-10",
        "x": "\\u0000\\u00FF",
        "n": "1.50",
        "f": "1.0E10",
        "flag": "true",
        "t": None,
    }


@pytest.mark.parametrize(("written_in", "read_in"), [("America/New_York", "Asia/Tokyo"), ("+05:30", "UTC")])
def test_instants_that_partition_a_table_do_not_depend_on_time_zones(
    spark: SparkSession, tmp_path: Path, conf: Any, written_in: str, read_in: str
) -> None:
    # The first two read the same on a clock in New York.
    instants = [1730611800000000, 1730615400000001, -62135596800000000 + 86400_000_000, 253402128000000000, -1]
    conf("spark.sql.session.timeZone", written_in)
    frame = spark.createDataFrame([(u,) for u in instants], "u long").select("u", F.timestamp_micros("u").alias("ts"))
    frame.write.format("delta").partitionBy("ts").save(str(tmp_path / "t"))
    conf("spark.sql.session.timeZone", read_in)
    back = read(spark, tmp_path / "t")
    assert sorted(r[0] for r in back.collect()) == sorted(instants)
    assert back.filter("unix_micros(ts) = u").count() == len(instants)
    assert back.filter("ts = timestamp_micros(1730615400000001)").collect()[0]["u"] == 1730615400000001


def test_the_name_that_hive_has_for_null_is_a_text_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    name = "__HIVE_DEFAULT_PARTITION__"
    frame = spark.createDataFrame([(1, name), (2, None), (3, f"{name}_"), (4, "")], "id long, t string").coalesce(1)
    frame.write.format("delta").partitionBy("t").save(str(tmp_path / "t"))
    assert rows(read(spark, tmp_path / "t")) == [(1, name), (2, None), (3, f"{name}_"), (4, None)]


def test_a_timestamp_that_no_log_can_hold_is_refused_as_a_partition_value(spark: SparkSession, tmp_path: Path) -> None:
    late = "timestamp_micros(253402300800000000)"
    save(spark.sql(f"select 1L id, {late} ts"), tmp_path / "t")
    with pytest.raises(errors.UnsupportedFeature, match="1 to 9999"):
        read(spark, tmp_path / "t").write.format("delta").partitionBy("ts").save(str(tmp_path / "u"))
    assert listing(tmp_path / "u") == []


def test_directories_repeat_the_partition_values_and_nothing_of_the_staging_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([(1, "x y", dt.date(2024, 1, 1)), (2, None, None)], "id long, t string, day date")
    frame.write.format("delta").partitionBy("t", "day").save(str(tmp_path / "a table"))
    found = {Path(p).parent.as_posix() for p in listing(tmp_path / "a table") if p.endswith(".parquet")}
    assert found == {"t=x y/day=2024-01-01", "t=__HIVE_DEFAULT_PARTITION__/day=__HIVE_DEFAULT_PARTITION__"}
    hidden = [p for p in listing(tmp_path / "a table") if "/." in f"/{p}" or "_SUCCESS" in p]
    assert hidden == []
    assert {add["path"].split("/")[0] for add in actions(tmp_path / "a table", 0, "add")} == {
        "t=x%20y",
        "t=__HIVE_DEFAULT_PARTITION__",
    }
    assert rows(read(spark, tmp_path / "a table")) == rows(frame)


def _parquet_columns(schema: Any) -> dict[str, str]:
    """The field id of every part of the Arrow schema of a file, by the path of its names."""
    found: dict[str, str] = {}

    def visit(field: Any, path: str) -> None:
        here = f"{path}.{field.name}" if path else field.name
        if field.metadata and b"PARQUET:field_id" in field.metadata:
            found[here] = field.metadata[b"PARQUET:field_id"].decode()
        for position in range(field.type.num_fields):
            visit(field.type.field(position), here)

    for field in schema:
        visit(field, "")
    return found


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("ids_off", [False, True])
def test_files_of_a_mapped_table_have_physical_names_and_field_ids_nested_too(
    spark: SparkSession, tmp_path: Path, conf: Any, mode: str, ids_off: bool
) -> None:
    if ids_off:
        conf("spark.sql.parquet.fieldId.write.enabled", "false")
    kinds = (
        "`a b` int, `st,;` struct<`x y`: int, z: array<struct<q: string>>>, m map<string, struct<v: long>>, p string"
    )
    frame = spark.createDataFrame([(1, (2, [("three",)]), {"k": (4,)}, "five")], kinds)
    writer = frame.coalesce(1).write.format("delta").option("delta.columnMapping.mode", mode)
    writer.partitionBy("p").save(str(tmp_path / "t"))
    assert rows(read(spark, tmp_path / "t")) == rows(frame)
    assert read(spark, tmp_path / "t").schema.simpleString() == frame.schema.simpleString()
    (add,) = actions(tmp_path / "t", 0, "add")
    (metadata,) = actions(tmp_path / "t", 0, "metaData")
    expected = _mapped(json.loads(metadata["schemaString"])["fields"])
    physical = next(name for name, (display, _) in expected.items() if display == "p")
    assert add["partitionValues"] == {physical: "five"}
    (file,) = data_files(tmp_path / "t")
    ids = _parquet_columns(pq.read_schema(file))
    assert {key.split(".")[-1]: int(value) for key, value in ids.items()} == {
        name: number for name, (display, number) in expected.items() if display != "p"
    }
    assert int(metadata["configuration"]["delta.columnMapping.maxColumnId"]) == len(expected)
    top = {name for name, (display, _) in expected.items() if display in ("a b", "st,;")}
    assert top <= set(json.loads(add["stats"])["nullCount"]) | {physical}


def _mapped(fields: list[dict[str, Any]]) -> dict[str, tuple[str, int]]:
    """Display name and id of every column at every depth, by physical name."""
    found: dict[str, tuple[str, int]] = {}

    def visit(kind: Any) -> None:
        if not isinstance(kind, dict):
            return
        for field in kind.get("fields", ()):
            metadata = field["metadata"]
            physical = metadata["delta.columnMapping.physicalName"]
            found[physical] = (field["name"], metadata["delta.columnMapping.id"])
            visit(field["type"])
        for part in ("elementType", "keyType", "valueType"):
            visit(kind.get(part))

    visit({"fields": fields})
    return found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.parquet.writeLegacyFormat", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"),
        ("spark.sql.parquet.int96RebaseModeInWrite", "LEGACY"),
        ("spark.sql.parquet.outputTimestampType", "INT96"),
        ("spark.sql.sources.partitionOverwriteMode", "dynamic"),
        ("spark.sql.caseSensitive", "true"),
    ],
)
def test_settings_of_the_session_do_not_change_what_is_stored(
    spark: SparkSession, tmp_path: Path, conf: Any, key: str, value: str
) -> None:
    schema = "id long, day date, ts timestamp, n decimal(9,2), big decimal(20,2), l array<struct<v: int>>"
    early = dt.datetime(1400, 1, 2, 3, 4, 5)
    frame = spark.createDataFrame(
        [(1, dt.date(1400, 1, 2), early, decimal.Decimal("1.25"), decimal.Decimal("-7.5"), [(1,), None])], schema
    ).coalesce(1)
    save(frame, tmp_path / "plain")
    conf(key, value)
    save(frame, tmp_path / "set")
    assert spark.conf.get(key) == value
    assert rows(read(spark, tmp_path / "set")) == rows(frame)
    assert _stats(tmp_path / "set") == _stats(tmp_path / "plain")
    files = [data_files(tmp_path / name)[0] for name in ("plain", "set")]
    plain, changed = (pq.read_table(file, partitioning=None).to_pylist() for file in files)
    assert plain == changed


def test_partition_columns_are_in_the_files_too_where_iceberg_wants_them(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(2).selectExpr("id", "string(id) as p")
    writer = frame.write.format("delta").option("delta.enableIcebergCompatV2", "true").partitionBy("p")
    writer.save(str(tmp_path / "t"))
    assert rows(read(spark, tmp_path / "t")) == [(0, "0"), (1, "1")]
    assert all(len(pq.read_schema(file).names) == 2 for file in data_files(tmp_path / "t"))


def test_statistics_know_nan_and_long_texts(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(math.nan, "b" * 40), (1.0, "a" * 40)], "d double, t string").coalesce(1)
    save(frame, tmp_path / "t")
    stats = _stats(tmp_path / "t")
    assert stats["minValues"]["t"] == "a" * 32
    assert stats["maxValues"]["t"] > "b" * 32
    assert [r["d"] for r in read(spark, tmp_path / "t").filter("d = 1").collect()] == [1.0]
    assert read(spark, tmp_path / "t").filter("d = double('NaN')").count() == 1
    assert Snapshot.load(str(tmp_path / "t")).files().num_rows == 1


@pytest.mark.classic
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_data_files_hold_the_partition_columns_where_the_table_asks_for_it(
    spark: SparkSession, tmp_path: Path, mapping: str
) -> None:
    path = str(tmp_path / "t")
    properties = {WRITE_PARTITION_COLUMNS: "true", "delta.columnMapping.mode": mapping}
    builder = DeltaTable.create(spark).location(path).addColumns(spark.createDataFrame([], "p STRING, id INT").schema)
    for key, value in properties.items():
        builder.property(key, value)
    table = builder.partitionedBy("p").execute()
    save(spark.createDataFrame([("a", 1), ("a", 2), (None, 3), ("b", 4)], "p STRING, id INT").coalesce(1), path)
    table.update("id = 1", {"p": "'c'", "id": "10"})
    names = [pq.read_schema(file).names for file in data_files(path)]
    assert names
    assert all(len(found) == 2 for found in names)
    if mapping == "none":
        assert {tuple(found) for found in names} == {("id", "p")}
    assert sorted(rows(read(spark, path)), key=lambda row: row[1]) == [("a", 2), (None, 3), ("b", 4), ("c", 10)]
    assert rows(read(spark, path).where("p = 'b'")) == [("b", 4)]


@pytest.mark.classic
def test_data_files_do_not_hold_the_partition_columns_where_nothing_is_said(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([("a", 1)], "p STRING, id INT")
    frame.write.format("delta").partitionBy("p").save(str(tmp_path / "t"))
    assert [pq.read_schema(file).names for file in data_files(tmp_path / "t")] == [["id"]]


def test_what_a_task_writes_after_its_job_failed_is_taken_away_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / ".slackwater-left"
    left.mkdir()
    late = [1, 2, 3]

    def late_task(_seconds: float) -> None:
        if late:
            (left / "rows").mkdir(parents=True, exist_ok=True)
            (left / "rows" / str(late.pop())).write_text("x")

    monkeypatch.setattr(staging, "time", SimpleNamespace(sleep=late_task))
    staging.remove_until_quiet(partial(_remove, left, False))
    assert not late
    assert not left.exists()
