"""Table changes without a rewrite of rows: methods of `DeltaTable`, equivalent to SQL's ALTER TABLE.

Source: delta-spark's DeltaTable and ALTER TABLE; delta-protocol.md "Change Metadata", "CHECK Constraints".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, InvariantViolationException
from slackwater.predicate.predicate import Constant
from slackwater.protocol.features.identity_columns import identity_column
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.column_paths import format_column_path, parse_column_path, resolve_field, resolve_path
from slackwater.protocol.schema.schema import (
    ArrayType,
    ColumnPath,
    MapType,
    StructField,
    StructType,
    walk_fields,
)
from slackwater.protocol.schema_changes.alter_column import retype, set_comment, set_default, set_nullability
from slackwater.protocol.schema_changes.alter_columns import (
    ColumnPosition,
    NewColumn,
    add_columns,
    drop_columns,
    move_column,
    rename_column,
)
from slackwater.protocol.schema_changes.replace_schema import replace_columns
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.conditions.transaction_time import TransactionTime
from slackwater.spark.maintenance.optimize import rewrite_files
from slackwater.spark.read.table_scan import TableScan
from slackwater.spark.session.argument_checks import parsed_type, text_argument, with_known_collations
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.session.types import from_spark_schema
from slackwater.spark.write.row_checks import NOT_NULL_VIOLATED, RowCheck, expressions_named, not_null_check, sql_check
from slackwater.spark.write.table_expressions import validate_constraint, validate_default
from slackwater.sql.lexer import quoted
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.table import alteration
from slackwater.transaction.table.alteration import Alteration, change_table, clustering_columns, parameter_text
from slackwater.transaction.table.feature_removal import drop_feature


class TableAlterations:
    """Methods of `DeltaTable` that change a table without a rewrite of rows.

    Columns are named by dotted paths, with backticks around names with dots. `element`, `key` and `value` address the
    parts of arrays and maps. Each method commits one version, or none if nothing changes.

    Raises:
        InvalidArgument: If an argument is not valid for the table.
        OperationNotAllowed: If the table does not allow the change.
        UnsupportedFeature: If Slackwater does not support the change.
        DeltaConcurrentModificationException: If a concurrent commit conflicts with the change.
    """

    @property
    def _spark(self) -> SparkSession:
        raise NotImplementedError

    def _snapshot(self) -> Snapshot:
        raise NotImplementedError

    def _snapshot_for_upkeep(self, what: str) -> Snapshot:
        raise NotImplementedError

    def addColumns(
        self,
        cols: spark_types.StructType | list[spark_types.StructField],
        parent: str = "",
        after: str | None = None,
        first: bool = False,
    ) -> None:
        """Add nullable columns to the table or to the struct `parent`, at the end or in the given position.

        `cols`: a StructType or a list of StructFields. The new columns are adjacent, in this order. `parent`: a path,
        "" for the table. `after` is the name of the preceding column; with `first` the new columns precede all others.
        Raises InvalidArgument also for a name in use, and for columns that are NOT NULL or generated, or have a default
        value.

        >>> from pyspark.sql.types import StructType
        >>> table.addColumns(StructType().add("memo", "string"), after="id")
        >>> table.toDF().columns
        ['id', 'memo', 'v']
        """
        columns = _columns(self._spark, cols)
        where = path_argument(parent) if parent else ()
        position = _position(after, first)
        # Each further column follows the column before, so that the new columns are adjacent.
        places = [position, *(ColumnPosition(column.name) for column in columns)] if position else [None] * len(columns)
        self._add_columns([NewColumn(*each) for each in zip(columns, [where] * len(columns), places, strict=False)])

    def renameColumn(self, existing: str, new: str) -> None:
        """Rename the column at the path `existing` to `new`. Files stay unchanged. Needs column mapping.

        `new` is a name, not a path. Raises InvalidArgument for a name in use, and if a constraint or a generated column
        reads the column.

        >>> table.setProperties({"delta.columnMapping.mode": "name"})
        >>> table.renameColumn("v", "word")
        >>> table.toDF().columns
        ['id', 'word']
        """
        path = path_argument(existing)
        renamed = (*path[:-1], text_argument("new", new))
        self._change(
            "RENAME COLUMN",
            lambda s: rename_column(s.configuration, path, new),
            {"oldColumnPath": format_column_path(path), "newColumnPath": format_column_path(renamed)},
        )

    def dropColumns(self, *cols: str, ifExists: bool = False) -> None:
        """Drop the columns at the paths `cols`. Files stay unchanged. Needs column mapping.

        With `ifExists` missing columns are ignored. Raises InvalidArgument also for a column used for partitioning or
        clustering, or read by a constraint or a generated column.

        >>> table.setProperties({"delta.columnMapping.mode": "name"})
        >>> table.dropColumns("v")
        >>> table.toDF().columns
        ['id']
        """
        paths = [path_argument(name) for name in cols]
        self._change(
            "DROP COLUMNS",
            lambda s: drop_columns(s.configuration, paths, clustering=clustering_columns(s), if_exists=ifExists),
            {"columns": parameter_text([format_column_path(path) for path in paths])},
        )

    def moveColumn(self, col: str, after: str | None = None, first: bool = False) -> None:
        """Move the column at the path `col` to another position among its siblings.

        Give either `after`, the name (not the path) of the preceding column, or `first` for the first position. Raises
        InvalidArgument also for a missing column.

        >>> table.moveColumn("v", first=True)
        >>> table.toDF().columns
        ['v', 'id']
        """
        position = _position(after, first)
        if position is None:
            raise InvalidArgument("the new position of the column is missing. Pass first=True, or after='another'")
        path = path_argument(col)
        self._change_column(path, lambda s: move_column(s.configuration, path, position), position)

    def setColumnComment(self, col: str, comment: str | None) -> None:
        """Set the comment of the column at the path `col` to the text `comment`. None removes the comment.

        Raises InvalidArgument also for a missing column.

        >>> table.setColumnComment("v", "one letter")
        >>> table.toDF().schema["v"].metadata
        {'comment': 'one letter'}
        """
        path = path_argument(col)
        text = None if comment is None else text_argument("comment", comment)
        self._change_column(path, lambda s: set_comment(s.configuration, path, text))

    def setColumnNullable(self, col: str, nullable: bool) -> None:
        """Allow nulls in the column `col`, or forbid nulls if `nullable` is False, after a check of all rows.

        Raises InvariantViolationException, with a row with a null in the column. Raises InvalidArgument also for a
        column inside an array or a map.

        >>> table.setColumnNullable("id", False)
        >>> slackwater.Snapshot.load(place).schema.fields[0].nullable
        False
        """
        if not isinstance(nullable, bool):
            raise InvalidArgument(f"nullable must be True or False, found {nullable!r}")
        path = path_argument(col)

        def change(snapshot: Snapshot) -> TableConfiguration:
            # Check the schema first, because a check of the rows costs a scan.
            changed = set_nullability(snapshot.configuration, path, nullable, holds_no_null=True)
            if not nullable and changed != snapshot.configuration:
                spelled, _ = resolve_field(snapshot.schema, path)
                self._require_rows(snapshot, not_null_check(spelled, snapshot.schema))
            return changed

        self._change_column(path, change, reads_rows=not nullable)

    def setColumnDefault(self, col: str, default: str | None) -> None:
        """Set the default of the column `col` to the SQL expression `default`, for rows without the column.

        None removes the default. The table must support `allowColumnDefaults`. Raises InvalidArgument also for a field
        of a struct, a generated or identity column, and an expression that reads columns.

        >>> table.addFeatureSupport("allowColumnDefaults")
        >>> table.setColumnDefault("v", "'none'")
        >>> spark.createDataFrame([(3,)], "id INT").write.format("delta").mode("append").save(place)
        >>> table.where("id = 3").first().v
        'none'
        """
        path = path_argument(col)

        def change(snapshot: Snapshot) -> TableConfiguration:
            changed = set_default(snapshot.configuration, path, default)
            if default is not None:
                _, column = resolve_field(snapshot.schema, path)
                validate_default(self._spark, default, column.type, f"default value {default!r} of column {col}")
            return changed

        if default is not None:
            text_argument("default", default)
        self._change_column(path, change)

    def changeColumnType(self, col: str, dataType: str | spark_types.DataType) -> None:
        """Widen the type of a column without a rewrite of files: byte to short, both to integer.

        With the table property `delta.enableTypeWidening`, all widenings of the protocol are available: integers to
        long, double and decimals, float to double, decimals to decimals of more digits, date to timestamp_ntz.

        `col`: the column's path, also into an array or a map. `dataType`: a Spark type, or its DDL text. A column of
        type void can get any type. Raises InvalidArgument for other changes, for a partition column, and for a column
        read by a constraint or a generated column.

        >>> table = slackwater.DeltaTable.create(spark).location(path).addColumn("n", "SMALLINT").execute()
        >>> table.changeColumnType("n", "INT")
        >>> table.toDF().dtypes
        [('n', 'int')]
        """
        (wanted,) = _columns(self._spark, [spark_types.StructField("x", parsed_type(dataType))])
        path = path_argument(col)
        self._change_column(path, lambda s: retype(s.configuration, path, wanted))

    def replaceColumns(self, cols: spark_types.StructType | list[spark_types.StructField]) -> None:
        """Replace the table's columns by `cols`: drops and adds columns, and sets order and comments.

        `cols`: a StructType or a list of StructFields. Raises InvalidArgument like the methods for a drop, an addition
        or a change of one column.

        >>> from pyspark.sql.types import StructType
        >>> table.replaceColumns(StructType().add("v", "string").add("memo", "string").add("id", "integer"))
        >>> table.toDF().columns
        ['v', 'memo', 'id']
        """
        columns = _columns(self._spark, cols)
        self._change(
            "REPLACE COLUMNS",
            lambda s: replace_columns(s.configuration, StructType(columns), clustering=clustering_columns(s)),
            {"columns": parameter_text([_described((), column) for column in columns])},
        )

    def setProperties(self, properties: Mapping[str, str]) -> None:
        """Set table properties. Features enabled by properties are added to the protocol.

        `properties`: texts by key. `delta.feature.…`, `delta.minReaderVersion` and `delta.minWriterVersion` change the
        protocol. Raises InvalidArgument for an unknown `delta.…` key, an invalid value, and constraints: use
        `addConstraint`.

        >>> table.setProperties({"delta.enableDeletionVectors": "true"})
        >>> table.detail().first().properties["delta.enableDeletionVectors"]
        'true'
        """
        if not isinstance(properties, Mapping):
            raise InvalidArgument(f"properties must map keys to values, found {properties!r}")
        self._alter(lambda s: alteration.set_properties(s, properties))

    def unsetProperties(self, *keys: str, ifExists: bool = False) -> None:
        """Remove the table properties `keys`, case-insensitive.

        With `ifExists` properties not set are ignored. Else raises InvalidArgument for such properties.

        >>> table.setProperties({"team": "sales", "room": "4"})
        >>> table.unsetProperties("team")
        >>> table.detail().first().properties
        {'room': '4'}
        """
        for key in keys:
            text_argument("a key", key)
        self._alter(lambda s: alteration.unset_properties(s, keys, ifExists))

    def addConstraint(self, name: str, expression: str) -> None:
        """Add the CHECK constraint `name`: `expression`, SQL text over one row, must be true for each row of the table.

        Present rows are checked now, new rows in each write. Raises InvariantViolationException, with a row that
        violates the constraint. Raises InvalidArgument also for a name in use, case-insensitive, and for text that is
        not a condition on one row.

        >>> table.addConstraint("positive", "id > 0")
        >>> table.update("id = 1", {"id": "-1"})  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        slackwater.errors.InvariantViolationException: ...
        """

        rule = f"CHECK constraint {text_argument('name', name)}"
        text_argument("expression", expression)

        def change(snapshot: Snapshot) -> Alteration:
            found = alteration.add_constraint(snapshot, name, expression)
            validate_constraint(self._spark, snapshot.schema, expression, f"{rule} ({expression})")
            self._require_rows(snapshot, sql_check(rule, expression, (), self._as_of_transaction(snapshot)))
            return found

        self._alter(change, reads_rows=True)

    def _sync_identity(self, name: str) -> None:
        """Run `ALTER COLUMN … SYNC IDENTITY`: later generated values lie beyond all values in the table's rows."""

        def change(snapshot: Snapshot) -> Alteration:
            column = snapshot.schema.get(name)
            identity = None if column is None else identity_column(column)
            if column is None or identity is None:
                return alteration.sync_identity(snapshot, name, None)
            extreme = F.max if identity.step > 0 else F.min
            frame = TableScan(self._spark, snapshot).dataframe()
            found = frame.agg(extreme(F.col(quoted(column.name)))).collect()[0][0]
            return alteration.sync_identity(snapshot, column.name, found)

        self._alter(change, reads_rows=True)

    def dropConstraint(self, name: str, ifExists: bool = False) -> None:
        """Drop the CHECK constraint `name`, case-insensitive.

        With `ifExists` a missing constraint is ignored. Else raises InvalidArgument for a missing constraint.

        >>> table.addConstraint("positive", "id > 0")
        >>> table.dropConstraint("positive")
        >>> table.detail().first().properties
        {}
        """
        text_argument("name", name)
        self._alter(lambda s: alteration.drop_constraint(s, name, ifExists))

    def clusterBy(self, *cols: str) -> None:
        """Cluster the table by the columns at the paths `cols`, at most four. Without columns, remove the clustering.

        Raises InvalidArgument also if the table is partitioned, or if a file lacks the statistics of a column.

        >>> table.clusterBy("id")
        >>> table.detail().first().clusteringColumns
        ['id']
        """
        paths = [path_argument(name) for name in cols]
        self._alter(lambda s: alteration.cluster_by(s, paths))

    def _add_columns(self, added: Sequence[NewColumn]) -> None:
        """Add columns, each with its own parent and position. Raises as `addColumns`."""
        described = parameter_text([{"column": _described(a.parent, a.column), **_placed(a.position)} for a in added])
        self._change("ADD COLUMNS", lambda s: add_columns(s.configuration, added), {"columns": described})

    def _set_description(self, text: str | None) -> None:
        """Set the table's description to `text`. None removes the description."""

        def change(snapshot: Snapshot) -> TableConfiguration:
            described = replace(snapshot.metadata, description=text)
            return TableConfiguration(snapshot.protocol, described)

        self._change("SET TBLPROPERTIES", change, {"properties": parameter_text({"comment": text or ""})})

    def setDomainMetadata(self, domain: str, configuration: str) -> None:
        """Set the user's metadata domain `domain` to the text `configuration`.

        Raises OperationNotAllowed for names with the prefix `delta.`, reserved for the protocol.

        >>> table.setDomainMetadata("team", "sales")
        >>> slackwater.Snapshot.load(place).domain_metadata["team"].configuration
        'sales'
        """
        text_argument("domain", domain)
        text_argument("configuration", configuration)
        self._alter(lambda s: alteration.set_domain(s, domain, configuration))

    def removeDomainMetadata(self, domain: str) -> None:
        """Remove the user's metadata domain `domain`.

        Raises InvalidArgument for a missing domain, OperationNotAllowed for a domain of the protocol.

        >>> table.setDomainMetadata("team", "sales")
        >>> table.removeDomainMetadata("team")
        >>> list(slackwater.Snapshot.load(place).domain_metadata)
        []
        """
        text_argument("domain", domain)
        self._alter(lambda s: alteration.remove_domain(s, domain))

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raise the table's protocol to at least `readerVersion` and `writerVersion`. Higher versions stay.

        Raises InvalidArgument for unknown versions.

        >>> table.upgradeTableProtocol(1, 4)
        >>> table.detail().first().minWriterVersion
        4
        """
        for name, version in (("readerVersion", readerVersion), ("writerVersion", writerVersion)):
            if isinstance(version, bool) or not isinstance(version, int):
                raise InvalidArgument(f"{name} must be a whole number, found {version!r}")
        self._alter(lambda s: alteration.upgrade_protocol(s, readerVersion, writerVersion))

    def addFeatureSupport(self, featureName: str) -> None:
        """Add the table feature `featureName`, and the features required by it, to the protocol.

        Raises InvalidArgument for an unknown feature, OperationNotAllowed for a feature of commit owners.

        >>> table.addFeatureSupport("deletionVectors")
        >>> "deletionVectors" in table.detail().first().tableFeatures
        True
        """
        if not isinstance(featureName, str):
            raise InvalidArgument(f"featureName needs to be a string but got {type(featureName)}")
        self._alter(lambda s: alteration.add_feature(s, featureName))

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Remove the table feature `featureName` from the protocol, if the table has no trace of the feature.

        Older versions may need a reader feature. Three new versions with checkpoints hide these versions, and the
        feature `checkpointProtection` preserves the checkpoints. With `truncateHistory` True, removes the older
        versions from the log instead. These must be older than `delta.dropFeatureTruncateHistory.retentionDuration` (24
        hours). The feature `checkpointProtection` is dropped only with `truncateHistory` True. For `typeWidening`,
        files with values of earlier types are rewritten first. Raises InvalidArgument if the table does not support the
        feature or if another feature requires it. Raises OperationNotAllowed if the table uses the feature, or if older
        versions must be removed and are too young.

        >>> table.addFeatureSupport("allowColumnDefaults")
        >>> table.dropFeatureSupport("allowColumnDefaults")
        >>> "allowColumnDefaults" in table.detail().first().tableFeatures
        False
        """
        if not isinstance(featureName, str):
            raise InvalidArgument(f"featureName needs to be a string but got {type(featureName)}")
        if truncateHistory is not None and not isinstance(truncateHistory, bool):
            raise InvalidArgument(f"truncateHistory needs to be a boolean but got {type(truncateHistory)}")
        snapshot = self._snapshot_for_upkeep("dropping a table feature")
        settings = SessionSettings.of(self._spark)

        def rewrite(files: pa.Table) -> Snapshot:
            rewrite_files(self._spark, snapshot.table, files["path"].combine_chunks())
            return Snapshot.open(snapshot.table)

        drop_feature(
            snapshot,
            featureName,
            bool(truncateHistory),
            user_metadata=settings.user_metadata,
            user_name=settings.user_name,
            rewrite=rewrite,
        )

    def _change(
        self,
        operation: str,
        change: Callable[[Snapshot], TableConfiguration],
        parameters: Mapping[str, str],
        reads_rows: bool = False,
    ) -> None:
        self._alter(lambda s: change_table(s, operation, change(s), parameters), reads_rows)

    def _change_column(
        self,
        path: ColumnPath,
        change: Callable[[Snapshot], TableConfiguration],
        position: ColumnPosition | None = None,
        reads_rows: bool = False,
    ) -> None:
        def altered(snapshot: Snapshot) -> Alteration:
            changed = change(snapshot)
            spelled, data_type = resolve_path(changed.schema, path)
            column = dict(walk_fields(changed.schema)).get(spelled)
            shown = column or StructField(spelled[-1], data_type)
            parameters = {"column": parameter_text(_described(spelled[:-1], shown)), **_placed(position)}
            return change_table(snapshot, "CHANGE COLUMN", changed, parameters)

        self._alter(altered, reads_rows)

    def _alter(self, change: Callable[[Snapshot], Alteration], reads_rows: bool = False) -> CommitResult | None:
        snapshot = self._snapshot()
        transaction = begin(snapshot)
        altered = change(snapshot)
        if altered.is_empty:
            return None
        if reads_rows:
            transaction.read_where(Constant(True))
        settings = SessionSettings.of(self._spark)
        return altered.commit(transaction, settings.user_metadata, settings.user_name)

    def _as_of_transaction(self, snapshot: Snapshot) -> Callable[[str], str]:
        """Return a function that replaces the current time in SQL for row checks by the transaction's time.

        Outside of a transaction, the function returns the SQL unchanged.
        """
        time = TransactionTime.of(snapshot.table)
        return str if time is None else partial(time.in_text, columns=snapshot.schema.names)

    def _require_rows(self, snapshot: Snapshot, check: RowCheck) -> None:
        """Check every row of the table. Raises InvariantViolationException with a row that violates the rule."""
        frame = TableScan(self._spark, snapshot).dataframe()
        with expressions_named(check.says):
            found = frame.filter(~F.coalesce(check.holds, F.lit(False))).limit(1).collect()
        if found:
            raise InvariantViolationException(
                f"{snapshot.store.root_url}: a row of the table already violates {check.says}: "
                f"{found[0].asDict(recursive=True)}. Fix the rows first",
                error_class="DELTA_NEW_NOT_NULL_VIOLATION"
                if check.error_class == NOT_NULL_VIOLATED
                else "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
            )


