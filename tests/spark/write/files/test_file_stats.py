"""Statistics from the footers of files that Spark wrote, and what other engines make of them."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from slackwater.protocol.schema.schema import StructType, schema_to_json
from slackwater.spark.session.types import from_spark_schema
from slackwater.stats.footers import stats_leaves, stats_of_footer
from slackwater.storage.parquet_footer import read_footer

pytestmark = [pytest.mark.spark, pytest.mark.classic]

UTC = dt.timezone.utc
COLUMNS = (
    "id long, i int, f double, g float, s string, d date, t timestamp, n timestamp_ntz, m decimal(20,2), "
    "o decimal(5,2), st struct<x: long, y: struct<z: string>>, b boolean, bin binary"
)
Row = dict[str, Any]


def _row(number: int, **values: Any) -> Row:
    moment = dt.datetime(2024, 1, 1, 12, 0, 0, 123456)
    row = {
        "id": number, "i": number, "f": float(number), "g": 0.5, "s": "plain", "d": dt.date(2024, 1, 1),
        "t": moment.replace(tzinfo=UTC), "n": moment, "m": Decimal("1.10"), "o": Decimal("-1.25"),
        "st": {"x": number, "y": {"z": "a"}}, "b": True, "bin": b"a",
    }  # fmt: skip
    return {**row, **values}


NULLS: Row = dict.fromkeys(_row(0))
EARLY, LATE = dt.datetime(1960, 1, 1, 0, 0, 0, 1500), dt.datetime(2200, 12, 31, 23, 59, 59, 999999)
# One file for each of these.
FILES: list[list[Row]] = [
    [_row(1), _row(2, f=math.nan, g=math.nan), _row(3, f=-5.0, g=-5.0)],
    [_row(4, f=math.nan, g=math.nan), _row(5, f=math.nan, g=math.nan)],
    [_row(6, f=math.inf, g=math.inf), _row(7, f=-math.inf, g=-math.inf)],
    [_row(8, f=-0.0, g=-0.0), _row(9, f=-0.0, g=0.0)],
    [_row(10, f=0.0, g=0.1, s="é" * 40), _row(11, f=0.0, s="a" * 40)],
    [_row(12, s="\U0010ffff" * 40), _row(13, s="\uffff" * 40), _row(14, s="😀")],
    [_row(15, s="\ufffdz"), _row(16, s=""), _row(17, s="a" * 32 + "\ufffe")],
    [_row(18, t=EARLY.replace(tzinfo=UTC), n=EARLY, d=dt.date(1500, 1, 1)), _row(19, d=dt.date(9999, 12, 31))],
    [_row(20, t=LATE.replace(tzinfo=UTC), n=LATE)],
    [_row(21, m=Decimal("123456789012345678.91"), o=Decimal("999.99")), _row(22, m=Decimal("-123456789012345678.91"))],
    [{**NULLS, "id": 23}, {**NULLS, "id": 24}],
    [_row(25, st=None, b=None, i=None), _row(26, st={"x": None, "y": None}, b=False), _row(27)],
]
CONDITIONS = (
    "f > 2", "f >= 5", "f > 1e300", "f = 0", "f < 0", "f <= -5", "f <> 1", "g = 0", "g > 3", "g < 0.2", "f < -1e300",
    f"s = '{'a' * 40}'", f"s > '{'a' * 32}'", "s >= '😀'", "s = '😀'", "s < 'a'", f"s = '{'é' * 40}'", "s > 'z'",
    "s = ''", f"s > '{chr(0x10FFFF) * 32}'", f"s >= '{chr(0xFFFF) * 33}'",
    "d = DATE '1500-01-01'", "d > DATE '9000-01-01'", "d < DATE '1900-01-01'",
    "n = TIMESTAMP '2024-01-01 12:00:00.123456'", "n > TIMESTAMP '2024-01-01 12:00:00.123455'",
    "n <= TIMESTAMP '1960-01-01 00:00:00.0015'", "n >= TIMESTAMP '2200-12-31 23:59:59.999999'",
    "m = 123456789012345678.91", "m > 123456789012345678", "m < -1", "o > 999", "o = -1.25", "m = 1.1",
    "i = 7", "i > 26", "i IS NULL", "i IS NOT NULL", "b IS NULL", "b", "NOT b",
)  # fmt: skip


def _frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in rows], COLUMNS).coalesce(1)


def _write(spark: SparkSession, rows: list[Row], directory: Path) -> Path:
    writer = _frame(spark, rows).write.option("compression", "none")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    writer.parquet(str(directory))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    return next(directory.glob("*.parquet"))


@pytest.fixture(scope="module")
def schema(spark: SparkSession) -> StructType:
    return from_spark_schema(_frame(spark, []).schema)


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("files")
    return [_write(spark, rows, root / f"part-{number}") for number, rows in enumerate(FILES)]


def _stats(file: Path, schema: StructType) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        stats_of_footer(read_footer(pa.OSFile(str(file))), stats_leaves(schema, "none", (), {})), parse_float=str
    )
    return found


def test_null_counts_are_exact_and_every_column_of_spark_has_its_bounds(files: list[Path], schema: StructType) -> None:
    stats = _stats(files[0], schema)
    assert stats["numRecords"] == 3
    assert stats["tightBounds"] is True
    assert set(stats["nullCount"]) == set(schema.names)
    assert set(stats["minValues"]) == set(schema.names) - {"b", "bin"}
    assert (stats["minValues"]["m"], stats["minValues"]["o"]) == ("1.10", "-1.25")
    assert (stats["minValues"]["t"], stats["maxValues"]["t"]) == (
        "2024-01-01T12:00:00.123Z",
        "2024-01-01T12:00:00.124Z",
    )
    assert stats["minValues"]["n"] == "2024-01-01T12:00:00.123"
    assert stats["minValues"]["st"] == {"x": 1, "y": {"z": "a"}}
    nulls = _stats(files[10], schema)
    assert nulls["minValues"] == {"id": 23}
    assert nulls["nullCount"] == {
        **dict.fromkeys(schema.names, 2), "id": 0, "st": {"x": 2, "y": {"z": 2}},
    }  # fmt: skip
    mixed = _stats(files[11], schema)["nullCount"]
    assert (mixed["st"], mixed["b"], mixed["i"]) == ({"x": 2, "y": {"z": 2}}, 1, 1)


def test_a_max_of_numbers_is_given_unless_there_is_a_nan(files: list[Path], schema: StructType) -> None:
    with_nan, all_nan, infinite, zeros = (_stats(file, schema) for file in files[:4])
    for column in ("f", "g"):
        assert column not in with_nan["maxValues"]
        assert with_nan["minValues"][column] == "-5.0"
        assert column not in all_nan["minValues"]
        assert column not in all_nan["maxValues"]
        assert column not in infinite["minValues"]
        assert column not in infinite["maxValues"]
        assert (zeros["minValues"][column], zeros["maxValues"][column]) == ("-0.0", "0.0")


@pytest.mark.parametrize("position", [0, 1, 49_999, 99_999])
@pytest.mark.parametrize("dictionary", ["true", "false"])
def test_a_nan_shows_wherever_it_is(spark: SparkSession, tmp_path: Path, position: int, dictionary: str) -> None:
    values = f"if(id = {position}, cast('NaN' as double), cast(id % 1000 as double)) as x"
    frame = spark.range(0, 100_000, 1, 1).selectExpr(values)
    writer = frame.write.option("parquet.enable.dictionary", dictionary).option("parquet.page.size", "10000")
    writer.option("parquet.block.size", "100000").parquet(str(tmp_path / "f"))
    footer = read_footer(pa.OSFile(str(next((tmp_path / "f").glob("*.parquet")))))
    stats = json.loads(stats_of_footer(footer, stats_leaves(from_spark_schema(frame.schema), "none", (), {})))
    assert stats["minValues"] == {"x": 0.0}
    assert "maxValues" not in stats


@pytest.fixture(scope="module")
def tables(files: list[Path], schema: StructType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same files twice: with their statistics, and without any."""
    return _table(tmp_path_factory, files, schema, True), _table(tmp_path_factory, files, schema, False)


