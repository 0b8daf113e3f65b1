"""Which files of a table are there: asked file by file where there are few, else by listing.

Source: delta-protocol.md "Data Files", "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from slackwater.errors import DataFileNotFound
from slackwater.log.table import Table
from slackwater.protocol.actions.deletion_vectors import INLINE, DeletionVectorDescriptor
from slackwater.protocol.actions.paths import is_absolute
from slackwater.storage.gate import file_places, opened_place, vector_place
from slackwater.storage.store import ObjectMeta, ObjectStore

_FEW = 500
_NAMED = 5


def file_and_vector_places(store: ObjectStore, files: pa.Table) -> Iterator[str]:
    """Where the data files of `files` are, and the files of their deletion vectors; as `file_place` gives it.

    `files` has the columns `path` and `deletionVector` of ADD_SCHEMA.
    """
    yield from file_places(store, files["path"].to_pylist(), allow_outside_root=True)
    with_vector = files.filter(files["deletionVector"].is_valid())
    yield from vector_places(store, with_vector)


def vector_places(store: ObjectStore, files: pa.Table) -> Iterator[str]:
    """Where the files of the deletion vectors of `files` are, each once."""
    seen = set()
    for node in files["deletionVector"].to_pylist():
        if node is None or node["storageType"] == INLINE:
            continue
        place = vector_place(store, DeletionVectorDescriptor.from_json(node), allow_outside_root=True)
        if place not in seen:
            seen.add(place)
            yield place


def missing_places(store: ObjectStore, places: Sequence[str]) -> list[str]:
    """Those of `places`, relative to the store's root or absolute, at which there is no file."""
    below = [place for place in places if not is_absolute(place)]
    if store.local_root is not None:
        # A listing would look at each file too, and at all others.
        root = store.local_root
        missing = [place for place in below if not _is_file(store, place, f"{root}/{place}")]
    elif len(below) > _FEW:
        present = {meta.path for meta in store.list_from("", recursive=True)}
        missing = [place for place in below if place not in present]
    else:
        missing = _missing_one_by_one(store, below)
    return missing + _missing_one_by_one(store, [place for place in places if is_absolute(place)])


def sizes_of(store: ObjectStore, places: Sequence[str]) -> list[int | None]:
    """The bytes of the file at each of `places`, as `missing_places` takes them; None where there is none."""
    return [None if meta is None else meta.size_bytes for meta in metas_of(store, places)]


def metas_of(store: ObjectStore, places: Sequence[str]) -> list[ObjectMeta | None]:
    """What the store says of the file at each of `places`, as `sizes_of` takes them."""
    below = [place for place in places if not is_absolute(place)]
    if len(below) > _FEW and store.local_root is None:
        found: dict[str, ObjectMeta | None] = {meta.path: meta for meta in store.list_from("", recursive=True)}
        others = [place for place in places if is_absolute(place)]
    else:
        found, others = {}, list(places)

    def meta_of(place: str) -> ObjectMeta | None:
        opened, path = opened_place(store, place)
        return opened.head(path)

    with ThreadPoolExecutor(16) as pool:
        found.update(zip(others, pool.map(meta_of, others), strict=True))
    return [found.get(place) for place in places]


def require_present(table: Table, files: pa.Table, what: str) -> None:
    """Raise DataFileNotFound where a data file or a deletion vector of `files` is gone, which `what` needs.

    Outside the table's root nothing is asked for, unless that is trusted.
    """
    store = table.store
    places = file_and_vector_places(store, files)
    missing = missing_places(store, [at for at in places if table.follows_outside or not is_absolute(at)])
    if missing:
        named = ", ".join(missing[:_NAMED]) + (", …" if len(missing) > _NAMED else "")
        raise DataFileNotFound(
            f"{store.root_url}: {what} needs {len(missing)} files that are gone ({named}): they were vacuumed, or "
            "deleted by hand; nothing was changed. Choose a newer version, or say that missing files may be ignored"
        )


def _is_file(store: ObjectStore, place: str, on_disk: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(on_disk).st_mode)  # noqa: PTH116  (for many files pathlib costs more than this)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return store.head(place) is not None


def _missing_one_by_one(store: ObjectStore, places: Sequence[str]) -> list[str]:
    def is_missing(place: str) -> bool:
        opened, path = opened_place(store, place)
        return opened.head(path) is None

    with ThreadPoolExecutor(16) as pool:
        return [place for place, gone in zip(places, pool.map(is_missing, places), strict=True) if gone]
