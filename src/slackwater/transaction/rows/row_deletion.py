"""Rows of live files that a transaction deletes by deletion vectors, and the actions that say so.

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
    """What a deletion of rows does to files: those without a row left are removed, the others get vectors.

    `vectors_added` counts files that had none, `vectors_updated` those that get another one, `vectors_removed` those
    that go together with theirs; `rows` are the rows deleted now.
    """

    files_removed: int
    bytes_removed: int
    vectors_added: int
    vectors_updated: int
    vectors_removed: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileDeletion:
    """The rows of one file that a transaction deletes.

    `file` is the file's `add` in the version that the commit is to follow, `vector` the rows that are deleted there,
    `rows` those that this transaction deletes, by physical index and disjoint from `vector`; `num_rows` counts the
    physical rows. `written` is where the union of both is stored, None where it is not, or nothing is left to store.
    """

    file: AddFile
    vector: BitMap64
    rows: BitMap64
    num_rows: int
    written: DeletionVectorDescriptor | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no row of the file is left."""
        return len(self.vector) + len(self.rows) == self.num_rows

    @property
    def union(self) -> BitMap64:
        """All rows that are deleted afterwards."""
        return self.vector | self.rows

    def behind(self, file: AddFile, vector: BitMap64) -> FileDeletion:
        """The same deletion of the file as another commit left it; `vector` is disjoint from `rows`."""
        kept = self.written if vector == self.vector else None
        return FileDeletion(file, vector, self.rows, self.num_rows, kept)

    def remove(self, deletion_timestamp_ms: int) -> RemoveFile:
        """The `remove` of the file in its state before this deletion."""
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
        """The `add` of the file with its new vector, which is written; what else is said of the file stays."""
        stats = _wide_stats(self.file.stats, self.num_rows)
        return replace(self.file, data_change=True, stats=stats, deletion_vector=self.written)


def file_deletions(
    store: ObjectStore, files: pa.Table, rows: Mapping[str, BitMap64], follows_outside: bool = False
) -> dict[str, FileDeletion]:
    """The deletion of `rows` (by `path`, physical indexes) of live `files` (columns of ADD_SCHEMA), by canonical path.

    Vectors that files have are read, and the footers of files that do not say how many rows they have. Raises
    InvalidArgument for a path that is not among `files`, and for rows that are none, gone already or beyond the end
    of the file; DataFileNotFound and CorruptDeletionVector for what cannot be read.
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
    """What `deletions` come to."""
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
            f"{store.root_url}: rows of {min(unknown)} are to be deleted, which is none of the given files: name live "
            "files by their paths as the log has them"
        )


def _validate_rows(store: ObjectStore, deletion: FileDeletion) -> None:
    where = f"{store.root_url}: {deletion.file.path}"
    if not deletion.rows:
        raise InvalidArgument(f"{where}: expected rows to delete, found none: leave the file out")
    if deletion.rows.max() >= deletion.num_rows:
        raise InvalidArgument(
            f"{where}: row {deletion.rows.max()} is to be deleted, but the file has {deletion.num_rows} rows, numbered "
            "from 0"
        )
    gone = deletion.rows & deletion.vector
    if gone:
        raise InvalidArgument(f"{where}: row {gone.min()} is to be deleted, but is deleted already")


def _row_counts(store: ObjectStore, adds: Sequence[AddFile], follows_outside: bool) -> list[int]:
    """The physical rows of each file, by its statistics, else by its footer."""
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
        raise DataFileNotFound(f"{store.root_url}: {path}: the log names this data file, but it is gone") from error
    return int(footer.num_rows)


_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"


def _wide_stats(stats: str | None, num_rows: int) -> str:
    """`stats` with the number of physical rows, and bounds that may be wider than the rows that are left.

    What else they say keeps its text: numbers of any precision would not survive being parsed.
    """
    members = _members(stats) if stats else {}
    members = {key: text for key, text in members.items() if key not in ("numRecords", "tightBounds")}
    parts = [f"{json.dumps(key)}:{text}" for key, text in members.items()]
    return "{" + ",".join([f'"numRecords":{num_rows}', *parts, '"tightBounds":false']) + "}"


def _members(text: str) -> dict[str, str]:
    """The members of a JSON object by name, their values as text; empty for text that is no object."""
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
