"""Files of a micro-batch as tasks: ranges of bytes of files that are read one after another, and the rows of each.

It travels to executors, so it needs little of this package.
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
    """What one task of a micro-batch reads. `says_change`: the files say themselves what happened to each row."""

    splits: Sequence[Split]
    says_change: bool = False


def read_task(store: ObjectStore, wanted: ReadProjection, task: StreamTask) -> Iterator[pa.RecordBatch]:
    """The rows of a task, in the columns of `wanted.schema`. Raises as `read_splits`."""
    if task.says_change:
        # The first constant is a column of these files, in the same place.
        kind = wanted.constants.field(0)
        constants = pa.schema(list(wanted.constants)[1:])
        wanted = replace(wanted, columns=wanted.columns.append(kind), constants=constants)
    return read_splits(store, task.splits, wanted)


def tasks_of(files: Sequence[Split], width: int) -> list[list[Split]]:
    """`files`, each whole, as ranges for at least `width` tasks where there is so much, largest ranges first."""
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
