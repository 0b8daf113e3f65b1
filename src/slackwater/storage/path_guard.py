"""The one gate between the paths that a table's log names and the files that are opened.

Code that opens a file that the log names asks here where it is. What lies below the root is the owner's business, also
where it is a symbolic link. Sidecars, checkpoints and commits need no gate: they are names inside the log's own
directories, whatever the log says of their directory. Source: delta-protocol.md "Add File and Remove File", "Deletion
Vector Descriptor Schema", "Sidecar File Information".
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
    """Where the file is whose `path` an add, remove or cdc has: relative to the root, else absolute; decoded.

    Raises PathNotAllowed for a path outside the root unless that is allowed, and always for one on a web server or of
    an unknown scheme, for one that climbs with '..', and for one that cannot be that of a file.
    """
    return _followed(store, path, checked_data_path(path, store.root_url, store.local_root, allow_outside_root))


def named_place(store: ObjectStore, path: str) -> str:
    """Return the place of `resolve_file` for a file that is only named, and never opened. Raises PathNotAllowed."""
    return checked_data_path(path, store.root_url, store.local_root, True)


def _followed(store: ObjectStore, path: str, place: str) -> str:
    """Return `place` if it is relative, a path of this machine, or in a file system or object store."""
    scheme = place.partition(":")[0].lower()
    if not is_absolute(place) or place.startswith("/") or scheme in _FOLLOWED or is_on_hadoop(scheme):
        return place
    raise PathNotAllowed(
        f"{store.root_url}: the log names the file {path!r}, which is not in a file system or an object store. Such a "
        "path is never followed"
    )


def resolve_files(store: ObjectStore, paths: Sequence[str], allow_outside_root: bool = False) -> list[str]:
    """`resolve_file` of each of `paths`."""
    if are_plain(paths):
        return list(paths)
    return [resolve_file(store, path, allow_outside_root) for path in paths]


def named_places(store: ObjectStore, paths: Sequence[str]) -> list[str]:
    """Return `named_place` of each of `paths`."""
    return list(paths) if are_plain(paths) else [named_place(store, path) for path in paths]


def resolve_deletion_vector(
    store: ObjectStore, vector: DeletionVectorDescriptor, allow_outside_root: bool = False
) -> str:
    """As `resolve_file`, for the file of a deletion vector that is not inline.

    A relative one is below the root whatever is allowed. Raises CorruptDeletionVector too.
    """
    named = vector.path_or_inline_dv
    return _vector_place(store, vector) or resolve_file(store, named, allow_outside_root)


def named_vector_place(store: ObjectStore, vector: DeletionVectorDescriptor) -> str:
    """As `named_place`, for the file of a deletion vector that is not inline. Raises CorruptDeletionVector too."""
    return _vector_place(store, vector) or named_place(store, vector.path_or_inline_dv)


def _vector_place(store: ObjectStore, vector: DeletionVectorDescriptor) -> str | None:
    relative = vector.relative_path
    return None if relative is None else checked_relative_path(relative, store.root_url)


def open_resolved(store: ObjectStore, place: str) -> tuple[ObjectStore, str]:
    """The store that holds the file at `place`, which the gate has let pass, and the file's path in it."""
    if not is_absolute(place):
        return store, place
    # A store takes URLs percent-encoded, and paths of a disk literally.
    return store.at(place if place.startswith("/") else encode_path(place))
