"""Field id check: rejects files without field ids before Spark reads them, in tables with column mapping by id.

Source: delta-protocol.md "Reader Requirements for Column Mapping" (mode `id`).
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.errors import CorruptTable
from slackwater.stats.footers import parquet_footer
from slackwater.storage.path_guard import open_resolved
from slackwater.storage.store import ObjectStore

SETTINGS = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # If true, columns of files without ids would silently be null.
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
}
"""Permanent session settings, because Spark checks them during the read. Other tables are not affected."""

_LOOKED_AT = 8


def require_field_ids(store: ObjectStore, places: Sequence[str]) -> None:
    """Raise CorruptTable if a file has no field ids. Stores other than local directories are not checked.

    For many files, only the first and last ones are checked. Spark also rejects such a file, but during the read and
    without its name.
    """
    if store.local_root is None:
        return
    half = _LOOKED_AT // 2
    for place in places if len(places) <= _LOOKED_AT else [*places[:half], *places[-half:]]:
        footer, _ = parquet_footer(*open_resolved(store, place))
        if footer.metadata.num_columns and not footer.has_field_ids:
            raise CorruptTable(
                f"{store.root_url}: the table identifies columns by field ids (delta.columnMapping.mode=id), but the "
                f"file {place} has none. Write the file again with field ids, or read a version without it"
            )
