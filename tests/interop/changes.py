"""What delta-spark does to tables: statements with `{t}` for the table, one commit or more each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Changes:
    """Statements from CREATE TABLE on; `change_feed` where the table keeps one from version 0."""

    name: str
    statements: Sequence[str]
    change_feed: bool = False


def _made(*properties: str, partitioned: bool = False) -> str:
    quoted = [text.replace("=", "' = '") for text in properties]
    given = " TBLPROPERTIES ('" + "', '".join(quoted) + "')" if quoted else ""
    rows = "SELECT id, CAST(id % 3 AS INT) AS part, concat('n', id) AS name FROM range(0, 30, 1, 1)"
    return f"CREATE TABLE {{t}} USING delta{' PARTITIONED BY (part)' if partitioned else ''}{given} AS {rows}"


_DML = (
    "DELETE FROM {t} WHERE id % 7 = 1",
    "UPDATE {t} SET name = upper(name) WHERE id > 20",
    "UPDATE {t} SET name = concat(name, (SELECT max(id) FROM {t})) WHERE id = 3",
    "MERGE INTO {t} USING (SELECT id, CAST(9 AS INT) AS part, 'm' AS name FROM range(25, 35)) AS s ON {t}.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *",
)

CHANGES: tuple[Changes, ...] = (
    Changes(
        "rows deleted, updated and merged, in a change feed",
        (_made("delta.enableChangeDataFeed=true"), *_DML),
        change_feed=True,
    ),
    Changes(
        "the same by deletion vectors, tracked, in a change feed, checkpointed, and purged",
        (
            _made(
                "delta.enableChangeDataFeed=true",
                "delta.enableDeletionVectors=true",
                "delta.enableRowTracking=true",
                "delta.checkpointInterval=3",
                "delta.checkpointPolicy=v2",
                partitioned=True,
            ),
            *_DML,
            "REORG TABLE {t} APPLY (PURGE)",
            "OPTIMIZE {t}",
        ),
        change_feed=True,
    ),
    Changes(
        "columns mapped after they were written, renamed, dropped, added and moved",
        (
            _made(partitioned=True),
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {t} RENAME COLUMN name TO `the name`",
            "ALTER TABLE {t} ADD COLUMNS (rec STRUCT<x: INT, y: STRING> COMMENT 'new')",
            "INSERT INTO {t} VALUES (100, 1, 'z', named_struct('x', 1, 'y', 'two'))",
            "ALTER TABLE {t} RENAME COLUMN rec.x TO renamed",
            "ALTER TABLE {t} DROP COLUMN `the name`",
            "ALTER TABLE {t} ALTER COLUMN rec FIRST",
        ),
    ),
    Changes(
        "types widened",
        (
            "CREATE TABLE {t} (a TINYINT, b FLOAT, c DECIMAL(5,2), d DATE) USING delta "
            "TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported')",
            "INSERT INTO {t} VALUES (1, 0.5, 1.25, DATE'2024-01-01')",
            "ALTER TABLE {t} ALTER COLUMN a TYPE INT, b TYPE DOUBLE, c TYPE DECIMAL(12,4), d TYPE TIMESTAMP_NTZ",
            "INSERT INTO {t} VALUES (100000, 1e300, 12345678.1234, TIMESTAMP_NTZ'2024-01-01 12:00:00')",
        ),
    ),
    Changes(
        "rows overwritten and restored, then the table replaced by another",
        (
            _made(partitioned=True),
            "INSERT INTO {t} REPLACE WHERE part = 1 SELECT 1000L, 1, 'only'",
            "INSERT OVERWRITE {t} SELECT 2000L, 2, 'all'",
            "RESTORE TABLE {t} TO VERSION AS OF 1",
            "CREATE OR REPLACE TABLE {t} USING delta CLUSTER BY (b) AS SELECT 1 AS a, 'x' AS b",
        ),
    ),
    Changes(
        "timestamps in commits, enabled late",
        (
            _made(),
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
            "INSERT INTO {t} VALUES (100, 1, 'z')",
        ),
    ),
)

CHANGES_TO_OURS: dict[str, Sequence[str]] = {
    "deletionVectors": ("DELETE FROM {t} WHERE id = 1",),
    "rowTracking": ("UPDATE {t} SET name = 'changed' WHERE id = 1", "INSERT INTO {t} VALUES (7, 'new')"),
    "changeDataFeed": ("UPDATE {t} SET name = 'changed' WHERE id = 1",),
    "clustering": ("INSERT INTO {t} VALUES (7, 'new')", "OPTIMIZE {t} FULL"),
    "checkConstraints": ("ALTER TABLE {t} ADD CONSTRAINT low CHECK (id < 1000)",),
    "generatedColumns": ("UPDATE {t} SET day = DATE'1980-01-01' WHERE id = 1",),
    "allowColumnDefaults": ("INSERT INTO {t} (id) VALUES (7)", "ALTER TABLE {t} ALTER COLUMN count SET DEFAULT 8"),
    "identityColumns": ("UPDATE {t} SET name = 'changed' WHERE name = 'a'", "INSERT INTO {t} (name) VALUES ('new')"),
    "columnMapping name": ("ALTER TABLE {t} ADD COLUMN more INT", "ALTER TABLE {t} DROP COLUMN more"),
    "many features at once": ("DELETE FROM {t} WHERE `the id` = 1",),
}
"""By feature of the catalogue: what delta-spark does to our table, after which we can still append our batch."""
