"""What is asked of a commit owner for one table, and what it answers: values of the calls of managed commits.

Versions and timestamps (ms since the epoch) are the owner's to choose. Source: managed-commits.md "Commit Owner API",
"Sample Commit Owner API".
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
"""As `end_version`: up to the latest ratified version."""


class TableState(str, Enum):
    """Where a table is on its way into and out of an owner's hands."""

    PROPOSED = "proposed"
    """The owner has promised to own it; the commit that says so may not be in the table's log yet."""
    ACTIVE = "active"
    RELEASING = "releasing"
    """No commit is taken any more; the one that hands the table back may not be in the table's log yet."""
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
    """What an owner knows of a table; `location` is the URL of its root.

    Versions are -1 where there is none: `ratified_version` is the latest that counts, `backfilled_version` the latest
    that is in `_delta_log` for everybody. `problem` says what keeps the owner from taking commits, '' where nothing.
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
class Commit(ResponseModel):
    """A ratified commit: the file `_delta_log/_commits/<file_name>`, and once backfilled `_delta_log/<version>.json`.

    `data` is the file's content, None where it was not asked for or is large: then the file has it. On the wire it is
    null too where it is no text.
    """

    version: Version
    file_name: str
    timestamp_ms: int
    size_bytes: int
    data: Annotated[bytes | None, WireType(str | None, after=_bytes, write=_text)] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CommitRequest(RequestModel):
    """One commit to one table, by the identity `commit_id` (a UUID): of any number of equal requests one counts.

    `version` is the one after the version that the work was based on. `actions` are as in the log, `commitInfo` first;
    its `txnId` is `commit_id`, and what it says of time is replaced by the owner. `may_move` promises that nothing was
    read, and that every action adds a file whose name is new to the log: such a commit may get a later version.
    `is_replay` says that an earlier, equal request may have been carried out.
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
    """The commit counts; its version is later than the one asked for where a commit that may move lost the race.

    `latest_version` is the latest that was ratified then.
    """

    commit: Commit
    latest_version: Known


@dataclass(frozen=True, slots=True)
class CommitConflict(ResponseModel):
    """The version belongs to another commit, and nothing of this one is visible; `latest_version` is ratified."""

    latest_version: Known


def _without_gap(commits: Sequence[Commit]) -> Sequence[Commit]:
    if any(later.version != earlier.version + 1 for earlier, later in itertools.pairwise(commits)):
        raise ValueError("the commits are not ascending without a gap")
    return commits


@dataclass(frozen=True, slots=True)
class GetCommitsResponse(ResponseModel):
    """The ratified commits of a range that are not backfilled, ascending without a gap, and the latest version.

    The first may be later than the start that was asked for: what is missing before it is in `_delta_log`.
    """

    commits: Annotated[Sequence[Commit], WireType(after=_without_gap)]
    latest_version: Known


@dataclass(frozen=True, slots=True)
class OwnershipProposal(RequestModel):
    """The commit that makes a table this owner's: `version` 0 creates it, a later one takes over what is there.

    Its metadata names the owner and `table_id` (a UUID of the proposer's choice). `previous_timestamp_ms` is that of
    the version before, None for a new table; `row_id_mark` the row id high-water mark, None where there are no row ids.
    """

    table_id: Id
    name: Name
    location: Location
    commit_id: Id
    version: Version
    actions: Actions = field(repr=False)
    previous_timestamp_ms: Annotated[int, WireType(before=whole_number, ge=0, le=GREATEST_VERSION)] | None = None
    row_id_mark: Annotated[Known | None, WireType(description="-1 before the first row id.")] = None
