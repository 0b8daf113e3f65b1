"""The one gate between the paths that a table's log names and the files that are opened.

Code that opens a file that the log names asks here where it is. What lies below the root is the owner's business, also
where it is a symbolic link. Sidecars, checkpoints and commits need no gate: they are names inside the log's own
directories, whatever the log says of their directory. Source: delta-protocol.md "Add File and Remove File", "Deletion
Vector Descriptor Schema", "Sidecar File Information".
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.protocol.actions.paths import (
    are_plain,
    checked_data_path,
    checked_relative_path,
    encode_path,
    is_absolute,
)
from slackwater.storage.store import ObjectStore


def file_place(store: ObjectStore, path: str, allow_outside_root: bool = False) -> str:
    """Where the file is whose `path` an add, remove or cdc has: relative to the root, else absolute; decoded.

    Raises PathNotAllowed for a path outside the root unless that is allowed, and always for one that climbs with '..'
    or cannot be that of a file.
    """
    return checked_data_path(path, store.root_url, store.local_root, allow_outside_root)


def file_places(store: ObjectStore, paths: Sequence[str], allow_outside_root: bool = False) -> list[str]:
    """`file_place` of each of `paths`."""
    if are_plain(paths):
        return list(paths)
    return [file_place(store, path, allow_outside_root) for path in paths]


def vector_place(store: ObjectStore, vector: DeletionVectorDescriptor, allow_outside_root: bool = False) -> str:
    """As `file_place`, for the file of a deletion vector that is not inline.

    A relative one is below the root whatever is allowed. Raises CorruptDeletionVector too.
    """
    relative = vector.relative_path
    if relative is not None:
        return checked_relative_path(relative, store.root_url)
    return file_place(store, vector.path_or_inline_dv, allow_outside_root)


def opened_place(store: ObjectStore, place: str) -> tuple[ObjectStore, str]:
    """The store that holds the file at `place`, which the gate has let pass, and the file's path in it."""
    if not is_absolute(place):
        return store, place
    # A store takes URLs percent-encoded, and paths of a disk literally.
    return store.at(place if place.startswith("/") else encode_path(place))
