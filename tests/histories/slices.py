"""A time slice is exactly what had committed by its instant, whenever it is asked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterator
from typing import cast

from tests.histories.history import AsOf, Item, Values
from tests.histories.integrity import unsound_list
from tests.histories.recorded import RecordedHistory, shown
from tests.histories.violations import Kind, Violation


def slice_violations(recorded: RecordedHistory) -> Iterator[Violation]:
    """Every time slice has exactly the appends of timestamps up to its instant, and equals those of the same instant.

    Of transactions whose timestamp is not known it may have any.
    """
    stamps = {item: _stamps_of(recorded, item) for item in recorded.final}
    first: dict[int, list[AsOf]] = {}
    for answer in recorded.history.slices:
        yield from _wrong_lists(recorded, answer, stamps)
        others = first.setdefault(answer.at_ms, [])
        for other in others:
            yield from _changed(recorded, other, answer)
        if all(other.tables != answer.tables for other in others):
            others.append(answer)


def _stamps_of(recorded: RecordedHistory, item: Item) -> list[int] | None:
    """The timestamps of the final list's values, where all are known and rise; else None."""
    writers = recorded.writers.get(item, {})
    stamps = [recorded.timestamps_ms[writers[value]] if value in writers else None for value in recorded.final[item]]
    known = [stamp for stamp in stamps if stamp is not None]
    return known if len(known) == len(stamps) and known == sorted(known) else None


def _wrong_lists(recorded: RecordedHistory, answer: AsOf, stamps: dict[Item, list[int] | None]) -> Iterator[Violation]:
    known_ms = recorded.timestamps_ms
    for item in {**recorded.final, **answer.lists}:
        found = answer.lists.get(item, ())
        if answer.tables is not None and item[0] not in answer.tables:
            continue
        rising = stamps.get(item)
        if rising is not None:
            if found == recorded.final[item][: bisect_right(rising, answer.at_ms)]:
                continue
            loose: Collection[Hashable] = ()
        else:
            loose = _without_timestamp(recorded, item)
        expected = tuple(
            value
            for value in recorded.final.get(item, ())
            if value not in loose and cast("int", known_ms[recorded.writers[item][value]]) <= answer.at_ms
        )
        if tuple(value for value in found if value not in loose) != expected or len(set(found)) != len(found):
            yield _wrong(recorded, answer, item, found, expected)


def _without_timestamp(recorded: RecordedHistory, item: Item) -> set[Hashable]:
    """The values of a list that may be in a time slice or not, for all that is known."""
    writers, stamps = recorded.writers.get(item, {}), recorded.timestamps_ms
    unstamped = {value for value, writer in writers.items() if stamps[writer] is None and recorded.counts[writer]}
    final = recorded.final.get(item, ())
    return unstamped | {value for value in final if value not in writers or stamps[writers[value]] is None}


def _wrong(recorded: RecordedHistory, answer: AsOf, item: Item, found: Values, expected: Values) -> Violation:
    name = f"The time slice {answer.id} as of {answer.at_ms}"
    unsound = unsound_list(recorded, item, found, name)
    if unsound is not None:
        return Violation(unsound.kind, unsound.transactions, unsound.message, (answer.id,))
    writers = recorded.writers.get(item, {})
    missing = [value for value in expected if value not in found]
    extra = [value for value in found if value not in expected]
    concerned = [writers[value] for value in (*missing, *extra)] or [writers[value] for value in found]
    names = ", ".join(dict.fromkeys(map(recorded.name, concerned)))
    if missing:
        message = f"{name} lacks in {shown(item)} what was appended by {names}."
    elif extra:
        message = f"{name} has in {shown(item)} what was appended by {names}."
    else:
        message = f"{name} has in {shown(item)} the values of {names} in another order."
    return Violation(Kind.SLICE_WRONG, recorded.ids(concerned), message, (answer.id,))


def _changed(recorded: RecordedHistory, earlier: AsOf, later: AsOf) -> Iterator[Violation]:
    """The first list in which two answers for one instant differ."""
    for item in {**earlier.lists, **later.lists}:
        if any(answer.tables is not None and item[0] not in answer.tables for answer in (earlier, later)):
            continue
        one, other = earlier.lists.get(item, ()), later.lists.get(item, ())
        if one != other:
            writers = recorded.writers.get(item, {})
            changed = [writers[value] for value in (*one, *other) if value in {*one} ^ {*other} and value in writers]
            message = (
                f"As of {earlier.at_ms}, {earlier.id} answered {list(one)} for {shown(item)}, "
                f"and {later.id} answered {list(other)}."
            )
            yield Violation(Kind.SLICE_CHANGED, recorded.ids(changed), message, (earlier.id, later.id))
            return
