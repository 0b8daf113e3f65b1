"""The actions of a commit of very many files, which are tables: nothing is made of a file by itself.

Source: delta-protocol.md "Actions", "Delta Log Entries".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, overload

import orjson
import pyarrow as pa
from typing_extensions import Self

from slackwater.log.files.action_json_writer import add_lines, lines_of_adds, remove_lines
from slackwater.protocol.actions.actions import parse_actions
from slackwater.storage.store import ChunkedBytes

Action = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LargeActionSequence(Sequence[Action]):
    """The actions of one commit: `small` ones, then those of files, no two of one logical file.

    As a sequence it has all actions as JSON has them, which are made where one of a file is asked for.
    """

    small: Sequence[Action]

    def data(self) -> bytes:
        """The bytes of the commit: a line for each action."""
        return bytes(self.pieces())

    def pieces(self) -> ChunkedBytes:
        """The same, many lines a piece."""
        return ChunkedBytes(lambda: chain(map(_line, self.small), self._lines()))

    def read_back(self) -> Self:
        """The same, with the small actions read back from the bytes."""
        return replace(self, small=parse_actions(b"".join(map(_line, self.small)), "the commit"))

    def _lines(self) -> Iterator[memoryview]:
        """The lines of the files."""
        raise NotImplementedError

    @cached_property
    def _of_files(self) -> list[dict[str, Any]]:
        return parse_actions(b"".join(self._lines()), "the commit")

    def __iter__(self) -> Iterator[Action]:
        yield from self.small
        yield from self._of_files

    @overload
    def __getitem__(self, index: int) -> Action: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Action]: ...
    def __getitem__(self, index: int | slice) -> Action | Sequence[Action]:
        if isinstance(index, int) and 0 <= index < len(self.small):
            return self.small[index]
        return [*self][index]


@dataclass(frozen=True, eq=False)
class BulkActions(LargeActionSequence):
    """The files are tables, `removes`, then `adds`, with the columns of ACTION_SCHEMA but `version`."""

    removes: pa.Table
    adds: pa.Table

    @property
    def files(self) -> pa.Table:
        """The actions of files, in their order."""
        return pa.concat_tables([self.removes, self.adds])

    def _lines(self) -> Iterator[memoryview]:
        return chain(remove_lines(self.removes), add_lines(self.adds))

    def __len__(self) -> int:
        return len(self.small) + len(self.removes) + len(self.adds)


@dataclass(frozen=True, eq=False)
class StreamedActions(LargeActionSequence):
    """Nothing but files that come, `num_files` of `num_bytes`: `tables`, as `BulkActions.adds`, reads them anew."""

    tables: Callable[[], Iterator[pa.Table]]
    num_files: int
    num_bytes: int

    def pieces(self) -> ChunkedBytes:
        """As `LargeActionSequence.pieces`; the first files are read before there is any piece."""

        def made() -> Iterator[bytes | memoryview]:
            lines = self._lines()
            first = next(lines, b"")
            yield from chain(map(_line, self.small), [first], lines)

        return ChunkedBytes(made)

    def _lines(self) -> Iterator[memoryview]:
        return lines_of_adds(self.tables())

    def __len__(self) -> int:
        return len(self.small) + self.num_files


def commit_data(actions: Sequence[Action]) -> bytes | ChunkedBytes:
    """The bytes of a commit file with `actions`."""
    return actions.pieces() if isinstance(actions, LargeActionSequence) else b"".join(map(_line, actions))


def small_actions(actions: Sequence[Action]) -> Sequence[Action]:
    """`actions`, without those of files where they are in tables."""
    return actions.small if isinstance(actions, LargeActionSequence) else actions


def _line(action: Action) -> bytes:
    return orjson.dumps(action) + b"\n"
