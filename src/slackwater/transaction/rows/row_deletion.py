"""Row deletions of a transaction by deletion vectors, and their actions.

Source: delta-protocol.md "Deletion Vectors", "Add File and Remove File", "Per-file Statistics" (tightBounds).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from slackwater.errors import DataFileNotFound, InvalidArgument, ObjectNotFound
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.protocol.actions.files import AddFile, RemoveFile
from slackwater.protocol.actions.paths import canonical_path
from slackwater.stats.footers import parquet_footer
from slackwater.storage.path_guard import open_resolved, resolve_file
from slackwater.storage.store import ObjectStore
from slackwater.transaction.rows.file_action_rows import as_adds
from slackwater.transaction.rows.vector_files import LoadedVectors

_FOOTERS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class RowDeletion:
    """The effect of a row deletion on files. Files without a remaining row are removed, other files get vectors.

    `vectors_added` is the number of files that had no vector, `vectors_updated` of files with a replaced vector, and
    `vectors_removed` of files removed with their vector. `rows` is the number of newly deleted rows.
    """

    files_removed: int
    bytes_removed: int
    vectors_added: int
    vectors_updated: int
    vectors_removed: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileDeletion:
    """The rows of one file deleted by a transaction.

    `file` is the file's `add` in the version before the commit. `vector` contains the rows deleted in that version.
    `rows` contains the rows deleted by this transaction: physical indexes, disjoint from `vector`. `num_rows` is the
    number of physical rows. `written` is the stored union of both, None if not stored or if no row remains.
    """

    file: AddFile
    vector: BitMap64
    rows: BitMap64
    num_rows: int
    written: DeletionVectorDescriptor | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether no row of the file remains."""
        return len(self.vector) + len(self.rows) == self.num_rows

    @property
    def union(self) -> BitMap64:
        """The rows deleted after the commit: `vector` and `rows`."""
        return self.vector | self.rows

    def behind(self, file: AddFile, vector: BitMap64) -> FileDeletion:
        """Return the same deletion, rebased onto the file's state after another commit.

        `vector` must be disjoint from `rows`. The stored vector is retained only if `vector` is unchanged.
        """
        kept = self.written if vector == self.vector else None
        return FileDeletion(file, vector, self.rows, self.num_rows, kept)

    def remove(self, deletion_timestamp_ms: int) -> RemoveFile:
        """Return the `remove` of the file in its state before this deletion."""
        file = self.file
        return RemoveFile(
            file.path,
            deletion_timestamp_ms,
            True,
            file.partition_values,
            file.size,
            file.stats,
            file.tags,
            file.deletion_vector,
            file.base_row_id,
            file.default_row_commit_version,
        )

    def add(self) -> AddFile:
        """Return the `add` of the file with its new, written vector. Other fields stay, apart from wide statistics."""
        stats = _wide_stats(self.file.stats, self.num_rows)
        return replace(self.file, data_change=True, stats=stats, deletion_vector=self.written)


def file_deletions(
    store: ObjectStore, files: pa.Table, rows: Mapping[str, BitMap64], follows_outside: bool = False
) -> dict[str, FileDeletion]:
    """Return the deletion of `rows` (by `path`, physical indexes) of live `files`, by canonical path.

    `files` has the columns of ADD_SCHEMA. Existing vectors are read, and the footers of files without a number of
    records.

    Raises:
        InvalidArgument: If a path is not in `files`, two paths are the same file, a file has an empty set of rows, or a
            row is deleted already or beyond the end of the file.
        DataFileNotFound: If a data file does not exist.
        CorruptDeletionVector: If an existing vector cannot be read.
    """
    touched = files.filter(pc.is_in(files["path"], value_set=pa.array(list(rows), pa.string())))
    adds = as_adds(touched, data_change=True)
    _validate_paths(store, adds, rows)
    vectors = LoadedVectors(store, follows_outside)
    nodes = [add.deletion_vector.to_json() if add.deletion_vector else None for add in adds]
    vectors.load(nodes)
    found = {
        canonical_path(add.path): FileDeletion(add, vectors[node], rows[add.path], num_rows)
        for add, node, num_rows in zip(adds, nodes, _row_counts(store, adds, follows_outside), strict=True)
    }
    if len(found) < len(adds):
        raise InvalidArgument(f"{store.root_url}: two of the files whose rows are deleted have the same path")
    for deletion in found.values():
        _validate_rows(store, deletion)
    return found


