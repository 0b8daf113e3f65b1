"""Bulk adds of a new table, streamed from another table while the commit is written.

The files are never in memory all together.
Source: delta-protocol.md "Add File and Remove File", "Requirements for Writers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from slackwater.errors import SlackwaterError
from slackwater.log.files.bulk_commit import StreamedActions
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.protocol.actions.paths import PathEnds, are_distinct_ends, path_ends
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.transaction.rows.bulk_file_swap import BulkFileSwap, are_plain, as_actions, can_reuse_actions


class StreamNotReplayable(Exception):
    """The files cannot be read, or not be added unchanged.

    Nothing is written, and the caller loads them into memory.
    """


@dataclass(frozen=True, slots=True, eq=False)
class FileStream:
    """Files to add, `num_files` of `num_bytes`. `tables` reads the files again, with the columns of ADD_SCHEMA.

    `held` reads all files into memory for per-file validation, and raises precise errors.
    """

    tables: Callable[[], Iterator[pa.Table]]
    held: Callable[[], pa.Table]
    num_files: int
    num_bytes: int

    def exchange(self, now_ms: int) -> BulkFileSwap:
        """Return the same files in memory."""
        return BulkFileSwap(self.held(), ADD_SCHEMA.empty_table(), now_ms)

    def is_plain(self, table: TableConfiguration) -> bool:
        """Return whether the first commit of `table` may add the files unchanged, as far as `table` determines."""
        return can_reuse_actions(table)

    def actions(self, small: Sequence[Mapping[str, Any]], table: TableConfiguration) -> StreamedActions:
        """Return the actions of a commit with the single actions `small`. Iteration may raise StreamNotReplayable."""
        return StreamedActions(small, partial(self._checked, table), self.num_files, self.num_bytes)

    def _checked(self, table: TableConfiguration) -> Iterator[pa.Table]:
        ends: list[PathEnds] = []
        try:
            for files in self.tables():
                if files["size"].null_count or not are_plain(files, table):
                    raise StreamNotReplayable("not all files can be used unchanged")
                ends += _path_ends(files["path"])
                yield as_actions(files, True, {})
        except SlackwaterError as error:
            raise StreamNotReplayable(str(error)) from error
        if sum(len(numbers) for _, numbers in ends) != self.num_files:
            raise StreamNotReplayable("the files differ from the counted files")
        if ends and not are_distinct_ends(ends):
            raise StreamNotReplayable("one of the files may occur twice")


def _path_ends(paths: pa.ChunkedArray) -> Iterator[PathEnds]:
    for chunk in paths.chunks:
        if len(chunk):
            found = path_ends(chunk)
            if found is None:
                raise StreamNotReplayable("names are short, or their spelling requires a comparison of whole names")
            yield found
