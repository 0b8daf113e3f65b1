"""Nothing lost, doubled or made up; own appends are seen; what was read is a beginning of the one final list."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from tests.histories.history import Append, Item, Outcome, PartitionRead, Read, TableRead, Transaction, Values
from tests.histories.recorded import RecordedHistory, shown
from tests.histories.violations import Kind, Violation


class ExternalRead(NamedTuple):
    """What a transaction saw of others in one item: the first `length` values of its final list.

    `is_absent` where the key was looked for by a whole read, and was not there.
    """

    item: Item
    length: int
    is_absent: bool


def final_violations(recorded: RecordedHistory) -> Iterator[Violation]:
    """What is wrong with the final lists: each has the appends of what committed, each once, and nothing else."""
    for item, values in recorded.final.items():
        if len(recorded.places[item]) != len(values):
            yield _doubled(recorded, item, values, "The final list")
        writers = recorded.writers.get(item, {})
        for value in values:
            writer = writers.get(value)
            if writer is None:
                yield Violation(
                    Kind.PHANTOM_VALUE, (), f"The final list of {shown(item)} has {value!r}, which nobody appended."
                )
            elif not recorded.counts[writer]:
                yield _aborted(recorded, item, value, writer, "The final list")
        for value, writer in writers.items():
            if recorded.counts[writer] and value not in recorded.places[item]:
                yield _lost(recorded, item, value, writer)
    for number, transaction in enumerate(recorded.transactions):
        if recorded.counts[number]:
            yield from _order_of_own(recorded, transaction)


def reads_of_others(
    recorded: RecordedHistory, number: int, violations: list[Violation], *, repeatable: bool
) -> list[ExternalRead]:
    """What a transaction read of others, each item once; reads that are no beginning of the final list are left out.

    Adds what is wrong with them to `violations`; a second, different answer only where `repeatable` is asked for.
    """
    transaction = recorded.transactions[number]
    final = recorded.final
    own_places = _places_of_own(recorded, transaction)
    own: dict[Item, list[Hashable]] = {}
    first: dict[Item, Values] = {}
    reads: list[ExternalRead] = []
    for operation in transaction.operations:
        if type(operation) is Append:
            own.setdefault(operation.item, []).append(operation.value)
            continue
        for item, seen, is_absent in _answers(recorded, operation, own, transaction, violations):
            mine = own.get(item)
            others = _without_own(transaction, item, seen, mine, violations) if mine else seen
            if item in first:
                if first[item] != others and repeatable:
                    violations.append(_unrepeatable(recorded, number, item, first[item], others))
                if first[item] == others:
                    continue
            first[item] = others
            length = len(others)
            if others and final.get(item, ())[:length] != others:
                violations.append(_unsound(recorded, number, item, others))
                continue
            if length > own_places.get(item, length):
                message = f"{recorded.name(number)} read {_list(others)} from {shown(item)} before it appended that."
                violations.append(Violation(Kind.OWN_FUTURE_SEEN, (transaction.id,), message))
                continue
            reads.append(ExternalRead(item, length, is_absent))
    return reads


def unsound_list(recorded: RecordedHistory, item: Item, values: Values, reader: str) -> Violation | None:
    """What is wrong with the values of a list that `reader` was answered, whatever their order: None where nothing."""
    if len(set(values)) != len(values):
        return _doubled(recorded, item, values, reader)
    writers = recorded.writers.get(item, {})
    for value in values:
        writer = writers.get(value)
        if writer is None:
            message = f"{reader} has {value!r} in {shown(item)}, which nobody appended."
            return Violation(Kind.PHANTOM_VALUE, (), message)
        if not recorded.counts[writer]:
            return _aborted(recorded, item, value, writer, reader)
    return None


def _places_of_own(recorded: RecordedHistory, transaction: Transaction) -> dict[Item, int]:
    """Where a transaction's first append to each item is in the final list."""
    places: dict[Item, int] = {}
    for operation in transaction.operations:
        if type(operation) is Append and operation.value in recorded.places[operation.item]:
            place = recorded.places[operation.item][operation.value]
            places[operation.item] = min(place, places.get(operation.item, place))
    return places