def summary(deletions: Sequence[FileDeletion]) -> RowDeletion:
    """Return the total effect of `deletions`."""
    whole = [d for d in deletions if d.is_whole]
    partial = [d for d in deletions if not d.is_whole]
    updated = sum(d.file.deletion_vector is not None for d in partial)
    return RowDeletion(
        files_removed=len(whole),
        bytes_removed=sum(d.file.size for d in whole),
        vectors_added=len(partial) - updated,
        vectors_updated=updated,
        vectors_removed=sum(d.file.deletion_vector is not None for d in whole),
        rows=sum(len(d.rows) for d in deletions),
    )


def _validate_paths(store: ObjectStore, adds: Sequence[AddFile], rows: Mapping[str, BitMap64]) -> None:
    unknown = rows.keys() - {add.path for add in adds}
    if unknown:
        raise InvalidArgument(
            f"{store.root_url}: cannot delete rows of {min(unknown)}, which is not one of the passed files. Name live "
            "files by their paths in the log"
        )


def _validate_rows(store: ObjectStore, deletion: FileDeletion) -> None:
    where = f"{store.root_url}: {deletion.file.path}"
    if not deletion.rows:
        raise InvalidArgument(f"{where}: expected rows to delete, found none. Omit the file")
    if deletion.rows.max() >= deletion.num_rows:
        raise InvalidArgument(
            f"{where}: row {deletion.rows.max()} does not exist, because the file has {deletion.num_rows} rows, "
            "numbered from 0"
        )
    gone = deletion.rows & deletion.vector
    if gone:
        raise InvalidArgument(f"{where}: row {gone.min()} is already deleted")


def _row_counts(store: ObjectStore, adds: Sequence[AddFile], follows_outside: bool) -> list[int]:
    """Return the number of physical rows of each file, from its statistics, else from its footer."""
    counts = [add.num_records for add in adds]
    silent = [number for number, count in enumerate(counts) if count is None]
    if silent:
        with ThreadPoolExecutor(min(_FOOTERS_AT_ONCE, len(silent))) as pool:
            found = pool.map(lambda number: _rows_in_footer(store, adds[number].path, follows_outside), silent)
            for number, rows in zip(silent, found, strict=True):
                counts[number] = rows
    return [count or 0 for count in counts]


def _rows_in_footer(store: ObjectStore, path: str, follows_outside: bool) -> int:
    holder, name = open_resolved(store, resolve_file(store, path, follows_outside))
    try:
        footer, _ = parquet_footer(holder, name)
    except ObjectNotFound as error:
        raise DataFileNotFound(
            f"{store.root_url}: {path}: the log names this data file, but the file does not exist"
        ) from error
    return int(footer.num_rows)


_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"


def _wide_stats(stats: str | None, num_rows: int) -> str:
    """Return `stats` with the number of physical rows and wide bounds (`tightBounds` false).

    Other members retain their text, because parsing would lose the precision of numbers.
    """
    members = _members(stats) if stats else {}
    members = {key: text for key, text in members.items() if key not in ("numRecords", "tightBounds")}
    parts = [f"{json.dumps(key)}:{text}" for key, text in members.items()]
    return "{" + ",".join([f'"numRecords":{num_rows}', *parts, '"tightBounds":false']) + "}"


def _members(text: str) -> dict[str, str]:
    """Return the members of a JSON object as texts by name. Empty if the text is not an object."""
    found: dict[str, str] = {}
    try:
        at = _after_space(text, 0)
        if text[at] != "{":
            return {}
        at = _after_space(text, at + 1)
        while text[at] != "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, at)
            start = _after_space(text, at + 1)
            _, end = _DECODER.raw_decode(text, start)
            if text[at] != ":" or not isinstance(key, str):
                return {}
            found[key] = text[start:end]
            at = _after_space(text, end)
            if text[at] not in ",}":
                return {}
            at = _after_space(text, at + 1) if text[at] == "," else at
    except (ValueError, IndexError, RecursionError):
        return {}
    return found


def _after_space(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
