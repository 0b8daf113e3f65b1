"""Two-phase locking in the model: shared and exclusive locks on granules, first come first served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeAlias, TypeVar

from benchmarks.timestamp_workload import Access

Key = TypeVar("Key", bound=Hashable)
_Item: TypeAlias = tuple[int, int]


class Locks(Generic[Key]):
    """Who may access which partitions; a table as a whole is all of its `partitions`."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._held: dict[_Item, dict[Key, bool]] = defaultdict(dict)
        self._items_of: dict[Key, set[_Item]] = defaultdict(set)
        self._wanted: dict[Key, dict[_Item, bool]] = {}

    def blockers(self, owner: Key, accesses: Sequence[Access]) -> set[Key]:
        """Who stands in the way of `accesses`, also those who have waited for longer; `owner` waits if anybody does."""
        mine = self._wanted.get(owner) or self._modes(accesses)
        found: set[Key] = set()
        for item, is_exclusive in mine.items():
            found.update(other for other, theirs in self._held[item].items() if is_exclusive or theirs)
        for other, theirs in self._wanted.items():
            if other == owner:
                break
            if any(item in theirs and (is_exclusive or theirs[item]) for item, is_exclusive in mine.items()):
                found.add(other)
        found.discard(owner)
        if found:
            self._wanted.setdefault(owner, mine)
        return found

    def grant(self, owner: Key, accesses: Sequence[Access]) -> None:
        """`accesses` are the owner's until it is released."""
        self._wanted.pop(owner, None)
        for item, is_exclusive in self._modes(accesses).items():
            self._held[item][owner] = is_exclusive or self._held[item].get(owner, False)
            self._items_of[owner].add(item)

    def release(self, owner: Key) -> None:
        """Its locks are free, and it waits for none."""
        self._wanted.pop(owner, None)
        for item in self._items_of.pop(owner, ()):
            del self._held[item][owner]

    def _modes(self, accesses: Sequence[Access]) -> dict[_Item, bool]:
        """Each partition, and whether exclusively."""
        return {
            (access.granule.table, partition): access.writes
            for access in accesses
            for partition in (
                range(self._partitions) if access.granule.partition is None else (access.granule.partition,)
            )
        }


def closes_cycle(start: Key, blockers_of: Callable[[Key], set[Key]]) -> bool:
    """Whether `start` waits for itself."""
    seen: set[Key] = set()
    left = [start]
    while left:
        for blocker in blockers_of(left.pop()):
            if blocker == start:
                return True
            if blocker not in seen:
                seen.add(blocker)
                left.append(blocker)
    return False
