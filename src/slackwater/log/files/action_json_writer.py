"""Column-wise conversion of Arrow file actions to JSON lines, for commits of very many files.

The lines equal the output of `AddFile.to_json` and `RemoveFile.to_json`, byte for byte.
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

# Rows per batch, small enough for the processor's cache.
_ROWS = 4_096
_FIRST_PRINTABLE = 0x20
_MOST_THREADS = 4


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of action: `fields` are always written, possibly null; `optional` fields are omitted if null."""

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
    """Yield the `add` of each of `files` (columns of ADD_SCHEMA) in a line of JSON, in order, many lines per chunk."""
    return _pieces(_ADD, [files])


def lines_of_adds(tables: Iterable[pa.Table]) -> Iterator[memoryview]:
    """Yield lines like `add_lines` for many `tables`. The next table is read while lines are built."""
    return _pieces(_ADD, _ahead(iter(tables)))


def remove_lines(files: pa.Table) -> Iterator[memoryview]:
    """Yield lines like `add_lines`: the `remove` of each of `files` (columns of REMOVE_SCHEMA, `stats`, `tags`)."""
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
    # Threads help because Arrow's kernels release the GIL.
    with ThreadPoolExecutor(threads) as pool:
        for batch in _batches(kind, tables):
            # Bounds the lines built ahead, because reused memory is faster than fresh memory.
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
    """Return texts that concatenate to the JSON of the values. Null stays null, or becomes the text `null`."""
    if pa.types.is_map(column.type) and _has_single_entries(column):
        # The common case for partition values.
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
    """Return JSON for values of other types, null for null."""
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
    """Return whether each of `maps` is valid and has exactly one entry, with a non-null value."""
    is_single = maps.null_count == 0 and (np.diff(maps.offsets.to_numpy()) == 1).all()
    return bool(is_single and _entries(maps)[1].null_count == 0)


def _entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the values of all maps."""
    offsets = maps.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return maps.keys[first:last], maps.items[first:last]


def _one_by_one(column: pa.Array, node_of: Callable[[Any], Any]) -> pa.Array:
    texts = [None if value is None else orjson.dumps(node_of(value)).decode() for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def _joined(*parts: str | pa.Array) -> pa.Array:
    """Return the concatenated parts of each row, null if one part is null."""
    return pc.binary_join_element_wise(*parts, "")


def _escaped(texts: pa.Array) -> pa.Array:
    """Return texts escaped for JSON, without the quotes; null for null."""
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
    # Escapes all texts in one call. Each escaped character gains one backslash, which gives the new offsets.
    return _moved(texts, orjson.dumps(str(data, "utf-8")), is_longer)


def _moved(texts: pa.Array, escaped: bytes, is_longer: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the parts of `escaped`, a quoted text, with one more byte for each marked byte of the texts."""
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
    """Return the concatenated bytes of all texts."""
    data = texts.buffers()[2]
    if data is None or not len(texts):
        return memoryview(b"")
    offsets = _offsets_of(texts)
    return memoryview(data)[offsets[0] : offsets[-1]]


def _offsets_of(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Return the start offset of each text in the buffer, and the end of the last. `texts` is not empty."""
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
