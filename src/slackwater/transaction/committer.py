"""The seam to the part that makes a commit real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from slackwater.log.commits import ParsedCommit
from slackwater.protocol.actions.commit_info import CommitInfo

Work_contra = TypeVar("Work_contra", contravariant=True)


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

    @property
    def publishes_at_once(self) -> bool:
        """Whether a commit is in `_delta_log` as soon as it counts, rather than after a backfill."""
        ...

    def published_version(self, version: int) -> int:
        """The newest version up to `version`, which counts, that is in `_delta_log`. Raises SlackwaterError."""
        ...

    def commit(
        self, version: int, actions: Sequence[Mapping[str, Any]], may_move: bool = False
    ) -> Committed | Conflict:
        """Try to make `actions` version `version`; `version - 1` exists, or `version` is 0.

        `may_move` promises that nothing was read, and that only files with names new to the log are added: then the
        committer may make it a later version by itself. Raises CommitUnknown where it cannot be known whether the
        commit landed; any other error means that it did not.
        """
        ...

    def commits_after(self, version: int) -> Sequence[ParsedCommit]:
        """The commits that others made after `version`, ascending without a gap."""
        ...


@runtime_checkable
class TransactionScopedCommitter(Protocol[Work_contra]):
    """A committer whose commits become part of a larger transaction, which needs all that is known of them."""

    def join(self, transaction: Work_contra, info: CommitInfo) -> None:
        """`transaction` is what commits next. Raises UnsupportedFeature for what cannot be part of the larger one."""
        ...
