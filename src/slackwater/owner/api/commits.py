"""What is asked of a commit owner for one table, and what it answers: values of the calls of managed commits.

Versions and timestamps (ms since the epoch) are the owner's to choose. Source: managed-commits.md "Commit Owner API",
"Sample Commit Owner API".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

LATEST = -1
"""As `end_version`: up to the latest ratified version."""

Action = Mapping[str, Any]


class TableState(str, Enum):
    """Where a table is on its way into and out of an owner's hands."""

    PROPOSED = "proposed"
    """The owner has promised to own it; the commit that says so may not be in the table's log yet."""
    ACTIVE = "active"
    RELEASING = "releasing"
    """No commit is taken any more; the one that hands the table back may not be in the table's log yet."""
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class ManagedTable:
    """What an owner knows of a table; `location` is the URL of its root.

    Versions are -1 where there is none: `ratified_version` is the latest that counts, `backfilled_version` the latest
    that is in `_delta_log` for everybody. `problem` says what keeps the owner from taking commits, '' where nothing.
    """

    table_id: str
    name: str
    location: str
    state: TableState
    ratified_version: int
    backfilled_version: int
    timestamp_ms: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """A ratified commit: the file `_delta_log/_commits/<file_name>`, and once backfilled `_delta_log/<version>.json`.

    `data` is the file's content, None where it was not asked for or is large: then the file has it.
    """

    version: int
    file_name: str
    timestamp_ms: int
    size_bytes: int
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One commit to one table, by the identity `commit_id` (a UUID): of any number of equal requests one counts.

    `version` is the one after the version that the work was based on. `actions` are as in the log, `commitInfo` first;
    its `txnId` is `commit_id`, and what it says of time is replaced by the owner. `may_move` promises that nothing was
    read, and that every action adds a file whose name is new to the log: such a commit may get a later version.
    `is_replay` says that an earlier, equal request may have been carried out.
    """

    table_id: str
    commit_id: str
    version: int
    actions: Sequence[Action] = field(repr=False)
    may_move: bool = False
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class CommitResponse:
    """The commit counts; its version is later than the one asked for where a commit that may move lost the race.

    `latest_version` is the latest that was ratified then.
    """

    commit: Commit
    latest_version: int


@dataclass(frozen=True, slots=True)
class CommitConflict:
    """The version belongs to another commit, and nothing of this one is visible; `latest_version` is ratified."""

    latest_version: int


@dataclass(frozen=True, slots=True)
class GetCommitsResponse:
    """The ratified commits of a range that are not backfilled, ascending without a gap, and the latest version.

    The first may be later than the start that was asked for: what is missing before it is in `_delta_log`.
    """

    commits: Sequence[Commit]
    latest_version: int


@dataclass(frozen=True, slots=True)
class OwnershipProposal:
    """The commit that makes a table this owner's: `version` 0 creates it, a later one takes over what is there.

    Its metadata names the owner and `table_id` (a UUID of the proposer's choice). `previous_timestamp_ms` is that of
    the version before, None for a new table; `row_id_mark` the row id high-water mark, None where there are no row ids.
    """

    table_id: str
    name: str
    location: str
    commit_id: str
    version: int
    actions: Sequence[Action] = field(repr=False)
    previous_timestamp_ms: int | None = None
    row_id_mark: int | None = None
