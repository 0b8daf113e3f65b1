"""Existence and metadata of many objects: one request per object for few, a listing for many.

Source: delta-protocol.md "Data Files", "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from slackwater.protocol.actions.paths import is_absolute
from slackwater.storage.path_guard import open_resolved
from slackwater.storage.store import ObjectMeta, ObjectStore

_FEW = 500


def missing_files(store: ObjectStore, places: Sequence[str]) -> list[str]:
    """Return the paths of `places`, relative to the store's root or absolute, without a file."""
    below = [place for place in places if not is_absolute(place)]
    if store.local_root is not None:
        # A listing of a disk would check each of these files too, and all other files.
        root = store.local_root
        missing = [place for place in below if not _is_file(store, place, f"{root}/{place}")]
    elif len(below) > _FEW:
        present = {meta.path for meta in store.list_from("", recursive=True)}
        missing = [place for place in below if place not in present]
    else:
        missing = _missing_one_by_one(store, below)
    return missing + _missing_one_by_one(store, [place for place in places if is_absolute(place)])


def sizes_of(store: ObjectStore, places: Sequence[str]) -> list[int | None]:
    """Return the size in bytes of the file at each of `places`, relative or absolute. None if the file is missing."""
    return [None if meta is None else meta.size_bytes for meta in metas_of(store, places)]


def metas_of(store: ObjectStore, places: Sequence[str]) -> list[ObjectMeta | None]:
    """Return the metadata of the file at each of `places`, relative or absolute. None if the file is missing."""
    below = [place for place in places if not is_absolute(place)]
    if len(below) > _FEW and store.local_root is None:
        found: dict[str, ObjectMeta | None] = {meta.path: meta for meta in store.list_from("", recursive=True)}
        others = [place for place in places if is_absolute(place)]
    else:
        found, others = {}, list(places)

    def meta_of(place: str) -> ObjectMeta | None:
        opened, path = open_resolved(store, place)
        return opened.head(path)

    with ThreadPoolExecutor(16) as pool:
        found.update(zip(others, pool.map(meta_of, others), strict=True))
    return [found.get(place) for place in places]


def _is_file(store: ObjectStore, place: str, on_disk: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(on_disk).st_mode)  # noqa: PTH116  (for many files pathlib costs more than this)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return store.head(place) is not None


def _missing_one_by_one(store: ObjectStore, places: Sequence[str]) -> list[str]:
    def is_missing(place: str) -> bool:
        opened, path = open_resolved(store, place)
        return opened.head(path) is None

    with ThreadPoolExecutor(16) as pool:
        return [place for place, gone in zip(places, pool.map(is_missing, places), strict=True) if gone]
