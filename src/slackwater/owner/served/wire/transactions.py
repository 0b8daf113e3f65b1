"""What transactions over many tables ask of the owner and are answered, as JSON, in both directions.

An upper bound that there is none of is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.owner.api.timestamp_range import UNBOUNDED, TimestampRange
from slackwater.owner.api.transactions import (
    Cut,
    InDoubt,
    Item,
    LockRequest,
    TableVersion,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.served.wire import commits as wire
from slackwater.owner.served.wire.commits import Json

GREATEST_TIMESTAMP_MS = 253_402_128_000_000
"""9999-12-30: each zone has a date there, and one after it."""
GREATEST_TIMEOUT_S = 3600.0
LONGEST_LOCK_WAIT_S = 10.0
"""For how long one request may wait for locks: whoever wants to wait longer asks again."""
LONGEST_PREPARE_WAIT_S = 20.0
"""For how long a request to prepare a transaction may wait for locks: of what was read, then of what is written."""
LONGEST_ZONE = 255
MOST_ITEMS = 10_000


def checked_timestamp(timestamp_ms: int) -> int:
    """`timestamp_ms`, an instant since the epoch. Raises InvalidArgument."""
    is_number = isinstance(timestamp_ms, int) and not isinstance(timestamp_ms, bool)
    if is_number and 0 <= timestamp_ms <= GREATEST_TIMESTAMP_MS:
        return timestamp_ms
    raise InvalidArgument(
        f"a timestamp is a number of ms since the epoch up to {GREATEST_TIMESTAMP_MS}, found {timestamp_ms!r}"
    )


def checked_timeout(timeout_s: float) -> float:
    """`timeout_s`, for how long locks may be waited for. Raises InvalidArgument."""
    if isinstance(timeout_s, (int, float)) and 0 <= timeout_s <= GREATEST_TIMEOUT_S:
        return timeout_s
    raise InvalidArgument(f"locks are waited for 0 to {GREATEST_TIMEOUT_S:g} s, found {timeout_s!r}")


def cut_to_json(cut: Cut) -> Json:
    """One state of all tables."""
    return {
        "timestampMs": cut.timestamp_ms,
        "tables": [
            {
                "tableId": table.table_id,
                "name": table.name,
                "location": table.location,
                "version": table.version,
                "timestampMs": table.timestamp_ms,
                "knownFrom": table.known_from,
                "isReleased": table.is_released,
            }
            for table in cut.tables
        ],
    }


def cut_from_json(found: Any) -> Cut:
    """Raises ValueError for what is no cut."""
    tables = [_table_from_json(table) for table in wire.list_from_json(found, "tables")]
    return Cut(wire.number_from_json(found, "timestampMs"), tables)


def range_to_json(range_: TimestampRange) -> Json:
    """The bounds of a transaction's timestamp."""
    return {"lowMs": range_.low_ms, "highMs": range_.high_ms if range_.was_asked else None}


def range_from_json(found: Any) -> TimestampRange:
    """Raises ValueError for what is no range."""
    high_ms = _optional_number(found, "highMs")
    return TimestampRange(wire.number_from_json(found, "lowMs"), UNBOUNDED if high_ms is None else high_ms)


def time_request_to_json(request: TimeRequest) -> Json:
    """The body of a request for the current time."""
    return {
        "range": range_to_json(request.range),
        "precision": request.precision,
        "zone": request.zone,
        "writes": _items_to_json(request.writes),
        "aheadMs": request.ahead_ms,
        "holds": list(request.holds),
    }


def lock_request_to_json(request: LockRequest, timeout_s: float) -> Json:
    """The body of a request for locks, to be waited for `timeout_s` this time."""
    return {
        "startedMs": request.started_ms,
        "items": _items_to_json(request.items),
        "isExclusive": request.is_exclusive,
        "timeoutS": timeout_s,
    }


def transaction_to_json(request: TransactionRequest, contents: Sequence[Any], is_replay: bool) -> Json:
    """The body of a transaction; `contents` are those of `commit_content`, one for each of its writes."""
    return {"txnId": request.txn_id, **_work_to_json(request, contents, is_replay)}


def transaction_response_to_json(response: TransactionResponse) -> Json:
    """The answer to a transaction that counts."""
    commits = {table_id: wire.response_to_json(commit) for table_id, commit in response.commits.items()}
    return {"timestampMs": response.timestamp_ms, "commits": commits}


def transaction_response_from_json(found: Any) -> TransactionResponse:
    """Raises ValueError for what is no answer to a transaction."""
    commits = wire.object_from_json(found, "commits")
    return TransactionResponse(
        wire.number_from_json(found, "timestampMs"),
        {table_id: wire.response_from_json(commit) for table_id, commit in commits.items()},
    )


