"""Files of tables whose columns are found by field ids: files without any are refused before Spark meets them.

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
    # Where it is true, columns of files without ids are null in silence.
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
}
"""What a session is set to for good, since Spark asks it when rows are read; without effect on other tables."""

_LOOKED_AT = 8


def require_field_ids(store: ObjectStore, places: Sequence[str]) -> None:
    """Raise CorruptTable where a file has no field ids; of many files, the first and the last ones are looked at.

    Spark itself refuses such a file, while rows are read and without its name.
    """
    if store.local_root is None:
        return
    half = _LOOKED_AT // 2
    for place in places if len(places) <= _LOOKED_AT else [*places[:half], *places[-half:]]:
        footer, _ = parquet_footer(*open_resolved(store, place))
        if footer.metadata.num_columns and not footer.has_field_ids:
            raise CorruptTable(
                f"{store.root_url}: the table finds columns by field ids (delta.columnMapping.mode=id), and the file "
                f"{place} has none: its columns cannot be told. Have its writer write it again with field ids, or read "
                "a version without it"
            )
