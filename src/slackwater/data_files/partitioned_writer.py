"""Writes rows of many partitions as Parquet files, with a bounded number of open files and bounded memory.

Source: delta-protocol.md "Data Files".
"""

from __future__ import annotations

import os
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa

from slackwater.data_files.writer import FileFormat, OpenFile, WrittenFile
from slackwater.errors import StorageError
from slackwater.storage.store import ObjectStore

Texts = tuple[str | None, ...]
"""The partition values of a file, as texts of the log."""

_MOST_OPEN_FILES = 64
# Rows in memory of all open files. With many open partitions their row groups become smaller.
_MOST_HELD_BYTES = 256 << 20
_MOST_THREADS = 8
_MOST_WAITING_FILES = 16


class PartitionedWriter:
    """Writes rows to files below the root of `store`, at most one open file for each partition.

    A file is completed when it reaches about `target_bytes`, or `form.max_rows` rows. If too many partitions are open,
    the file of the least recently written partition is completed. Threads encode and upload files.
    """

    def __init__(
        self, store: ObjectStore, directory: str, form: FileFormat, target_bytes: int, most_open: int = _MOST_OPEN_FILES
    ) -> None:
        self._store = store
        self._directory = directory
        self._form = form
        self._target_bytes = target_bytes
        self._most_open = most_open
        self._pool = ThreadPoolExecutor(min(_MOST_THREADS, max(2, os.cpu_count() or 1)))
        self._open: OrderedDict[Texts, OpenFile] = OrderedDict()
        self._closing: list[Future[WrittenFile]] = []
        self._num_closed = 0

    def write(self, texts: Texts, rows: pa.RecordBatch) -> None:
        """Append `rows` to the file of their partition. Raises StorageError."""
        rest = rows
        while rest.num_rows:
            file = self._file(texts)
            part = rest.slice(0, file.room)
            file.add(part)
            rest = rest.slice(part.num_rows)
            if not file.room or file.stored_bytes >= self._target_bytes:
                self._close(texts)
        self._bound_memory()

    def finish(self) -> list[WrittenFile]:
        """Complete all files, and return them. Raises StorageError."""
        for texts in list(self._open):
            self._close(texts)
        files = [future.result() for future in self._closing]
        self._pool.shutdown()
        return files

    def discard(self) -> None:
        """Delete every file, complete or not, after an error. A file remains if its deletion fails."""
        for file in self._open.values():
            file.discard()
        self._open.clear()
        complete: list[str] = []
        for future in self._closing:
            with suppress(Exception):
                complete.append(future.result().path)
        self._pool.shutdown()
        if complete:
            with suppress(StorageError):
                self._store.delete(complete)

    def _file(self, texts: Texts) -> OpenFile:
        file = self._open.get(texts)
        if file is None:
            if len(self._open) >= self._most_open:
                self._close(next(iter(self._open)))
            file = self._open[texts] = OpenFile(self._store, self._directory, self._form, texts, self._pool)
        self._open.move_to_end(texts)
        return file

    def _close(self, texts: Texts) -> None:
        file = self._open.pop(texts)
        # The pool started the encoding of the file's last row group before, so `put` waits for no later task.
        self._closing.append(self._pool.submit(file.put))
        # Errors end the work early, and few complete files wait for their upload on the local disk.
        while self._num_closed < len(self._closing):
            oldest = self._closing[self._num_closed]
            if not oldest.done() and len(self._closing) - self._num_closed <= _MOST_WAITING_FILES:
                return
            oldest.result()
            self._num_closed += 1

    def _bound_memory(self) -> None:
        """Encode the largest row groups in memory until the rest is small enough."""
        while sum(file.held_bytes for file in self._open.values()) > _MOST_HELD_BYTES:
            max(self._open.values(), key=lambda file: file.held_bytes).flush()
