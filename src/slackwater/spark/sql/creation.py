"""CREATE TABLE in all its forms, REPLACE TABLE, DROP TABLE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, TableAlreadyExists, TableNotFound, UnsupportedFeature
from slackwater.maintenance.clone import CloneResult, commit_clone
from slackwater.maintenance.parquet_directory import require_no_plain_files
from slackwater.spark.catalog.provider import register_provider
from slackwater.spark.catalog.registration import register_table, unregister_table
from slackwater.spark.catalog.resolve import LakeName, lake_name_of, path_in_parts
from slackwater.spark.catalog.session_catalog import entry_of
from slackwater.spark.maintenance.clone import CLONE_RESULT
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session.enabled_sessions import is_delta_by_default
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.session.types import to_spark_schema
from slackwater.spark.sql.statement import Statement, nothing
from slackwater.spark.storage.stores import table_at
from slackwater.spark.table.builder import (
    CREATE,
    CREATE_IF_NOT_EXISTS,
    CREATE_OR_REPLACE,
    REPLACE,
    DeltaTableBuilder,
    IdentityGenerator,
    require_place,
)
from slackwater.spark.table.named import CloneSource, NamedTable, clone_source, named_table, required_table
from slackwater.spark.table.table import DeltaTable
from slackwater.spark.writer.save import begin_definition, newest_snapshot, save_as_definition
from slackwater.sql import definitions as parsed
from slackwater.sql.definitions import ColumnDefinition, TableCreation, creation_of
from slackwater.sql.lexer import name_at
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.definition import TableDefinition

_MODES = {
    parsed.CREATE: CREATE,
    parsed.CREATE_IF_NOT_EXISTS: CREATE_IF_NOT_EXISTS,
    parsed.REPLACE: REPLACE,
    parsed.CREATE_OR_REPLACE: CREATE_OR_REPLACE,
}

_REPLACING = (parsed.REPLACE, parsed.CREATE_OR_REPLACE)


def create_table(statement: Statement) -> DataFrame | None:
    """Run `CREATE [OR REPLACE] TABLE … USING delta`, with columns, AS a query, LIKE or SHALLOW CLONE of a table."""
    cursor = statement.cursor()
    if cursor.accept("CREATE"):
        cursor.accept("OR", "REPLACE")
    elif not cursor.accept("REPLACE"):
        return None
    if not cursor.accept("TABLE"):
        return None
    try:
        given = creation_of(statement.cursor())
    except (InvalidArgument, UnsupportedFeature):
        if not _says_delta(statement):
            # Leave the error to Spark's parser.
            return None
        raise
    if not _is_delta(statement.spark, given):
        if given.like is not None and named_table(statement.spark, given.like.parts) is not None:
            raise UnsupportedFeature(
                f"{given.table.text}: Spark's catalog does not have all columns of the Delta table {given.like.text} "
                f"for CREATE TABLE … LIKE. Use USING {given.provider} AS with a query of {given.like.text} that "
                "returns no rows"
            )
        return None
    if given.refused is not None:
        raise UnsupportedFeature(
            f"{given.table.text}: Delta tables do not support {given.refused} …",
            error_class="DELTA_OPERATION_NOT_ALLOWED",
        )
    on_delta = statement.on_delta()
    return _Creation(on_delta, creation_of(on_delta.cursor())).run()


def _says_delta(statement: Statement) -> bool:
    words = [token.value.upper() for token in statement.tokens if token.is_name]
    return ("USING", "DELTA") in pairwise(words)


def _is_delta(spark: SparkSession, given: TableCreation) -> bool:
    if given.provider is not None:
        return given.provider == "delta"
    if path_in_parts(given.table.parts) is not None or lake_name_of(spark, given.table.parts, is_new=True) is not None:
        return True
    if given.clones is not None:
        return True
    if given.like is not None:
        return named_table(spark, given.like.parts) is not None
    return is_delta_by_default(spark) and given.refused is None


class _Creation:
    """A CREATE or REPLACE: the location and the definition of the table."""

    def __init__(self, statement: Statement, given: TableCreation) -> None:
        self._statement = statement
        self._spark = statement.spark
        self._given = given
        self._path = path_in_parts(given.table.parts)
        self._in_lake = lake_name_of(self._spark, given.table.parts, is_new=True)
        is_named = self._path is None and self._in_lake is None
        self._entry = entry_of(self._spark, given.table.parts) if is_named else None
        if self._entry is not None and self._entry.is_temporary:
            self._entry = None

    def run(self) -> DataFrame | None:
        given = self._given
        if self._in_lake is not None:
            return self._in_a_lake(self._in_lake)
        if self._entry is not None and given.mode == parsed.CREATE_IF_NOT_EXISTS:
            return nothing(self._spark)
        if self._entry is not None and given.mode == parsed.CREATE:
            raise TableAlreadyExists(f"{given.table.text} already exists in the catalog. REPLACE it, or DROP it first")
        if self._entry is not None and not self._entry.is_delta:
            raise InvalidArgument(
                f"{given.table.text} is in the catalog as {self._entry.provider or 'a view'}, and only a Delta table "
                "can be replaced. DROP it first, or choose another name"
            )
        if self._entry is None and self._path is None and given.mode == parsed.REPLACE:
            raise TableNotFound(
                f"{given.table.text} is not in the catalog, so it cannot be replaced. CREATE it",
                error_class="DELTA_CANNOT_REPLACE_MISSING_TABLE",
            )
        if self._path is not None or self._entry is not None:
            return self._filled(self._path or str(self._entry and self._entry.location))
        return self._newly_named()

    def _newly_named(self) -> DataFrame:
        """Create a table with a new name in the catalog.

        The entry is created first, so that no other session takes the name. An error removes the entry.
        """
        location = self._given.location
        is_there = location is not None and DeltaTable.isDeltaTable(self._spark, location)
        if is_there and location is not None and self._given.query is None and self._given.clones is None:
            return self._taken_in(location)
        schema = self._shown_schema()
        entry = register_table(self._spark, self._given.table.parts, schema, location, self._given.comment)
        try:
            return self._filled(str(entry.location))
        except BaseException:
            unregister_table(self._spark, entry)
            raise

    def _taken_in(self, location: str) -> DataFrame:
        """Register an existing table under a name. Raises InvalidArgument for columns other than the table's."""
        table = DeltaTable.forPath(self._spark, location)
        there = table._snapshot().schema
        wanted = [column.name.parts[-1].lower() for column in self._given.columns]
        if wanted and wanted != [name.lower() for name in there.names]:
            raise InvalidArgument(
                f"{location} is a Delta table with the columns {', '.join(there.names)}, but the statement names "
                f"{', '.join(wanted)}. Leave the columns out",
                error_class="DELTA_CREATE_TABLE_SCHEME_MISMATCH",
            )
        register_table(self._spark, self._given.table.parts, to_spark_schema(there), location, self._given.comment)
        return nothing(self._spark)

    def _filled(self, location: str) -> DataFrame:
        """Create the table itself, at its location."""
        given = self._given
        if given.clones is not None:
            return self._cloned(location)
        if given.query is not None:
            self._written(self._rows, location)
            return nothing(self._spark)
        self._builder().location(location).execute()
        return nothing(self._spark)

    @cached_property
    def _rows(self) -> DataFrame:
        """The rows of AS a query, planned once for both columns and rows."""
        return self._statement.query(self._given.query or "")

    @cached_property
    def _source(self) -> CloneSource:
        """The source of a clone, in its state at the start of the statement."""
        source = self._given.clones
        if source is None:
            raise InvalidArgument(f"{self._given.table.text} clones nothing")
        return clone_source(self._spark, source.parts, self._given.clones_travel)

    def _shown_schema(self) -> spark_types.StructType:
        """Return the columns for the catalog."""
        given = self._given
        if given.query is not None:
            return self._rows.schema
        if given.clones is not None:
            return to_spark_schema(self._source.snapshot.schema)
        return to_spark_schema(self._builder()._schema)

    def _builder(self) -> DeltaTableBuilder[DeltaTable]:
        given = self._given
        builder = DeltaTableBuilder(self._spark, _MODES[given.mode], DeltaTable)
        if given.like is not None:
            _like(builder, required_table(self._spark, given.like.parts))
        for column in given.columns:
            add_column(builder, column)
        known = {column.name.parts[-1].lower() for column in given.columns}
        for column in given.partitioned_by:
            if column.type is not None and column.name.parts[-1].lower() not in known:
                add_column(builder, column)
        for key, value in {**_properties(given.options), **given.properties}.items():
            builder.property(key, value)
        if given.partitioned_by:
            builder.partitionedBy(*_partition_names(given))
        if given.clustered_by:
            builder.clusterBy(*given.clustered_by)
        return builder if given.comment is None else builder.comment(given.comment)

    def _written(self, frame: DataFrame, location: str) -> None:
        """Write the rows of AS a query to a new table, or to a replaced one."""
        given = self._given
        self._require_no_columns()
        table = table_at(self._spark, location, Options(given.options))
        existing = newest_snapshot(table)
        if existing is not None and given.mode == parsed.CREATE_IF_NOT_EXISTS:
            return
        if existing is not None and given.mode not in _REPLACING:
            raise TableAlreadyExists(f"{location} is already a Delta table. REPLACE it, or choose another location")
        if existing is None:
            require_no_plain_files(table.store)
        self._saved(frame, partial(begin_definition, table, existing))

    def _require_no_columns(self) -> None:
        if self._given.columns:
            raise InvalidArgument(
                f"{self._given.table.text}: the query after AS defines the columns. Leave the column list out"
            )

    def _saved(self, frame: DataFrame, begin: Callable[[TableDefinition], TableTransaction]) -> None:
        given = self._given
        save_as_definition(
            frame,
            begin,
            f"{_MODES[given.mode].operation} AS SELECT",
            _partition_names(given),
            given.clustered_by,
            given.properties,
            given.comment,
            given.options,
        )

    def _cloned(self, location: str) -> DataFrame:
        given = self._given
        if given.mode == parsed.CREATE_IF_NOT_EXISTS and DeltaTable.isDeltaTable(self._spark, location):
            return nothing(self._spark)
        return self._told(self._source.clone(location, given.mode in _REPLACING, given.properties))

    def _told(self, result: CloneResult) -> DataFrame:
        return result_frame(self._spark, [tuple(result.to_dict().values())], CLONE_RESULT, "CLONE")

    def _in_a_lake(self, name: LakeName) -> DataFrame:
        given = self._given
        name.require_no_transaction()
        if given.query is None and given.clones is None:
            self._builder()._in(given.table.parts, given.location).execute()
            return nothing(self._spark)
        if name.is_there or given.mode == parsed.REPLACE:
            location = name.lake.location(name.name)
            require_place(name.name, location, given.location)
            return self._filled(location)
        lake: Any = name.lake
        if given.clones is not None:
            return self._cloned_into(lake, name.name)
        self._require_no_columns()
        self._saved(self._rows, partial(lake._begin_create, name.name, location=given.location))
        return nothing(self._spark)

    def _cloned_into(self, lake: Any, name: str) -> DataFrame:
        """Create a table of a lake with the files of another table."""
        source, settings = self._source.snapshot, SessionSettings.of(self._spark)
        begun = lake._begin_clone(name, source, self._given.properties, self._given.location)
        with Progress.during(self._spark, "CLONE", "listing files", settings.progress):
            result = commit_clone(begun, source, None, settings.user_metadata, settings.user_name)
        return self._told(result)