def transaction_conflict_to_json(conflict: TransactionConflict) -> Json:
    """The answer to a transaction that is based on versions which are not the latest."""
    return {"latestVersions": dict(conflict.latest_versions)}


def transaction_conflict_from_json(found: Any) -> TransactionConflict:
    """Raises ValueError for what is no conflict of a transaction."""
    latest = wire.object_from_json(found, "latestVersions")
    return TransactionConflict({table_id: wire.number_from_json(latest, table_id) for table_id in latest})


def prepare_to_json(request: TransactionRequest, contents: Sequence[Any], coordinator_id: str) -> Json:
    """The body of a transaction that is to be promised, `contents` as in `transaction_to_json`.

    Raises InvalidArgument.
    """
    coordinator_id = wire.checked_id(coordinator_id, "coordinator's id")
    return {"coordinatorId": coordinator_id, **_work_to_json(request, contents, request.is_replay)}


def vote_to_json(vote: Vote) -> Json:
    """A promise to commit."""
    return {"range": range_to_json(vote.range), "nowMs": vote.now_ms}


def vote_from_json(found: Any) -> Vote:
    """Raises ValueError for what is no vote."""
    return Vote(range_from_json(wire.object_from_json(found, "range")), wire.number_from_json(found, "nowMs"))


def decision_to_json(timestamp_ms: int | None, participants: Sequence[str]) -> Json:
    """The body of a decision. Raises InvalidArgument."""
    ids = [wire.checked_id(participant_id, "participant's id") for participant_id in participants]
    return {**finish_to_json(timestamp_ms), "participants": ids}


def finish_to_json(timestamp_ms: int | None) -> Json:
    """The body of a request to carry out a decision. Raises InvalidArgument."""
    return {"timestampMs": None if timestamp_ms is None else checked_timestamp(timestamp_ms)}


def decided_from_json(found: Any) -> int | None:
    """When it commits, None where it does not. Raises ValueError for what does not say so."""
    return _optional_number(found, "timestampMs")


def finished_to_json(response: TransactionResponse | None) -> Json:
    """The answer to a decision that is carried out."""
    return {"transaction": None if response is None else transaction_response_to_json(response)}


def finished_from_json(found: Any) -> TransactionResponse | None:
    """Raises ValueError for what does not say what was carried out."""
    if _is_null(found, "transaction"):
        return None
    return transaction_response_from_json(wire.object_from_json(found, "transaction"))


def in_doubt_to_json(doubts: Sequence[InDoubt]) -> Json:
    """The transactions whose outcome the owner has not been told."""
    return {
        "transactions": [
            {"txnId": doubt.txn_id, "coordinatorId": doubt.coordinator_id, "votedMs": doubt.voted_ms}
            for doubt in doubts
        ]
    }


def in_doubt_from_json(found: Any) -> list[InDoubt]:
    """Raises ValueError for what is no list of transactions in doubt."""
    return [
        InDoubt(
            txn_id=wire.string_from_json(doubt, "txnId"),
            coordinator_id=wire.string_from_json(doubt, "coordinatorId"),
            voted_ms=wire.number_from_json(doubt, "votedMs"),
        )
        for doubt in wire.list_from_json(found, "transactions")
    ]


def _work_to_json(request: TransactionRequest, contents: Sequence[Any], is_replay: bool) -> Json:
    return {
        "range": range_to_json(request.range),
        "reads": [
            {"tableId": read.table_id, "version": read.version, "granules": list(read.granules)}
            for read in request.reads
        ],
        "writes": [
            {"tableId": write.table_id, "version": write.version, "mayMove": write.may_move, "actions": content}
            for write, content in zip(request.writes, contents, strict=True)
        ],
        "hasLocks": request.has_locks,
        "isReplay": is_replay,
    }


def _table_from_json(found: Any) -> TableVersion:
    return TableVersion(
        table_id=wire.string_from_json(found, "tableId"),
        name=wire.string_from_json(found, "name"),
        location=wire.string_from_json(found, "location"),
        version=_optional_number(found, "version"),
        timestamp_ms=_optional_number(found, "timestampMs"),
        known_from=wire.number_from_json(found, "knownFrom"),
        # Servers of before do not tell of such tables.
        is_released=isinstance(found, dict) and found.get("isReleased") is True,
    )


def _items_to_json(items: Sequence[Item]) -> list[Json]:
    return [{"tableId": item.table_id, "granule": item.granule} for item in items]


def _optional_number(found: Any, key: str) -> int | None:
    return None if _is_null(found, key) else wire.number_from_json(found, key)


def _is_null(found: Any, key: str) -> bool:
    return isinstance(found, dict) and key in found and found[key] is None
