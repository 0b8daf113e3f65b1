"""deltalake, DuckDB and Polars read what we wrote into a bucket, and we read what they appended there."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable
from slackwater.storage import open_store
from tests.stores.servers import Place

pytestmark = pytest.mark.spark

_ROWS = [(0, "x y"), (1, "ü%20"), (2, "x y"), (3, "ü%20"), (4, "x y")]


@pytest.fixture
def root(spark: SparkSession, place: Place, request: pytest.FixtureRequest) -> str:
    """A table of ours with a checkpoint, a commit behind it, and a row that is gone."""
    path = f"{place.url}/{request.node.originalname}"
    frame = spark.createDataFrame([*_ROWS, (9, "x y")], "id BIGINT, p STRING")
    frame.write.format("delta").partitionBy("p").mode("overwrite").save(path)
    DeltaTable.forPath(spark, path).checkpoint()
    DeltaTable.forPath(spark, path).delete("id = 9")
    return path


def with_deltalake(url: str, options: Mapping[str, str]) -> Any:
    deltalake = pytest.importorskip("deltalake")
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(url, storage_options=dict(options)))
    return pa.table(query.execute("SELECT id, p FROM t")).to_pylist()


def with_polars(url: str, options: Mapping[str, str]) -> Any:
    polars = pytest.importorskip("polars")
    return polars.read_delta(url, storage_options=dict(options)).select("id", "p").to_dicts()


@contextlib.contextmanager
def duckdb_for(options: Mapping[str, str]) -> Iterator[Any]:
    """A connection that knows the bucket's server."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for name in ("httpfs", "delta"):
            connection.execute(f"LOAD '{_extension(name, duckdb.__version__)}'")
        host = options["AWS_ENDPOINT_URL"].partition("://")[2]
        key, secret = options["AWS_ACCESS_KEY_ID"], options["AWS_SECRET_ACCESS_KEY"]
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION '{options['AWS_REGION']}', "
            f"ENDPOINT '{host}', URL_STYLE 'path', USE_SSL false)"
        )
        yield connection


def with_duckdb(url: str, options: Mapping[str, str]) -> Any:
    with duckdb_for(options) as connection:
        return connection.execute("SELECT id, p FROM delta_scan(?)", [url]).to_arrow_table().to_pylist()


def _extension(name: str, version: str) -> str:
    package = importlib.metadata.distribution(f"duckdb-extension-{name}")
    pattern = f"*/v{version}/{name}.duckdb_extension"
    return str(package.locate_file(next(file for file in package.files or () if file.match(pattern))))


def append_by_deltalake(url: str, options: Mapping[str, str]) -> None:
    deltalake = pytest.importorskip("deltalake")
    rows = pa.table({"id": [5], "p": ["a/b"]})
    deltalake.write_deltalake(url, rows, mode="append", storage_options=dict(options))


def append_by_polars(url: str, options: Mapping[str, str]) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"id": [5], "p": ["a/b"]})
    frame.write_delta(url, mode="append", storage_options=dict(options))


def known_to_others(place: Place, path: str) -> tuple[str, dict[str, str]]:
    """A table's URL and the options of its store, by the names that object_store has for them."""
    url = open_store(path, place.options).root_url.replace("s3a://", "s3://")
    return url, {key.upper(): value for key, value in place.options.items()}


def pairs(rows: Any) -> list[tuple[int, str]]:
    return sorted((row["id"], row["p"]) for row in rows)


def test_deltalake_and_duckdb_read_what_we_wrote(root: str, place: Place) -> None:
    url, options = known_to_others(place, root)
    assert pairs(with_deltalake(url, options)) == _ROWS
    # For Azure DuckDB has another extension, which is not on PyPI for its version.
    if url.startswith("s3:"):
        assert pairs(with_duckdb(url, options)) == _ROWS


def test_polars_reads_what_we_wrote(spark: SparkSession, place: Place, request: pytest.FixtureRequest) -> None:
    # In a bucket it does not find files whose names need to be encoded in a URL, whoever wrote them.
    path = f"{place.url}/{request.node.originalname}"
    frame = spark.createDataFrame([(1, "x"), (2, "y")], "id BIGINT, p STRING")
    frame.write.format("delta").partitionBy("p").save(path)
    assert pairs(with_polars(*known_to_others(place, path))) == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("append", [append_by_deltalake, append_by_polars])
def test_we_read_what_other_engines_append(
    spark: SparkSession, root: str, place: Place, append: Callable[[str, Mapping[str, str]], None]
) -> None:
    append(*known_to_others(place, root))
    rows = spark.read.format("delta").load(root).collect()
    assert sorted((row.id, row.p) for row in rows) == [*_ROWS, (5, "a/b")]
    spark.createDataFrame([(6, "x y")], "id BIGINT, p STRING").write.format("delta").mode("append").save(root)
    assert sorted(row["id"] for row in with_deltalake(*known_to_others(place, root))) == list(range(7))


def test_we_read_what_duckdb_appends(spark: SparkSession, s3: Place) -> None:
    path = f"{s3.url}/duckdb"
    spark.range(3).coalesce(1).write.format("delta").save(path)
    url, options = known_to_others(s3, path)
    with duckdb_for(options) as connection:
        connection.execute(f"ATTACH '{url}' AS t (TYPE delta, READ_WRITE)")
        connection.execute("INSERT INTO t VALUES (7)")
    rows = spark.read.format("delta").load(path).collect()
    assert sorted(row.id for row in rows) == [0, 1, 2, 7]
