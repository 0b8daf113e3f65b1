"""What people do in a week, as they write it for delta-spark, and what must be true then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FEED = {"delta.enableChangeDataFeed": "true"}


@dataclass(frozen=True)
class Task:
    """`lines` do it, where `path` has rows (id, s, p) of a frame `rows`, and `news` are others; `holds` is true then.

    With `fresh` there is no table at first. `by_delta_spark`: whether delta-spark does it by these lines.
    """

    name: str
    lines: str
    holds: str
    fresh: bool = False
    by_delta_spark: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many lines it takes."""
        return len(self.lines.splitlines())


READ = "spark.read.format('delta').load(path)"
IDS = f"sorted(r.id for r in {READ}.collect())"
MERGE = "DeltaTable.forPath(spark, path).alias('t').merge(news.alias('s'), 't.id = s.id')"
TASKS = [
    Task(
        "ingest CSV into a new partitioned table",
        "spark.read.csv(csv, header=True).write.format('delta').partitionBy('p').save(path)",
        f"{READ}.count() == 2",
        fresh=True,
    ),
    Task(
        "ingest nested JSON, then a nested schema evolution",
        "spark.read.json(json1).write.format('delta').save(path)\n"
        "spark.read.json(json2).write.format('delta').mode('append').option('mergeSchema', 'true').save(path)",
        f"{READ}.select('a.c').distinct().count() == 2",
        fresh=True,
    ),
    Task(
        "save as a table by name",
        "rows.write.format('delta').mode('overwrite').option('path', path).saveAsTable(name)",
        "spark.table(name).count() == 3",
        fresh=True,
    ),
    Task(
        "create by writeTo",
        "rows.writeTo(f'delta.`{path}`').using('delta').create()",
        f"{IDS} == [1, 2, 3]",
        fresh=True,
    ),
    Task("append by writeTo", "news.writeTo(f'delta.`{path}`').append()", f"{IDS} == [1, 2, 3, 3, 4]"),
    Task("append by insertInto", "news.write.insertInto(f'delta.`{path}`')", f"{IDS} == [1, 2, 3, 3, 4]"),
    Task("append", "news.write.format('delta').mode('append').save(path)", f"{IDS} == [1, 2, 3, 3, 4]"),
    Task(
        "upsert, the source without its duplicates",
        "latest = news.union(news).dropDuplicates(['id']).alias('s')\n"
        "merge = DeltaTable.forPath(spark, path).alias('t').merge(latest, 't.id = s.id')\n"
        "merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()",
        f"{IDS} == [1, 2, 3, 4]",
    ),
    Task(
        "upsert in one line",
        f"{MERGE}.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()",
        f"{IDS} == [1, 2, 3, 4]",
    ),
    Task(
        "delete by a join (GDPR)",
        f"{MERGE}.whenMatchedDelete().execute()",
        f"{IDS} == [1, 2]",
    ),
    Task(
        "delete by a sub-query (GDPR)",
        "news.createOrReplaceTempView('gone')\nspark.sql(f'DELETE FROM delta"
        ".`{path}` WHERE id IN (SELECT id FROM gone)')",
        f"{IDS} == [1, 2]",
        by_delta_spark=False,
    ),
    Task(
        "delete by a list, then vacuum",
        "table = DeltaTable.forPath(spark, path)\ntable.delete(F.col('id').isin([1, 2]))\ntable.vacuum()",
        f"{IDS} == [3]",
    ),
    Task(
        "append a short into an int column",
        "rows.selectExpr('id', 's', 'CAST(p AS SMALLINT) AS p').write.format('delta').mode('append').save(path)",
        f"len({IDS}) == 6",
    ),
    Task(
        "what changed between two versions",
        "news.write.format('delta').mode('append').save(path)\n"
        "before = spark.read.format('delta').option('versionAsOf', 1).load(path)\n"
        "changed = spark.read.format('delta').load(path).exceptAll(before)",
        "changed.count() == 2",
    ),
    Task(
        "the change feed in a batch",
        "feed = spark.read.format('delta').option('readChangeFeed', 'true').option('startingVersion', 0).load(path)",
        "feed.where(\"_change_type = 'insert'\").count() == 3",
        properties=FEED,
    ),
    Task(
        "stream a table into another",
        "query = spark.readStream.format('delta').load(path).writeStream.format('delta')"
        ".option('checkpointLocation', path + '-c').trigger(availableNow=True).start(path + '-2')\n"
        "query.awaitTermination()",
        "spark.read.format('delta').load(path + '-2').count() == 3",
    ),
    Task(
        "stream the change feed",
        "feed = spark.readStream.format('delta').option('readChangeFeed', 'true').load(path)\n"
        "feed.writeStream.format('delta').option('checkpointLocation', path + '-c')"
        ".trigger(availableNow=True).start(path + '-2').awaitTermination()",
        "spark.read.format('delta').load(path + '-2').count() == 3",
        properties=FEED,
    ),
    Task(
        "an idempotent write",
        "for _ in range(2):\n"
        "    news.write.format('delta').mode('append').option('txnAppId', 'a').option('txnVersion', 1).save(path)",
        f"{IDS} == [1, 2, 3, 3, 4]",
    ),
    Task("compact", "DeltaTable.forPath(spark, path).optimize().executeCompaction()", f"{IDS} == [1, 2, 3]"),
    Task(
        "compact by hand",
        f"{READ}.repartition(1).write.format('delta').mode('overwrite').option('dataChange', 'false').save(path)",
        f"{IDS} == [1, 2, 3]",
    ),
    Task(
        "clone",
        "DeltaTable.forPath(spark, path).clone(path + '-2', isShallow=True)",
        "DeltaTable.isDeltaTable(spark, path + '-2')",
    ),
    Task(
        "clone by SQL",
        "spark.sql(f'CREATE TABLE delta.`{path}-2` SHALLOW CLONE delta.`{path}`')",
        "DeltaTable.isDeltaTable(spark, path + '-2')",
    ),
    Task(
        "convert Parquet",
        "rows.write.parquet(path)\nDeltaTable.convertToDelta(spark, f'parquet.`{path}`')",
        f"{IDS} == [1, 2, 3]",
        fresh=True,
    ),
    Task(
        "restore",
        "DeltaTable.forPath(spark, path).delete()\nDeltaTable.forPath(spark, path).restoreToVersion(1)",
        f"{IDS} == [1, 2, 3]",
    ),
    Task(
        "restore by hand",
        "spark.read.format('delta').option('versionAsOf', 0).load(path).write.format('delta')"
        ".mode('overwrite').save(path)",
        f"{IDS} == []",
    ),
    Task(
        "overwrite the partitions of the rows",
        "news.write.format('delta').mode('overwrite').option('partitionOverwriteMode', 'dynamic').save(path)",
        f"{IDS} == [1, 2, 3, 4]",
    ),
    Task(
        "overwrite where",
        "news.write.format('delta').mode('overwrite').option('replaceWhere', 'p = 2').save(path)",
        f"{IDS} == [1, 2, 3, 4]",
    ),
    Task("overwrite by SQL", "spark.sql(f\"INSERT OVERWRITE delta.`{path}` SELECT 9L, 'z', 1\")", f"{IDS} == [9]"),
    Task(
        "a generated column",
        "DeltaTable.create(spark).location(path).addColumn('t', 'TIMESTAMP')"
        ".addColumn('d', 'DATE', generatedAlwaysAs='CAST(t AS DATE)').execute()\n"
        "spark.sql('SELECT current_timestamp() AS t').write.format('delta').mode('append').save(path)",
        f"{READ}.first().d is not None",
        fresh=True,
    ),
    Task("select by SQL", "found = spark.sql(f'SELECT * FROM delta.`{path}`').count()", "found == 3"),
    Task("read.table of a path", "found = spark.read.table(f'delta.`{path}`').count()", "found == 3"),
    Task("load with format=", "found = spark.read.load(path, format='delta').count()", "found == 3"),
    Task(
        "create by SQL", "spark.sql(f'CREATE TABLE delta.`{path}` (id BIGINT) USING delta')", f"{IDS} == []", fresh=True
    ),
    Task(
        "create at a place by SQL",
        "spark.sql(f\"CREATE TABLE {name} (id BIGINT) USING delta LOCATION '{path}'\")",
        f"{IDS} == []",
        fresh=True,
    ),
    Task(
        "update by SQL",
        "spark.sql(f\"UPDATE delta.`{path}` SET s = 'x' WHERE id = 1\")",
        f"{READ}.where(\"s = 'x'\").count() == 1",
    ),
    Task(
        "merge by SQL",
        "news.createOrReplaceTempView('news')\n"
        "spark.sql(f'MERGE INTO delta.`{path}` t USING news s ON t.id = s"
        ".id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *')",
        f"{IDS} == [1, 2, 3, 4]",
    ),
    Task("describe history", "found = spark.sql(f'DESCRIBE HISTORY delta.`{path}`').count()", "found == 2"),
    Task("add a column by SQL", "spark.sql(f'ALTER TABLE delta.`{path}` ADD COLUMN x INT')", f"'x' in {READ}.columns"),
    Task(
        "a version by SQL", "found = spark.sql(f'SELECT * FROM delta.`{path}` VERSION AS OF 0').count()", "found == 0"
    ),
    Task(
        "metadata for the audit",
        "news.write.format('delta').mode('append').option('userMetadata', 'why').save(path)",
        "DeltaTable.forPath(spark, path).history(1).first().userMetadata == 'why'",
    ),
    Task(
        "a manifest",
        "DeltaTable.forPath(spark, path).generate('symlink_format_manifest')",
        "Path(path, '_symlink_format_manifest').is_dir()",
    ),
    Task(
        "drop a column after mapping",
        "spark.sql(f\"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')\")\n"
        "spark.sql(f'ALTER TABLE delta.`{path}` DROP COLUMN s')",
        f"'s' not in {READ}.columns",
    ),
    Task(
        "add a feature", "DeltaTable.forPath(spark, path).addFeatureSupport('deletionVectors')", f"{IDS} == [1, 2, 3]"
    ),
    Task(
        "save with keywords",
        "rows.write.save(path, format='delta', partitionBy='p')",
        f"{IDS} == [1, 2, 3]",
        fresh=True,
    ),
    Task(
        "file names of rows",
        "found = spark.read.format('delta').load(path).select('_metadata.file_path').distinct().count()",
        "found > 0",
    ),
    Task(
        "pandas round trip",
        "spark.createDataFrame(spark.read.format('delta').load(path).toPandas()).write"
        ".format('delta').mode('overwrite').save(path)",
        f"{IDS} == [1, 2, 3]",
    ),
    Task(
        "does it exist",
        "found = DeltaTable.isDeltaTable(spark, path) and spark.catalog.tableExists(f'delta.`{path}`')",
        "found",
    ),
    Task(
        "merge by mergeInto",
        "rows.write.format('delta').option('path', path).saveAsTable(name)\n"
        "merge = news.alias('s').mergeInto(name, F.expr(f'{name}.id = s.id'))\n"
        "merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()",
        f"{IDS} == [1, 2, 3, 4] and {READ}.where(\"s = 'new'\").count() == 2",
        fresh=True,
    ),
    Task(
        "close the rows that changed, and append the new ones (SCD2)",
        f"{MERGE}.whenMatchedUpdate(set={{'s': \"'closed'\"}}).execute()\n"
        "news.write.format('delta').mode('append').save(path)",
        f"{IDS} == [1, 2, 3, 3, 4] and {READ}.where(\"s = 'closed'\").count() == 1",
    ),
    Task(
        "write each micro-batch once, by foreachBatch",
        "def write(batch, number):\n"
        "    once = {'txnAppId': 'week', 'txnVersion': str(number)}\n"
        "    batch.write.format('delta').mode('append').options(**once).save(path + '-out')\n"
        "stream = spark.readStream.format('delta').load(path).writeStream.foreachBatch(write)\n"
        "stream = stream.option('checkpointLocation', path + '-checkpoint').trigger(availableNow=True)\n"
        "stream.start().awaitTermination()",
        "spark.read.format('delta').load(path + '-out').count() == 3",
    ),
    Task(
        "the change feed in SQL",
        "found = spark.sql(f\"SELECT * FROM table_changes_by_path('{path}', 1)\").count()",
        "found == 3",
        properties=FEED,
    ),
]


