"""Tasks of a month: writes of rows."""

from __future__ import annotations

from .task import Task

TWICE = 'rows.write.format("delta").mode("append").save(path)'
BY_NAME = 'rows.write.format("delta").saveAsTable(name)'

TASKS = [
    Task(
        "backfill a partition twice",
        """
        for _ in range(2):
            news.write.format("delta").mode("overwrite").option("replaceWhere", "p = 2").save(path)
        """,
        "ids(read(path)) == [1, 2, 3, 4] and ids(read(path).where(\"s = 'new'\")) == [3, 4]",
    ),
    Task(
        "remove duplicates by an overwrite",
        """
        unique = spark.read.format("delta").load(path).dropDuplicates(["id"])
        unique.write.format("delta").mode("overwrite").save(path)
        """,
        "ids(read(path)) == [1, 2, 3]",
        given=TWICE,
    ),
    Task(
        "remove duplicates by INSERT OVERWRITE from the table itself",
        """
        spark.sql(f"INSERT OVERWRITE delta.`{path}` SELECT DISTINCT * FROM delta.`{path}`")
        """,
        "ids(read(path)) == [1, 2, 3]",
        given=TWICE,
    ),
    Task(
        "change the partition column of a path",
        """
        writer = spark.read.format("delta").load(path).write.format("delta").mode("overwrite")
        writer.option("overwriteSchema", "true").partitionBy("s").save(path)
        """,
        "DeltaTable.forPath(spark, path).detail().first().partitionColumns == ['s'] and ids(read(path)) == [1, 2, 3]",
    ),
    Task(
        "change the partition column by CREATE OR REPLACE from the table itself",
        """
        spark.sql(f"CREATE OR REPLACE TABLE {name} USING delta PARTITIONED BY (s) AS SELECT * FROM {name}")
        """,
        "DeltaTable.forName(spark, name).detail().first().partitionColumns == ['s']"
        " and ids(spark.table(name)) == [1, 2, 3]",
        given=BY_NAME,
        is_fresh=True,
    ),
    Task(
        "overwrite the partitions of the rows, in four forms",
        """
        news.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(path)
        news.writeTo(f"delta.`{path}`").overwritePartitions()
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        news.write.insertInto(f"delta.`{path}`", overwrite=True)
        spark.sql(f"INSERT OVERWRITE delta.`{path}` SELECT 5L, 'five', 3")
        """,
        "[ids(read(path, versionAsOf=v)) for v in range(1, 5)] == [[1, 2, 3, 4]] * 3 + [[1, 2, 3, 4, 5]]",
    ),
    Task(
        "load JSON with a new nested column",
        """
        arrived = spark.read.json(f"{folder}/in")
        arrived.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
        """,
        "[row.c for row in read(path).select('a.c').orderBy('c').collect()] == [None, 3]",
        given="""
        spark.sql("SELECT named_struct('b', 1L) AS a").write.format("delta").save(path)
        Path(folder, "in").mkdir()
        Path(folder, "in", "1.json").write_text('{"a": {"b": 2, "c": 3}}')
        """,
        is_fresh=True,
    ),
    Task(
        "load each arriving file once",
        """
        arrived = spark.readStream.schema(rows.schema).parquet(f"{folder}/in").writeStream.format("delta")
        for _ in range(2):
            query = arrived.option("checkpointLocation", f"{folder}/c").trigger(availableNow=True).start(out)
            query.awaitTermination()
        """,
        "ids(read(out)) == [3, 4]",
        given='news.write.parquet(f"{folder}/in")',
        is_fresh=True,
    ),
    Task(
        "stream a table into another by their names",
        """
        writer = spark.readStream.table(name).writeStream.format("delta").trigger(availableNow=True)
        writer.option("checkpointLocation", f"{folder}/c").toTable(f"{name}_2").awaitTermination()
        """,
        "ids(spark.table(name + '_2')) == [1, 2, 3]",
        given=BY_NAME,
        is_fresh=True,
    ),
    Task(
        "append with a new column by saveAsTable",
        """
        wider = news.withColumn("extra", F.lit(1))
        wider.write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable(name)
        """,
        "ids(spark.table(name).where('extra = 1')) == [3, 4] and ids(spark.table(name)) == [1, 2, 3, 3, 4]",
        given=BY_NAME,
        is_fresh=True,
    ),
    Task(
        "export as CSV, JSON and Parquet",
        """
        found = spark.read.format("delta").load(path)
        found.coalesce(1).write.csv(f"{folder}/csv", header=True)
        found.write.json(f"{folder}/json")
        found.write.parquet(f"{folder}/parquet")
        """,
        "[ids(spark.read.load(f'{folder}/{form}', format=form, header=True, inferSchema=True))"
        " for form in ('csv', 'json', 'parquet')] == [[1, 2, 3]] * 3",
    ),
    Task(
        "append from six threads",
        """
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda n: news.write.format("delta").mode("append").save(path), range(6)))
        """,
        "read(path).count() == 15 and DeltaTable.forPath(spark, path).history().count() == 7",
    ),
    Task(
        "write rows of pandas or Arrow without Spark",
        """
        slackwater.write(path, pd.DataFrame({"id": [4], "s": ["d"], "p": [2]}), mode="append")
        slackwater.write(path, pa.table({"id": [5], "s": ["e"], "p": [2]}), mode="append")
        """,
        "ids(read(path)) == [1, 2, 3, 4, 5]",
        given="import slackwater",
        theirs=None,
    ),
    Task(
        "change rows in pandas and Arrow, and write them back",
        """
        changed = spark.read.format("delta").load(path).toPandas().assign(s="x")
        spark.createDataFrame(changed).write.format("delta").mode("overwrite").save(path)
        taken = spark.read.format("delta").load(path).toArrow().slice(0, 2)
        spark.createDataFrame(taken).write.format("delta").save(out)
        """,
        "ids(read(path).where(\"s = 'x'\")) == [1, 2, 3] and read(out).count() == 2",
    ),
    Task(
        "read and write with pandas on Spark",
        """
        frame = ps.read_delta(path, index_col="id")
        frame[frame.p == 1].to_delta(out, index_col="id")
        """,
        "ids(read(out)) == [1, 2]",
        given="import pyspark.pandas as ps",
    ),
]
