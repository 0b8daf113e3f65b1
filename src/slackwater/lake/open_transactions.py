"""Which transaction is open in a thread: they do not nest."""

from __future__ import annotations

import threading

from slackwater.errors import InvalidArgument

_open = threading.local()


def enter(transaction: object) -> None:
    """Let it be the one that is open in this thread. Raises InvalidArgument where another one is."""
    if getattr(_open, "transaction", None) is not None:
        raise InvalidArgument(
            "a transaction is open in this thread already: transactions do not nest; use that one, or end it first"
        )
    _open.transaction = transaction


def leave(transaction: object) -> None:
    """Let none be open, if it was this one."""
    if getattr(_open, "transaction", None) is transaction:
        _open.transaction = None
