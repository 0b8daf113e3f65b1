"""Application of row changes to a table by key and in order, to maintain a copy of another table.

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
    """The interpretation of a batch of changes for a table: see `changes_by_key`."""

    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    deletes: str
    columns: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None

    def to(self, table: str) -> KeyedChanges:
        """Return the same for the table `table`."""
        return replace(self, table=table)

    def __call__(self, batch: DataFrame, tx: LakeTransaction) -> None:
        """Merge the last change of each key in `batch` into the table."""
        gone = F.coalesce(F.expr(self.deletes), F.lit(False))
        # A row deleted and inserted again by one commit exists.
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
    """Apply row changes to a table by its `keys`. The last change of each key in a micro-batch is effective.

    A batch has rows of a change feed (`readChangeFeed`), or other rows. `order_by`: SQL texts for the order of the
    changes of a key. `deletes`: a SQL condition for changes that delete the row. `columns`: SQL texts for columns of
    the table without a column of the same name in the batch. The alias of the batch in these texts is `s`. For
    `slackwater.stream(...).to(lake, {table: changes_by_key(...)})`. Raises InvalidArgument without a key.

    >>> slackwater.changes_by_key("id", order_by="ts_ms", deletes="op = 'd'").keys
    ('id',)
    """
    found = (keys,) if isinstance(keys, str) else tuple(keys)
    if not found:
        raise InvalidArgument(
            "changes are applied by key, but no key column is set. Name the column, or columns, that identify a row"
        )
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    return KeyedChanges(found, order, deletes, dict(columns or {}))