def _answers(
    recorded: RecordedHistory,
    operation: Read | TableRead | PartitionRead,
    own: dict[Item, list[Hashable]],
    transaction: Transaction,
    violations: list[Violation],
) -> Iterator[tuple[Item, Values, bool]]:
    """The lists that a read answered, those of the keys that it did not find among them."""
    if type(operation) is Read:
        yield operation.item, operation.values, False
        return
    lists = operation.lists
    if type(operation) is TableRead:
        inside = recorded.items_of_table.get(operation.table, ())
    else:
        inside = recorded.items_of_partition.get((operation.table, operation.partition), ())
    for item, values in lists.items():
        if item[0] != operation.table or (type(operation) is not TableRead and item[1] != operation.partition):
            place = operation.table if type(operation) is TableRead else f"{operation.table}/{operation.partition}"
            message = f"{transaction.id} read {place} and was answered {shown(item)}."
            violations.append(Violation(Kind.OUTSIDE_OF_READ, (transaction.id,), message))
        yield item, values, False
    for item in inside:
        if item not in lists:
            yield item, (), True


def _without_own(
    transaction: Transaction, item: Item, seen: Values, mine: list[Hashable], violations: list[Violation]
) -> Values:
    if seen[-len(mine) :] == tuple(mine):
        return seen[: -len(mine)]
    message = f"{transaction.id} appended {_list(mine)} to {shown(item)} and then read {_list(seen)}."
    violations.append(Violation(Kind.OWN_APPEND_UNSEEN, (transaction.id,), message))
    return tuple(value for value in seen if value not in mine)


def _unsound(recorded: RecordedHistory, number: int, item: Item, others: Values) -> Violation:
    """Why a read is no beginning of the final list."""
    reader, transaction = recorded.name(number), recorded.transactions[number]
    found = unsound_list(recorded, item, others, reader)
    if found is not None:
        return Violation(found.kind, tuple(dict.fromkeys((transaction.id, *found.transactions))), found.message)
    writers = recorded.writers[item]
    for value in others:
        if value not in recorded.places[item]:
            message = f"{reader} read {value!r} in {shown(item)}, which is not in its final list."
            return Violation(Kind.LOST_VALUE, recorded.ids((writers[value], number)), message)
    final = recorded.final[item]
    message = f"{reader} read {_list(others)} from {shown(item)}, which is no beginning of its final {_list(final)}."
    at = next(place for place, value in enumerate(others) if value != final[place])
    known = [writers[value] for value in (final[at], others[at]) if value in writers]
    return Violation(Kind.NOT_A_PREFIX, recorded.ids((number, *known)), message)


def _unrepeatable(recorded: RecordedHistory, number: int, item: Item, first: Values, second: Values) -> Violation:
    message = f"{recorded.name(number)} read {_list(first)} from {shown(item)} and later {_list(second)}."
    writers = recorded.writers.get(item, {})
    others = [writers[value] for value in (*first, *second) if value in {*first} ^ {*second} and value in writers]
    return Violation(Kind.UNREPEATABLE_READ, recorded.ids((number, *others)), message)


def _order_of_own(recorded: RecordedHistory, transaction: Transaction) -> Iterator[Violation]:
    last: dict[Item, int] = {}
    for operation in transaction.operations:
        if type(operation) is not Append:
            continue
        item = operation.item
        place = recorded.places[item].get(operation.value)
        if place is None:
            continue
        if place < last.get(item, -1):
            message = f"{transaction.id} appended {operation.value!r} to {shown(item)} after what follows it there."
            yield Violation(Kind.OWN_APPENDS_OUT_OF_ORDER, (transaction.id,), message)
        last[item] = place


def _lost(recorded: RecordedHistory, item: Item, value: object, writer: int) -> Violation:
    transaction = recorded.transactions[writer]
    lost = f"{value!r}, which {recorded.name(writer)} appended to {shown(item)}, is not in its final list"
    if transaction.outcome is Outcome.COMMITTED:
        return Violation(Kind.LOST_VALUE, (transaction.id,), f"{lost}.")
    return Violation(Kind.PARTIAL_VISIBILITY, (transaction.id,), f"{lost}, while another effect of it was seen.")


def _doubled(recorded: RecordedHistory, item: Item, values: Values, where: str) -> Violation:
    value = next(value for value in values if values.count(value) > 1)
    writer = recorded.writers.get(item, {}).get(value)
    message = f"{where} has {value!r} in {shown(item)} {values.count(value)} times."
    return Violation(Kind.DOUBLED_VALUE, () if writer is None else recorded.ids([writer]), message)


def _aborted(recorded: RecordedHistory, item: Item, value: object, writer: int, where: str) -> Violation:
    transaction = recorded.transactions[writer]
    state = "aborted" if transaction.outcome is Outcome.ABORTED else "did not commit"
    message = f"{where} has {value!r} in {shown(item)}, which {transaction.id} appended that {state}."
    return Violation(Kind.ABORTED_READ, (transaction.id,), message)


def _list(values: Values | list[Hashable]) -> str:
    return f"[{', '.join(map(repr, values))}]"
