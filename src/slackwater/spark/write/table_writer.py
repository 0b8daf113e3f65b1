"""Row writer of a table: applies the rules, layout and statistics required by its protocol and metadata.

Source: delta-protocol.md "Requirements for Writers"; docs/architecture.md "The life of a write".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.errors import SlackwaterError
from slackwater.log.table import Table
from slackwater.protocol.actions.actions import DomainMetadata, Metadata
from slackwater.protocol.actions.files import AddCDCFile, AddFile
from slackwater.protocol.features import iceberg_compat
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.protocol.features.identity_columns import IdentityColumn, with_high_water_marks
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.write_expressions import WriteExpressions, row_rules
from slackwater.protocol.properties.parquet_version import WRITER_VERSION, page_version_of_table
from slackwater.protocol.properties.properties import (
    COMPRESSION_CODEC,
    ENABLE_VARIANT_SHREDDING,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    TableProperties,
)
from slackwater.protocol.schema.schema import StructType, schema_to_json
from slackwater.protocol.schema_changes.column_names import validate_column_types
from slackwater.scan.file_changes import CHANGE_TYPE
from slackwater.spark.conditions.transaction_time import TransactionTime
from slackwater.spark.read.row_addresses import KEPT_COMMIT_VERSION, KEPT_ROW_ID
from slackwater.spark.write.files.data_files import FileLayout, WrittenFiles, write_data_files
from slackwater.spark.write.identity_values import generated_extremes
from slackwater.spark.write.row_checks import CheckOutcomeUnknown, RowCheck, violations_named
from slackwater.spark.write.row_preparation import PreparedRows, prepare_changed_rows, prepare_rows
from slackwater.spark.write.store_assignment import name_overflow_errors
from slackwater.stats.footers import table_leaves
from slackwater.storage.store import ObjectStore
from slackwater.transaction.table.nested_field_ids import with_nested_field_ids

CHANGE_DATA = "_change_data"
"""Directory of change data files."""


@dataclass(frozen=True)
class TableWriter:
    """The writer for rows of `table`, according to its protocol, metadata and domains.

    `way` is the row transport, see `choose_transport`.
    """

    table: Table
    configuration: TableConfiguration
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    way: str | None = None

    @property
    def metadata(self) -> Metadata:
        """The table's metadata."""
        return self.configuration.metadata

    @property
    def schema(self) -> StructType:
        """The table's schema, by display names."""
        return self.configuration.schema

    @property
    def properties(self) -> TableProperties:
        """The table's properties."""
        return self.configuration.properties

    @property
    def mode(self) -> str:
        """The column mapping mode."""
        return self.configuration.column_mapping_mode

    @cached_property
    def rules(self) -> WriteExpressions:
        """The checks for every row, and the expressions of generated values."""
        rules = row_rules(self.configuration)
        return rules if self._time is None else self._time.of_rules(rules, self.schema)

    @property
    def _time(self) -> TransactionTime | None:
        return TransactionTime.of(self.table)

    def layout(self, hidden: Sequence[str] = ()) -> FileLayout:
        """Return the file layout. `hidden` names columns to write into the files, absent from the schema.

        Raises InvalidArgument for a column that files cannot store, such as void inside another column.
        """
        validate_column_types(self.schema)
        return FileLayout(
            self.schema,
            self.metadata.partition_columns,
            self.mode,
            table_leaves(self.configuration, self.domains, self.table.root_url),
            iceberg_compat.materializes_partition_values(self.configuration),
            hidden,
            self._finish(),
            self.properties.flag(ENABLE_VARIANT_SHREDDING),
            iceberg_compat.hidden_field_ids(self.configuration),
        )

    def write(
        self,
        frame: DataFrame,
        parquet: Mapping[str, str],
        data_change: bool = True,
        extra_checks: Sequence[RowCheck] = (),
        change_type: str | None = None,
    ) -> WriteResult:
        """Write the rows of `frame`, matched by column name, with generated values and checks.

        `parquet` are options of the file writer. With `change_type` the files also serve as change data files. After an
        error, all written files are deleted. Raises InvariantViolationException if a row breaks a rule, InvalidArgument
        if columns do not fit.
        """
        self._require_own_time(frame.sparkSession)
        ready = prepare_rows(frame, self.schema, self.rules, extra_checks, self.metadata.partition_columns)

        def write(rows: DataFrame, require: Callable[[], None] | None) -> WriteResult:
            typed, hidden = _with_change_type(rows, change_type)
            return self.rewrite(typed, parquet, data_change, hidden, require)

        files = self._write_checked(ready, write).files
        return WriteResult(files, self._with_marks(ready.generated, files.adds))

    def write_changed(
        self,
        frame: DataFrame,
        changed: Column | None = None,
        recomputed: Mapping[str, Column] | None = None,
        hidden: Sequence[str] = (),
    ) -> WriteResult:
        """Write rows with the columns `hidden`. `changed` marks the changed rows (None: all rows).

        See `prepare_changed_rows`. After an error, all written files are deleted. Raises InvariantViolationException if
        a changed row breaks a rule.
        """
        self._require_own_time(frame.sparkSession)
        ready = prepare_changed_rows(
            frame, self.schema, self.rules, changed, recomputed, self.metadata.partition_columns
        )
        return self._write_checked(ready, lambda rows, require: self.rewrite(rows, {}, hidden=hidden, require=require))

    def with_kept_ids(self, frame: DataFrame) -> tuple[DataFrame, list[str]]:
        """Return `frame` with its KEPT_ROW_ID and KEPT_COMMIT_VERSION, if any, under the table's own names.

        Source: delta-protocol.md "Writer Requirements for Row Tracking".
        """
        if KEPT_ROW_ID not in frame.columns:
            return frame, []
        names = {
            KEPT_ROW_ID: self.properties[MATERIALIZED_ROW_ID],
            KEPT_COMMIT_VERSION: self.properties[MATERIALIZED_ROW_COMMIT_VERSION],
        }
        return frame.withColumnsRenamed(names), list(names.values())

    def rewrite(
        self,
        frame: DataFrame,
        parquet: Mapping[str, str],
        data_change: bool = True,
        hidden: Sequence[str] = (),
        require: Callable[[], None] | None = None,
    ) -> WriteResult:
        """Write existing rows of the table to new files, unchanged. For `require` see `write_data_files`."""
        files = write_data_files(
            frame,
            self.table.store,
            self.layout(hidden),
            self.parquet_options(parquet),
            data_change,
            require=require,
            way=self.way,
        )
        return WriteResult(files)

    def write_changes(self, frame: DataFrame, change_type: str | None, parquet: Mapping[str, str]) -> WriteResult:
        """Write rows of the table as change data files. Without `change_type`, the rows contain their change types."""
        rows, _ = _with_change_type(frame, change_type)
        layout = self.layout([CHANGE_TYPE])
        files = write_data_files(
            rows, self.table.store, layout, self.parquet_options(parquet), directory=CHANGE_DATA, way=self.way
        )
        return WriteResult(files, None, is_change_data=True)

    def _write_checked(self, ready: PreparedRows, write: Callable[..., WriteResult]) -> WriteResult:
        """Call `write` with the rows and with the check to call after the rows are written. Returns its result."""
        where = self.table.root_url
        with name_overflow_errors(where), violations_named(ready.token, where):
            try:
                return write(ready.checked.frame, partial(ready.checked.require, where))
            except CheckOutcomeUnknown:
                return write(ready.checked.failing, None)
            except PySparkException as error:
                if not isinstance(error, SlackwaterError):
                    ready.checked.require_after_failure(where)
                raise

    def _require_own_time(self, spark: SparkSession) -> None:
        if self._time is not None:
            self._time.require_rules(self.rules, self.schema, spark)

    def parquet_options(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options of the file writer. The defaults are the table's own codec and version of data pages."""
        codec, pages = self.properties.get(COMPRESSION_CODEC), page_version_of_table(self.properties)
        own = {"compression": codec, WRITER_VERSION: pages}
        given = {key.lower() for key in options}
        return {**{key: value for key, value in own.items() if value and key not in given}, **options}

    def _with_marks(self, generated: Sequence[IdentityColumn], adds: Sequence[AddFile]) -> Metadata | None:
        extremes = generated_extremes(adds, [(i, self._physical(i.name)) for i in generated])
        if not extremes:
            return None
        return replace(self.metadata, schema_string=schema_to_json(with_high_water_marks(self.schema, extremes)))

    def _physical(self, name: str) -> str:
        column = self.schema.get(name)
        return name if column is None else physical_name(column, self.mode)

    def _finish(self) -> Callable[[ObjectStore, str], None] | None:
        """Return a step that adds Parquet field ids to array elements and map entries, because Spark's writer cannot.

        None unless a version of Iceberg compatibility that needs the ids is active.
        """
        if not iceberg_compat.needs_nested_ids(self.configuration):
            return None
        return with_nested_field_ids(self.schema, self.mode)


@dataclass(frozen=True)
class WriteResult:
    """Files written and not committed. `metadata` is the new metadata if identity columns advanced, else None.

    `is_optimized`: the rows were repartitioned before writing, for fewer files.
    """

    files: WrittenFiles
    metadata: Metadata | None = None
    is_change_data: bool = False
    is_optimized: bool = False

    @property
    def adds(self) -> list[AddFile]:
        """The files to add. Empty for change data files."""
        return [] if self.is_change_data else self.files.adds

    @property
    def num_rows(self) -> int:
        """The number of rows written."""
        return sum(add.num_records or 0 for add in self.files.adds)

    @property
    def change_files(self) -> list[AddCDCFile]:
        """The change data files to add."""
        return [AddCDCFile(a.path, a.partition_values, a.size) for a in self.files.adds if self.is_change_data]


def _with_change_type(frame: DataFrame, change_type: str | None) -> tuple[DataFrame, tuple[str, ...]]:
    if change_type is None:
        return frame, ()
    return frame.withColumn(CHANGE_TYPE, F.lit(change_type)), (CHANGE_TYPE,)
