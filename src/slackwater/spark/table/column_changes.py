"""Column changes of an ALTER TABLE in one commit, each equivalent to a method of `DeltaTable`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.column_paths import format_column_path, resolve_field
from slackwater.protocol.schema.schema import ColumnPath
from slackwater.protocol.schema_changes.alter_column import retype, set_comment, set_default, set_nullability
from slackwater.protocol.schema_changes.alter_columns import ColumnPosition, move_column
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.session.argument_checks import parsed_type
from slackwater.spark.session.types import from_spark_schema
from slackwater.spark.table.alter import TableAlterations
from slackwater.spark.write.row_checks import not_null_check
from slackwater.spark.write.table_expressions import validate_default
from slackwater.transaction.table.alteration import parameter_text


@dataclass(frozen=True)
class ColumnChange:
    """The changes of the column at `path`. None leaves a property unchanged. A `default` of "" removes the default."""

    path: ColumnPath
    type: str | None = None
    comment: str | None = None
    nullable: bool | None = None
    default: str | None = None
    position: ColumnPosition | None = None


def change_columns(spark: SparkSession, table: TableAlterations, changes: Sequence[ColumnChange]) -> None:
    """Commit all of `changes`, or none. Raises as the methods of `DeltaTable` for each."""

    def change(snapshot: Snapshot) -> TableConfiguration:
        changed = snapshot.configuration
        for each in changes:
            changed = _changed(spark, table, snapshot, changed, each)
        return changed

    reads_rows = any(each.nullable is False for each in changes)
    if len(changes) == 1:
        table._change_column(changes[0].path, change, changes[0].position, reads_rows)
        return
    paths = [{"column": {"name": format_column_path(each.path)}} for each in changes]
    table._change("CHANGE COLUMNS", change, {"columns": parameter_text(paths)}, reads_rows)


def _changed(
    spark: SparkSession, table: TableAlterations, snapshot: Snapshot, before: TableConfiguration, change: ColumnChange
) -> TableConfiguration:
    path, changed = change.path, before
    if change.type is not None:
        wanted = spark_types.StructType([spark_types.StructField("x", parsed_type(change.type))])
        changed = retype(changed, path, from_spark_schema(wanted).fields[0])
    if change.default is not None:
        changed = set_default(changed, path, change.default or None)
        if change.default:
            _, column = resolve_field(changed.schema, path)
            what = f"default value {change.default!r} of column {format_column_path(path)}"
            validate_default(spark, change.default, column.type, what)
    if change.nullable is not None:
        nullable = set_nullability(changed, path, change.nullable, holds_no_null=True)
        if not change.nullable and nullable != changed:
            spelled, _ = resolve_field(snapshot.schema, path)
            table._require_rows(snapshot, not_null_check(spelled, snapshot.schema))
        changed = nullable
    if change.comment is not None:
        changed = set_comment(changed, path, change.comment)
    return changed if change.position is None else move_column(changed, path, change.position)
