"""Requests and responses of a commit owner for one table: the values of the calls of managed commits.

The owner chooses versions and timestamps (ms since the epoch). Source: managed-commits.md "Commit Owner API", "Sample
Commit Owner API".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from slackwater.owner.api.actions import Actions
from slackwater.owner.api.field_types import (
    GREATEST_VERSION,
    Id,
    IsReplay,
    Known,
    Location,
    MayMove,
    Name,
    ToldId,
    Version,
    whole_number,
)
from slackwater.owner.api.wire_model import RequestModel, ResponseModel, WireType

LATEST = -1
"""Value of `end_version` for the latest ratified version."""


class TableState(str, Enum):
    """State of a table between adoption and release."""

    PROPOSED = "proposed"
    """The owner recorded the proposal. The commit with the ownership may not be in the table's log yet."""
    ACTIVE = "active"
    RELEASING = "releasing"
    """The owner accepts no more commits. The releasing commit may not be in the table's log yet."""
    RELEASED = "released"


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


@dataclass(frozen=True, slots=True)
class ManagedTable(ResponseModel):
    """A table of an owner. `location` is the URL of its root.

    `ratified_version` is the latest ratified version, `backfilled_version` the latest version in `_delta_log`. Versions
    are -1 if there is none. `problem` explains why the owner accepts no commits, '' if the owner accepts commits.
    """

    always_sent = ("problem",)

    table_id: ToldId
    name: str
    location: str
    state: Annotated[TableState, WireType(strict=False)]
    ratified_version: Known
    backfilled_version: Known
    timestamp_ms: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """A commit that its client staged as `_delta_log/_staged_commits/<file_name>`, with its in-commit timestamp."""

    table_id: str
    version: int
    timestamp_ms: int
    file_name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Commit(ResponseModel):
    """A ratified commit, staged as `file_name` (see `staged_path`), and after backfill in `_delta_log/<version>.json`.

    `data` is the content of the file. None without a request for the content, or for a large file. On the wire also
    null for content outside UTF-8.
    """

    version: Version
    file_name: str
    timestamp_ms: int
    size_bytes: int
    data: Annotated[bytes | None, WireType(str | None, after=_bytes, write=_text)] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CommitRequest(RequestModel):
    """A commit to one table, identified by `commit_id` (a UUID). Equal requests commit once.

    `version` is the version after the read version. `actions` have the form of the log, `commitInfo` first. Its `txnId`
    is `commit_id`, and the owner replaces its timestamps. `may_move` marks a blind append: the writer read nothing, and
    every action adds a file under a name new to the log. Such a commit may get a later version. `is_replay` marks a
    retry: an earlier, equal request may have succeeded.
    """

    in_path = "table_id"

    table_id: Id
    commit_id: Id
    version: Version
    actions: Actions = field(repr=False)
    may_move: MayMove = False
    is_replay: IsReplay = False


@dataclass(frozen=True, slots=True)
class CommitResponse(ResponseModel):
    """A committed request. Its version is later if a commit with `may_move` lost the race.

    `latest_version` is the latest ratified version at the time of the response.
    """

    commit: Commit
    latest_version: Known


@dataclass(frozen=True, slots=True)
class CommitConflict(ResponseModel):
    """Conflict: the version belongs to another commit, and this commit has no effect. `latest_version` is ratified."""

    latest_version: Known


def _without_gap(commits: Sequence[Commit]) -> Sequence[Commit]:
    if any(later.version != earlier.version + 1 for earlier, later in itertools.pairwise(commits)):
        raise ValueError("the commits are not ascending without a gap")
    return commits


@dataclass(frozen=True, slots=True)
class GetCommitsResponse(ResponseModel):
    """The unbackfilled commits of a range, ascending without a gap, and the latest version.

    The first commit may be later than the requested start. Earlier versions are in `_delta_log`.
    """

    commits: Annotated[Sequence[Commit], WireType(after=_without_gap)]
    latest_version: Known


@dataclass(frozen=True, slots=True)
class OwnershipProposal(RequestModel):
    """A proposed commit with a new owner for the table. `version` 0 creates a table, a later one adopts a table.

    Its metadata names the owner and `table_id` (a UUID chosen by the proposer). `previous_timestamp_ms` is the
    timestamp of the previous version, None for a new table. `row_id_mark` is the row id high-water mark, None without
    row ids.
    """

    table_id: Id
    name: Name
    location: Location
    commit_id: Id
    version: Version
    actions: Actions = field(repr=False)
    previous_timestamp_ms: Annotated[int, WireType(before=whole_number, ge=0, le=GREATEST_VERSION)] | None = None
    row_id_mark: Annotated[Known | None, WireType(description="-1 before the first row id.")] = None
