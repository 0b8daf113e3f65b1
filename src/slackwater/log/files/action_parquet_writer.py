"""A writer of Parquet files of actions, filled in chunks on the local disk before the upload to the table's store.

Source: delta-protocol.md "Checkpoints", "Sidecar Files".
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.errors import StorageError

_GROUP_ROWS = 65_536
_GROUP_BYTES = 64 * 1024 * 1024
# Texts repeated in many files. For other columns a dictionary only costs time.
_REPEATED = (
    "partitionValues.key_value.key",
    "partitionValues.key_value.value",
    "tags.key_value.key",
    "tags.key_value.value",
    "deletionVector.storageType",
    "clusteringProvider",
)


class ActionParquetWriter:
    """Collects actions, one row each, in row groups with a single kind of action: memory O(two row groups).

    The null counts in the footer then show the row groups of each kind. A row group is written while the next one is
    collected. Raises StorageError for a disk error, at the latest in `close`.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.num_actions = 0
        self._schema = schema
        self._action = ""
        self._waiting: list[pa.Array] = []
        self._background = ThreadPoolExecutor(1, thread_name_prefix="slackwater-actions")
        self._writing: Future[None] | None = None
        dictionary = [f"{action}.{name}" for action in ("add", "remove") for name in _REPEATED]
        with _explained(path):
            self._writer = pq.ParquetWriter(
                path, schema, compression="zstd", use_dictionary=dictionary, store_schema=False, version="2.6"
            )

    def append(self, action: str, rows: pa.StructArray) -> None:
        """Add `rows`, values of the column `action`."""
        self.num_actions += len(rows)
        if action != self._action:
            self._flush()
            self._action = action
        if len(rows):
            self._waiting.append(rows)
        held = [(len(waiting), waiting.nbytes) for waiting in self._waiting]
        if sum(n for n, _ in held) >= _GROUP_ROWS or sum(size for _, size in held) >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Finish the file. Raises StorageError if its footer has a wrong number of rows."""
        with _explained(self.path):
            self._flush()
            self._settle()
            self._background.shutdown()
            self._writer.close()
            found = pq.read_metadata(self.path).num_rows
        if found != self.num_actions:
            raise StorageError(f"{self.path} must hold {self.num_actions} actions, but its footer counts {found}")

    def _flush(self) -> None:
        rows = sum(len(waiting) for waiting in self._waiting)
        if not rows:
            return
        columns = [
            pa.chunked_array(self._waiting, field.type) if field.name == self._action else pa.nulls(rows, field.type)
            for field in self._schema
        ]
        self._waiting = []
        self._settle()
        table = pa.table(columns, schema=self._schema)
        self._writing = self._background.submit(self._writer.write_table, table, row_group_size=rows)

    def _settle(self) -> None:
        if self._writing is not None:
            with _explained(self.path):
                self._writing.result()
        self._writing = None


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"a checkpoint could not be prepared at {path}: {error}. Free space there, or name another directory for "
            "temporary files in TMPDIR"
        ) from error
