"""Tasks of a month: changes of rows."""

from __future__ import annotations

from .task import Task
from .writes import BY_NAME, TWICE

PERIODS = """
spark.sql(f"CREATE TABLE {name} (id INT, city STRING, since DATE, until DATE) USING delta")
spark.sql(f"INSERT INTO {name} VALUES (1, 'Bern', DATE'2026-01-01', NULL), (2, 'Rome', DATE'2026-01-01', NULL)")
moved = spark.sql("SELECT *, DATE'2026-11-01' AS since FROM VALUES (1, 'Oslo'), (3, 'Kyiv') AS v(id, city)")
moved.createOrReplaceTempView(f"{name}_t")
"""
PERIODS_HOLD = (
    "sorted((r.id, r.city, str(r.since), str(r.until)) for r in spark.table(name).collect()) == "
    "[(1, 'Bern', '2026-01-01', '2026-11-01'), (1, 'Oslo', '2026-11-01', 'None'), "
    "(2, 'Rome', '2026-01-01', 'None'), (3, 'Kyiv', '2026-11-01', 'None')]"
)
LAKE = """
import slackwater
lake = slackwater.Lake.open(f"{folder}/lake", spark=spark)
for each in ("orders", "stock", "bills"):
    lake.create_table(each, rows.schema)
with lake.transaction(spark) as tx:
    for each in ("orders", "stock", "bills"):
        tx.table(each).append(rows)
before = tx.commit_timestamp
"""
# delta-spark 4.4 with PySpark 4.2 leaves the parameters of a statement with a Delta table unbound.
UNBOUND = None

