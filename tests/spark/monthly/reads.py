"""Tasks of a month: reads, views, streams, and several tables."""

from __future__ import annotations

from .changes import LAKE
from .task import FEED, Task
from .writes import BY_NAME

NEWS = 'news.write.format("delta").mode("append").save(path)'

TASKS = [
    Task(
        "pin a version in three forms",
        """
        by_option = spark.read.format("delta").option("versionAsOf", 0).load(path)
        by_path = spark.read.format("delta").load(f"{path}@v0")
        by_sql = spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 0")
        """,
        "[ids(each) for each in (by_option, by_path, by_sql)] == [[1, 2, 3]] * 3",
        given=NEWS,
    ),
    Task(
        "join the table with its earlier version",
        """
        old = spark.read.format("delta").option("versionAsOf", 0).load(path).selectExpr("id", "s AS old")
        joined = spark.read.format("delta").load(path).join(old, "id", "left")
        changed = joined.where("s IS DISTINCT FROM old")
        """,
        "sorted((row.id, row.old, row.s) for row in changed.collect()) == [(2, 'b', 'x'), (4, None, 'new')]",
        given="""
        DeltaTable.forPath(spark, path).update("id = 2", {"s": "'x'"})
        news.where("id = 4").write.format("delta").mode("append").save(path)
        """,
    ),
    Task(
        "count the rows of each file",
        """
        found = spark.read.format("delta").load(path).groupBy("_metadata.file_path").count()
        """,
        "sum(row['count'] for row in found.collect()) == 3 and all(\n"
        "    row.file_path.endswith('.parquet') for row in found.collect())",
    ),
    Task(
        "cache a table, and refresh it after a write",
        """
        cached = spark.table(name).cache()
        news.write.format("delta").mode("append").saveAsTable(name)
        cached = spark.table(name).cache()
        """,
        "ids(cached) == [1, 2, 3, 3, 4] and ids(cached) == ids(spark.table(name)) and cached.unpersist() is not None",
        given=BY_NAME + "\ncached = None",
        is_fresh=True,
        theirs="""
        spark.catalog.cacheTable(name)
        news.write.format("delta").mode("append").saveAsTable(name)
        cached = spark.table(name)
        """,
    ),
    Task(
        "define a temporary view that follows the table",
        """
        spark.sql(f"CREATE OR REPLACE TEMP VIEW {name}_t AS SELECT * FROM delta.`{path}` WHERE p = 2")
        news.write.format("delta").mode("append").save(path)
        """,
        "ids(spark.table(name + '_t')) == [3, 3, 4]",
    ),
    Task(
        "query in threads, each with the session of the builder",
        """
        with ThreadPoolExecutor(2) as pool:
            queries = [f"SELECT * FROM {name}", f"SELECT * FROM {name} WHERE p = 1"]
            found = list(pool.map(lambda text: SparkSession.builder.getOrCreate().sql(text).count(), queries))
        """,
        "found == [3, 2]",
        given=BY_NAME,
        is_fresh=True,
    ),
    Task(
        "create a persisted view over a table",
        """
        spark.sql(f"CREATE OR REPLACE VIEW {name}_v AS SELECT * FROM {name} WHERE p = 2")
        news.write.format("delta").mode("append").saveAsTable(name)
        """,
        "ids(spark.table(name + '_v')) == [3, 3, 4]",
        given=BY_NAME,
        is_fresh=True,
    ),
    Task(
        "run the statements of dbt",
        """
        spark.sql(f"create or replace table {name}_2 using delta partitioned by (p) as select * from {name}")
        spark.sql(f"create or replace view {name}_v (id, s) comment '' as select id, s from {name}_2 where p = 2")
        source = f"(select 3L as id, 'dbt' as s, 2 as p) as DBT_INTERNAL_SOURCE"
        on = "DBT_INTERNAL_SOURCE.id = DBT_INTERNAL_DEST.id when matched then update set *"
        spark.sql(f"merge into {name}_2 as DBT_INTERNAL_DEST using {source} on {on} when not matched then insert *")
        spark.sql(f"describe extended {name}_2")
        """,
        "[tuple(row) for row in spark.table(name + '_v').collect()] == [(3, 'dbt')]",
        given=BY_NAME,
        is_fresh=True,
    ),
    Task(
        "apply the change feed to a downstream table",
        """
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(path)
        feed = feed.where("_change_type <> 'update_preimage'").alias("c")
        merge = DeltaTable.forPath(spark, out).alias("t").merge(feed, "t.id = c.id")
        merge = merge.whenMatchedDelete("c._change_type = 'delete'").whenMatchedUpdateAll()
        merge.whenNotMatchedInsertAll("c._change_type = 'insert'").execute()
        """,
        "sorted((row.id, row.s) for row in read(out).collect()) == [(2, 'x'), (3, 'c'), (4, 'new')]",
        given=f"""
        DeltaTable.create(spark).location(path).addColumns(rows.schema){FEED}.execute()
        rows.write.format("delta").mode("append").save(path)
        rows.write.format("delta").save(out)
        DeltaTable.forPath(spark, path).delete("id = 1")
        DeltaTable.forPath(spark, path).update("id = 2", {{"s": "'x'"}})
        news.where("id = 4").write.format("delta").mode("append").save(path)
        """,
        is_fresh=True,
    ),
    Task(
        "rename a column below a stream",
        """
        def run():
            reader = spark.readStream.format("delta").option("schemaTrackingLocation", f"{folder}/c/schema")
            writer = reader.option("allowSourceColumnRename", "always").load(path).writeStream.format("delta")
            writer = writer.option("checkpointLocation", f"{folder}/c").option("mergeSchema", "true")
            writer.trigger(availableNow=True).start(out).awaitTermination()
        run()
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN s TO text")
        news.withColumnRenamed("s", "text").write.format("delta").mode("append").save(path)
        while rejects(run, "schema"):
            restarts += 1
        """,
        "sorted((row.id, row.text or row.s) for row in read(out).collect()) == "
        "[(1, 'a'), (2, 'b'), (3, 'c'), (3, 'new'), (4, 'new')] and 0 < restarts < 4",
        given="""
        restarts = 0
        table = DeltaTable.create(spark).location(path).addColumns(rows.schema)
        table.property("delta.columnMapping.mode", "name").execute()
        rows.write.format("delta").mode("append").save(path)
        """,
        is_fresh=True,
    ),
    Task(
        "stream from a version, without changed rows",
        """
        reader = spark.readStream.format("delta").option("startingVersion", 1).option("skipChangeCommits", "true")
        writer = reader.load(path).writeStream.format("delta").option("checkpointLocation", f"{folder}/c")
        writer.trigger(availableNow=True).start(out).awaitTermination()
        """,
        "ids(read(out)) == [3, 4]",
        given=NEWS + '\nDeltaTable.forPath(spark, path).delete("id = 1")',
    ),
    Task(
        "change two tables in one transaction, and read both as of its moment",
        """
        with lake.transaction(spark) as tx:
            tx.table("orders").append(news)
            tx.table("stock").delete("id = 3")
        then = lake.as_of(tx.commit_timestamp)
        """,
        "lake.table('orders').delete() in (None, then) and "
        "(ids(then.table('orders').toDF()), ids(then.table('stock').toDF())) == ([1, 2, 3, 3, 4], [1, 2])",
        given=LAKE,
        is_fresh=True,
        theirs=None,
    ),
]