def add_column(builder: DeltaTableBuilder[Any], column: ColumnDefinition) -> None:
    """Add a column from its definition. Raises InvalidArgument, UnsupportedFeature."""
    name = column.name.parts[-1]
    if column.type is None:
        raise InvalidArgument(f"the column {name} has no type. Add one")
    always: str | IdentityGenerator | None = column.generated
    by_default: IdentityGenerator | None = None
    if column.identity is not None:
        generator = IdentityGenerator(column.identity.start, column.identity.step)
        always, by_default = (generator, None) if column.identity.always else (None, generator)
    builder.addColumn(name, column.type, column.nullable, always, by_default, column.comment)
    if column.default is not None:
        builder._set_default(name, column.default)


def _partition_names(given: TableCreation) -> tuple[str, ...]:
    for column in given.partitioned_by:
        if len(column.name.parts) != 1:
            raise InvalidArgument(f"PARTITIONED BY expected a top-level column, found {column.name.text}")
    return tuple(column.name.parts[0] for column in given.partitioned_by)


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties in OPTIONS: keys with `delta.…`. Other keys are options of reads and writes."""
    return {key: value for key, value in options.items() if key.lower().startswith("delta.")}


def _like(builder: DeltaTableBuilder[Any], other: NamedTable) -> None:
    """Copy columns, partitioning, clustering and properties of another table, without its rows."""
    snapshot = other.table._snapshot()
    builder._like(snapshot)


def drop_table(statement: Statement) -> DataFrame | None:
    """Run `DROP TABLE` of a lake's table, outside of transactions. Tables of the catalog are left to Spark."""
    cursor = statement.cursor()
    if not cursor.accept("DROP", "TABLE"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = name_at(cursor.tokens, cursor.at)
    if name is None:
        return None
    in_lake = lake_name_of(statement.spark, name.parts)
    if in_lake is not None and (in_lake.is_there or in_lake.is_certain):
        in_lake.require_no_transaction()
        cursor.name()
        cursor.accept("PURGE")
        cursor.done()
        if in_lake.is_there or not if_exists:
            lake: Any = in_lake.lake
            lake.drop_table(in_lake.name)
        return nothing(statement.spark)
    entry = entry_of(statement.spark, name.parts)
    if entry is not None and entry.is_delta:
        register_provider(statement.spark)
    return None
