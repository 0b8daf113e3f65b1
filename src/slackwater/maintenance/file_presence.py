"""Locations of a table's files, and a check of their existence.

Source: delta-protocol.md "Data Files", "Deletion Vector File Storage Format".
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from slackwater.errors import DataFileNotFound
from slackwater.log.table import Table
from slackwater.protocol.actions.deletion_vectors import INLINE, DeletionVectorDescriptor
from slackwater.protocol.actions.paths import is_absolute
from slackwater.storage.existence import missing_files
from slackwater.storage.path_guard import named_places, named_vector_place
from slackwater.storage.store import ObjectStore

_NAMED = 5


def file_and_vector_places(store: ObjectStore, files: pa.Table) -> Iterator[str]:
    """Yield the locations of data files and deletion vector files of `files`, in the form of `resolve_file`.

    `files` has the columns `path` and `deletionVector` of ADD_SCHEMA.
    """
    yield from named_places(store, files["path"].to_pylist())
    with_vector = files.filter(files["deletionVector"].is_valid())
    yield from vector_places(store, with_vector)


def vector_places(store: ObjectStore, files: pa.Table) -> Iterator[str]:
    """Yield the locations of deletion vector files of `files`, without duplicates."""
    seen = set()
    for node in files["deletionVector"].to_pylist():
        if node is None or node["storageType"] == INLINE:
            continue
        place = named_vector_place(store, DeletionVectorDescriptor.from_json(node))
        if place not in seen:
            seen.add(place)
            yield place


def require_present(table: Table, files: pa.Table, what: str) -> None:
    """Raise DataFileNotFound if a data file or deletion vector of `files`, required by `what`, does not exist.

    Files outside the table's root are checked only if the table follows such files.
    """
    store = table.store
    places = file_and_vector_places(store, files)
    missing = missing_files(store, [at for at in places if table.follows_outside or not is_absolute(at)])
    if missing:
        named = ", ".join(missing[:_NAMED]) + (", …" if len(missing) > _NAMED else "")
        raise DataFileNotFound(
            f"{store.root_url}: {what} needs {len(missing)} files that do not exist ({named}). They were vacuumed, or "
            "deleted by hand, and nothing was changed. Choose a newer version, or ignore missing files"
        )
