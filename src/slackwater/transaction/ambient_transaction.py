"""Which transaction over many tables is open here: they do not nest, and its lakes' tables are reached through it.

Here is where the `with` block runs: its thread, or its task, and what is run in a copy of their context
(`asyncio.to_thread`). Of a thread that is started inside, it is not known whose work it does.
"""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from typing import Protocol

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.protocol.features.managed_commits import OWNER_NAME, CommitOwnerConfig


class AmbientTransaction(Protocol):
    """What others need to know of a transaction."""

    @property
    def is_open(self) -> bool:
        """Whether it has neither committed nor been rolled back."""
        ...

    @property
    def owner_ids(self) -> Collection[str]:
        """The owners of the lakes that take part."""
        ...


_open: ContextVar[AmbientTransaction | None] = ContextVar("slackwater_transaction", default=None)


def enter(transaction: AmbientTransaction) -> None:
    """Let it be the one that is open here. Raises InvalidArgument where another one is."""
    if _opened() is not None:
        raise InvalidArgument(
            "a transaction is open in this thread already: transactions do not nest; use that one, or end it first"
        )
    _open.set(transaction)


def leave(transaction: AmbientTransaction) -> None:
    """Let none be open, if it was this one."""
    if _open.get() is transaction:
        _open.set(None)


def is_within() -> bool:
    """Whether a transaction is open here."""
    return _opened() is not None


def require_not_past(ownership: CommitOwnerConfig | None, where: str) -> None:
    """Let pass what goes by path to a table that the open transaction has nothing to do with.

    Raises OperationNotAllowed for a table of its lakes: what is written past the transaction counts at once and is not
    rolled back, and what is read past it is not of its state, and not looked at when it commits.
    """
    transaction = _opened()
    if transaction is None or ownership is None or ownership.name != OWNER_NAME:
        return
    if ownership.owner_id in transaction.owner_ids:
        raise OperationNotAllowed(
            f"{where} is a table of the lake whose transaction is open here, and this would go past the transaction: "
            "use tx.table(name), or do it before or after the block"
        )


def _opened() -> AmbientTransaction | None:
    found = _open.get()
    # One that ended in another context is none.
    return found if found is not None and found.is_open else None
