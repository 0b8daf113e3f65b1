"""The seam to whoever makes a commit real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Committed:
    """The actions are version `version` of the table."""

    version: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody else's actions are version `version`; nothing of this commit is visible."""

    version: int


class Committer(Protocol):
    """Makes a list of actions the next version of one table."""

    def commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> Committed | Conflict:
        """Try to make `actions` version `version`; `version - 1` exists, or `version` is 0.

        Raises CommitUnknown where it cannot be known whether the commit landed; any other error means that it did
        not.
        """
        ...
