"""Audit log of `slackwater serve` as a Delta table, written without Spark and partitioned by day.

Source: docs/security.md "Audit log".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.errors import ProtocolChangedException, SlackwaterError
from slackwater.rows.write import write

if TYPE_CHECKING:
    from slackwater.owner.served.access.audit_trail import AuditRecord

_TABLE = pa.struct([("id", pa.string()), ("name", pa.string()), ("version", pa.int64())])
_SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("caller", pa.string()),
        ("client", pa.string()),
        ("method", pa.string()),
        ("route", pa.string()),
        ("path", pa.string()),
        ("status", pa.int32()),
        ("outcome", pa.string()),
        ("error", pa.string()),
        ("transaction", pa.string()),
        ("tables", pa.list_(_TABLE)),
        ("duration_ms", pa.float64()),
        ("record_id", pa.string()),
    ]
)
_FIRST_ERROR, _FIRST_FAILURE = 400, 500


class AuditTable:
    """Delta table with the records of an audit trail. Several servers may write to one table."""

    def __init__(
        self, folder: str, names: Callable[[], Mapping[str, str]], storage_options: Mapping[str, str] | None = None
    ) -> None:
        """Create the table if `folder` has none. `names` returns the current names of tables by id.

        Raises the errors of `slackwater.write`.
        """
        self._folder = folder
        self._current_names = names
        self._names: dict[str, str] = {}
        self._storage_options = storage_options
        # If another server creates the table concurrently, this server uses it.
        with suppress(ProtocolChangedException):
            self._write(_SCHEMA.empty_table(), "ignore")

    def append(self, records: Sequence[AuditRecord]) -> None:
        """Append the records in one commit. Raises the errors of `slackwater.write`."""
        names = self._names_for(records)
        self._write(pa.Table.from_pylist([_row(record, names) for record in records], _SCHEMA), "append")

    def _write(self, rows: pa.Table, mode: str) -> None:
        write(self._folder, rows, mode, partition_by="day", storage_options=self._storage_options)

    def _names_for(self, records: Sequence[AuditRecord]) -> Mapping[str, str]:
        """Return names by id. A released table has its last known name."""
        ids = {table.table_id for record in records for table in record.tables} - {None}
        if not ids <= self._names.keys():
            try:
                self._names |= self._current_names()
            except SlackwaterError:
                # The records have the ids.
                return self._names
        return self._names


def _row(record: AuditRecord, names: Mapping[str, str]) -> Mapping[str, Any]:
    time = dt.datetime.fromtimestamp(record.time_ms / 1000, dt.timezone.utc)
    listed = [
        {"id": table.table_id, "name": table.name or names.get(table.table_id or ""), "version": table.version}
        for table in record.tables
    ]
    known = {table["name"] for table in listed if table["id"] is not None}
    outcome = "ok" if record.status < _FIRST_ERROR else "refused" if record.status < _FIRST_FAILURE else "failed"
    return {
        "time": time,
        "day": time.date(),
        "caller": record.caller,
        "client": record.client,
        "method": record.method,
        "route": record.route,
        "path": record.path,
        "status": record.status,
        "outcome": outcome,
        "error": record.error,
        "transaction": record.transaction,
        "tables": [table for table in listed if table["id"] is not None or table["name"] not in known],
        "duration_ms": record.duration_ms,
        "record_id": record.record_id,
    }