def _table(factory: pytest.TempPathFactory, files: list[Path], schema: StructType, with_stats: bool) -> Path:
    root = factory.mktemp("with" if with_stats else "without")
    log = root / "_delta_log"
    log.mkdir()
    features = {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
    actions: list[Mapping[str, Any]] = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {
            "metaData": {
                "id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": schema_to_json(schema),
                "partitionColumns": [], "configuration": {},
            }
        },
    ]  # fmt: skip
    for number, file in enumerate(files):
        name = f"part-{number}.parquet"
        (root / name).write_bytes(file.read_bytes())
        add: dict[str, Any] = {
            "path": quote(name), "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 1,
            "dataChange": True,
        }  # fmt: skip
        if with_stats:
            add["stats"] = stats_of_footer(read_footer(pa.OSFile(str(file))), stats_leaves(schema, "none", (), {}))
        actions.append({"add": add})
    (log / f"{0:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))
    return root


def _query(table: str, condition: str) -> str:
    return f"SELECT id FROM {table} WHERE {condition}"


def _datafusion(root: Path, condition: str) -> list[int]:
    import deltalake
    import pyarrow as pa

    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(root)))
    ids: list[int] = pa.table(query.execute(_query("t", condition)))["id"].to_pylist()
    return ids


def _polars(root: Path, condition: str) -> list[int]:
    import polars as pl

    return pl.scan_delta(str(root)).sql(_query("self", condition)).collect()["id"].to_list()


def _duckdb(root: Path, condition: str) -> list[int]:
    import duckdb

    package = importlib.metadata.distribution("duckdb-extension-delta")
    extension = next(f for f in package.files or () if f.match(f"*/v{duckdb.__version__}/delta.duckdb_extension"))
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{package.locate_file(extension)}'")
        rows = connection.execute(_query("delta_scan(?)", condition), [str(root)]).fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize("read", [_datafusion, _polars, _duckdb])
def test_other_engines_find_the_same_rows_with_our_statistics_as_without_any(
    tables: tuple[Path, Path], read: Callable[[Path, str], list[int]]
) -> None:
    with_stats, without = tables
    found = {condition: sorted(read(with_stats, condition)) for condition in CONDITIONS}
    expected = {condition: sorted(read(without, condition)) for condition in CONDITIONS}
    assert found == expected


@pytest.mark.long
def test_our_own_reader_finds_the_rows_that_spark_finds_in_the_files(
    spark: SparkSession, tables: tuple[Path, Path], files: list[Path]
) -> None:
    import slackwater

    slackwater.enable(spark)
    plain = spark.read.parquet(*map(str, files))
    ours = spark.read.format("delta").load(str(tables[0]))
    for condition in (c.replace("TIMESTAMP '", "TIMESTAMP_NTZ '") for c in CONDITIONS):
        found = sorted(row["id"] for row in ours.where(condition).select("id").collect())
        assert found == sorted(row["id"] for row in plain.where(condition).select("id").collect()), condition
