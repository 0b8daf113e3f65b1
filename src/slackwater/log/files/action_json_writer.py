"""File actions of an Arrow table as lines of JSON, a column at a time: what a commit of very many files is made of.

The lines are those of `AddFile.to_json` and `RemoveFile.to_json`, byte for byte.
Source: delta-protocol.md "Add File and Remove File".
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor

# What is worked on at a time should fit a processor's cache.
_ROWS = 4_096
_FIRST_PRINTABLE = 0x20
_MOST_THREADS = 4


@dataclass(frozen=True, slots=True)
class _Kind:
    """An action: its fields that are always there, null or not, and those that are left out where they are null."""

    name: str
    fields: Sequence[str]
    optional: Sequence[str]


_ADD = _Kind(
    "add",
    ("path", "partitionValues", "size", "modificationTime", "dataChange"),
    ("stats", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"),
)
_REMOVE = _Kind(
    "remove",
    ("path", "deletionTimestamp", "dataChange", "extendedFileMetadata"),
    ("partitionValues", "size", "stats", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion"),
)


def add_lines(files: pa.Table) -> Iterator[memoryview]:
    """The `add` of each of `files` (columns of ADD_SCHEMA) as a line of JSON, in their order; many lines a piece."""
    return _pieces(_ADD, [files])


def lines_of_adds(tables: Iterable[pa.Table]) -> Iterator[memoryview]:
    """As `add_lines`, of files in many `tables`: the next one is read while lines are made of those before."""
    return _pieces(_ADD, _ahead(iter(tables)))


def remove_lines(files: pa.Table) -> Iterator[memoryview]:
    """The `remove` of each of `files` (columns of REMOVE_SCHEMA, `stats` and `tags`), as `add_lines`."""
    return _pieces(_REMOVE, [files])


def _ahead(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, tables, None)
        while (table := coming.result()) is not None:
            coming = pool.submit(next, tables, None)
            yield table


def _batches(kind: _Kind, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.select([*kind.fields, *kind.optional]).to_batches(max_chunksize=_ROWS)


def _pieces(kind: _Kind, tables: Iterable[pa.Table]) -> Iterator[memoryview]:
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    coming: deque[Future[memoryview]] = deque()
    # The kernels of Arrow let other threads run.
    with ThreadPoolExecutor(threads) as pool:
        for batch in _batches(kind, tables):
            # No more is made than will soon be asked for: memory that is used again is faster than fresh one.
            if len(coming) > threads:
                yield coming.popleft().result()
            coming.append(pool.submit(_piece, kind, batch))
        while coming:
            yield coming.popleft().result()


def _piece(kind: _Kind, files: pa.RecordBatch) -> memoryview:
    parts: list[str | pa.Array] = [f'{{"{kind.name}":{{']
    for number, name in enumerate(kind.fields):
        parts += [f'{"," if number else ""}"{name}":', *_parts(files.column(name))]
    for name in kind.optional:
        column = files.column(name)
        if column.null_count == 0:
            parts += [f',"{name}":', *_parts(column)]
        elif column.null_count < len(column):
            parts.append(_joined(f',"{name}":', *_parts(column, keeps_nulls=True)))
    lines = pc.binary_join_element_wise(*parts, "}}\n", "", null_handling="replace", null_replacement="")
    return _bytes_of(lines)


def _parts(column: pa.Array, keeps_nulls: bool = False) -> list[str | pa.Array]:
    """Texts that make the values' JSON one behind the other; null for null, or the text `null`."""
    if pa.types.is_map(column.type) and _has_single_entries(column):
        # Of partition values that is the rule.
        keys, values = _entries(column)
        return ['{"', _escaped(keys), '":"', _escaped(values), '"}']
    if not pa.types.is_string(column.type):
        return [_or_null(_json_of(column), keeps_nulls)]
    if column.null_count == 0:
        return ['"', _escaped(column), '"']
    return [_or_null(_joined('"', _escaped(column), '"'), keeps_nulls)]


def _or_null(texts: pa.Array, keeps_nulls: bool) -> pa.Array:
    return texts if keeps_nulls or texts.null_count == 0 else texts.fill_null("null")


def _json_of(column: pa.Array) -> pa.Array:
    """Values other than texts as JSON; null for null."""
    if pa.types.is_struct(column.type):
        return _one_by_one(column, lambda node: DeletionVectorDescriptor.from_json(node).to_json())
    if not pa.types.is_map(column.type):
        return column.cast(pa.string())
    if column.null_count:
        return _one_by_one(column, dict)
    keys, values = _entries(column)
    entries = _joined('"', _escaped(keys), '":', _or_null(_joined('"', _escaped(values), '"'), keeps_nulls=False))
    offsets = column.offsets.to_numpy()
    lists = pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), entries)
    return _joined("{", pc.binary_join(lists, ","), "}")


def _has_single_entries(maps: pa.MapArray) -> bool:
    """Whether each of `maps` is there and has one entry, whose value is no null."""
    is_single = maps.null_count == 0 and (np.diff(maps.offsets.to_numpy()) == 1).all()
    return bool(is_single and _entries(maps)[1].null_count == 0)


def _entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """The keys and the values of all maps."""
    offsets = maps.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return maps.keys[first:last], maps.items[first:last]


def _one_by_one(column: pa.Array, node_of: Callable[[Any], Any]) -> pa.Array:
    texts = [None if value is None else orjson.dumps(node_of(value)).decode() for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def _joined(*parts: str | pa.Array) -> pa.Array:
    """The parts of each row in one text; null where one of them is."""
    return pc.binary_join_element_wise(*parts, "")


def _escaped(texts: pa.Array) -> pa.Array:
    """Texts as JSON has them between its quotes; null for null."""
    data = _bytes_of(texts)
    if not len(data):
        return texts
    signs = np.frombuffer(data, np.uint8)
    if signs.min() < _FIRST_PRINTABLE:
        return pa.array(
            [None if text is None else orjson.dumps(text)[1:-1].decode() for text in texts.to_pylist()], pa.string()
        )
    is_longer = (signs == ord("\\")) | (signs == ord('"'))
    if not is_longer.any():
        return texts
    if texts.null_count:
        return pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    # All as one text: each sign that JSON escapes gets a backslash, so that it is known where each text ends.
    return _moved(texts, orjson.dumps(str(data, "utf-8")), is_longer)


def _moved(texts: pa.Array, escaped: bytes, is_longer: npt.NDArray[np.bool_]) -> pa.Array:
    """The parts of `escaped`, which is between quotes: a byte longer for each of those that are in the texts."""
    lengths = np.diff(_offsets_of(texts))
    held = lengths > 0
    starts = np.cumsum(lengths) - lengths
    longer = lengths.copy()
    longer[held] += np.add.reduceat(is_longer.view(np.int8), starts[held], dtype=np.int32)
    offsets = np.ones(len(texts) + 1, np.int32)
    np.cumsum(longer, out=offsets[1:])
    offsets[1:] += 1
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(escaped))


def _bytes_of(texts: pa.Array) -> memoryview:
    """The bytes of all texts, one behind the other."""
    data = texts.buffers()[2]
    if data is None or not len(texts):
        return memoryview(b"")
    offsets = _offsets_of(texts)
    return memoryview(data)[offsets[0] : offsets[-1]]


def _offsets_of(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Where each of the texts, of which there are some, begins in their buffer, and where the last one ends."""
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
