"""Interface of the component that commits actions as a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from slackwater.log.files.commits import ParsedCommit
from slackwater.protocol.actions.commit_info import CommitInfo

Work_contra = TypeVar("Work_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Committed:
    """Outcome: the actions are a version of the table. `commit` is the commit in the log."""

    commit: ParsedCommit

    @property
    def version(self) -> int:
        """The version of the commit."""
        return self.commit.version


@dataclass(frozen=True, slots=True)
class Conflict:
    """Outcome: another writer committed `version`. No part of this commit is visible."""

    version: int


class Committer(Protocol):
    """Commits a list of actions as the next version of one table."""

    @property
    def publishes_at_once(self) -> bool:
        """Return whether a commit is in `_delta_log` upon commit. Otherwise a backfill follows."""
        ...

    def published_version(self, version: int) -> int:
        """Return the newest version in `_delta_log` up to the committed `version`. Raises SlackwaterError."""
        ...

    def commit(
        self, version: int, actions: Sequence[Mapping[str, Any]], may_move: bool = False
    ) -> Committed | Conflict:
        """Try to commit `actions` as `version`. `version - 1` exists, or `version` is 0.

        `may_move` promises that nothing was read, and that the commit only adds files with names new to the log. The
        committer may then assign a later version. Raises CommitUnknown if the outcome is unknown. After any other error
        the commit failed without effect.
        """
        ...

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:
        """Return the commits of other writers after `version`, ascending without a gap."""
        ...


@runtime_checkable
class TransactionScopedCommitter(Protocol[Work_contra]):
    """A committer whose commits become part of a larger transaction, including their read sets."""

    def defer(
        self,
        transaction: Work_contra,
        info: CommitInfo,
        version: int,
        actions: Callable[[], Sequence[Mapping[str, Any]]],
    ) -> bool:
        """Make `transaction` part of the larger transaction. Return False if `version` is not the next version.

        `actions` returns the actions of the commit, and is called only if the larger transaction reads the table again.
        Raises UnsupportedFeature if the larger transaction cannot include the commit.
        """
        ...
