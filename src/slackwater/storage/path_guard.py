"""Path check for file actions. Every path from the log is resolved and validated here before the file is opened.

Files below the root are the table owner's responsibility, also if reached by a symbolic link. Sidecars, checkpoints and
commits need no check: they are names inside the log's own directories, and a directory in the log entry has no effect.
Source: delta-protocol.md "Add File and Remove File", "Deletion Vector Descriptor Schema", "Sidecar File Information".
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.errors import PathNotAllowed
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.protocol.actions.paths import (
    are_plain,
    checked_data_path,
    checked_relative_path,
    encode_path,
    is_absolute,
)
from slackwater.storage.location import KNOWN_SCHEMES, is_on_hadoop
from slackwater.storage.store import ObjectStore

_FOLLOWED = frozenset(KNOWN_SCHEMES) - {"http", "https"}


def resolve_file(store: ObjectStore, path: str, allow_outside_root: bool = False) -> str:
    """Return the file of an add, remove or cdc action with this `path`: relative to the root, else absolute; decoded.

    Raises PathNotAllowed for a path outside the root unless `allow_outside_root`. Always raises PathNotAllowed for a
    path on a web server, with an unknown scheme, with a '..' segment, or with a form no file can have.
    """
    return _followed(store, path, checked_data_path(path, store.root_url, store.local_root, allow_outside_root))


def named_place(store: ObjectStore, path: str) -> str:
    """Return the path of `resolve_file` for a file never opened here. Raises PathNotAllowed."""
    return checked_data_path(path, store.root_url, store.local_root, True)


def _followed(store: ObjectStore, path: str, place: str) -> str:
    """Return `place` if it is relative, a path of this machine, or in a file system or object store.

    Raises PathNotAllowed for any other scheme.
    """
    scheme = place.partition(":")[0].lower()
    if not is_absolute(place) or place.startswith("/") or scheme in _FOLLOWED or is_on_hadoop(scheme):
        return place
    raise PathNotAllowed(
        f"{store.root_url}: the log names the file {path!r}, which is not in a file system or an object store. Such a "
        "path is never followed"
    )


def resolve_files(store: ObjectStore, paths: Sequence[str], allow_outside_root: bool = False) -> list[str]:
    """Return `resolve_file` of each of `paths`. Raises PathNotAllowed."""
    if are_plain(paths):
        return list(paths)
    return [resolve_file(store, path, allow_outside_root) for path in paths]


def named_places(store: ObjectStore, paths: Sequence[str]) -> list[str]:
    """Return `named_place` of each of `paths`. Raises PathNotAllowed."""
    return list(paths) if are_plain(paths) else [named_place(store, path) for path in paths]


def resolve_deletion_vector(
    store: ObjectStore, vector: DeletionVectorDescriptor, allow_outside_root: bool = False
) -> str:
    """Return the file of a deletion vector not stored inline, like `resolve_file`.

    A relative vector is always below the root. Raises PathNotAllowed, CorruptDeletionVector.
    """
    named = vector.path_or_inline_dv
    return _vector_place(store, vector) or resolve_file(store, named, allow_outside_root)


def named_vector_place(store: ObjectStore, vector: DeletionVectorDescriptor) -> str:
    """Return `named_place` for the file of a deletion vector not stored inline.

    Raises PathNotAllowed, CorruptDeletionVector.
    """
    return _vector_place(store, vector) or named_place(store, vector.path_or_inline_dv)


def _vector_place(store: ObjectStore, vector: DeletionVectorDescriptor) -> str | None:
    relative = vector.relative_path
    return None if relative is None else checked_relative_path(relative, store.root_url)


def open_resolved(store: ObjectStore, place: str) -> tuple[ObjectStore, str]:
    """Return the store of the file at `place`, a result of the path check, and the file's path in this store."""
    if not is_absolute(place):
        return store, place
    # Stores take URLs percent-encoded, and local paths literally.
    return store.at(place if place.startswith("/") else encode_path(place))
