"""The actions of a commit of very many files, which are tables: nothing is made of a file by itself.

Source: delta-protocol.md "Actions", "Delta Log Entries".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, overload

import orjson
import pyarrow as pa

from slackwater.log.files.action_lines import add_lines, remove_lines
from slackwater.protocol.actions.actions import parse_actions
from slackwater.storage.store import Pieces

Action = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class BulkActions(Sequence[Action]):
    """The actions of one commit: `small` ones, then `removes`, then `adds`, no two of one logical file.

    `removes` and `adds` are tables with the columns of ACTION_SCHEMA but `version`. As a sequence it has all actions as
    JSON has them, which are made where one of a file is asked for.
    """

    small: Sequence[Action]
    removes: pa.Table
    adds: pa.Table

    def data(self) -> bytes:
        """The bytes of the commit: a line for each action."""
        return bytes(self.pieces())

    def pieces(self) -> Pieces:
        """The same, many lines a piece."""
        return Pieces(lambda: chain(map(_line, self.small), remove_lines(self.removes), add_lines(self.adds)))

    def read_back(self) -> BulkActions:
        """The same, with the small actions as they are read from the bytes."""
        return replace(self, small=parse_actions(b"".join(map(_line, self.small)), "the commit"))

    @property
    def files(self) -> pa.Table:
        """The actions of files, in their order."""
        return pa.concat_tables([self.removes, self.adds])

    @cached_property
    def _of_files(self) -> list[dict[str, Any]]:
        lines = chain(remove_lines(self.removes), add_lines(self.adds))
        return parse_actions(b"".join(lines), "the commit")

    def __len__(self) -> int:
        return len(self.small) + len(self.removes) + len(self.adds)

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


def commit_data(actions: Sequence[Action]) -> bytes | Pieces:
    """The bytes of a commit file with `actions`."""
    return actions.pieces() if isinstance(actions, BulkActions) else b"".join(map(_line, actions))


def small_actions(actions: Sequence[Action]) -> Sequence[Action]:
    """`actions`, without those of files where they are in tables."""
    return actions.small if isinstance(actions, BulkActions) else actions


def _line(action: Action) -> bytes:
    return orjson.dumps(action) + b"\n"
