"""Files of a micro-batch as tasks: ranges of bytes of files that are read one after another.

Source: Spark's FilePartition (`spark.sql.files.maxPartitionBytes`, `openCostInBytes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slackwater.data_files.reading import Split

_MOST_BYTES, _OPEN_COST_BYTES = 128 * 1024**2, 4 * 1024**2


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
