"""Multi-table transactions with Spark: DeltaTables and DataFrames of one consistent state.

Source: docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.html.components import badge
from slackwater.html.element import Markup
from slackwater.lake.tables import LakeTables
from slackwater.lake.transaction import LOCK_TIMEOUT_S, OPTIMISTIC, SERIALIZABLE, LogTransaction
from slackwater.lake.transaction_table import TransactionTableState
from slackwater.log.table import Table
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.snapshot_html import snapshot_card
from slackwater.spark.conditions.transaction_time import TransactionTime
from slackwater.spark.dml.merge.builder import DeltaMergeBuilder
from slackwater.spark.lake.timed_expressions import TimedExpressions
from slackwater.spark.read.table_scan import ScanOptions, TableScan
from slackwater.spark.session.frames import empty_frame
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import session_zone
from slackwater.spark.session.types import to_spark_schema
from slackwater.spark.table.table import DeltaTable
from slackwater.spark.writer.save import save_to
from slackwater.transaction.commit_result import CommitResult


class LakeTransaction(LogTransaction):
    """A transaction with reads and writes by Spark.

    A DataFrame shows the transaction's state at its creation. Days are in the session's zone. The transaction supplies
    the time for expressions and rules of its tables. A DataFrame with a request for Spark's clock is rejected.

    >>> orders = spark.createDataFrame([("A1",)], "sku STRING")
    >>> with lake.transaction(spark) as tx:
    ...     now = tx.current_timestamp()
    ...     tx.table("orders").append(orders.withColumn("at", F.lit(now)))
    ...     tx.table("stock").update("sku = 'A1'", {"qty": "qty - 1"})
    >>> tx.commit_timestamp == now, sorted(tx.versions.items())
    (True, [('orders', 1), ('stock', 2)])
    """

    def __init__(
        self,
        lake: LakeTables,
        spark: SparkSession,
        isolation: str = SERIALIZABLE,
        control: str = OPTIMISTIC,
        writes: Sequence[str] | None = None,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        others: Sequence[LakeTables] = (),
        seniority_ms: int | None = None,
    ) -> None:
        super().__init__(lake, isolation, control, writes, lock_timeout_s, others, seniority_ms)
        self.spark = spark

    @property
    def time_zone(self) -> str:
        """The zone of the session."""
        return session_zone(self.spark)

    def table(self, name: str) -> TransactionTable:  # type: ignore[override]  # Spark's frames instead of Arrow
        """Return the table `name` as of the transaction's begin, plus the transaction's own changes.

        Raises TableNotFound; with control `locking`, the errors of `lock`.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").setProperties({"team": "sales"})
        >>> tx.versions
        {'stock': 2}
        """
        if not isinstance(name, str):
            raise InvalidArgument(f"the name of a table must be a string, found {type(name).__name__}")
        self.reading(name)
        return TransactionTable(self, name)


class TransactionTable(DeltaTable):
    """A table in a transaction. Its changes become visible to other transactions at the commit.

    Conditions and values of its changes use the transaction's time.

    >>> with lake.transaction(spark) as tx:
    ...     tx.table("stock").append(spark.createDataFrame([("B2", 5)], "sku STRING, qty INT"))
    ...     tx.table("stock").toDF().count(), lake.snapshot("stock").version
    (2, 1)
    """

    def __init__(self, transaction: LakeTransaction, name: str, alias: str | None = None) -> None:
        super().__init__(transaction.spark, transaction.reading(name).table)
        self._transaction = transaction
        self._name = name
        self._alias = alias
        self._time = TransactionTime(transaction)

    def _card(self) -> Markup:
        # A display is not recorded as a read.
        branch = self._transaction.reading(self._name)
        marks = [badge("written in this transaction" if branch.is_written else "in a transaction", "accent")]
        return snapshot_card(branch.snapshot, type(self).__name__, self._name, marks)

    def _told_place(self) -> str:
        return f"{self._name} in transaction {self._transaction.id}"

    def _brief(self) -> str:
        return ""

    def append(self, frame: DataFrame, **options: Any) -> None:
        """Append the rows of `frame`. `options` as in `df.write.option` (`mergeSchema=True`). Raises as `save`.

        Raises InvalidArgument if rows use Spark's clock.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").append(spark.createDataFrame([("B2", 5)], "sku STRING, qty INT"))
        >>> tx.versions
        {'stock': 2}
        """
        self._save(frame, "append", options)

    def overwrite(self, frame: DataFrame, **options: Any) -> None:
        """Replace all rows, or the rows of `replaceWhere="…"`, by the rows of `frame`. `options` as in `append`.

        Raises as `append`.

        >>> counted = spark.createDataFrame([("A1", 9)], "sku STRING, qty INT")
        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").overwrite(counted, replaceWhere="sku = 'A1'")
        >>> lake.snapshot("stock").to_arrow().to_pylist()
        [{'sku': 'A1', 'qty': 9}]
        """
        self._save(frame, "overwrite", options)

    def toDF(self, **options: Any) -> DataFrame:
        """Return all rows, and record a read of the whole table. `where` reads less.

        `options` as in `spark.read`: `rowTracking`, `allowPathsOutsideRoot`, `replay`, `rows`. Raises InvalidArgument
        if the options select another version.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").toDF().first().qty
        10
        """
        table = self._transaction.reading(self._name)
        scan = self._scan(table.snapshot, options)
        table.read()
        return self._framed(scan.dataframe())

    def where(self, condition: str | Column, **options: Any) -> DataFrame:
        """Return the rows matching `condition`, SQL text or a Column, and record a read of these rows only.

        `options` as in `toDF`. Raises as `toDF`, and InvalidArgument if `condition` uses Spark's clock.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").where("sku = 'A1'").first().qty
        10
        """
        table = self._transaction.reading(self._name)
        scan = self._scan(table.snapshot, options)
        condition = self._timed(table).condition(condition)
        frame = self._framed(scan.dataframe()).where(condition)
        # Resolve first, so that an invalid condition is not recorded as a read.
        _ = frame.schema
        table.read(scan.conditions.predicate(condition))
        return frame

    def alias(self, aliasName: str) -> DeltaTable:
        """Return the table with `toDF` under the name `aliasName`.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").alias("s").toDF().select("s.qty").columns
        ['qty']
        """
        return TransactionTable(self._transaction, self._name, aliasName)

    def _delete(self, condition: str | Column | None) -> int | None:
        return super()._delete(self._timed(self._writing()).condition(condition))

    def _update(self, condition: str | Column | None, values: Mapping[str, str | Column]) -> int | None:
        timed = self._timed(self._writing())
        return super()._update(timed.condition(condition), timed.assignments(values))

    def _write(self, frame: DataFrame, mode: str, options: Mapping[str, Any]) -> CommitResult | None:
        return self._save(frame, mode, options, assigns=True)

    def _merge(self, builder: DeltaMergeBuilder) -> DataFrame:
        return super()._merge(self._timed(self._writing()).merge(builder))

    def _save(
        self, frame: DataFrame, mode: str, options: Mapping[str, Any], assigns: bool = False
    ) -> CommitResult | None:
        table = self._writing()
        self._time.require(frame, f"the rows to {mode}")
        timed = self._timed(table)
        found = {k: timed.condition(v) if k.lower() == "replacewhere" else v for k, v in options.items()}
        return save_to(frame, table.table, mode, found, assigns)

    def _writing(self) -> TransactionTableState:
        return self._transaction.writing(self._name)

    def _timed(self, table: TransactionTableState) -> TimedExpressions:
        schema = table.snapshot.schema
        target = empty_frame(self._spark, to_spark_schema(schema))
        return TimedExpressions(self._time, schema, target.alias(self._alias) if self._alias else target)

    def _scan(self, snapshot: Snapshot, options: dict[str, Any]) -> TableScan:
        given = Options(options)
        given.require_no_travel("a table in a transaction")
        return TableScan(self._spark, snapshot, ScanOptions.of(given))

    def _changing(self) -> Table:
        return self._writing().table

    def _snapshot(self) -> Snapshot:
        return self._transaction.reading(self._name).snapshot

    def _snapshot_to_clone(self, version: int | None = None, timestamp: int | None = None) -> Snapshot:
        del version, timestamp
        return self._snapshot_for_upkeep("a clone")

    def _snapshot_for_upkeep(self, what: str) -> Snapshot:
        raise OperationNotAllowed(
            f"{what} cannot be part of a transaction. Run it before or after, with lake.table({self._name!r})"
        )

    def _alter(self, change: Callable[[Snapshot], Any], reads_rows: bool = False) -> CommitResult | None:
        self._writing()
        return super()._alter(change, reads_rows)