TASKS = [
    Task(
        "keep the history of rows by one MERGE in SQL (SCD2)",
        """
        spark.sql(f'''
            MERGE INTO {name} t USING (
                SELECT id AS key, * FROM {name}_t
                UNION ALL SELECT NULL, n.* FROM {name}_t n JOIN {name} o ON n.id = o.id AND o.until IS NULL
            ) s ON t.id = s.key AND t.until IS NULL
            WHEN MATCHED AND t.city <> s.city THEN UPDATE SET until = s.since
            WHEN NOT MATCHED THEN INSERT (id, city, since, until) VALUES (s.id, s.city, s.since, NULL)
        ''')
        """,
        PERIODS_HOLD,
        given=PERIODS,
        is_fresh=True,
    ),
    Task(
        "keep the history of rows by one merge in Python (SCD2)",
        """
        table = DeltaTable.forName(spark, name)
        known = moved.join(table.toDF().where("until IS NULL").select("id"), "id").selectExpr("INT(NULL) AS key", "*")
        source = moved.selectExpr("id AS key", "*").union(known).alias("s")
        merge = table.alias("t").merge(source, "t.id = s.key AND t.until IS NULL")
        merge = merge.whenMatchedUpdate("t.city <> s.city", {"until": "s.since"})
        merge.whenNotMatchedInsert(values={each: f"s.{each}" for each in moved.columns}).execute()
        """,
        PERIODS_HOLD,
        given=PERIODS,
        is_fresh=True,
    ),
    Task(
        "make the table equal to a complete source",
        """
        merge = DeltaTable.forPath(spark, path).alias("t").merge(news.alias("s"), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().whenNotMatchedBySourceDelete().execute()
        """,
        "sorted(tuple(row) for row in read(path).collect()) == [(3, 'new', 2), (4, 'new', 2)]",
    ),
    Task(
        "merge rows with a new column",
        """
        wider = news.withColumn("extra", F.lit(1)).alias("s")
        merge = DeltaTable.forPath(spark, path).alias("t").merge(wider, "t.id = s.id").withSchemaEvolution()
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        """,
        "[row.extra for row in read(path).orderBy('id').collect()] == [None, None, 1, 1]",
    ),
    Task(
        "remove exact duplicates by their row ids",
        """
        numbered = spark.read.format("delta").load(path).select("id", "_metadata.row_id")
        kept = numbered.groupBy("id").agg(F.min("row_id").alias("row")).alias("k")
        merge = DeltaTable.forPath(spark, path).alias("t").merge(kept, "t.id = k.id AND t._metadata.row_id > k.row")
        merge.whenMatchedDelete().execute()
        """,
        "ids(read(path)) == [1, 2, 3] and DeltaTable.forPath(spark, path).history(1).first().operation == 'MERGE'",
        given="""
        table = DeltaTable.create(spark).location(path).addColumns(rows.schema)
        table.property("delta.enableRowTracking", "true").execute()
        rows.union(rows).write.format("delta").mode("append").save(path)
        """,
        is_fresh=True,
        theirs=None,
    ),
    Task(
        "erase the data of a person to the end (GDPR)",
        """
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        DeltaTable.forPath(spark, path).delete("s = 'secret'")
        spark.sql(f"REORG TABLE delta.`{path}` APPLY (PURGE)")
        DeltaTable.forPath(spark, path).vacuum(0)
        """,
        "ids(read(path)) == [1, 2] and written and not holds_secret()",
        given="""
        table = DeltaTable.create(spark).location(path).addColumns(rows.schema)
        table.property("delta.enableDeletionVectors", "true").execute()
        secret = rows.selectExpr("id", "IF(id = 3, 'secret', s) AS s", "p").coalesce(1)
        secret.write.format("delta").mode("append").option("compression", "uncompressed").save(path)
        def holds_secret():
            return any(b"secret" in file.read_bytes() for file in Path(path).rglob("*.parquet"))
        written = holds_secret()
        """,
        is_fresh=True,
    ),
    Task(
        "delete by a list of 2,000 keys",
        """
        keys = ", ".join(str(key) for key in range(2, 2_002))
        DeltaTable.forPath(spark, path).delete(f"id IN ({keys})")
        """,
        "ids(read(path)) == [1]",
    ),
    Task(
        "undo a wrong delete",
        """
        table = DeltaTable.forPath(spark, path)
        wrong = table.history().where("operation = 'DELETE'").first().version
        table.restoreToVersion(wrong - 1)
        """,
        "ids(read(path)) == [1, 2, 3]",
        given='DeltaTable.forPath(spark, path).delete("id > 1")',
    ),
    Task(
        "restore the table of a datetime",
        """
        DeltaTable.forPath(spark, path).restoreToTimestamp(before)
        """,
        "ids(read(path)) == [1, 2, 3]",
        given="""
        before = DeltaTable.forPath(spark, path).history(1).first().timestamp
        DeltaTable.forPath(spark, path).delete("id > 1")
        """,
        theirs="""
        DeltaTable.forPath(spark, path).restoreToTimestamp(str(before))
        """,
    ),
    Task(
        "roll back three tables of a lake in one transaction",
        """
        lake.restore(before)
        """,
        "[ids(lake.table(each).toDF()) for each in ('orders', 'stock', 'bills')] == [[1, 2, 3]] * 3",
        given=LAKE + 'for each in ("orders", "stock", "bills"):\n    lake.table(each).delete("id > 1")\n',
        is_fresh=True,
        theirs=None,
    ),
    Task(
        "roll back three tables by name",
        """
        for each in names:
            DeltaTable.forName(spark, each).restoreToVersion(0)
        """,
        "[ids(spark.table(each)) for each in names] == [[1, 2, 3]] * 3",
        given="""
        names = [name, f"{name}_2", f"{name}_3"]
        for each in names:
            rows.write.format("delta").saveAsTable(each)
            spark.sql(f"DELETE FROM {each}")
        """,
        is_fresh=True,
    ),
    Task(
        "query with named parameters and with positional ones",
        """
        named = spark.sql(f"SELECT * FROM delta.`{path}` WHERE p = :p", {"p": 1})
        positional = spark.sql(f"SELECT * FROM delta.`{path}` WHERE p = ? AND id > ?", [1, 1])
        """,
        "ids(named) == [1, 2] and ids(positional) == [2]",
        theirs=UNBOUND,
    ),
    Task(
        "merge a frame by its name in SQL",
        """
        merge = f"MERGE INTO {name} t USING {{news}} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
        spark.sql(f"{merge} WHEN NOT MATCHED THEN INSERT *", news=news)
        """,
        "ids(spark.table(name)) == [1, 2, 3, 4] and ids(spark.table(name).where(\"s = 'new'\")) == [3, 4]",
        given=BY_NAME,
        is_fresh=True,
    ),
    Task(
        "name the table by a parameter",
        """
        spark.sql("DELETE FROM IDENTIFIER(:t) WHERE id = :id", {"t": name, "id": 1})
        found = spark.sql("SELECT * FROM IDENTIFIER(:t)", {"t": name})
        """,
        "ids(found) == [2, 3]",
        given=BY_NAME,
        is_fresh=True,
        theirs=UNBOUND,
    ),
    Task(
        "delete, update and insert with parameters",
        """
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = :id", {"id": 1})
        spark.sql(f"UPDATE delta.`{path}` SET s = ? WHERE id = ?", ["it's", 2])
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (:id, :s, 2)", {"id": 4, "s": "d"})
        """,
        "sorted((row.id, row.s) for row in read(path).collect()) == [(2, \"it's\"), (3, 'c'), (4, 'd')]",
        theirs=UNBOUND,
    ),
    Task(
        "change rows by a function of Python and by groups in pandas",
        """
        upper = F.udf(lambda text: text.upper(), "STRING")
        DeltaTable.forPath(spark, path).update(set={"s": upper("s")})
        counted = spark.read.format("delta").load(path).groupBy("p").applyInPandas(
            lambda group: group.assign(n=len(group)), "id BIGINT, s STRING, p INT, n BIGINT")
        counted.write.format("delta").save(out)
        """,
        "sorted((row.s, row.n) for row in read(out).collect()) == [('A', 2), ('B', 2), ('C', 1)]",
    ),
    Task(
        "upsert each micro-batch of a stream",
        """
        def upsert(batch, number):
            merge = DeltaTable.forPath(batch.sparkSession, path).alias("t").merge(batch.alias("s"), "t.id = s.id")
            merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        stream = spark.readStream.schema(news.schema).parquet(f"{folder}/in").writeStream.foreachBatch(upsert)
        stream.option("checkpointLocation", f"{folder}/c").trigger(availableNow=True).start().awaitTermination()
        """,
        "sorted((row.id, row.s) for row in read(path).collect()) == [(1, 'a'), (2, 'b'), (3, 'new'), (4, 'new')]",
        given='news.write.parquet(f"{folder}/in")',
    ),
    Task(
        "replace the rows of a range",
        """
        range_ = "id >= 3 AND id < 10"
        news.write.format("delta").mode("overwrite").option("replaceWhere", range_).save(path)
        """,
        "ids(read(path)) == [1, 1, 2, 2, 3, 4] and rejects(lambda: rows.write.format('delta').mode('overwrite')"
        ".option('replaceWhere', range_).save(path), 'id')",
        given=TWICE,
    ),
]
