"""Tasks of a micro-batch: byte ranges of files, read one after another, and their rows.

Executors import this module, so it has few dependencies.
Source: delta-protocol.md "Add CDC File"; Spark's FilePartition (`spark.sql.files.maxPartitionBytes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from slackwater.data_files.reader import ReadProjection, Split, read_splits
from slackwater.storage.store import ObjectStore

_MOST_BYTES, _OPEN_COST_BYTES = 128 * 1024**2, 4 * 1024**2


@dataclass(frozen=True)
class StreamTask:
    """The input of one task of a micro-batch. `says_change`: the files contain the change type of each row."""

    splits: Sequence[Split]
    says_change: bool = False


def read_task(store: ObjectStore, wanted: ReadProjection, task: StreamTask) -> Iterator[pa.RecordBatch]:
    """Return the rows of a task, in the columns of `wanted.schema`. Raises as `read_splits`."""
    if task.says_change:
        # The first constant, the change type, is a column of these files, at the same position.
        kind = wanted.constants.field(0)
        constants = pa.schema(list(wanted.constants)[1:])
        wanted = replace(wanted, columns=wanted.columns.append(kind), constants=constants)
    return read_splits(store, task.splits, wanted)


def tasks_of(files: Sequence[Split], width: int) -> list[list[Split]]:
    """Return `files`, each complete, split into ranges for at least `width` tasks if large enough; largest first."""
    total = sum((split.size_bytes or 0) + _OPEN_COST_BYTES for split in files)
    most = min(_MOST_BYTES, max(_OPEN_COST_BYTES, total // max(1, width)))
    ranges = sorted((piece for split in files for piece in _ranges(split, most)), key=_bytes, reverse=True)
    tasks: list[list[Split]] = []
    held = most + 1
    for split in ranges:
        if held + _bytes(split) > most:
            tasks.append([])
            held = 0
        tasks[-1].append(split)
        held += _bytes(split) + _OPEN_COST_BYTES
    return tasks


def _ranges(split: Split, most: int) -> Iterable[Split]:
    size = split.size_bytes or 0
    starts = range(0, max(size, 1), most)
    return (replace(split, start=start, end=end) for start, end in zip(starts, [*starts[1:], None], strict=True))


def _bytes(split: Split) -> int:
    return max(0, (split.end or split.size_bytes or 0) - split.start)
