"""The multi-table transaction of the current context. Transactions do not nest.

Code in the context must access the tables of the transaction's lakes through the transaction. The context is the thread
or the task of the `with` block, and code run in a copy of their context (`asyncio.to_thread`). Work of a thread started
inside the block is not attributed to the transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from typing import Protocol

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.protocol.features.managed_commits import OWNER_NAME, CommitOwnerConfig


class AmbientTransaction(Protocol):
    """The properties of a multi-table transaction that path-based access checks."""

    @property
    def is_open(self) -> bool:
        """Return whether the transaction was neither committed nor rolled back."""
        ...

    @property
    def owner_ids(self) -> Collection[str]:
        """The ids of the commit owners of the participating lakes."""
        ...


_open: ContextVar[AmbientTransaction | None] = ContextVar("slackwater_transaction", default=None)


def enter(transaction: AmbientTransaction) -> None:
    """Make `transaction` the open transaction of this context.

    Raises InvalidArgument if another transaction is open.
    """
    if _opened() is not None:
        raise InvalidArgument(
            "a transaction is already open in this thread, and transactions do not nest. Use that one, or end it first"
        )
    _open.set(transaction)


def leave(transaction: AmbientTransaction) -> None:
    """Clear the open transaction of this context if `transaction` is the open one."""
    if _open.get() is transaction:
        _open.set(None)


def is_within() -> bool:
    """Return whether a transaction is open in this context."""
    return _opened() is not None


def require_not_past(ownership: CommitOwnerConfig | None, where: str) -> None:
    """Raise OperationNotAllowed if the table belongs to a lake of the open transaction.

    Access by path bypasses the transaction. A write that bypasses the transaction is committed immediately and is not
    rolled back. A read that bypasses the transaction uses another state, and the commit does not validate the read.
    `where` names the table in the message.
    """
    transaction = _opened()
    if transaction is None or ownership is None or ownership.name != OWNER_NAME:
        return
    if ownership.owner_id in transaction.owner_ids:
        raise OperationNotAllowed(
            f"{where} is a table of the lake whose transaction is open here, and this access would bypass the "
            "transaction. Use tx.table(name), or do it before or after the block"
        )


def _opened() -> AmbientTransaction | None:
    found = _open.get()
    # A transaction that ended in another context is ignored.
    return found if found is not None and found.is_open else None
