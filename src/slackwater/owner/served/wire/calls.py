"""What calls of a served owner send and are answered around the values of its contract."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

from slackwater.owner.api.activity import RecentCommit
from slackwater.owner.api.commits import LATEST, ManagedTable
from slackwater.owner.api.fields import Id, Instant, Known, Listed, Many, ToldId
from slackwater.owner.api.transactions import InDoubt, TransactionRequest, TransactionResponse
from slackwater.owner.api.values import Answered, Asked, OnWire

API_VERSION = 1


@dataclass(frozen=True, slots=True)
class OwnerAnswer(Answered):
    """Who answers."""

    owner_id: ToldId
    api_version: int = API_VERSION


@dataclass(frozen=True, slots=True)
class TablesAnswer(Answered):
    """The tables of the owner, by name."""

    tables: Listed[ManagedTable]


@dataclass(frozen=True, slots=True)
class BackfillRequest(Asked):
    """Up to which version; -1 for the latest."""

    version: Known = LATEST


@dataclass(frozen=True, slots=True)
class BackfillAnswer(Answered):
    """The version up to which `_delta_log` has the commits."""

    version: Known


@dataclass(frozen=True, slots=True)
class RepairRequest(Asked):
    """Which table; all where none is named."""

    table_id: Id | None = None


@dataclass(frozen=True, slots=True)
class RepairAnswer(Answered):
    """What was done, in words."""

    done: Listed[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest(TransactionRequest):
    """This owner's part of a transaction over the tables of several; the coordinator, by its id, decides."""

    in_path = "txn_id"

    coordinator_id: Id

    @property
    def transaction(self) -> TransactionRequest:
        """The part itself."""
        return TransactionRequest(**_work(self))


def prepare_request(request: TransactionRequest, coordinator_id: str) -> PrepareRequest:
    """`request`, to be promised."""
    return PrepareRequest(**_work(request), coordinator_id=coordinator_id)


@dataclass(frozen=True, slots=True)
class FinishRequest(Asked):
    """What was decided."""

    timestamp_ms: Annotated[Instant | None, OnWire(description="When the transaction commits; null where it does not.")]


@dataclass(frozen=True, slots=True)
class FinishAnswer(Answered):
    """What was carried out; null where that was to forget the transaction, or was done before."""

    transaction: TransactionResponse | None


@dataclass(frozen=True, slots=True)
class DecisionRequest(FinishRequest):
    """What is to be decided, and the owners that voted."""

    participants: Many[Id]


@dataclass(frozen=True, slots=True)
class DecisionAnswer(Answered):
    """What counts: when the transaction commits, null where it does not."""

    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class AcknowledgeRequest(Asked):
    """An owner that has carried out the decision."""

    participant_id: Id


@dataclass(frozen=True, slots=True)
class InDoubtAnswer(Answered):
    """The transactions whose outcome the owner has not been told."""

    transactions: Listed[InDoubt]


@dataclass(frozen=True, slots=True)
class RecentCommitsAnswer(Answered):
    """The latest commits of all tables, newest first."""

    commits: Listed[RecentCommit]


@dataclass(frozen=True, slots=True)
class DoneAnswer(Answered):
    """It is done."""


@dataclass(frozen=True, slots=True)
class HealthAnswer(Answered):
    """Whether the owner answers."""

    status: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer(Answered):
    """An error: `error` is its class in the error tree of Slackwater."""

    error: str
    message: str
    retryable: Annotated[bool, OnWire(description="The same work may be tried again on a fresh snapshot.")]
    conflict: Annotated[bool, OnWire(description="Another writer was there first.")]
    error_class: Annotated[str | None, OnWire(description="What delta-spark calls it, if it has a name for it.")] = None


def _work(request: TransactionRequest) -> dict[str, Any]:
    return {field.name: getattr(request, field.name) for field in fields(TransactionRequest)}
