"""Once enabled, every session of the process is; sessions that opt out, and processes that forgot it."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater
from slackwater import DeltaTable, errors
from slackwater.spark import missing_enable_hint
from slackwater.spark.session import enabled_sessions
from tests.spark.written import read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

CATALOG, DELTA_CATALOG = "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
FORGOTTEN = "Call slackwater.enable"


@pytest.fixture
def disabled(enabled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process as it is before anybody enables it; classes that were extended stay so."""
    del enabled
    monkeypatch.setattr(enabled_sessions, "_process", threading.Event())


@pytest.fixture
def another(spark: SparkSession) -> SparkSession:
    """A session of the same process, whose settings are its own; it ends with the run, as `stop` would end all."""
    return spark.newSession()


def test_sessions_that_come_later_are_enabled_too(another: SparkSession, path: str) -> None:
    save(another.range(2), path)
    assert rows(read(another, path)) == [(0,), (1,)]
    assert slackwater.enable(another) is another


def test_a_cloned_session_is_enabled_too(spark: SparkSession, path: str) -> None:
    if not hasattr(spark, "cloneSession"):
        pytest.skip("this kind of session, or release of PySpark, has no cloneSession")
    clone = spark.cloneSession()
    save(clone.range(2), path)
    assert rows(read(clone, path)) == [(0,), (1,)]


def test_without_an_argument_the_process_is_enabled(spark: SparkSession, path: str) -> None:
    assert slackwater.enable() is SparkSession.getActiveSession()
    assert slackwater.enable(SparkSession.builder) is not None
    for wrong in (3, "spark", object(), SparkSession):
        with pytest.raises(errors.InvalidArgument, match="a Spark session, the builder of one"):
            slackwater.enable(wrong)  # type: ignore[call-overload]
    save(spark.range(1), path)


def test_each_batch_of_a_stream_can_be_written_and_merged(spark: SparkSession, tmp_path: Path) -> None:
    path, source = str(tmp_path / "t"), tmp_path / "source"
    save(spark.createDataFrame([("a", 0)], "value STRING, n BIGINT"), path)
    source.mkdir()
    (source / "one.txt").write_text("a\nb\n")

    def written(frame: DataFrame, batch_id: int) -> None:
        import slackwater

        given = frame.selectExpr("value", f"{batch_id} + 1L AS n")
        given.write.format("delta").mode("append").save(path + "_appended")
        table = slackwater.DeltaTable.forPath(frame.sparkSession, path)
        merge = table.alias("t").merge(given.alias("s"), "t.value = s.value")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    writer = spark.readStream.schema("value STRING").text(str(source)).writeStream.foreachBatch(written)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None
    assert rows(read(spark, path)) == [("a", 1), ("b", 1)]
    assert rows(read(spark, path + "_appended")) == [("a", 1), ("b", 1)]


def test_delta_as_the_default_source_is_meant_where_no_format_is_named(another: SparkSession, path: str) -> None:
    another.conf.set("spark.sql.sources.default", "Delta")
    another.range(1).write.save(path)
    another.range(1, 2).write.mode("append").save(path)
    assert rows(another.read.load(path)) == [(0,), (1,)]
    assert rows(another.read.option("versionAsOf", 0).load(path)) == [(0,)]
    another.range(2, 3).write.mode("append").saveAsTable(f"delta.`{path}`")
    another.range(1).write.option("path", path + "_named").saveAsTable("named")
    assert rows(another.read.format("delta").load(path + "_named")) == [(0,)]
    another.sql("DROP TABLE named")
    another.range(3).write.format("parquet").save(path + "_other")
    assert another.read.parquet(path + "_other").count() == 3
    another.conf.set("spark.sql.sources.default", "parquet")
    assert another.read.load(path + "_other").count() == 3
    assert rows(another.read.load(path, format="delta")) == [(0,), (1,), (2,)]


def test_a_session_that_opts_out_is_left_alone(spark: SparkSession, another: SparkSession, path: str) -> None:
    save(spark.range(1), path)
    another.conf.set("spark.slackwater.enabled", "FALSE")
    for use in (
        lambda: another.read.format("delta").load(path).collect(),
        lambda: another.range(1).write.format("delta").mode("append").save(path),
    ):
        with pytest.raises(errors.InvalidArgument, match=r"spark\.slackwater\.enabled is false"):
            use()
    with pytest.raises(errors.InvalidArgument, match=r"spark\.slackwater\.enabled = false"):
        slackwater.enable(another)
    assert rows(read(spark, path)) == [(0,)]
    # What is named by itself is no question of the format.
    assert rows(DeltaTable.forPath(another, path).toDF()) == [(0,)]
    another.conf.set("spark.slackwater.enabled", "perhaps")
    with pytest.raises(errors.InvalidArgument, match="must be true or false"):
        read(another, path)
    another.conf.unset("spark.slackwater.enabled")
    assert rows(read(another, path)) == [(0,)]


@pytest.mark.usefixtures("disabled")
def test_who_forgot_to_enable_is_told(spark: SparkSession, path: str) -> None:
    for use in (
        lambda: spark.read.format("delta").load(path),
        lambda: spark.read.load(path, format="delta"),
        lambda: spark.range(1).write.format("delta").save(path),
        lambda: spark.range(1).write.save(path, format="delta"),
        lambda: spark.range(1).write.format("delta").saveAsTable("t"),
    ):
        with pytest.raises(errors.InvalidArgument, match=FORGOTTEN):
            use()
    with pytest.raises(Exception, match="nosuch") as other:
        spark.range(1).write.format("nosuch").save(path)
    assert not isinstance(other.value, errors.SlackwaterError)
    missing_enable_hint.watch()
    slackwater.enable(spark)
    save(spark.range(1), path)


