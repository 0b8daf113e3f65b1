"""Tasks of a month: columns, rules, files and copies of tables."""

from __future__ import annotations

from .task import Task
from .writes import BY_NAME, TWICE

NULL = 'spark.sql(f"INSERT INTO delta.`{path}` VALUES (9, NULL, 9)")'
INSERT_FAILS = (
    "rejects(lambda: spark.sql(f'INSERT INTO delta.`{path}` (id, p) VALUES (10, 1)'), '%s')"
    " and read(path).count() == %d"
)
TWO_NAMES = """
for each in (name, f"{name}_2"):
    for _ in range(2):
        rows.coalesce(1).write.format("delta").mode("append").saveAsTable(each)
"""

TASKS = [
    Task(
        "forbid NULL in an existing column",
        """
        spark.sql(f"UPDATE delta.`{path}` SET s = 'unknown' WHERE s IS NULL")
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN s SET NOT NULL")
        """,
        f"read(path).where('s IS NULL').count() == 0 and {INSERT_FAILS % ('s', 4)}",
        given=NULL,
        theirs="""
        spark.sql(f"UPDATE delta.`{path}` SET s = 'unknown' WHERE s IS NULL")
        spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT s_known CHECK (s IS NOT NULL)")
        """,
    ),
    Task(
        "add a column without NULL",
        """
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN q INT")
        spark.sql(f"UPDATE delta.`{path}` SET q = 0")
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN q SET NOT NULL")
        """,
        f"read(path).where('q = 0').count() == 3 and {INSERT_FAILS % ('q', 3)}",
        theirs="""
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN q INT")
        spark.sql(f"UPDATE delta.`{path}` SET q = 0")
        spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT q_known CHECK (q IS NOT NULL)")
        """,
    ),
    Task(
        "widen the type of a column",
        """
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        spark.sql(f"ALTER TABLE {name} ALTER COLUMN p TYPE BIGINT")
        spark.sql(f"INSERT INTO {name} VALUES (4, 'd', 3000000000)")
        """,
        "sorted(row.p for row in spark.table(name).collect()) == [1, 1, 2, 3000000000]",
        given=BY_NAME,
        is_fresh=True,
    ),
    Task(
        "rename a column and drop another",
        """
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN s TO text")
        spark.sql(f"ALTER TABLE {name} DROP COLUMN p")
        """,
        "sorted(tuple(row) for row in spark.table(name).select('id', 'text').collect()) == "
        "[(1, 'a'), (2, 'b'), (3, 'c')] and spark.table(name).columns == ['id', 'text']",
        given=BY_NAME,
        is_fresh=True,
    ),
    Task(
        "add a constraint, and drop it",
        """
        spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK (id > 0)")
        held = rejects(lambda: spark.sql(f"INSERT INTO delta.`{path}` VALUES (-1, 'x', 1)"), "positive")
        spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT positive")
        """,
        "held and not rejects(lambda: spark.sql(f\"INSERT INTO delta.`{path}` VALUES (-1, 'x', 1)\"), 'positive') "
        "and ids(read(path)) == [-1, 1, 2, 3]",
    ),
    Task(
        "number rows by an identity column",
        """
        spark.sql(f"CREATE TABLE {name} (key BIGINT GENERATED ALWAYS AS IDENTITY, s STRING) USING delta")
        spark.sql(f"INSERT INTO {name} (s) VALUES ('a'), ('b')")
        news.select("s").write.format("delta").mode("append").saveAsTable(name)
        """,
        "len({row.key for row in spark.table(name).collect()}) == 4 and spark.table(name).where('key < 1').isEmpty()",
        is_fresh=True,
    ),
    Task(
        "give a column a default",
        """
        feature = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING DEFAULT 'none') USING delta {feature}")
        spark.sql(f"INSERT INTO {name} (id) VALUES (1)")
        """,
        "[tuple(row) for row in spark.table(name).collect()] == [(1, 'none')]",
        is_fresh=True,
    ),
    Task(
        "partition by the day of a timestamp",
        """
        table = DeltaTable.create(spark).tableName(name).addColumn("at", "TIMESTAMP")
        table = table.addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)")
        table.partitionedBy("day").execute()
        spark.sql("SELECT timestamp'2026-11-23 10:00:00' AS at").write.format("delta").mode("append").saveAsTable(name)
        """,
        "[str(row.day) for row in spark.table(name).collect()] == ['2026-11-23']",
        is_fresh=True,
    ),
    Task(
        "count the files of all tables of a catalog",
        """
        found = {}
        for each in spark.sql(f"SHOW TABLES LIKE '{name}*'").collect():
            found[each.tableName] = DeltaTable.forName(spark, each.tableName).detail().first().numFiles
        """,
        "found == {name: 2, name + '_2': 2}",
        given=TWO_NAMES,
        is_fresh=True,
    ),
    Task(
        "compact and vacuum all tables of a catalog",
        """
        for each in spark.sql(f"SHOW TABLES LIKE '{name}*'").collect():
            DeltaTable.forName(spark, each.tableName).optimize().executeCompaction()
            DeltaTable.forName(spark, each.tableName).vacuum()
        """,
        "[spark.table(each).select('_metadata.file_path').distinct().count() for each in (name, name + '_2')] == [1, 1]"
        " and DeltaTable.forName(spark, name).history(1).first().operation == 'VACUUM END'",
        given=TWO_NAMES,
        is_fresh=True,
    ),
    Task(
        "show the files that VACUUM would delete, and delete them now",
        """
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        planned = spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS DRY RUN").count()
        spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
        """,
        "planned == before and not any(file.exists() for file in old) and ids(read(path)) == [3, 4]",
        given="""
        old = list(Path(path).rglob("*.parquet"))
        news.write.format("delta").mode("overwrite").save(path)
        before = len(old)
        """,
    ),
    Task(
        "compact one partition, and order another by a column",
        """
        table = DeltaTable.forPath(spark, path)
        compacted = table.optimize().where("p = 1").executeCompaction().first()
        ordered = table.optimize().where("p = 2").executeZOrderBy("id").first()
        """,
        "compacted.metrics.numFilesAdded == 1 and compacted.metrics.numFilesRemoved > 1 and "
        "ordered.metrics.numFilesAdded == 1 and ids(read(path)) == [1, 1, 2, 2, 3, 3]",
        given=TWICE,
    ),
    Task(
        "cluster a table, and change its clustering columns",
        """
        spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING, p INT) USING delta CLUSTER BY (id)")
        rows.write.format("delta").mode("append").saveAsTable(name)
        spark.sql(f"ALTER TABLE {name} CLUSTER BY (s)")
        spark.sql(f"OPTIMIZE {name} FULL")
        """,
        "DeltaTable.forName(spark, name).detail().first().clusteringColumns == ['s'] and "
        "DeltaTable.forName(spark, name).history(1).first().operation == 'OPTIMIZE'",
        is_fresh=True,
    ),
    Task(
        "clone a table for a test",
        """
        DeltaTable.forPath(spark, path).clone(out, isShallow=True)
        DeltaTable.forPath(spark, out).delete("id = 1")
        """,
        "(ids(read(path)), ids(read(out))) == ([1, 2, 3], [2, 3])",
    ),
    Task(
        "convert a partitioned Parquet directory",
        """
        DeltaTable.convertToDelta(spark, f"parquet.`{path}`", "p INT")
        news.write.format("delta").mode("append").save(path)
        """,
        "ids(read(path)) == [1, 2, 3, 3, 4] and ids(read(path).where('p = 1')) == [1, 2]",
        given='rows.write.partitionBy("p").parquet(path)',
        is_fresh=True,
    ),
    Task(
        "find the delete of a row in the history",
        """
        deletes = DeltaTable.forPath(spark, path).history().where("operation = 'DELETE'")
        found = deletes.select("version", "operationParameters.predicate", "operationMetrics.numDeletedRows").first()
        """,
        "(found.version, found.numDeletedRows) == (1, '1') and 'id' in found.predicate",
        given="""
        DeltaTable.forPath(spark, path).delete("id = 1")
        news.write.format("delta").mode("append").save(path)
        """,
    ),
]
