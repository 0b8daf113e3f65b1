"""Tasks of a stream whose Python process, or whose whole executor, is killed once, amid a batch."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa


def killed_once(frame: Any, mark: Path, executor: bool = False) -> Any:
    """The rows of `frame`, a column of ids; the first task that has given all of its own is killed, which `mark` tells.

    It is the Python of the task; with `executor` the JVM that this belongs to, of which there must be another one.
    """
    # A worker has no module of tests: what it is given must name none.
    sigkill, place = int(signal.SIGKILL), str(mark)

    def killing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        from pathlib import Path

        had_rows = False
        for batch in batches:
            had_rows = had_rows or batch.num_rows > 0
            yield batch
        if not had_rows:
            return
        try:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        pid = os.getpid()
        while executor and "java" not in Path(f"/proc/{pid}/cmdline").read_text():
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(pid, sigkill)

    return frame.mapInArrow(killing, "id BIGINT")
