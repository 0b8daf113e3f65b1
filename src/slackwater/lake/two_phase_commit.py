"""Two-phase commit across several owners: collects votes, decides one timestamp and completes the commits.

Source: paper §3.2.2 (timestamping commit protocol); docs/transactions.md "Several lakes".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from slackwater.errors import CommitFailed, CommitUnknown, NotAuthorized, SlackwaterError, TimestampConflict
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import CommitResponse
from slackwater.owner.api.timestamp_range import TimestampRange, at_ms
from slackwater.owner.api.transactions import TransactionConflict, TransactionRequest, TransactionResponse, Vote

_log = logging.getLogger(__name__)


def commit_joined(
    requests: Mapping[str, TransactionRequest], owners: Mapping[str, CommitOwner], coordinator: CommitOwner
) -> TransactionResponse | TransactionConflict:
    """Commit all parts of one transaction, by owner id, with one timestamp, or commit none.

    Raises as `CommitOwner.commit_transaction`. The decision is final: a part not completed remains in doubt until
    `resolve`.
    """
    votes: dict[str, Vote] = {}
    try:
        for owner_id in sorted(requests):
            outcome = owners[owner_id].prepare(requests[owner_id], coordinator.owner_id)
            if isinstance(outcome, TransactionConflict):
                _give_up(requests, owners)
                return outcome
            votes[owner_id] = outcome
        timestamp_ms = _chosen(votes)
    except BaseException:
        _give_up(requests, owners)
        raise
    txn_id = next(iter(requests.values())).txn_id
    try:
        decided_ms = coordinator.decide(txn_id, timestamp_ms, sorted(votes))
    except SlackwaterError as error:
        raise CommitUnknown(
            f"transaction {txn_id}: the decision is unknown, because the coordinator does not report it: {error}. "
            "Run `slackwater lake repair`, or LogLake.repair with all its lakes open"
        ) from error
    if decided_ms is None:
        _give_up(requests, owners)
        raise CommitFailed(f"transaction {txn_id} took too long, so a waiting transaction had it aborted. Retry it")
    return _carried_out(txn_id, decided_ms, votes, owners, coordinator)


def resolve(owners: Sequence[CommitOwner]) -> list[str]:
    """Resolve the transactions in doubt at one of `owners`, if their coordinator is also one of `owners`.

    Return a text for each transaction. An undecided transaction is decided not to commit, so call this only for
    transactions of crashed clients.
    """
    by_id = {owner.owner_id: owner for owner in owners}
    done = []
    for owner in by_id.values():
        try:
            doubts = owner.in_doubt()
        except NotAuthorized as error:
            done.append(f"commit owner {owner.owner_id} did not report its transactions in doubt: {error}")
            continue
        for doubt in doubts:
            coordinator = by_id.get(doubt.coordinator_id)
            if coordinator is None:
                done.append(
                    f"transaction {doubt.txn_id} waits for the decision of commit owner {doubt.coordinator_id}. "
                    "Open its lake too, then repair again"
                )
                continue
            try:
                decided_ms = coordinator.decision(doubt.txn_id)
                owner.finish(doubt.txn_id, decided_ms)
                coordinator.acknowledge(doubt.txn_id, owner.owner_id)
            except NotAuthorized as error:
                done.append(f"transaction {doubt.txn_id} is still in doubt: {error}")
                continue
            how = "was aborted" if decided_ms is None else f"was committed at {at_ms(decided_ms).isoformat()}"
            done.append(f"transaction {doubt.txn_id} of a client that ended {how}")
    return done


def _chosen(votes: Mapping[str, Vote]) -> int:
    """Return the latest timestamp within all ranges up to the owners' clocks. Source: paper §3.2.2."""
    common = TimestampRange(
        max(vote.range.low_ms for vote in votes.values()), min(vote.range.high_ms for vote in votes.values())
    )
    if common.is_empty:
        raise TimestampConflict(
            f"one owner can commit the transaction only after {common.low_ms}, another only up to {common.high_ms} "
            "(ms since the epoch), so no timestamp fits both. Retry the transaction"
        )
    return common.choose(max(vote.now_ms for vote in votes.values()))


def _carried_out(
    txn_id: str, timestamp_ms: int, votes: Mapping[str, Vote], owners: Mapping[str, CommitOwner],
    coordinator: CommitOwner,
) -> TransactionResponse:  # fmt: skip
    commits: dict[str, CommitResponse] = {}
    for owner_id in sorted(votes):
        try:
            response = owners[owner_id].finish(txn_id, timestamp_ms)
            if response is not None:
                commits.update(response.commits)
            coordinator.acknowledge(txn_id, owner_id)
        except SlackwaterError as error:
            _log.warning(
                "transaction %s is committed, but commit owner %s does not know it yet: %s. Repair its lake", txn_id,
                owner_id, error,
            )  # fmt: skip
    return TransactionResponse(timestamp_ms, commits)


def _give_up(requests: Mapping[str, TransactionRequest], owners: Mapping[str, CommitOwner]) -> None:
    """Abort the transaction at all owners after no decision. An unreachable owner later requests the outcome."""
    txn_id = next(iter(requests.values())).txn_id
    for owner_id in requests:
        with suppress(SlackwaterError):
            owners[owner_id].finish(txn_id, None)
            owners[owner_id].end(txn_id)
