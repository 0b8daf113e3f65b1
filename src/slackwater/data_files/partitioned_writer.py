"""Writes rows of many partitions as Parquet files, with a bounded number of open files and bounded memory.

Source: delta-protocol.md "Data Files".
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa

from slackwater.data_files.writer import GROUP_BYTES, FileFormat, LocalFile, WrittenFile
from slackwater.errors import StorageError
from slackwater.storage.store import ObjectStore

Texts = tuple[str | None, ...]
"""The partition values of a file, as texts of the log."""

_MOST_OPEN_FILES = 64
# Rows of incomplete row groups. With many open partitions their row groups become smaller.
_MOST_HELD_BYTES = 128 << 20
# Rows of row groups that wait for their encoding.
_MOST_WAITING_BYTES = 192 << 20
_MOST_THREADS = 8
_MOST_WAITING_FILES = 16
# Size of an encoded row group relative to its rows in memory, until the first row group of a write is encoded.
_USUAL_RATIO = 0.6


class PartitionedWriter:
    """Writes rows to files below `directory` of `store`, at most one open file for each partition.

    A file is completed when it reaches about `target_bytes`, or `form.max_rows` rows. If too many partitions are open,
    the file of the least recently written partition is completed. Threads encode and upload several files at a time.
    """

    def __init__(
        self, store: ObjectStore, directory: str, form: FileFormat, target_bytes: int, most_open: int = _MOST_OPEN_FILES
    ) -> None:
        self._new_file: Callable[[Texts], LocalFile] = lambda texts: LocalFile(store, directory, form, texts)
        self._store = store
        self._target_bytes = target_bytes
        self._most_open = most_open
        self._pool = ThreadPoolExecutor(min(_MOST_THREADS, max(2, os.cpu_count() or 1)))
        self._encoder = _Encoder(self._pool)
        self._open: OrderedDict[Texts, _QueuedFile] = OrderedDict()
        self._complete: list[Future[WrittenFile]] = []
        self._num_checked = 0

    @property
    def held_bytes(self) -> int:
        """The size in bytes of rows in incomplete row groups."""
        return sum(file.held_bytes for file in self._open.values())

    def write(self, texts: Texts, rows: pa.RecordBatch) -> None:
        """Append `rows` to the file of their partition. Raises StorageError, also for an earlier file."""
        rest = rows
        while rest.num_rows:
            file = self._file(texts)
            part = rest.slice(0, file.file.room)
            file.add(part)
            rest = rest.slice(part.num_rows)
            if not file.file.room or file.expected_bytes >= self._target_bytes:
                self._close(texts)
        while self.held_bytes > _MOST_HELD_BYTES:
            max(self._open.values(), key=lambda file: file.held_bytes).flush()

    def finish(self) -> list[WrittenFile]:
        """Complete all files, and return them. Raises StorageError."""
        for texts in list(self._open):
            self._close(texts)
        files = [future.result() for future in self._complete]
        self._pool.shutdown()
        return files

    def discard(self) -> None:
        """Delete every file, complete or not, after an error. A file remains if its deletion fails."""
        self._encoder.cancel()
        complete: list[str] = []
        for future in self._complete:
            with suppress(Exception):
                complete.append(future.result().path)
        self._pool.shutdown()
        for file in self._open.values():
            file.file.discard()
        self._open.clear()
        if complete:
            with suppress(StorageError):
                self._store.delete(complete)

    def _file(self, texts: Texts) -> _QueuedFile:
        found = self._open.get(texts)
        if found is None:
            if len(self._open) >= self._most_open:
                self._close(next(iter(self._open)))
            found = self._open[texts] = _QueuedFile(self._new_file(texts), self._encoder)
        self._open.move_to_end(texts)
        return found

    def _close(self, texts: Texts) -> None:
        self._complete.append(self._open.pop(texts).complete())
        # Errors end the work early, and few complete files wait for their upload on the local disk.
        while self._num_checked < len(self._complete):
            oldest = self._complete[self._num_checked]
            if not oldest.done() and len(self._complete) - self._num_checked <= _MOST_WAITING_FILES:
                return
            oldest.result()
            self._num_checked += 1


class _Encoder:
    """Threads of one writer, with a bound for the rows that wait for their encoding."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool
        self.is_cancelled = False
        self._waiting_bytes = 0
        self._rows_bytes = self._stored_bytes = 0
        self._changed = threading.Condition()

    @property
    def ratio(self) -> float:
        """Size of encoded row groups relative to their rows in memory."""
        return self._stored_bytes / self._rows_bytes if self._rows_bytes else _USUAL_RATIO

    def begin(self, size_bytes: int) -> None:
        """Wait until rows of this size fit below the bound."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._waiting_bytes or self._waiting_bytes + size_bytes <= _MOST_WAITING_BYTES
            )
            self._waiting_bytes += size_bytes

    def end(self, size_bytes: int, stored_bytes: int) -> None:
        """Record the end of the encoding of rows."""
        with self._changed:
            self._waiting_bytes -= size_bytes
            if stored_bytes:
                self._rows_bytes += size_bytes
                self._stored_bytes += stored_bytes
            self._changed.notify_all()

    def cancel(self) -> None:
        """Skip the rows that still wait."""
        self.is_cancelled = True


class _QueuedFile:
    """A file with row groups that wait for their encoding, in order. One thread at a time encodes them."""

    def __init__(self, file: LocalFile, encoder: _Encoder) -> None:
        self.file = file
        self.held_bytes = 0
        self._encoder = encoder
        self._held: list[pa.RecordBatch] = []
        self._waiting: deque[tuple[list[pa.RecordBatch], int]] = deque()
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._is_running = self._is_complete = False
        self._written: Future[WrittenFile] = Future()

    @property
    def expected_bytes(self) -> int:
        """The expected size in bytes of the file with all of its full row groups."""
        return self.file.stored_bytes + int(self._waiting_bytes * self._encoder.ratio)

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows. Raises the error of an earlier row group."""
        if self._written.done():
            self._written.result()
        converted = self.file.taken(rows)
        self._held.append(converted)
        self.held_bytes += converted.nbytes
        if self.held_bytes >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Queue the rows in memory as a row group, when the rows of all files that wait are few enough."""
        if not self._held:
            return
        group, size_bytes = self._held, self.held_bytes
        self._held, self.held_bytes = [], 0
        self._encoder.begin(size_bytes)
        with self._lock:
            self._waiting.append((group, size_bytes))
            self._waiting_bytes += size_bytes
            self._start()

    def complete(self) -> Future[WrittenFile]:
        """Complete and upload the file after its row groups. Returns the file, or the first error."""
        self.flush()
        with self._lock:
            self._is_complete = True
            self._start()
        return self._written

    def _start(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._encoder.pool.submit(self._run)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not (self._waiting or self._is_complete):
                    self._is_running = False
                    return
                group, size_bytes = self._waiting.popleft() if self._waiting else (None, 0)
            if group is None:
                self._put()
                return
            self._encode(group, size_bytes)

    def _encode(self, group: list[pa.RecordBatch], size_bytes: int) -> None:
        before = self.file.stored_bytes
        try:
            if not (self._encoder.is_cancelled or self._written.done()):
                self.file.encode(group)
        except BaseException as error:  # noqa: BLE001  (raised where the file is used)
            self._written.set_exception(error)
        finally:
            self._waiting_bytes -= size_bytes
            self._encoder.end(size_bytes, self.file.stored_bytes - before)

    def _put(self) -> None:
        if self._written.done():
            self.file.discard()
            return
        try:
            if self._encoder.is_cancelled:
                self.file.discard()
                raise StorageError("the write was cancelled")
            self._written.set_result(self.file.put())
        except BaseException as error:  # noqa: BLE001
            self._written.set_exception(error)
