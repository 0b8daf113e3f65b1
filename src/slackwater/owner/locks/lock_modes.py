"""The modes of two-phase locking with intentions: which go together, and what two of them come to. No I/O.

A transaction that locks a granule of a table has an intention lock on the table, so that tables and granules need not
be compared. Source: paper §3.1 (two-phase locking); docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from slackwater.owner.api.transactions import WHOLE, Item


class LockMode(str, Enum):
    """What a transaction may do with an item, and what it may lock below it."""

    INTENT_SHARED = "IS"
    """It locks granules of the table, to read them."""
    INTENT_EXCLUSIVE = "IX"
    """It locks granules of the table, to read or write them."""
    SHARED = "S"
    SHARED_INTENT_EXCLUSIVE = "SIX"
    """It reads the whole table, and locks granules of it to write them."""
    EXCLUSIVE = "X"


_IS, _IX, _S, _SIX, _X = LockMode
# A mode is the set of its rights: to intend reading, to intend writing, to read, to write.
_RIGHTS = {_IS: 0b0001, _IX: 0b0011, _S: 0b0101, _SIX: 0b0111, _X: 0b1111}
_OF_RIGHTS = {rights: mode for mode, rights in _RIGHTS.items()}
_COMPATIBLE = {
    _IS: frozenset({_IS, _IX, _S, _SIX}),
    _IX: frozenset({_IS, _IX}),
    _S: frozenset({_IS, _S}),
    _SIX: frozenset({_IS}),
    _X: frozenset(),
}


def are_compatible(one: LockMode, other: LockMode) -> bool:
    """Whether two transactions may hold these modes of an item at once."""
    return other in _COMPATIBLE[one]


def join(one: LockMode | None, other: LockMode) -> LockMode:
    """The weakest mode that allows all that both allow; None is none."""
    return other if one is None else _OF_RIGHTS[_RIGHTS[one] | _RIGHTS[other]]


def intention(mode: LockMode) -> LockMode:
    """What `mode` of a granule, shared or exclusive, means for its table."""
    return _IX if mode is _X else _IS


def covers(table: LockMode, granule: LockMode) -> bool:
    """Whether a transaction with `table` of a table need not lock its granules to have `granule` of each."""
    return join(table, granule) is table


def modes_for(items: Iterable[Item], mode: LockMode) -> dict[Item, LockMode]:
    """What has to be locked for `mode`, shared or exclusive, of each of `items`: them, and their tables."""
    modes: dict[Item, LockMode] = {}
    for item in items:
        if item.granule != WHOLE:
            table = Item(item.table_id, WHOLE)
            modes[table] = join(modes.get(table), intention(mode))
        modes[item] = join(modes.get(item), mode)
    return modes


def joined(one: Mapping[Item, LockMode], other: Mapping[Item, LockMode]) -> dict[Item, LockMode]:
    """What has to be locked for both."""
    return {**one, **{item: join(one.get(item), mode) for item, mode in other.items()}}
