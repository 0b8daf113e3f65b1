"""ALTER TABLE and COMMENT ON TABLE of Delta tables with the methods of `DeltaTable`, one commit each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.protocol.features.identity_columns import IdentityColumn
from slackwater.protocol.schema.schema import COMMENT, CURRENT_DEFAULT, GENERATION_EXPRESSION, StructField
from slackwater.protocol.schema_changes.alter_columns import ColumnPosition, NewColumn
from slackwater.spark.catalog.resolve import LakeName
from slackwater.spark.session.argument_checks import parsed_type
from slackwater.spark.session.types import from_spark_schema
from slackwater.spark.sql.changes import named_target
from slackwater.spark.sql.statement import Statement, nothing
from slackwater.spark.table.alter import path_argument
from slackwater.spark.table.column_changes import ColumnChange, change_columns
from slackwater.spark.table.named import NamedTable
from slackwater.spark.table.table import DeltaTable
from slackwater.sql import alterations as parsed
from slackwater.sql.definitions import ColumnDefinition


def alter(statement: Statement) -> DataFrame | None:
    """Run `ALTER TABLE t …`; no rows. Changes of the catalog alone are left to Spark."""
    named = named_target(statement, "ALTER", "TABLE")
    if named is None:
        return None
    # Do not fix the time, because the table's rules evaluate the current time at each check.
    _, alteration = parsed.alteration_of(statement.with_values().cursor())
    if isinstance(alteration, parsed.CatalogAlteration):
        if named.place.in_lake is not None and alteration.name is not None:
            _rename_in_lake(named.place.in_lake, alteration.name)
            return nothing(statement.spark)
        _require_catalog(named, alteration)
        return None
    if isinstance(alteration, parsed.UnsupportedAlteration):
        raise UnsupportedFeature(
            f"{named.place.shown}: Delta tables do not support ALTER TABLE … {alteration.words}: {alteration.instead}",
            error_class="DELTA_OPERATION_NOT_ALLOWED",
        )
    _CARRIED_OUT[type(alteration)](named.table, alteration)
    return nothing(statement.spark)


def comment_on(statement: Statement) -> DataFrame | None:
    """Run `COMMENT ON TABLE t IS 'text' | NULL`; no rows."""
    named = named_target(statement, "COMMENT", "ON", "TABLE")
    if named is None:
        return None
    _, text = parsed.comment_of(statement.with_values().cursor())
    named.table._set_description(text)
    return nothing(statement.spark)


def _rename_in_lake(table: LakeName, new: tuple[str, ...]) -> None:
    table.require_no_transaction()
    if len(new) > 1 and new[0].lower() != table.attached:
        raise InvalidArgument(
            f"{'.'.join(new)} is not a name in the lake {table.attached}. A renamed table stays in its lake, here "
            f"{table.name}"
        )
    lake: Any = table.lake
    lake.rename_table(table.name, ".".join(new[1:] or new))


def _require_catalog(named: NamedTable, alteration: parsed.CatalogAlteration) -> None:
    if named.place.entry is None:
        owner = "a path" if named.place.in_lake is None else "a lake"
        raise UnsupportedFeature(
            f"{named.place.shown}: ALTER TABLE … {alteration.words} needs a table of the session's catalog, and this "
            f"is a table of {owner}. Its location and name do not change"
        )


def _add_columns(table: DeltaTable, found: parsed.AddColumns) -> None:
    added = []
    for column in found.columns:
        position = ColumnPosition(column.after) if column.after is not None else None
        added.append(NewColumn(_field(column), column.name.parts[:-1], ColumnPosition() if column.first else position))
    table._add_columns(added)


def _replace_columns(table: DeltaTable, found: parsed.ReplaceColumns) -> None:
    fields = []
    for column in found.columns:
        if len(column.name.parts) != 1 or column.first or column.after is not None:
            raise InvalidArgument(
                f"REPLACE COLUMNS: {column.name.text} is a nested column or has a position. List top-level columns in "
                "their order"
            )
        field = _field(column)
        metadata = dict(field.metadata)
        fields.append(spark_types.StructField(field.name, parsed_type(column.type), field.nullable, metadata))
    table.replaceColumns(fields)


def _field(column: ColumnDefinition) -> StructField:
    """Return the column of a definition, even with unsupported properties: its addition rejects these."""
    if column.type is None:
        raise InvalidArgument(f"the column {column.name.text} has no type. Add one")
    given = spark_types.StructField(column.name.parts[-1], parsed_type(column.type), column.nullable)
    (field,) = from_spark_schema(spark_types.StructType([given]))
    given_metadata = {
        COMMENT: column.comment,
        CURRENT_DEFAULT: column.default,
        GENERATION_EXPRESSION: column.generated,
    }
    metadata: dict[str, Any] = {**field.metadata, **{k: v for k, v in given_metadata.items() if v is not None}}
    if column.identity is not None:
        identity = column.identity
        metadata |= IdentityColumn(field.name, identity.start, identity.step).metadata()
    return replace(field, metadata=metadata)


def _change_columns(table: DeltaTable, found: parsed.ChangeColumns) -> None:
    changes = []
    if any(clause.syncs_identity for clause in found.clauses):
        if len(found.clauses) > 1:
            raise UnsupportedFeature(
                "ALTER COLUMN … SYNC IDENTITY is combined with other clauses. Run it as a separate statement"
            )
        table._sync_identity(".".join(path_argument(found.clauses[0].column)))
        return
    for clause in found.clauses:
        position = ColumnPosition(clause.after) if clause.after is not None else None
        changes.append(
            ColumnChange(
                path_argument(clause.column),
                clause.type,
                clause.comment,
                clause.nullable,
                clause.default,
                ColumnPosition() if clause.first else position,
            )
        )
    change_columns(table._spark, table, changes)


_CARRIED_OUT: dict[type, Callable[[DeltaTable, Any], object]] = {
    parsed.AddColumns: _add_columns,
    parsed.DropColumns: lambda table, found: table.dropColumns(*found.columns, ifExists=found.if_exists),
    parsed.RenameColumn: lambda table, found: table.renameColumn(found.column, found.new),
    parsed.ChangeColumns: _change_columns,
    parsed.ReplaceColumns: _replace_columns,
    parsed.SetProperties: lambda table, found: table.setProperties(found.properties),
    parsed.UnsetProperties: lambda table, found: table.unsetProperties(*found.keys, ifExists=found.if_exists),
    parsed.AddConstraint: lambda table, found: table.addConstraint(found.name, found.condition),
    parsed.DropConstraint: lambda table, found: table.dropConstraint(found.name, found.if_exists),
    parsed.ClusterBy: lambda table, found: table.clusterBy(*found.columns),
    parsed.DropFeature: lambda table, found: table.dropFeatureSupport(found.name, found.truncates_history),
}
