"""Differences between two versions of a table: columns, properties, files, and rows by key.

Only rows of files present in one version alone are read, because all other rows are in both versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument
from slackwater.log.files.file_actions import file_keys
from slackwater.protocol.schema.schema import StructType, walk_fields
from slackwater.scan.arrow_scan import FILE_COLUMNS, ArrowScan
from slackwater.scan.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A named value before and after; None if absent."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class FileDifference:
    """Files in one version alone, with sizes in bytes. A file with a new deletion vector is added and removed."""

    added: int
    added_bytes: int
    removed: int
    removed_bytes: int


@dataclass(frozen=True, slots=True)
class RowDifference:
    """Rows with a key in one version alone, and rows with equal keys but different values.

    `changed_before` and `changed_after` have matching rows. The tables are complete, or limited by the caller.
    """

    added: pa.Table
    removed: pa.Table
    changed_before: pa.Table
    changed_after: pa.Table


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """The differences between two versions of a table. `rows` is None without a key."""

    schema: list[ValueChange]
    properties: list[ValueChange]
    files: FileDifference
    rows: RowDifference | None = field(default=None)


def difference(before: Snapshot, after: Snapshot, key: Sequence[str] = ()) -> VersionDiff:
    """Return the differences between two versions, including rows if `key` is not empty.

    Rows are compared by name in columns of both versions. Memory O(rows of files that differ). Raises InvalidArgument
    for a key column missing in a version or nested, or for a duplicate key in one version. Also raises as
    `Snapshot.to_arrow`.
    """
    gone, new = _other_files(before, after), _other_files(after, before)
    files = FileDifference(new.num_rows, _bytes(new), gone.num_rows, _bytes(gone))
    return VersionDiff(
        _changes(_columns(before.schema), _columns(after.schema)),
        _changes(before.metadata.configuration, after.metadata.configuration),
        files,
        _rows(before, after, gone, new, key) if key else None,
    )


def _columns(schema: StructType) -> dict[str, str]:
    return {
        ".".join(path): str(found.type) + ("" if found.nullable else " NOT NULL") for path, found in walk_fields(schema)
    }


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[ValueChange]:
    names = [*before, *(name for name in after if name not in before)]
    return [ValueChange(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]


def _other_files(snapshot: Snapshot, other: Snapshot) -> pa.Table:
    """Return the files of `snapshot` absent from `other`, or present with another deletion vector."""
    files = snapshot.files(None, FILE_COLUMNS)
    keys, known = file_keys(files), file_keys(other.files(None, FILE_COLUMNS))
    return files.filter(pc.invert(pc.is_in(keys, known)))


def _bytes(files: pa.Table) -> int:
    total: int | None = pc.sum(files["size"]).as_py()
    return total or 0


def _rows(before: Snapshot, after: Snapshot, gone: pa.Table, new: pa.Table, key: Sequence[str]) -> RowDifference:
    shared = [name for name in after.schema.names if name in before.schema.names]
    for name in key:
        if name not in shared:
            raise InvalidArgument(
                f"the key {name} is not a column of both versions. Their common columns are {', '.join(shared)}"
            )
    olds, news = _read(before, gone, shared), _read(after, new, shared)
    if any(pa.types.is_nested(news.schema.field(name).type) for name in key):
        raise InvalidArgument(f"a key must consist of plain columns, but one of {', '.join(key)} is nested")
    found = _matched(_in_types(olds, news.schema), news, key, (before.version, after.version))
    only_old, only_new = found.filter(pc.is_null(found["new"])), found.filter(pc.is_null(found["old"]))
    both = found.filter(pc.and_(pc.is_valid(found["old"]), pc.is_valid(found["new"])))
    pairs = _in_types(olds, news.schema).take(both["old"]), news.take(both["new"])
    differs = _differs(*pairs)
    return RowDifference(
        news.take(only_new["new"]), olds.take(only_old["old"]), pairs[0].filter(differs), pairs[1].filter(differs)
    )


def _read(snapshot: Snapshot, files: pa.Table, columns: Sequence[str]) -> pa.Table:
    read = ArrowScan.of(snapshot, columns, None)
    return pa.Table.from_batches(read.batches(files, keeps_all=True), read.schema).combine_chunks()


def _in_types(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows cast to types of a later version if possible. Widened types accept all values."""
    for at, wanted in enumerate(schema):
        if rows.schema.field(at).type != wanted.type and not pa.types.is_nested(wanted.type):
            try:
                rows = rows.set_column(at, wanted.name, rows.column(at).cast(wanted.type))
            except pa.ArrowException:
                continue
    return rows


def _matched(olds: pa.Table, news: pa.Table, key: Sequence[str], versions: tuple[int, int]) -> pa.Table:
    """Return for each key the index of its row before (`old`) and after (`new`), null if absent.

    Raises InvalidArgument for a duplicate key in one version.
    """
    keyed = pa.concat_tables([_keyed(olds, key, "old", "new"), _keyed(news, key, "new", "old")])
    found = keyed.group_by(_places(key)).aggregate([("old", "count"), ("new", "count"), ("old", "min"), ("new", "min")])
    for side, version in zip(("old", "new"), versions, strict=True):
        twice = found.filter(pc.greater(found[f"{side}_count"], 1))
        if twice.num_rows:
            shown = ", ".join(f"{name} = {twice[at][0].as_py()}" for name, at in zip(key, _places(key), strict=True))
            rows = twice[f"{side}_count"][0].as_py()
            raise InvalidArgument(f"{', '.join(key)} is not a key of version {version}: {rows} rows have {shown}")
    return pa.table({"old": found["old_min"], "new": found["new_min"]})


def _keyed(rows: pa.Table, key: Sequence[str], own: str, other: str) -> pa.Table:
    count = rows.num_rows
    numbers = {own: pa.array(range(count), pa.int64()), other: pa.nulls(count, pa.int64())}
    columns: dict[str, Any] = {at: rows[name] for name, at in zip(key, _places(key), strict=True)}
    return pa.table({**columns, "old": numbers["old"], "new": numbers["new"]})


def _places(key: Sequence[str]) -> list[str]:
    # Generated names, because a key column may be named `old` or `new`.
    return [f"key {at}" for at in range(len(key))]


def _differs(olds: pa.Table, news: pa.Table) -> pa.ChunkedArray:
    found = pa.repeat(pa.scalar(False), olds.num_rows)
    for name in news.column_names:
        found = pc.or_(found, _unequal(olds[name].combine_chunks(), news[name].combine_chunks()))
    return found


def _unequal(old: pa.Array, new: pa.Array) -> pa.Array:
    """Return for each position whether the two values differ. Null equals null, NaN equals NaN."""
    if pa.types.is_nested(new.type) or old.type != new.type:
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return pa.array([a != b for a, b in pairs], pa.bool_())
    differs = pc.fill_null(pc.not_equal(old, new), True)
    same = pc.and_(pc.is_null(old), pc.is_null(new))
    if pa.types.is_floating(new.type):
        same = pc.or_(same, pc.and_(pc.fill_null(pc.is_nan(old), False), pc.fill_null(pc.is_nan(new), False)))
    return pc.and_(differs, pc.invert(same))