def carry_out(task: Task, spark: Any, path: str, table_class: Any) -> bool:
    """Do the task at `path`, where nothing is yet; whether what must be true then is. `table_class`: the DeltaTable."""
    from pyspark.sql import functions as F

    rows = spark.createDataFrame([(1, "a", 1), (2, "b", 1), (3, "c", 2)], "id BIGINT, s STRING, p INT")
    news = spark.createDataFrame([(3, "new", 2), (4, "new", 2)], "id BIGINT, s STRING, p INT")
    name = f"week_{TASKS.index(task)}"
    names: dict[str, Any] = {"spark": spark, "path": path, "rows": rows, "news": news, "name": name, "F": F}
    names |= {"DeltaTable": table_class, "Path": Path, **_given_files(Path(path).parent)}
    if not task.fresh:
        builder = table_class.create(spark).location(path).addColumns(rows.schema).partitionedBy("p")
        for key, value in task.properties.items():
            builder = builder.property(key, value)
        builder.execute()
        rows.write.format("delta").mode("append").save(path)
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    try:
        exec(task.lines, names)  # noqa: S102  (lines of this suite)
        return bool(eval(task.holds, names))  # noqa: S307
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def _given_files(place: Path) -> dict[str, str]:
    texts = {
        "csv": "id,p\n1,1\n2,2\n",
        "json1": '{"a": {"b": 1}}\n',
        "json2": '{"a": {"b": 2, "c": 3}}\n',
    }
    for name, text in texts.items():
        (place / name).write_text(text)
    return {name: str(place / name) for name in texts}
