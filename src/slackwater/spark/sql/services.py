"""OPTIMIZE, VACUUM, RESTORE, CONVERT TO DELTA, GENERATE, REORG and REFRESH of Delta tables, through `DeltaTable`.

Spark has no such statements. The name of any other object raises TableNotFound.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.spark.catalog.resolve import resolve
from slackwater.spark.sql.statement import Statement, nothing
from slackwater.spark.table.named import NamedTable, named_table, required_table, travel_options
from slackwater.spark.table.table import DeltaTable
from slackwater.sql import maintenance as parsed
from slackwater.sql.lexer import SqlName, name_at, quoted


def optimize(statement: Statement) -> DataFrame:
    """Run `OPTIMIZE t [FULL] [WHERE …] [ZORDER BY (…)]`; a row of `path` and `metrics`."""
    given = parsed.optimize_of(statement.on_delta().cursor())
    builder = required(statement, given.target).table.optimize()
    builder = builder.full() if given.full else builder
    builder = builder if given.where is None else builder.where(given.where)
    return builder.executeZOrderBy(*given.z_order) if given.z_order else builder.executeCompaction()


def vacuum(statement: Statement) -> DataFrame:
    """Run `VACUUM t [LITE|FULL] [USING INVENTORY …] [RETAIN n HOURS] [DRY RUN]`; `path`: the root, or the files.

    A dry run returns the files to delete.
    """
    statement = statement.on_delta()
    given = parsed.vacuum_of(statement.cursor())
    named = required(statement, given.target)
    inventory = None if given.inventory is None else statement.query(given.inventory)
    return named.table.vacuum(given.retention_hours, dry_run=given.dry_run, lite=given.lite, inventory=inventory)


def restore(statement: Statement) -> DataFrame:
    """Run `RESTORE [TABLE] t [TO] VERSION | TIMESTAMP AS OF …`; one row, RESTORE_RESULT."""
    statement = statement.on_delta()
    given = parsed.restore_of(statement.cursor())
    named = required(statement, given.target)
    options = travel_options(statement.spark, given.travel)
    if "versionAsOf" not in options:
        return named.table.restoreToTimestamp(options["timestampAsOf"])
    version = str(options["versionAsOf"])
    if not version.isdigit():
        raise InvalidArgument(f"RESTORE … VERSION AS OF expected a version number, found {version}")
    return named.table.restoreToVersion(int(version))


def convert(statement: Statement) -> DataFrame:
    """Run ``CONVERT TO DELTA parquet.`/path` [NO STATISTICS] [PARTITIONED BY (…)]``; no rows."""
    given = parsed.convert_of(statement.with_values().cursor())
    DeltaTable.convertToDelta(
        statement.spark, _identifier(given.source), given.partitions, collect_stats=given.with_statistics
    )
    return nothing(statement.spark)


def _identifier(source: SqlName) -> str:
    return f"{source.parts[0].lower()}.{quoted(source.parts[1])}" if len(source.parts) == 2 else source.text


def generate(statement: Statement) -> DataFrame:
    """Run `GENERATE symlink_format_manifest FOR TABLE t`; no rows."""
    given = parsed.generate_of(statement.with_values().cursor())
    required(statement, given.target).table.generate(given.mode)
    return nothing(statement.spark)


def reorg(statement: Statement) -> DataFrame:
    """Run `REORG TABLE t [WHERE …] APPLY (PURGE)`; a row of `path` and `metrics`."""
    given = parsed.reorg_of(statement.on_delta().cursor())
    named = required(statement, given.target)
    if given.upgrade is not None:
        raise UnsupportedFeature(
            f"{named.place.shown}: REORG … APPLY ({given.upgrade}) is not supported, because Slackwater does not "
            "rewrite files for Iceberg. APPLY (PURGE) rewrites files with deleted rows"
        )
    builder = named.table.reorg()
    return (builder if given.where is None else builder.where(given.where)).applyPurge()


def refresh(statement: Statement) -> DataFrame | None:
    """Run `REFRESH [TABLE] t`. It does nothing, because nothing cached becomes stale by a commit."""
    cursor = statement.cursor()
    cursor.expect("REFRESH")
    if cursor.ahead(1):
        cursor.accept("TABLE")
    name = name_at(cursor.tokens, cursor.at)
    if name is None or named_table(statement.spark, name.parts) is None:
        return None
    return nothing(statement.spark)


_LOAD = ("LOAD", "DATA")
_REFUSED: dict[tuple[str, ...], str] = {
    _LOAD: "Use INSERT INTO … SELECT from the files, read as a table of their format",
    ("ANALYZE", "TABLE"): "The log already contains the statistics of the files",
    ("MSCK", "REPAIR", "TABLE"): "The log already names the files of all partitions",
    ("MSCK", "TABLE"): "The log already names the files of all partitions",
    ("FSCK", "REPAIR", "TABLE"): "Use RESTORE TABLE … TO VERSION AS OF a version with existing files, with "
    "spark.sql.files.ignoreMissingFiles",
    ("UNCACHE", "TABLE", "IF", "EXISTS"): "The table is not cached. Call .unpersist() on the cached DataFrame",
    ("UNCACHE", "TABLE"): "The table is not cached. Call .unpersist() on the cached DataFrame",
}


def refused(statement: Statement) -> DataFrame | None:
    """Reject statements for tables of other formats: raise UnsupportedFeature for Delta tables."""
    cursor = statement.cursor()
    words = next((words for words in _REFUSED if cursor.accept(*words)), None)
    if words is None:
        return None
    if words == _LOAD:
        cursor.until("INTO")
        cursor.accept("INTO", "TABLE")
    name = name_at(cursor.tokens, cursor.at)
    if name is None:
        return None
    if resolve(statement.spark, name.parts) is None:
        return None
    raise UnsupportedFeature(
        f"{name.text}: Delta tables do not support {' '.join(words)}. {_REFUSED[words]}",
        error_class="DELTA_OPERATION_NOT_ALLOWED",
    )


def required(statement: Statement, target: parsed.Target) -> NamedTable:
    """Return the statement's table. Raises TableNotFound."""
    return required_table(statement.spark, target.parts)