def path_argument(name: Any) -> ColumnPath:
    """Return the column path in the text `name`. Raises InvalidArgument, also for a value that is not a text."""
    return parse_column_path(text_argument("a column", name))


def _position(after: str | None, first: bool) -> ColumnPosition | None:
    if first and after is not None:
        raise InvalidArgument("first and after are both set. Pass only one of them")
    if after is not None:
        return ColumnPosition(text_argument("after", after))
    return ColumnPosition() if first else None


def _columns(spark: SparkSession, given: Any) -> tuple[StructField, ...]:
    fields = given.fields if isinstance(given, spark_types.StructType) else given
    if not isinstance(fields, list) or not all(isinstance(f, spark_types.StructField) for f in fields):
        raise InvalidArgument(f"cols must be a StructType or a list of StructFields, found {given!r}")
    return from_spark_schema(with_known_collations(spark, spark_types.StructType(fields))).fields


def _described(parent: ColumnPath, column: StructField) -> dict[str, Any]:
    """Return a column in the form of delta-spark's operation parameters."""
    kinds = {StructType: "struct", ArrayType: "array", MapType: "map"}
    return {
        "name": format_column_path((*parent, column.name)),
        "type": kinds.get(type(column.type), str(column.type)),
        "nullable": column.nullable,
        "metadata": dict(column.metadata),
    }


def _placed(position: ColumnPosition | None) -> dict[str, str]:
    if position is None:
        return {}
    return {"position": "FIRST" if position.after is None else f"AFTER {format_column_path((position.after,))}"}
