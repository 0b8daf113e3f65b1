"""Ownership of transactions by tokens: requests with a token other than the opening token are rejected.

The database stores the token names. Every server of the owner knows them, also after a restart. A recreated token with
the same name is the same transaction owner.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite
from starlette.requests import Request

from slackwater.errors import NotAuthorized
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import decisions, locks, openers, prepared, promises, transactions
from slackwater.owner.served.access.permissions import Principal, Scope
from slackwater.owner.served.admission import granted_to
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.group_commit import GroupCommitQueue
from slackwater.owner.state.log_head import RATIFIED

P = ParamSpec("P")
T = TypeVar("T")

KEPT_MS = 600_000
"""Retention of the opening token for a transaction otherwise unknown to the owner."""

_FORGET_EVERY_MS = 60_000
_MOST_CACHED = 65_536

_OF_ANOTHER = "which was opened with another token"
_OF_NONE = "which was opened without a token"
_NOT_KNOWN = "which this commit owner does not know"

_TXN_IDS: sa.BindParameter[str] = sa.bindparam("txn_ids", expanding=True)
_KNOWN = sa.select(openers.c.txn_id, openers.c.token_name).where(openers.c.txn_id.in_(_TXN_IDS))
_OTHERS = (locks, promises, prepared, decisions)
_UNDER_WAY = sa.union(
    sa.select(transactions.c.txn_id).where(transactions.c.txn_id.in_(_TXN_IDS), transactions.c.state != RATIFIED),
    *(sa.select(each.c.txn_id).where(each.c.txn_id.in_(_TXN_IDS)) for each in _OTHERS),
)


def _is_under_way(txn_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.or_(
        sa.exists().where(transactions.c.txn_id == txn_id, transactions.c.state != RATIFIED),
        *(sa.exists().where(each.c.txn_id == txn_id) for each in _OTHERS),
    )


_NEW_ID = sa.cast(sa.bindparam("new_txn"), sa.String)
_NEW = sa.select(
    _NEW_ID, sa.cast(sa.bindparam("new_name"), sa.String), sa.cast(sa.bindparam("new_ms"), sa.BigInteger)
).where(~_is_under_way(_NEW_ID))
_COLUMNS = ("txn_id", "token_name", "seen_ms")
# One statement, because most transactions are new and each round trip costs time.
_OPEN = {
    "sqlite": sqlite.insert(openers).from_select(_COLUMNS, _NEW).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(openers).from_select(_COLUMNS, _NEW).on_conflict_do_nothing(),
}
_FORGET = sa.delete(openers).where(openers.c.seen_ms < sa.bindparam("before_ms"), ~_is_under_way(openers.c.txn_id))


class TransactionCall(Enum):
    """Effect of a request on a transaction."""

    WORK = "work"
    """The request continues the transaction. The first such request opens it."""
    END = "end"
    """The request ends the transaction, like a repair. A token with scope admin may do so."""
    ASK = "ask"
    """The request aborts an undecided transaction. For an unknown transaction only with scope admin."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A request of the token `name` for the transaction. With `opens`, it opens a transaction without an owner."""

    txn_id: str
    name: str
    opens: bool


@dataclass(frozen=True, slots=True)
class _Opener:
    """Opening token `name`, None without a token. `is_under_way`: a caller without a token opened the transaction."""

    name: str | None
    is_under_way: bool = False


class TransactionOwners:
    """Checks for each request that its caller opened the transaction. Thread-safe.

    Without a `database` there are no tokens, and every caller has full access.
    """

    def __init__(self, database: Database | None, clock: OwnerClock | None = None) -> None:
        self._database = database
        self._now_ms = (clock or OwnerClock()).now_ms
        self._look_up: GroupCommitQueue[_Question, _Opener] = GroupCommitQueue(self._answered)
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, str] = OrderedDict()
        self._forgot_ms = 0

    def guarded(self, request: Request, txn_id: str, step: TransactionCall, call: Callable[P, T]) -> Callable[P, T]:
        """Return `call` with a preceding `require` for the sender of `request`."""
        granted = granted_to(request)

        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            self.require(granted, txn_id, step)
            return call(*args, **kwargs)

        return checked

    def require(self, granted: Principal, txn_id: str, step: TransactionCall) -> None:
        """Check that the caller opened the transaction. Raises NotAuthorized, CommitOwnerUnavailable."""
        if self._database is None:
            return
        if step is not TransactionCall.WORK and granted.may_everywhere(Scope.ADMIN):
            return
        name = self._cached(txn_id)
        if name is None:
            opener = self._look_up(_Question(txn_id, granted.name, opens=step is not TransactionCall.ASK))
            if opener.name is None:
                raise _refused(granted, txn_id, _OF_NONE if opener.is_under_way else _NOT_KNOWN)
            name = opener.name
            self._remember(txn_id, name)
        if name != granted.name:
            raise _refused(granted, txn_id, _OF_ANOTHER)

    def _cached(self, txn_id: str) -> str | None:
        with self._lock:
            return self._cache.get(txn_id)

    def _remember(self, txn_id: str, name: str) -> None:
        with self._lock:
            self._cache[txn_id] = name
            self._cache.move_to_end(txn_id)
            if len(self._cache) > _MOST_CACHED:
                self._cache.popitem(last=False)

    def _answered(self, questions: Sequence[_Question]) -> list[_Opener]:
        assert self._database is not None  # noqa: S101  (`require` returns earlier without a database)
        # Not durable, because a power failure would also undo the transaction. Its durable parts are written later.
        return self._database.write(lambda c: self._found(c, questions), durable=False)

    def _found(self, connection: Connection, questions: Sequence[_Question]) -> list[_Opener]:
        self._open(connection, questions)
        txn_ids = sorted({question.txn_id for question in questions})
        known = _known(connection, txn_ids)
        missing = [txn_id for txn_id in txn_ids if txn_id not in known]
        under_way = set(connection.execute(_UNDER_WAY, {"txn_ids": missing}).scalars()) if missing else set()
        return [_Opener(known.get(q.txn_id), q.txn_id in under_way) for q in questions]

    def _open(self, connection: Connection, questions: Sequence[_Question]) -> None:
        now_ms = self._now_ms()
        # The first of several concurrent requests opens the transaction.
        names = {question.txn_id: question.name for question in reversed(questions) if question.opens}
        if not names:
            return
        rows = [{"new_txn": txn_id, "new_name": name, "new_ms": now_ms} for txn_id, name in sorted(names.items())]
        connection.execute(_OPEN[connection.dialect.name], rows)
        if now_ms - self._forgot_ms >= _FORGET_EVERY_MS:
            self._forgot_ms = now_ms
            connection.execute(_FORGET, {"before_ms": now_ms - KEPT_MS})


def _known(connection: Connection, txn_ids: Sequence[str]) -> dict[str, str]:
    return {row.txn_id: row.token_name for row in connection.execute(_KNOWN, {"txn_ids": txn_ids})}


def _refused(granted: Principal, txn_id: str, why: str) -> NotAuthorized:
    return NotAuthorized(
        f"the token {granted.name!r} cannot use transaction {txn_id}, {why}. Use the token that opened it. A token "
        "with the scope 'admin' may end it"
    )
