"""Rows of a table within a transaction over several tables, without Spark.

Source: docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Callable

from slackwater.log.table import Table
from slackwater.predicate.predicate import Predicate
from slackwater.rows.delete import delete_rows
from slackwater.rows.expressions import Now
from slackwater.rows.request import APPEND, OVERWRITE, WriteRequest, write_request
from slackwater.rows.sources import RowData, row_source
from slackwater.rows.write import write_rows


class TableRows:
    """A table whose rows are written without Spark. Its changes belong to a transaction over several tables.

    `writing` returns the table for a change, and may lock it. `now` returns the transaction's time for default values.
    """

    def __init__(self, writing: Callable[[], Table], now: Now) -> None:
        self._writing = writing
        self._now = now

    def append(self, data: RowData, *, schema_mode: str | None = None) -> None:
        """Append the rows of `data`. `schema_mode` as in `slackwater.write`. Raises as `slackwater.write`."""
        self._write(data, write_request(APPEND, schema_mode=schema_mode))

    def overwrite(
        self, data: RowData, *, predicate: str | Predicate | None = None, schema_mode: str | None = None
    ) -> None:
        """Replace all rows by the rows of `data`, or the rows that satisfy `predicate`.

        `predicate` and `schema_mode` as in `slackwater.write`. Raises as `slackwater.write`.
        """
        self._write(data, write_request(OVERWRITE, schema_mode=schema_mode, predicate=predicate))

    def delete(self, where: str | Predicate | None) -> None:
        """Delete the rows for which `where` is true, all rows if None. Raises as `slackwater.delete`."""
        delete_rows(self._writing(), where)

    def _write(self, data: RowData, request: WriteRequest) -> None:
        write_rows(self._writing(), row_source(data), request, now=self._now)
