"""`history` of operations beside delta-spark's, cell by cell: what differs on purpose is data here, and in the docs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slackwater import DeltaTable

from .delta_spark import DeltaSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

ROWS = "SELECT id, CAST(id % 2 AS INT) AS p, CONCAT('v', id) AS v FROM range(0, {n}, 1, 1)"
SOURCE = "(SELECT 3L AS id, 1 AS p, 'm' AS v UNION ALL SELECT 90L, 0, 'n')"

CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
Write = tuple[str, str, Mapping[str, str]]
# A statement, or a query with the mode and the options by which its rows are written.
OPERATIONS: dict[str, str | Write] = {
    "first append": (ROWS.format(n=10), "append", {}),
    "append": (ROWS.format(n=4), "append", {"userMetadata": "second"}),
    "INSERT": "INSERT INTO {t} VALUES (50, 0, 'fifty')",
    "DELETE of some rows": "DELETE FROM {t} WHERE id = 3",
    "DELETE of a partition": "DELETE FROM {t} WHERE p = 1",
    "DELETE of nothing": "DELETE FROM {t} WHERE id = 1000",
    "UPDATE": "UPDATE {t} SET v = 'new' WHERE id = 2",
    "MERGE": "MERGE INTO {t} t USING " + SOURCE + " s ON t.id = s.id WHEN MATCHED AND s.p = 1 THEN UPDATE SET v = s.v "
    "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN DELETE",
    "overwrite": (ROWS.format(n=6), "overwrite", {}),
    "replaceWhere": (ROWS.format(n=6) + " WHERE id % 2 = 1", "overwrite", {"replaceWhere": "p = 1"}),
    "dynamic overwrite": (ROWS.format(n=2), "overwrite", {"partitionOverwriteMode": "dynamic"}),
    "mergeSchema": (ROWS.format(n=2).replace("AS v", "AS v, 1 AS extra"), "append", {"mergeSchema": "true"}),
    "OPTIMIZE": "OPTIMIZE {t}",
    "OPTIMIZE WHERE": "OPTIMIZE {t} WHERE p = 0",
    "ZORDER": "OPTIMIZE {t} ZORDER BY (id)",
    "ADD COLUMNS": "ALTER TABLE {t} ADD COLUMNS (w INT COMMENT 'x' AFTER id)",
    "CHANGE COLUMN": "ALTER TABLE {t} ALTER COLUMN w COMMENT 'y'",
    "SET TBLPROPERTIES": "ALTER TABLE {t} SET TBLPROPERTIES ('mine' = '1')",
    "UNSET TBLPROPERTIES": "ALTER TABLE {t} UNSET TBLPROPERTIES ('mine')",
    "ADD CONSTRAINT": "ALTER TABLE {t} ADD CONSTRAINT ok CHECK (id > -1)",
    "DROP CONSTRAINT": "ALTER TABLE {t} DROP CONSTRAINT ok",
    "vectors": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "DELETE by a vector": "DELETE FROM {t} WHERE id = 2",
    "REORG": "REORG TABLE {t} APPLY (PURGE)",
    "RESTORE": "RESTORE TABLE {t} TO VERSION AS OF 1",
    "TRUNCATE": "DELETE FROM {t}",
    "VACUUM": "VACUUM {t}",
    "COMMENT": "COMMENT ON TABLE {t} IS 'all of it'",
    "overwriteSchema": ("SELECT 1 AS id, 'x' AS other", "overwrite", {"overwriteSchema": "true"}),
    "CREATE": "CREATE TABLE {u} (id BIGINT, v STRING) USING delta CLUSTER BY (id) TBLPROPERTIES ('mine' = '1')",
    "CTAS": "CREATE TABLE {v} USING delta AS SELECT id FROM range(0, 3, 1, 1)",
}


# Cells that are of the engine, the moment or the user; and metrics that depend on how rows are spread over files.
ANY_VALUE = {"timestamp", "userId", "userName", "engineInfo"}
OF_FILES = (
    "Files",
    "FilesAdded",
    "FilesRemoved",
    "Bytes",
    "BytesAdded",
    "BytesRemoved",
    "Size",
    "Ms",
    "RowsCopied",
    "SizeAfterRestore",
)
# The operation, its column or entry, and why it is told in another way. docs/delta-spark-compatibility.md lists them.
ON_PURPOSE = {
    ("*", "isolationLevel"): "the level that the commit was checked by, by default WriteSerializable",
    ("DELETE", "operationParameters.predicate"): "as it was written, without Spark's numbers of columns",
    ("UPDATE", "operationParameters.predicate"): "as it was written, without Spark's numbers of columns",
    ("MERGE", "operationParameters.predicate"): "as it was written, without Spark's numbers of columns",
    ("MERGE", "operationParameters.matchedPredicates"): "as it was written, without Spark's numbers of columns",
    ("MERGE", "operationParameters.notMatchedBySourcePredicates"): "as it was written",
    ("MERGE", "operationMetrics.numOutputRows"): "rows that stay are copied with fewer files",
    ("ADD CONSTRAINT", "operationParameters.expr"): "as it was written",
    ("DROP CONSTRAINT", "operationParameters.expr"): "as it was written",
    ("UNSET TBLPROPERTIES", "operationParameters.ifExists"): "whether IF EXISTS was written",
    ("VACUUM END", "operationMetrics.numVacuumedDirectories"): "how many directories went, not how many were listed",
}


@pytest.mark.long
def test_history_tells_of_operations_what_delta_spark_tells(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    ours.conf.set(CHECK, "false")
    try:
        for name, operation in OPERATIONS.items():
            _run(ours, delta_spark, mine, theirs, name, operation)
    finally:
        ours.conf.unset(CHECK)
    differing = set()
    for table in "tuv":
        we = DeltaTable.forPath(ours, str(mine / table)).history().toArrow().to_pylist()
        they = delta_spark.history(str(theirs / table))
        assert [row["operation"] for row in we] == [row["operation"] for row in they]
        for our_row, their_row in zip(we, they, strict=True):
            differing |= {(our_row["operation"], cell) for cell in _unlike(our_row, their_row)}
    known = {each if ("*", each[1]) not in ON_PURPOSE else ("*", each[1]) for each in differing}
    assert known == set(ON_PURPOSE)


def _run(
    ours: SparkSession, delta_spark: DeltaSpark, mine: Path, theirs: Path, name: str, operation: str | Write
) -> None:
    if isinstance(operation, str):
        ours.sql(operation.format(**{table: f"delta.`{mine / table}`" for table in "tuv"}))
        delta_spark.run(operation.format(**{table: f"delta.`{theirs / table}`" for table in "tuv"}))
        return
    query, mode, options = operation
    partition_by = ["p"] if name == "first append" else []
    writer = ours.sql(query).write.format("delta").mode(mode).options(**options)
    (writer.partitionBy(*partition_by) if partition_by else writer).save(str(mine / "t"))
    delta_spark.write(query, str(theirs / "t"), mode, partition_by, **options)


def _unlike(mine: dict[str, Any], theirs: dict[str, Any]) -> set[str]:
    """The cells that differ, those of maps by their keys; of numbers that depend on the files only the key counts."""
    assert list(mine) == list(theirs)
    found = {c for c in mine if c not in ANY_VALUE and not _is_map(c) and mine[c] != theirs[c]}
    for column in filter(_is_map, mine):
        we, they = dict(mine[column] or {}), dict(theirs[column] or {})
        for key in {*we, *they}:
            same = (key in we) == (key in they) if key.endswith(OF_FILES) else we.get(key) == they.get(key)
            found |= set() if same else {f"{column}.{key}"}
    return found


def _is_map(column: str) -> bool:
    return column in ("operationParameters", "operationMetrics")
