"""The options of the JVMs that tests start, and the archive of Spark's classes that they share.

`python -m tests.java` makes the archive, which `make test` does once for an environment: with it a JVM reads and checks
each class once and for all, and takes half as long to start. A JVM that it does not fit starts without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"

# Tests run each plan once: compiling it well costs more than it saves. All that is compiled has room: where that of the
# first level alone is full, the JVM throws code away and compiles it again.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
_PATIENCE_S = 300


def options() -> str:
    """What `JDK_JAVA_OPTIONS` says to JVMs that are started for a short time."""
    # What does not fit is no error, and warnings would be on the output of a process.
    shared = f" -XX:SharedArchiveFile={ARCHIVE} -Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
    return _QUICK + (shared if is_shared() else "")


def is_shared() -> bool:
    """Whether there is an archive: a Java that can make none leaves an empty file."""
    return ARCHIVE.exists() and ARCHIVE.stat().st_size > 0


def main() -> None:
    """Make the archive of the classes that a session and its Connect server load for what most tests do."""
    new = ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ["JDK_JAVA_OPTIONS"] = f"{_QUICK} -XX:ArchiveClassesAtExit={new} -Xlog:disable"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    port = str(free_port())
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "1")
    # What clients of the server do is done by the same JVM.
    builder = builder.config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    session = builder.config("spark.connect.grpc.binding.port", port).getOrCreate()
    gateway: Any = session.sparkContext._gateway
    with tempfile.TemporaryDirectory() as folder:
        _use(session, folder + "/classic")
        client = [sys.executable, "-m", "tests.java", f"sc://localhost:{port}", folder + "/connect"]
        environment = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"}
        subprocess.run(client, env=environment, check=True)
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_PATIENCE_S)
    if new.exists():
        new.replace(ARCHIVE)
    else:
        sys.stderr.write("This Java shares no classes: each JVM of the tests takes a few seconds more to start.\n")
        ARCHIVE.touch()


def _use(session: SparkSession, folder: str) -> None:
    """Write, read, change and stream a small table."""
    import slackwater

    slackwater.enable(session)
    rows = session.range(100).selectExpr("id", "id % 3 AS k", "cast(id AS STRING) AS s", "current_date() AS d")
    rows.write.format("delta").partitionBy("k").save(folder + "/t")
    rows.limit(3).write.format("delta").mode("append").save(folder + "/t")
    table = slackwater.DeltaTable.forPath(session, folder + "/t")
    table.update("id = 3", {"s": "'x'"})
    table.delete("id = 4")
    news = session.createDataFrame([(5, "y"), (500, "z")], "id BIGINT, s STRING")
    merge = table.alias("t").merge(news.alias("n"), "t.id = n.id").whenMatchedUpdate(set={"s": "n.s"})
    merge.whenNotMatchedInsert(values={"id": "n.id", "s": "n.s"}).execute()
    table.history().collect()
    session.sql(f"SELECT k, count(*) FROM delta.`{folder}/t` WHERE id > 7 GROUP BY k ORDER BY k").collect()
    stream = session.readStream.format("delta").load(folder + "/t").writeStream.format("delta")
    stream = stream.option("checkpointLocation", folder + "/c").trigger(availableNow=True)
    stream.start(folder + "/copy").awaitTermination()


def _use_remotely(address: str, folder: str) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(address).getOrCreate()
    _use(session, folder)
    session.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _use_remotely(*sys.argv[1:])
    else:
        main()
