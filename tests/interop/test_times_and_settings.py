"""Times that are asked for, and settings of the session: delta-spark and we answer alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slackwater import DeltaTable, Snapshot, errors
from tests.data_files.pages import page_versions

from .delta_spark import DeltaSpark, DeltaSparkError
from .rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

DELTA = "spark.databricks.delta."
FEED = {"readChangeFeed": "true"}
LATE, EARLY = "2099-01-01", "1999-01-01"


@contextmanager
def setting(ours: SparkSession, delta_spark: DeltaSpark, **settings: str) -> Iterator[None]:
    """Both sessions have these settings, whose dots are written as two underscores."""
    keys = {DELTA + name.replace("__", "."): value for name, value in settings.items()}
    for key, value in keys.items():
        ours.conf.set(key, value)
        delta_spark.run(f"SET {key}={value}")
    try:
        yield
    finally:
        for key in keys:
            ours.conf.unset(key)
            delta_spark.run(f"RESET {key}")


@pytest.mark.parametrize("tolerant", ["false", "true"])
def test_both_answer_times_inside_and_outside_of_the_history_alike(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, tolerant: str
) -> None:
    path = str(tmp_path / "table")
    delta_spark.run(
        f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    for value in (1, 2):
        delta_spark.write(f"SELECT {value}L AS id", path)
    first, *_, last = [str(row["timestamp"])[:23] for row in reversed(delta_spark.history(path))]
    asked: list[dict[str, str]] = [
        *({"timestampAsOf": time} for time in (EARLY, first, last, LATE)),
        *({**FEED, "startingTimestamp": time} for time in (EARLY, first, last, LATE)),
        *({**FEED, "startingVersion": "0", "endingTimestamp": time} for time in (EARLY, first, last, LATE)),
        {**FEED, "startingTimestamp": LATE, "endingTimestamp": LATE},
        *({**FEED, "startingVersion": version} for version in ("2", "3", "9")),
        {**FEED, "startingVersion": "9", "endingVersion": "10"},
    ]
    with setting(ours, delta_spark, changeDataFeed__timestampOutOfRange__enabled=tolerant):
        for options in asked:
            theirs = _outcome(lambda options=options: delta_spark.read(path, **options).rows)  # type: ignore[misc]
            mine = _outcome(lambda options=options: _read(ours, path, options))  # type: ignore[misc]
            same = theirs == mine or (isinstance(theirs, str) and isinstance(mine, str) and theirs in mine)
            assert same, (options, theirs, mine)
        # The suffix of a path is a time as any other.
        with pytest.raises(DeltaSparkError, match="DELTA_TIMESTAMP_GREATER_THAN_COMMIT"):
            delta_spark.read(f"{path}@20990101000000000")
        with pytest.raises(errors.TimestampOutOfRange, match="DELTA_TIMESTAMP_GREATER_THAN_COMMIT"):
            ours.read.format("delta").load(f"{path}@20990101000000000")


STATEMENTS = {
    "UPDATE": "UPDATE {t} SET v = v + 1 WHERE id = 1",
    "DELETE": "DELETE FROM {t} WHERE v >= 20 AND id < 3",
    "MERGE": "MERGE INTO {t} t USING (SELECT 1L id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1 "
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 0L)",
}


def _changed(table: DeltaTable, kind: str, spark: SparkSession) -> None:
    if kind == "UPDATE":
        table.update("id = 1", {"v": "v + 1"})
    elif kind == "DELETE":
        table.delete("v >= 20 AND id < 3")
    else:
        merge = table.alias("t").merge(spark.range(1, 2).alias("s"), "t.id = s.id")
        merge.whenMatchedUpdate(set={"v": "t.v + 1"}).whenNotMatchedInsert(values={"id": "s.id", "v": "0"}).execute()


@pytest.mark.parametrize("kind", STATEMENTS)
def test_what_one_did_for_an_application_the_other_skips(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, kind: str
) -> None:
    path = str(tmp_path / "table")
    name = f"delta.`{path}`"
    delta_spark.write("SELECT * FROM VALUES (1L, 10L), (2L, 20L) AS t(id, v)", path)
    table = DeltaTable.forPath(ours, path)
    with setting(ours, delta_spark, write__txnAppId="job", write__txnVersion="5"):
        delta_spark.run(STATEMENTS[kind].replace("{t}", name))
        after = rows_of(ours.read.format("delta").load(path).toArrow())
        _changed(table, kind, ours)
        assert Snapshot.load(path).version == 1
    with setting(ours, delta_spark, write__txnAppId="job", write__txnVersion="6"):
        _changed(table, kind, ours)
        delta_spark.run(STATEMENTS[kind].replace("{t}", name))
        found = Snapshot.load(path)
        assert (found.version, found.transactions["job"].version) == (2, 6)
    assert (rows_of(table.toDF().toArrow()) == after) == (kind == "DELETE")


def _read(spark: SparkSession, path: str, options: dict[str, str]) -> Any:
    return spark.read.format("delta").options(**options).load(path).toArrow()


def _outcome(ask: Callable[[], Any]) -> list[str] | str:
    """The rows, or what the error says: delta-spark's condition, our text."""
    try:
        return rows_of(ask())
    except DeltaSparkError as error:
        return error.condition
    except errors.SlackwaterError as error:
        return str(error)


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0", "2.12.0", "99.0.0"])
def test_data_pages_are_those_of_delta_spark(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, version: str
) -> None:
    for who, run in (("ours", ours.sql), ("theirs", delta_spark.run)):
        table = f"delta.`{tmp_path / who}`"
        run(
            f"CREATE TABLE {table} (k INT, s STRING, t TIMESTAMP) USING delta "
            f"TBLPROPERTIES ('delta.parquet.format.version' = '{version}')"
        )
        run(f"INSERT INTO {table} SELECT id, id, TIMESTAMP'2024-01-01 01:02:03.456789' FROM range(0, 100, 1, 1)")
    found, wanted = (page_versions(*(tmp_path / who).glob("*.parquet")) for who in ("ours", "theirs"))
    assert found == wanted
    query = "SELECT count(*), sum(k), min(s), max(t) FROM delta.`{}`"
    rows = [delta_spark.sql(query.format(tmp_path / who)).rows for who in ("ours", "theirs")]
    assert rows[0].equals(rows[1])


@pytest.mark.parametrize("version", ["2", "0.9.0", "v2"])
def test_wrong_versions_of_parquet_are_refused_as_by_delta_spark(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, version: str
) -> None:
    create = (
        f"CREATE TABLE delta.`{tmp_path}/{{}}` (k INT) USING delta "
        f"TBLPROPERTIES ('delta.parquet.format.version' = '{version}')"
    )
    with pytest.raises(DeltaSparkError):
        delta_spark.run(create.format("theirs"))
    with pytest.raises(errors.InvalidArgument):
        ours.sql(create.format("ours"))
