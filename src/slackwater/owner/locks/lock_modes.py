"""Lock modes of multi-granularity two-phase locking: compatibility and combination. No I/O.

A transaction with a lock on a granule has an intention lock on the table. Tables and granules therefore need no
comparison. Source: paper §3.1 (two-phase locking); docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from slackwater.owner.api.transactions import WHOLE, Item


class LockMode(str, Enum):
    """Mode of a lock: permitted access to an item, and permitted locks below it."""

    INTENT_SHARED = "IS"
    """The transaction locks granules of the table for reading."""
    INTENT_EXCLUSIVE = "IX"
    """The transaction locks granules of the table for reading or writing."""
    SHARED = "S"
    SHARED_INTENT_EXCLUSIVE = "SIX"
    """The transaction reads the whole table, and locks granules for writing."""
    EXCLUSIVE = "X"


_IS, _IX, _S, _SIX, _X = LockMode
# A mode is a set of rights: intend to read, intend to write, read, write.
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
    """Return whether two transactions may hold these modes of an item at the same time."""
    return other in _COMPATIBLE[one]


def compatible_with_all(modes: Iterable[LockMode]) -> frozenset[LockMode]:
    """Return the modes compatible with each of `modes`."""
    return frozenset(LockMode).intersection(*(_COMPATIBLE[mode] for mode in modes))


def join(one: LockMode | None, other: LockMode) -> LockMode:
    """Return the weakest mode with the rights of both. None has no rights."""
    return other if one is None else _OF_RIGHTS[_RIGHTS[one] | _RIGHTS[other]]


def intention(mode: LockMode) -> LockMode:
    """Return the table's intention mode for `mode` (shared or exclusive) of a granule."""
    return _IX if mode is _X else _IS


def covers(table: LockMode, granule: LockMode) -> bool:
    """Return whether `table`, the mode of a table, includes `granule` on all of its granules."""
    return join(table, granule) is table


def modes_for(items: Iterable[Item], mode: LockMode) -> dict[Item, LockMode]:
    """Return the lock modes for `mode` (shared or exclusive) of `items`, including their tables."""
    modes: dict[Item, LockMode] = {}
    for item in items:
        if item.granule != WHOLE:
            table = Item(item.table_id, WHOLE)
            modes[table] = join(modes.get(table), intention(mode))
        modes[item] = join(modes.get(item), mode)
    return modes


def joined(one: Mapping[Item, LockMode], other: Mapping[Item, LockMode]) -> dict[Item, LockMode]:
    """Return the combination of both sets of locks."""
    return {**one, **{item: join(one.get(item), mode) for item, mode in other.items()}}
