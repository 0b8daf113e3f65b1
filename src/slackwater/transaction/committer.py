"""The seam to whoever makes a commit real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slackwater.log.commits import ParsedCommit


@dataclass(frozen=True, slots=True)
class Committed:
    """The actions are a version of the table: `commit`, as the log holds it."""

    commit: ParsedCommit

    @property
    def version(self) -> int:
        """The version that the actions became."""
        return self.commit.version


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

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:
        """The commits that others made after `version`, ascending without a gap."""
        ...
