"""Histories of a correct system: a serial execution whose transactions begin and end about each other."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from random import Random

from tests.histories.history import (
    Append,
    AsOf,
    Batch,
    History,
    Item,
    Operation,
    Outcome,
    PartitionRead,
    Read,
    Stream,
    TableRead,
    Transaction,
    Values,
)

DAY_MS = 50  # what a coarse precision is to these small times
_STEP = 10  # of the real-time axis, from one serial point to the next


@dataclass(slots=True)
class _Run:
    """A serial execution so far: lists, logs, and the points of the real-time axis at which commits came."""

    random: Random
    items: list[Item]
    stamp_ms: int = 1000
    lists: dict[Item, Values] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    logs: dict[str, dict[int, int]] = field(default_factory=dict)
    commits: list[tuple[int, int, dict[Item, Values]]] = field(default_factory=list)
    busy_until: list[int] = field(default_factory=list)
    values: itertools.count[int] = field(default_factory=itertools.count)
    transactions: list[Transaction] = field(default_factory=list)
    batches: dict[str, int] = field(default_factory=lambda: {"query0": 0, "query1": 0})


def clean_history(
    random: Random, transactions: int, *, tables: int = 2, keys: int = 3, concurrency: int = 4
) -> History:
    """A history in which nothing is wrong, every kind of operation, outcome and record in it.

    Tables have two partitions of `keys` keys each. About `concurrency` transactions are open at a time.
    """
    names = [f"table{number}" for number in range(tables)]
    run = _Run(random, [Item(name, part, key) for name in names for part in "pq" for key in range(keys)])
    run.logs = {name: {0: run.stamp_ms} for name in names}
    for number in range(transactions):
        _one_transaction(run, number, concurrency)
    order = list(run.transactions)
    random.shuffle(order)
    slices = tuple(_one_slice(run, number) for number in range(transactions // 4))
    # What the last batch landed as, its checkpoint may not know yet.
    streams = tuple(
        Stream(query, frozenset(names[:1]), frozenset(range(landed - random.randrange(2))))
        for query, landed in run.batches.items()
    )
    return History(tuple(order), dict(run.lists), slices, run.logs, streams)


def _one_transaction(run: _Run, number: int, concurrency: int) -> None:
    random = run.random
    outcome = random.choices(list(Outcome), [8, 1, 1])[0]
    lands = outcome is Outcome.COMMITTED or (outcome is Outcome.UNKNOWN and random.random() < 0.5)
    point = (number + 1) * _STEP
    begin = point - random.randrange(1, _STEP * concurrency)
    end = point + random.randrange(1, _STEP * concurrency)
    operations, mine = _operations(run, f"t{number}")
    touched = {item.table for item in mine}
    last_ms = max((stamp for at, stamp, _ in run.commits if at < begin), default=run.stamp_ms)
    stamp_ms: int | None = None
    versions: dict[str, int] = {}
    if lands:
        stamp_ms = run.stamp_ms = run.stamp_ms + random.randrange(1, 4)
        for table in touched:
            versions[table] = len(run.logs[table])
            run.logs[table][versions[table]] = stamp_ms
        run.lists.update({item: run.lists.get(item, ()) + tuple(values) for item, values in mine.items()})
        run.commits.append((point, stamp_ms, dict(run.lists)))
    is_told = outcome is Outcome.COMMITTED and (touched or random.random() < 0.7)
    is_stamped = random.random() < 0.4
    batch = _batch(run, touched, lands)
    first_ms = None if stamp_ms is None else stamp_ms - stamp_ms % DAY_MS
    client = _client(run, begin, end)
    run.transactions.append(
        Transaction(
            f"t{number}",
            f"client{client}",
            number,
            begin,
            end,
            outcome,
            operations,
            commit_timestamp_ms=stamp_ms if is_told else None,
            row_timestamps_ms=(stamp_ms,) if is_stamped and touched and stamp_ms is not None else (),
            asked=((first_ms, first_ms + DAY_MS),) if first_ms is not None and random.random() < 0.3 else (),
            versions=versions if outcome is Outcome.COMMITTED or batch or random.random() < 0.5 else {},
            owner_time_ms=last_ms if random.random() < 0.8 else None,
            batch=batch,
        )
    )


def _batch(run: _Run, touched: set[str], lands: bool) -> Batch | None:
    """What a transaction is an attempt at: a micro-batch is tried until it lands, and then the next one is."""
    if min(run.logs) not in touched or run.random.random() < 0.5:
        return None
    query = run.random.choice(sorted(run.batches))
    number = run.batches[query]
    run.batches[query] += lands
    return Batch(query, number)


def _operations(run: _Run, name: str) -> tuple[tuple[Operation, ...], dict[Item, list[str]]]:
    """What a transaction does to the lists as they are, and what it appends."""
    random = run.random
    mine: dict[Item, list[str]] = {}
    operations: list[Operation] = []

    def lists() -> dict[Item, Values]:
        seen = {item: run.lists.get(item, ()) + tuple(mine.get(item, ())) for item in run.items}
        return {item: values for item, values in seen.items() if values or random.random() < 0.2}

    for _ in range(random.randrange(1, 6)):
        item = random.choice(run.items)
        kind = random.choices(["append", "read", "table", "partition"], [6, 6, 1, 1])[0]
        if kind == "append":
            mine.setdefault(item, []).append(f"{name}.{next(run.values)}")
            operations.append(Append(item, mine[item][-1]))
        elif kind == "read":
            operations.append(Read(item, run.lists.get(item, ()) + tuple(mine.get(item, ()))))
        elif kind == "table":
            inside = {key: values for key, values in lists().items() if key.table == item.table}
            operations.append(TableRead(item.table, inside))
        else:
            inside = {key: values for key, values in lists().items() if key[:2] == item[:2]}
            operations.append(PartitionRead(item.table, item.partition, inside))
    return tuple(operations), mine


def _client(run: _Run, begin: int, end: int) -> int:
    """A client whose transactions so far had ended before `begin`."""
    for client, until in enumerate(run.busy_until):
        if until < begin:
            run.busy_until[client] = end
            return client
    run.busy_until.append(end)
    return len(run.busy_until) - 1


def _one_slice(run: _Run, number: int) -> AsOf:
    """The state as of an instant, asked at some time after the last commit that is in it."""
    at_ms = run.random.randrange(1000, run.stamp_ms + 2)
    point, state = max(((at, lists) for at, stamp, lists in run.commits if stamp <= at_ms), default=(0, {}), key=_first)
    begin = point + run.random.randrange(1, 100)
    return AsOf(f"slice{number}", at_ms, begin, begin + run.random.randrange(1, 20), state)


def _first(pair: tuple[int, object]) -> int:
    return pair[0]
