"""Changes of rows, applied to a table by key in their order: what keeps a copy of a table up to date.

Source: delta-protocol.md "Add CDC File" (the kinds of change); Debezium's events for other orders and kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument
from slackwater.scan.file_changes import CHANGE_TYPE, COMMIT_VERSION
from slackwater.spark.lake.transaction import LakeTransaction
from slackwater.sql.lexer import quoted

_RANK, _GONE = "__slackwater_rank", "_slackwater_gone"

_KINDS_THAT_DELETE = f"{CHANGE_TYPE} IN ('delete', 'update_preimage')"


@dataclass(frozen=True)
class KeyedChanges:
    """What a batch of changes means for a table: see `changes_by_key`."""

    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    deletes: str
    columns: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None

    def to(self, table: str) -> KeyedChanges:
        """The same, for the table of that name."""
        return replace(self, table=table)

    def __call__(self, batch: DataFrame, tx: LakeTransaction) -> None:
        """Make the last change of each key in `batch` count in the table."""
        gone = F.coalesce(F.expr(self.deletes), F.lit(False))
        # A row that a commit took away and put back is there.
        order: list[Column] = [F.expr(text).desc() for text in self.order_by] + [F.col(_GONE).asc()]
        newest = Window.partitionBy(*(F.col(quoted(key)) for key in self.keys)).orderBy(*order)
        ranked = batch.withColumn(_GONE, gone).withColumn(_RANK, F.row_number().over(newest))
        last = ranked.where(F.col(_RANK) == 1).drop(_RANK)
        table = tx.table(str(self.table))
        names = [name for name in table.toDF().columns if name in self.columns or name in batch.columns]
        values = {quoted(name): self.columns.get(name, f"s.{quoted(name)}") for name in names}
        on = " AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in self.keys)
        merge = table.alias("t").merge(last.alias("s"), on).whenMatchedDelete(f"s.{_GONE}")
        merge.whenMatchedUpdate(set=values).whenNotMatchedInsert(f"NOT s.{_GONE}", values).execute()


def changes_by_key(
    keys: str | Sequence[str],
    order_by: str | Sequence[str] = COMMIT_VERSION,
    deletes: str = _KINDS_THAT_DELETE,
    columns: Mapping[str, str] | None = None,
) -> KeyedChanges:
    """Apply changes of rows to a table by its `keys`: of each key the last change of a micro-batch counts.

    The rows of a batch are of a change feed (`readChangeFeed`), or others: `order_by`, SQL texts, say which change of a
    key is the last; `deletes`, a SQL condition, which of them take the row away. `columns` are SQL texts for columns
    of the table whose values are not in the batch under their own name, which is `s` in them. For
    `slackwater.stream(...).to(lake, {table: changes_by_key(...)})`. Raises InvalidArgument without a key.

    >>> slackwater.changes_by_key("id", order_by="ts_ms", deletes="op = 'd'").keys
    ('id',)
    """
    found = (keys,) if isinstance(keys, str) else tuple(keys)
    if not found:
        raise InvalidArgument("changes are applied by key: name the column, or columns, that tell rows apart")
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    return KeyedChanges(found, order, deletes, dict(columns or {}))