@pytest.mark.usefixtures("disabled")
def test_the_table_as_an_object_needs_no_enabling(spark: SparkSession, path: str) -> None:
    table = DeltaTable.create(spark).location(path).addColumn("id", "BIGINT").execute()
    assert DeltaTable.isDeltaTable(spark, path)
    assert DeltaTable.forName(spark, f"delta.`{path}`").toDF().columns == ["id"]
    table.delete("id = 1")
    assert DeltaTable.forPath(spark, path).history(1).count() == 1


def test_whether_a_table_exists_is_told_by_its_log(spark: SparkSession, another: SparkSession, path: str) -> None:
    name = f"delta.`{path}`"
    assert not spark.catalog.tableExists(name)
    save(spark.range(1), path)
    assert spark.catalog.tableExists(name) is True
    assert spark.catalog.tableExists(f"DELTA.`{path}`") is True
    assert spark.catalog.tableExists("delta.`/no/such/folder`") is False
    spark.range(1).createOrReplaceTempView("of_the_session")
    assert spark.catalog.tableExists("of_the_session") is True
    assert spark.catalog.tableExists("no_such_table") is False
    spark.catalog.dropTempView("of_the_session")
    another.conf.set("spark.slackwater.enabled", "false")
    assert another.catalog.tableExists(name) is False


def test_delta_sparks_catalog_is_taken_back_where_it_cannot_be_loaded(another: SparkSession, path: str) -> None:
    another.conf.set(CATALOG, DELTA_CATALOG)
    another.__dict__.pop("_slackwater_attended")
    with pytest.raises(Exception, match="spark_catalog"):
        another.sql("SHOW TABLES").collect()
    with pytest.warns(errors.SettingIgnoredWarning, match="DeltaCatalog was removed"):
        slackwater.enable(another)
    assert another.conf.get(CATALOG, "none") in ("none", "builtin")
    another.sql("SHOW TABLES").collect()
    save(another.range(1), path)
    assert another.catalog.tableExists(f"delta.`{path}`")


def test_another_catalog_is_left_as_it_is(another: SparkSession) -> None:
    # A class that Spark has, which takes the place that delta-spark's catalog has with its JAR.
    another.conf.set(CATALOG, "com.example.NoSuchCatalog")
    another.__dict__.pop("_slackwater_attended")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slackwater.enable(another)
    assert another.conf.get(CATALOG) == "com.example.NoSuchCatalog"


def test_delta_sparks_catalog_stays_where_it_can_be_loaded(another: SparkSession, monkeypatch: Any) -> None:
    another.conf.set(CATALOG, DELTA_CATALOG)
    another.__dict__.pop("_slackwater_attended")
    monkeypatch.setattr(enabled_sessions, "_has_catalog", lambda spark: True)
    slackwater.enable(another)
    assert another.conf.get(CATALOG) == DELTA_CATALOG


_PROGRAM = """
import sys, warnings
import slackwater
from pyspark.sql import SparkSession

path = sys.argv[1]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.sql.sources.default", "delta")
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
if sys.argv[2] == "forgotten":
    spark = builder.getOrCreate()
    try:
        spark.read.format("delta").load(path)
    except slackwater.errors.InvalidArgument as error:
        print(error)
    raise SystemExit
assert slackwater.enable(builder) is builder
spark = builder.getOrCreate()
spark.range(2).write.save(path)
spark.sql("SHOW TABLES").collect()
spark.stop()
again = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
assert again is not spark
print(again.read.format("delta").load(path).count(), "rows after a stop")
"""


@pytest.mark.classic
@pytest.mark.parametrize(
    ("how", "says"),
    [("enabled", "2 rows after a stop"), pytest.param("forgotten", FORGOTTEN, marks=pytest.mark.long)],
)
def test_the_sessions_of_a_builder_are_enabled_also_after_a_stop_and_with_delta_sparks_settings(
    path: str, how: str, says: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", _PROGRAM, path, how], capture_output=True, text=True, check=False
    )
    assert says in done.stdout, done.stderr
    assert ("was removed" in done.stderr) == (how == "enabled")


def test_a_pyspark_that_is_too_old_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '3.5.4'\n")
    program = "import sys; sys.path.insert(0, sys.argv[1]); import slackwater; slackwater.enable"
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "ImportError: slackwater.enable needs PySpark 4.0 or newer, found 3.5.4" in done.stderr


def test_a_setting_is_asked_once_a_statement_and_anew_for_the_next(spark: SparkSession, path: str) -> None:
    """A statement over two tables asks the zone once; the next one sees what was set meanwhile."""
    save(spark.range(1), path)
    asked: list[str] = []

    def ask(name: str) -> str:
        return enabled_sessions.cached_in_statement(spark, name, lambda: asked.append(name) or name)  # type: ignore[func-returns-value]

    with enabled_sessions.statement_scope():
        assert [ask("zone"), ask("zone"), ask("way")] == ["zone", "zone", "way"]
        with enabled_sessions.statement_scope():
            ask("zone")
        ask("way")
    assert asked == ["zone", "way"]
    assert [ask("zone"), ask("zone")] == ["zone", "zone"]
    assert asked == ["zone", "way", "zone", "zone"]

    times = f"SELECT TIMESTAMP '2026-01-01 00:00:00' = TIMESTAMP '2026-01-01 00:00:00Z' AS utc FROM delta.`{path}`"
    found = []
    try:
        for zone in ("UTC", "Asia/Tokyo"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            found.append(rows(spark.sql(times)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found == [[(True,)], [(False,)]]
