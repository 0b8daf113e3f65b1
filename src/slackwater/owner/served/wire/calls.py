"""Calls of a served owner: paths, requests and responses around the values of the contract."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Annotated, Any, Generic, TypeVar

from slackwater.owner.api.commits import LATEST, CommitConflict, CommitResponse, GetCommitsResponse, ManagedTable
from slackwater.owner.api.field_types import Id, Instant, Known, Listed, Many, Name, ToldId
from slackwater.owner.api.monitoring import Activity, RecentCommit
from slackwater.owner.api.timestamp_range import AnsweredRange, TimestampRange
from slackwater.owner.api.transactions import (
    Cut,
    InDoubt,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.api.wire_model import RequestModel, ResponseModel, WireModel, WireType, checked, read

API_VERSION = 1

A = TypeVar("A", bound=WireModel)


_Outcome = CommitResponse | CommitConflict


@dataclass(frozen=True, slots=True)
class OwnerInfo(ResponseModel):
    """Identity of the owner."""

    owner_id: ToldId
    api_version: int = API_VERSION


@dataclass(frozen=True, slots=True)
class TablesResponse(ResponseModel):
    """Tables of the owner by name."""

    tables: Listed[ManagedTable]


@dataclass(frozen=True, slots=True)
class BackfillRequest(RequestModel):
    """Version to backfill to, -1 for the latest."""

    version: Known = LATEST


@dataclass(frozen=True, slots=True)
class BackfillAnswer(ResponseModel):
    """Latest version in `_delta_log`."""

    version: Known


@dataclass(frozen=True, slots=True)
class RepairRequest(RequestModel):
    """Table to repair, all tables if missing."""

    table_id: Id | None = None


@dataclass(frozen=True, slots=True)
class RepairAnswer(ResponseModel):
    """Descriptions of the repairs."""

    done: Listed[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest(TransactionRequest):
    """Part of a transaction over several owners. The coordinator, named by its id, decides."""

    in_path = "txn_id"

    coordinator_id: Id

    @property
    def transaction(self) -> TransactionRequest:
        """The part of this owner."""
        return TransactionRequest(**_work(self))


def prepare_request(request: TransactionRequest, coordinator_id: str) -> PrepareRequest:
    """Return the prepare request for `request`."""
    return PrepareRequest(**_work(request), coordinator_id=coordinator_id)


@dataclass(frozen=True, slots=True)
class FinishRequest(RequestModel):
    """A decision to apply."""

    timestamp_ms: Annotated[
        Instant | None, WireType(description="When the transaction commits; null where it does not.")
    ]


@dataclass(frozen=True, slots=True)
class FinishAnswer(ResponseModel):
    """Result of a decision, null after an abort, and for an earlier commit with purged rows."""

    transaction: TransactionResponse | None


@dataclass(frozen=True, slots=True)
class DecisionRequest(FinishRequest):
    """A decision to record, and the owners with a vote."""

    participants: Many[Id]


@dataclass(frozen=True, slots=True)
class DecisionAnswer(ResponseModel):
    """The effective decision: the commit timestamp, null for an abort."""

    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class AcknowledgeRequest(RequestModel):
    """A participant that applied the decision."""

    participant_id: Id


@dataclass(frozen=True, slots=True)
class InDoubtAnswer(ResponseModel):
    """Transactions with an outcome unknown to the owner."""

    transactions: Listed[InDoubt]


@dataclass(frozen=True, slots=True)
class RecentCommitsAnswer(ResponseModel):
    """Latest commits of all tables, newest first."""

    commits: Listed[RecentCommit]


@dataclass(frozen=True, slots=True)
class EmptyResponse(ResponseModel):
    """Success without a value."""


@dataclass(frozen=True, slots=True)
class HealthAnswer(ResponseModel):
    """Health of the owner."""

    status: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer(ResponseModel):
    """An error. `error` is its class in the error tree of Slackwater."""

    error: str
    message: str
    retryable: Annotated[bool, WireType(description="The same work may be tried again on a fresh snapshot.")]
    conflict: Annotated[bool, WireType(description="Another writer was there first.")]
    error_class: Annotated[str | None, WireType(description="What delta-spark calls it, if it has a name for it.")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class Call(Generic[A]):
    """A call with the response type `answer`, or `conflict` with the status 409.

    Defines both the server's route and the client's request. `path` is a template with ids and names. `is_commit`: the
    call has an effect at most once, and its outcome must be known. `is_long`: the client waits ten times its timeout.
    `lenient` reads a response with unknown fields, if `answer` rejects them.
    """

    method: str
    path: str
    answer: type[A]
    conflict: type[A] | None = None
    _: KW_ONLY
    is_commit: bool = False
    is_long: bool = False
    lenient: Any = None

    def at(self, **named: str) -> str:
        """Return the path with these ids and names. Raises InvalidArgument for malformed values."""
        path = self.path
        for key, value in named.items():
            kind, what = _IN_PATHS[key]
            path = path.replace(f"{{{key}}}", checked(kind, what, value))
        return path

    def response(self, found: Any, is_conflict: bool) -> A:
        """Return the response with the JSON form `found`. Raises ValueError for other input."""
        kind = self.conflict if is_conflict and self.conflict is not None else self.answer
        value: A = read(self.lenient or kind, found, kind.__name__)
        return value


GET_OWNER = Call("GET", "/v1/owner", OwnerInfo)
LIST_TABLES = Call("GET", "/v1/tables", TablesResponse)
GET_TABLE = Call("GET", "/v1/tables/{name}", ManagedTable)
TAKE_TABLE: Call[_Outcome] = Call("POST", "/v1/tables", CommitResponse, CommitConflict, is_commit=True)
COMMIT: Call[_Outcome] = Call("POST", "/v1/tables/{table_id}/commits", CommitResponse, CommitConflict, is_commit=True)
GET_COMMITS = Call("GET", "/v1/tables/{table_id}/commits", GetCommitsResponse)
BACKFILL = Call("POST", "/v1/tables/{table_id}/backfill", BackfillAnswer, is_long=True)
RELEASE: Call[_Outcome] = Call(
    "POST", "/v1/tables/{table_id}/release", CommitResponse, CommitConflict, is_commit=True, is_long=True
)
REPAIR = Call("POST", "/v1/repair", RepairAnswer, is_long=True)
GET_CUT = Call("GET", "/v1/cut", Cut)
GET_PAST_CUT = replace(GET_CUT, is_long=True)
GET_TIME = Call("POST", "/v1/transactions/{txn_id}/time", TimestampRange, lenient=AnsweredRange)
LOCK = Call("POST", "/v1/transactions/{txn_id}/locks", EmptyResponse)
KEEP_ALIVE = Call("POST", "/v1/transactions/{txn_id}/keep-alive", EmptyResponse)
END = Call("DELETE", "/v1/transactions/{txn_id}", EmptyResponse)
COMMIT_TRANSACTION: Call[TransactionResponse | TransactionConflict] = Call(
    "POST", "/v1/transactions", TransactionResponse, TransactionConflict, is_commit=True
)
PREPARE: Call[Vote | TransactionConflict] = Call("POST", "/v1/transactions/{txn_id}/prepare", Vote, TransactionConflict)
FINISH = Call("POST", "/v1/transactions/{txn_id}/finish", FinishAnswer)
DECIDE = Call("POST", "/v1/transactions/{txn_id}/decision", DecisionAnswer, is_commit=True)
ASK_DECISION = Call("POST", "/v1/transactions/{txn_id}/decision/ask", DecisionAnswer)
ACKNOWLEDGE = Call("POST", "/v1/transactions/{txn_id}/acknowledge", EmptyResponse)
GET_IN_DOUBT = Call("GET", "/v1/in-doubt", InDoubtAnswer)
GET_ACTIVITY = Call("GET", "/v1/activity", Activity)
GET_RECENT_COMMITS = Call("GET", "/v1/commits", RecentCommitsAnswer)

_IN_PATHS: dict[str, tuple[Any, str]] = {
    "table_id": (Id, "table id"),
    "txn_id": (Id, "transaction id"),
    "name": (Name, "table's name"),
}


def _work(request: TransactionRequest) -> dict[str, Any]:
    return {field.name: getattr(request, field.name) for field in fields(TransactionRequest)}
