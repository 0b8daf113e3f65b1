"""A history made ready to be checked: who wrote what, which transactions count as committed, and their timestamps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable

from tests.histories.history import Append, History, Item, Outcome, Read, Transaction, Values


class RecordedHistory:
    """A history with its look-ups; transactions are known by their position in it.

    `final` has every item that was ever written or left; `places` the place of each value in it (the last one, were it
    there twice); `writers` who appended each value. `counts` tells whose commit others may rely on: the committed, and
    the unknown of which a version is in a log or a value was seen. `timestamps_ms` are told, or else those of its
    versions, or else what its rows carry; None where neither is known, and where it does not count.

    Raises ValueError where the record contradicts itself: ids or values that are not unique, an end before its begin.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.transactions = history.transactions
        self.final: dict[Item, Values] = dict(history.final)
        self.writers: dict[Item, dict[Hashable, int]] = defaultdict(dict)
        self.unknown_appends: dict[Item, dict[Hashable, int]] = defaultdict(dict)
        self._take_appends()
        for item in self.writers:
            self.final.setdefault(item, ())
        self.places: dict[Item, dict[Hashable, int]] = {
            item: {value: place for place, value in enumerate(values)} for item, values in self.final.items()
        }
        self.items_of_table: dict[str, list[Item]] = defaultdict(list)
        self.items_of_partition: dict[tuple[str, Hashable], list[Item]] = defaultdict(list)
        for item in self.final:
            self.items_of_table[item[0]].append(item)
            self.items_of_partition[item[0], item[1]].append(item)
        self.counts = [transaction.outcome is Outcome.COMMITTED for transaction in self.transactions]
        for number in self._seen_of_unknown_outcome():
            self.counts[number] = True
        self.timestamps_ms = [
            self._timestamp_of(transaction) if counts else None
            for transaction, counts in zip(self.transactions, self.counts, strict=True)
        ]

    def name(self, number: int) -> str:
        """A transaction as messages name it: its id and its commit timestamp, where that is known."""
        stamp = self.timestamps_ms[number]
        identity = self.transactions[number].id
        return identity if stamp is None else f"{identity} (t={stamp})"

    def ids(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """The ids of transactions, each once."""
        return tuple(dict.fromkeys(self.transactions[number].id for number in numbers))

    def _take_appends(self) -> None:
        for identity, times in Counter(transaction.id for transaction in self.transactions).items():
            if times > 1:
                raise ValueError(f"{times} transactions of the history have the id {identity}")
        for number, transaction in enumerate(self.transactions):
            if transaction.end < transaction.begin:
                raise ValueError(f"transaction {transaction.id} ends before it begins")
            is_unknown = transaction.outcome is Outcome.UNKNOWN
            for operation in transaction.operations:
                if type(operation) is not Append:
                    continue
                if operation.value in self.writers[operation.item]:
                    raise ValueError(f"{operation.value!r} is appended to {shown(operation.item)} more than once")
                self.writers[operation.item][operation.value] = number
                if is_unknown:
                    self.unknown_appends[operation.item][operation.value] = number

    def _timestamp_of(self, transaction: Transaction) -> int | None:
        if transaction.commit_timestamp_ms is not None:
            return transaction.commit_timestamp_ms
        logs = self.history.logs
        logged = {logs.get(table, {}).get(version) for table, version in transaction.versions.items()} - {None}
        stamps = logged or set(transaction.row_timestamps_ms)
        return stamps.pop() if len(stamps) == 1 else None

    def _seen_of_unknown_outcome(self) -> set[int]:
        """The transactions of unknown outcome that did commit: a version of theirs, or a value, is there."""
        seen = {
            number
            for number, transaction in enumerate(self.transactions)
            if transaction.outcome is Outcome.UNKNOWN and transaction.versions
        }
        missing: dict[Item, dict[Hashable, int]] = {}
        for item, appends in self.unknown_appends.items():
            seen.update(number for value, number in appends.items() if value in self.places[item])
            rest = {value: number for value, number in appends.items() if value not in self.places[item]}
            if rest:
                missing[item] = rest
        if missing:
            for number, item, values in self._answers():
                if item in missing:
                    appends = missing[item]
                    seen.update(appends[value] for value in appends.keys() & values if appends[value] != number)
        return seen

    def _answers(self) -> Iterable[tuple[int | None, Item, Values]]:
        """Every list that somebody was answered, with who it was: a transaction, or None for a time slice."""
        for number, transaction in enumerate(self.transactions):
            for operation in transaction.operations:
                if type(operation) is Read:
                    yield number, operation.item, operation.values
                elif type(operation) is not Append:
                    for item, values in operation.lists.items():
                        yield number, item, values
        for answer in self.history.slices:
            for item, values in answer.lists.items():
                yield None, item, values


def shown(item: Item) -> str:
    """An item as messages name it: table/partition/key, without the partition where there is none."""
    table, partition, key = item
    return f"{table}/{key}" if partition is None else f"{table}/{partition}/{key}"
