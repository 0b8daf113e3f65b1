"""The same by SQL: tables by name, a transaction between BEGIN and COMMIT, and the state of the lake as of its time."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import slackwater
from demo.terminal import console, show, yes

_STATEMENTS = (
    "USE lake",
    "CREATE TABLE cancelled (month INT, day INT, carrier STRING, at TIMESTAMP)",
    "BEGIN TRANSACTION",
    "INSERT INTO cancelled SELECT month, day, carrier, current_timestamp() FROM flights WHERE dep_time IS NULL",
    "DELETE FROM flights WHERE dep_time IS NULL",
    "COMMIT",
)
_TOGETHER = "SELECT (SELECT count(*) FROM flights{0}) + (SELECT count(*) FROM cancelled{0}) AS rows"
_WORST = """
    SELECT carrier, count(*) AS cancelled FROM cancelled
    WHERE carrier IN (SELECT carrier FROM flights WHERE month = 12)
    GROUP BY carrier ORDER BY cancelled DESC LIMIT 3"""


def speak_sql(spark: SparkSession, root: Path) -> None:
    """Flights that never left go into a table of their own: out of one and into the other as of one instant."""
    console.print("\n[bold]12. The same in SQL")
    with slackwater.Lake.open(root, spark=spark) as lake:
        lake.attach(spark)
        before = spark.table("lake.flights").count()
        for statement in _STATEMENTS:
            console.print(f"   {statement}", highlight=False)
            spark.sql(statement)
        moved = spark.sql("SELECT max(at) AS at, count(*) AS n FROM cancelled").first()
        committed = lake.history(1).first()
        same = moved is not None and committed is not None and moved["at"] == committed["timestamp"]
        console.print(f"   current_timestamp() of its rows is the time of the commit: {yes(same)}")
        at = "" if moved is None else f" FOR SYSTEM_TIME AS OF TIMESTAMP '{moved['at'].isoformat(' ')}'"
        for moment in ("", at):
            rows = spark.sql(_TOGETHER.format(moment)).first()
            told = yes(rows is not None and rows["rows"] == before)
            console.print(f"   flights and cancelled{moment}: as many as before: {told}", highlight=False)
        show(spark.sql(_WORST), "cancelled, by those that fly in December")
        spark.sql("USE spark_catalog.default")
        lake.detach(spark)
