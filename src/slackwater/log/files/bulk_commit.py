"""The actions of a commit of very many files, stored in Arrow tables instead of one Python object a file.

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

from slackwater.protocol.actions.actions import parse_actions
from slackwater.storage.store import ChunkedBytes

Action = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LargeActionSequence(Sequence[Action]):
    """The actions of one commit: `small` actions first, then file actions, at most one for each logical file.

    The sequence yields JSON actions. File actions are parsed on first access and cached.
    """

    small: Sequence[Action]

    def data(self) -> bytes:
        """Return the bytes of the commit: one line for each action."""
        return bytes(self.pieces())

    def pieces(self) -> ChunkedBytes:
        """Return the bytes of the commit in chunks of many lines."""
        return ChunkedBytes(lambda: chain(map(_line, self.small), self._lines()))

    def read_back(self) -> Self:
        """Return a copy with the small actions parsed from their bytes."""
        return replace(self, small=parse_actions(b"".join(map(_line, self.small)), "the commit"))

    def _lines(self) -> Iterator[memoryview]:
        """Yield the lines of the file actions."""
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
    """File actions in two tables, `removes` before `adds`, with the columns of ACTION_SCHEMA except `version`."""

    removes: pa.Table
    adds: pa.Table

    @property
    def files(self) -> pa.Table:
        """The file actions in their order."""
        return pa.concat_tables([self.removes, self.adds])

    def _lines(self) -> Iterator[memoryview]:
        # Imported here, because reads of a log write no actions.
        from slackwater.log.files.action_json_writer import add_lines, remove_lines

        return chain(remove_lines(self.removes), add_lines(self.adds))

    def __len__(self) -> int:
        return len(self.small) + len(self.removes) + len(self.adds)


@dataclass(frozen=True, eq=False)
class StreamedActions(LargeActionSequence):
    """Small actions and adds: `num_files` files of `num_bytes` bytes, without removes.

    Each call of `tables` reads the adds again, in the form of `BulkActions.adds`.
    """

    tables: Callable[[], Iterator[pa.Table]]
    num_files: int
    num_bytes: int

    def pieces(self) -> ChunkedBytes:
        """See `LargeActionSequence.pieces`. Reads the first files before the first chunk."""

        def made() -> Iterator[bytes | memoryview]:
            lines = self._lines()
            first = next(lines, b"")
            yield from chain(map(_line, self.small), [first], lines)

        return ChunkedBytes(made)

    def _lines(self) -> Iterator[memoryview]:
        from slackwater.log.files.action_json_writer import lines_of_adds

        return lines_of_adds(self.tables())

    def __len__(self) -> int:
        return len(self.small) + self.num_files


def commit_data(actions: Sequence[Action]) -> bytes | ChunkedBytes:
    """Return the bytes of a commit file with `actions`."""
    return actions.pieces() if isinstance(actions, LargeActionSequence) else b"".join(map(_line, actions))


def small_actions(actions: Sequence[Action]) -> Sequence[Action]:
    """Return `actions` without the file actions stored in tables."""
    return actions.small if isinstance(actions, LargeActionSequence) else actions


def _line(action: Action) -> bytes:
    return orjson.dumps(action) + b"\n"
