"""Manifests of a table's files for engines without Delta support: one list of files per partition.

Source: delta-spark's GENERATE symlink_format_manifest; Hive's SymlinkTextInputFormat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.log.cleanup import with_hadoop_checksums
from slackwater.protocol.actions.partition_values import hive_directory
from slackwater.protocol.actions.paths import is_absolute
from slackwater.protocol.features.column_mapping import NONE
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.path_guard import named_places
from slackwater.storage.store import ObjectStore

SYMLINK_FORMAT_MANIFEST = "symlink_format_manifest"
DIRECTORY = "_symlink_format_manifest"

_NAME = "manifest"
_THREADS = 16


def generate(snapshot: Snapshot, mode: str) -> list[str]:
    """Write the manifests of type `mode` for the files of `snapshot`. Return their paths below the root.

    The only mode is "symlink_format_manifest", in any case. Manifests are
    `_symlink_format_manifest/[partition/]manifest`, with the location of one data file per line. Manifests of empty
    partitions are deleted. Each manifest is replaced atomically, but a reader may see old and new manifests at the same
    time. Raises InvalidArgument for another mode, UnsupportedFeature if the files cannot be read without the log, and
    StorageError.
    """
    if mode.lower() != SYMLINK_FORMAT_MANIFEST:
        raise InvalidArgument(
            f"no manifests of mode {mode!r} exist. Use the mode {SYMLINK_FORMAT_MANIFEST}",
            error_class="DELTA_MODE_NOT_SUPPORTED",
        )
    store = snapshot.store
    contents = _contents(snapshot)
    present = {meta.path for meta in store.list_from(DIRECTORY, recursive=True)}
    # A checksum left by a JVM does not match the new manifest.
    store.delete([path for path in with_hadoop_checksums(contents, present) if path not in contents])
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda path: store.put(path, contents[path]), contents))
    gone = [path for path in present if path.rpartition("/")[2] == _NAME and path not in contents]
    store.delete(with_hadoop_checksums(gone, present))
    return sorted(contents)


def _contents(snapshot: Snapshot) -> dict[str, bytes]:
    """Return the manifests by path. A table without partitions has one manifest, even without files."""
    _require_plain_columns(snapshot)
    files = snapshot.live_files(["path", "partitionValues", "deletionVector"])
    if files["deletionVector"].null_count < files.num_rows:
        raise UnsupportedFeature(
            f"{snapshot.store.root_url}: rows of some files are deleted by deletion vectors, which readers of "
            "manifests ignore, so the rows would come back. Rewrite the files first, by reorg().applyPurge() "
            "(DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS)",
            error_class="DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS",
        )
    columns = snapshot.metadata.partition_columns
    places = named_places(snapshot.store, files["path"].to_pylist())
    lines: dict[str, list[str]] = {} if columns else {f"{DIRECTORY}/{_NAME}": []}
    for place, pairs in zip(places, files["partitionValues"].to_pylist(), strict=True):
        lines.setdefault(_manifest(columns, dict(pairs)), []).append(_told(snapshot.store, place))
    return {path: "".join(sorted(found)).encode() for path, found in lines.items()}


def _require_plain_columns(snapshot: Snapshot) -> None:
    if snapshot.column_mapping_mode != NONE:
        raise UnsupportedFeature(
            f"{snapshot.store.root_url}: the table has column mapping, so its files have other column names than the "
            "table. Manifests would mislead their readers (DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING)",
            error_class="DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING",
        )


def _manifest(columns: Sequence[str], values: Mapping[str, str | None]) -> str:
    return f"{DIRECTORY}/{hive_directory([(name, values.get(name)) for name in columns])}{_NAME}"


def _told(store: ObjectStore, place: str) -> str:
    """Return the line of a file: its URL in Hadoop's form, without percent-encoding.

    Raises UnsupportedFeature if the URL contains a line break.
    """
    if is_absolute(place):
        url = f"file:{place}" if place.startswith("/") else place
    else:
        root = f"file:{store.local_root}" if store.local_root is not None else unquote(store.root_url)
        url = f"{root}/{place}"
    if "\n" in url or "\r" in url:
        raise UnsupportedFeature(
            f"{store.root_url}: a manifest has one file in each line, but {url!r} contains a line break"
        )
    return f"{url}\n"
