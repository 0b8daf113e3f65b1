"""Nothing is found in clean histories, something in each that is spoilt, and brute force comes to the same verdicts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.histories.checker import check, dependencies, require_clean
from tests.histories.generated import clean_history
from tests.histories.history import (
    Append,
    Batch,
    History,
    Item,
    Operation,
    Outcome,
    PartitionRead,
    Read,
    TableRead,
    Transaction,
    Values,
)
from tests.histories.violations import Kind

SEEDS = st.integers(0, 2**32)
Spoil = Callable[[History, Random], "History | None"]


@given(SEEDS, st.integers(1, 60), st.integers(1, 3), st.integers(1, 4), st.integers(1, 8))
def test_nothing_is_found_in_a_clean_history(seed: int, count: int, tables: int, keys: int, concurrency: int) -> None:
    clean = clean_history(Random(seed), count, tables=tables, keys=keys, concurrency=concurrency)  # noqa: S311
    require_clean(clean)
    require_clean(clean, opaque=True)


def swap_timestamps_of_conflicting(history: History, random: Random) -> History | None:
    by_id = _by_id(history)
    edges = [e for e in dependencies(history) if all(by_id[name].commit_timestamp_ms is not None for name in e[:2])]
    if not edges:
        return None
    one, other = (by_id[name] for name in random.choice(edges)[:2])
    one_ms, other_ms = one.commit_timestamp_ms, other.commit_timestamp_ms
    return _with(_with(history, replace(one, commit_timestamp_ms=other_ms)), replace(other, commit_timestamp_ms=one_ms))


def equal_timestamps_of_conflicting(history: History, random: Random) -> History | None:
    by_id = _by_id(history)
    edges = [e for e in dependencies(history) if all(by_id[name].commit_timestamp_ms is not None for name in e[:2])]
    if not edges:
        return None
    one, other = (by_id[name] for name in random.choice(edges)[:2])
    return _with(history, replace(one, commit_timestamp_ms=other.commit_timestamp_ms))


def drop_a_value(history: History, random: Random) -> History | None:
    places = [(item, at) for item, values in history.final.items() for at in range(len(values))]
    committed = {(op.item, op.value) for t in _committed(history) for op in t.operations if isinstance(op, Append)}
    places = [(item, at) for item, at in places if (item, history.final[item][at]) in committed]
    if not places:
        return None
    item, at = random.choice(places)
    values = history.final[item]
    return replace(history, final={**history.final, item: values[:at] + values[at + 1 :]})


def double_a_value(history: History, random: Random) -> History | None:
    lists = [item for item, values in history.final.items() if values]
    if not lists:
        return None
    item = random.choice(lists)
    values = history.final[item]
    at = random.randrange(len(values) + 1)
    return replace(history, final={**history.final, item: (*values[:at], random.choice(values), *values[at:])})


def swap_neighbours(history: History, random: Random) -> History | None:
    lists = [item for item, values in history.final.items() if len(values) > 1]
    told = {
        (op.item, op.value)
        for t in _committed(history)
        if t.commit_timestamp_ms is not None
        for op in t.operations
        if isinstance(op, Append)
    }
    places = [
        (item, at)
        for item in lists
        for at in range(len(history.final[item]) - 1)
        if all((item, value) in told for value in history.final[item][at : at + 2])
    ]
    if not places:
        return None
    item, at = random.choice(places)
    values = list(history.final[item])
    values[at], values[at + 1] = values[at + 1], values[at]
    return replace(history, final={**history.final, item: tuple(values)})


def abort_a_writer(history: History, random: Random) -> History | None:
    writers = [t for t in _committed(history) if any(isinstance(op, Append) for op in t.operations)]
    return _with(history, replace(random.choice(writers), outcome=Outcome.ABORTED)) if writers else None


def read_less(history: History, random: Random) -> History | None:
    """The last of what was read is missing: of own appends, or of what came before in time."""
    by_id = _by_id(history)
    writers = {(op.item, op.value): t.id for t in by_id.values() for op in t.operations if isinstance(op, Append)}

    def is_found(reader: Transaction, item: Item, values: Values) -> bool:
        writer = by_id[writers[item, values[-1]]]
        stamped = reader.commit_timestamp_ms is not None and writer.commit_timestamp_ms is not None
        return writer is reader or stamped

    return _with_read(history, random, is_found, lambda values: values[:-1])


def read_a_made_up_value(history: History, random: Random) -> History | None:
    return _with_read(history, random, lambda *_: True, lambda values: (*values, "made up"))


def read_with_a_hole(history: History, random: Random) -> History | None:
    return _with_read(history, random, lambda _, __, values: len(values) > 1, lambda values: values[1:])


def miss_a_key(history: History, random: Random) -> History | None:
    """A whole read finds no row of a key that was there in its reader's past."""
    by_id = _by_id(history)
    first = {(op.item, op.value): t for t in by_id.values() for op in t.operations if isinstance(op, Append)}
    choices = [
        (t, at, item)
        for t in _committed(history)
        for at, op in enumerate(t.operations)
        if isinstance(op, TableRead | PartitionRead)
        for item, values in op.lists.items()
        if values and t.commit_timestamp_ms is not None
        if first[item, values[0]] is t or first[item, values[0]].commit_timestamp_ms is not None
    ]
    if not choices:
        return None
    reader, at, item = random.choice(choices)
    read = reader.operations[at]
    assert isinstance(read, TableRead | PartitionRead)
    lists = {key: values for key, values in read.lists.items() if key != item}
    return _with(history, _with_operation(reader, at, replace(read, lists=lists)))


def stamp_rows_otherwise(history: History, random: Random) -> History | None:
    stamped = [t for t in _committed(history) if t.row_timestamps_ms]
    if not stamped:
        return None
    one = random.choice(stamped)
    return _with(history, replace(one, row_timestamps_ms=(one.row_timestamps_ms[0] + random.choice([-1, 1]),)))


def ask_for_another_day(history: History, random: Random) -> History | None:
    asked = [t for t in _committed(history) if t.asked and t.commit_timestamp_ms is not None]
    if not asked:
        return None
    one = random.choice(asked)
    first, end = one.asked[0]
    return _with(history, replace(one, asked=((first - 50, end - 50), *one.asked)))


def begin_after_a_later_one(history: History, random: Random) -> History | None:
    stamped = [t for t in _committed(history) if t.commit_timestamp_ms is not None]
    pairs = [
        (one, later) for one, later in itertools.permutations(stamped, 2) if _timestamp_ms(one) < _timestamp_ms(later)
    ]
    if not pairs:
        return None
    one, later = random.choice(pairs)
    return _with(history, replace(one, begin=later.end + 1, end=later.end + 2, client="alone"))


def begin_at_a_later_time(history: History, random: Random) -> History | None:
    stamped = [t for t in _committed(history) if t.commit_timestamp_ms is not None]
    if not stamped:
        return None
    one = random.choice(stamped)
    return _with(history, replace(one, owner_time_ms=_timestamp_ms(one) + 1))


def carry_another_timestamp_in_one_table(history: History, random: Random) -> History | None:
    commits = [(t, table) for t in _committed(history) for table in t.versions]
    if not commits:
        return None
    one, table = random.choice(commits)
    log = {**history.logs[table], one.versions[table]: _timestamp_ms(one) + random.choice([-1, 1])}
    return replace(history, logs={**history.logs, table: log})


def lose_a_version(history: History, random: Random) -> History | None:
    commits = [(table, version) for t in _committed(history) for table, version in t.versions.items()]
    if not commits:
        return None
    table, lost = random.choice(commits)
    log = {version: stamp for version, stamp in history.logs[table].items() if version != lost}
    return replace(history, logs={**history.logs, table: log})


def slice_less(history: History, random: Random) -> History | None:
    """A time slice lacks the last value of a list, whose writer's timestamp is known."""
    told = {
        (op.item, op.value)
        for t in _committed(history)
        if t.commit_timestamp_ms is not None
        for op in t.operations
        if isinstance(op, Append)
    }
    choices = [
        (answer, item)
        for answer in history.slices
        for item, values in answer.lists.items()
        if values and (item, values[-1]) in told
    ]
    if not choices:
        return None
    answer, item = random.choice(choices)
    less = replace(answer, lists={**answer.lists, item: answer.lists[item][:-1]})
    return replace(history, slices=tuple(less if other is answer else other for other in history.slices))


def slice_what_is_later(history: History, random: Random) -> History | None:
    """A time slice has a value of a transaction that came after its instant."""
    stamps = {
        (op.item, op.value): t.commit_timestamp_ms
        for t in _committed(history)
        for op in t.operations
        if isinstance(op, Append)
    }
    choices = [
        (answer, item, values[len(answer.lists.get(item, ()))])
        for answer in history.slices
        for item, values in history.final.items()
        if len(values) > len(answer.lists.get(item, ()))
    ]
    choices = [choice for choice in choices if stamps.get(choice[1:]) is not None]
    if not choices:
        return None
    answer, item, value = random.choice(choices)
    more = replace(answer, lists={**answer.lists, item: (*answer.lists.get(item, ()), value)})
    return replace(history, slices=tuple(more if other is answer else other for other in history.slices))


def lose_a_batch(history: History, random: Random) -> History | None:
    batches = _landed_batches(history)
    known = {stream.query: stream.done for stream in history.streams}
    done = [one for one in batches if _batch(one).number in known[_batch(one).query]]
    return _with(history, replace(random.choice(done), batch=None)) if done else None


def land_a_batch_twice(history: History, random: Random) -> History | None:
    batches = _landed_batches(history)
    others = [one for one in _committed(history) if one.batch is None]
    if not batches or not others:
        return None
    return _with(history, replace(random.choice(others), batch=random.choice(batches).batch))


def swap_batches(history: History, random: Random) -> History | None:
    pairs = [
        (one, other)
        for one, other in itertools.permutations(_landed_batches(history), 2)
        if _batch(one).query == _batch(other).query and None not in (one.commit_timestamp_ms, other.commit_timestamp_ms)
    ]
    if not pairs:
        return None
    one, other = random.choice(pairs)
    return _with(_with(history, replace(one, batch=other.batch)), replace(other, batch=one.batch))


def leave_a_batch_out_of_a_table(history: History, random: Random) -> History | None:
    batches = _landed_batches(history)
    if not batches:
        return None
    (table,) = history.streams[0].tables
    one = random.choice(batches)
    versions = {name: version for name, version in one.versions.items() if name != table}
    return _with(history, replace(one, versions=versions))


@pytest.mark.parametrize(
    "spoil",
    [
        swap_timestamps_of_conflicting,
        equal_timestamps_of_conflicting,
        drop_a_value,
        double_a_value,
        swap_neighbours,
        abort_a_writer,
        read_less,
        read_a_made_up_value,
        read_with_a_hole,
        miss_a_key,
        stamp_rows_otherwise,
        ask_for_another_day,
        begin_after_a_later_one,
        begin_at_a_later_time,
        carry_another_timestamp_in_one_table,
        lose_a_version,
        slice_less,
        slice_what_is_later,
        lose_a_batch,
        land_a_batch_twice,
        swap_batches,
        leave_a_batch_out_of_a_table,
    ],
)
@given(SEEDS, st.integers(15, 40))
def test_a_spoilt_history_is_found_out(spoil: Spoil, seed: int, count: int) -> None:
    random = Random(seed)  # noqa: S311
    spoilt = spoil(clean_history(random, count, keys=2), random)
    assume(spoilt is not None)
    assert spoilt is not None
    violations = check(spoilt)
    assert violations
    for violation in violations:
        assert violation.message.endswith(".")
        assert set(violation.transactions) <= set(_by_id(spoilt))


@st.composite
def small_histories(draw: st.DrawFn) -> History:
    """Few transactions over two lists, each read answered with any beginning of the final list."""
    items = [Item("a", None, "x"), Item("b", None, "y")]
    count = draw(st.integers(2, 4))
    stamps = draw(st.permutations(range(count)))
    final: dict[Item, list[str]] = {item: [] for item in items}
    plans = []
    for number in range(count):
        writes = draw(st.lists(st.sampled_from(items), max_size=2, unique=True))
        reads = draw(st.lists(st.sampled_from(items), max_size=2))
        plans.append(([(item, f"{number}{item.key}") for item in writes], reads))
    for item in items:
        values = [value for writes, _ in plans for key, value in writes if key == item]
        final[item] = draw(st.permutations(values))
    transactions = []
    for number, (appends, reads) in enumerate(plans):
        operations: list[Operation] = [
            Read(item, tuple(final[item][: draw(st.integers(0, len(final[item])))])) for item in reads
        ]
        operations += [Append(item, value) for item, value in appends]
        transactions.append(
            Transaction(
                f"t{number}", f"c{number}", 0, 0, 1, Outcome.COMMITTED, tuple(operations),
                commit_timestamp_ms=stamps[number],
            )
        )  # fmt: skip
    return History(tuple(transactions), {item: tuple(values) for item, values in final.items()})


@given(small_histories())
def test_clean_is_what_running_in_timestamp_order_gives(history: History) -> None:
    in_order = sorted(history.transactions, key=_timestamp_ms)
    assert (check(history) == ()) == _is_serial(history, in_order)


@given(small_histories())
def test_without_timestamps_clean_is_what_some_serial_order_gives(history: History) -> None:
    untimed = tuple(replace(transaction, commit_timestamp_ms=None) for transaction in history.transactions)
    is_serializable = any(_is_serial(history, order) for order in itertools.permutations(untimed))
    assert (check(replace(history, transactions=untimed)) == ()) == is_serializable


def test_a_failure_lists_every_violation() -> None:
    x = Item("a", None, "x")
    lost = History((Transaction("t", "c", 0, 0, 1, Outcome.COMMITTED, (Append(x, 1), Append(x, 2))),), {})
    with pytest.raises(AssertionError, match="1, which t appended to a/x") as caught:
        require_clean(lost)
    assert [kind.value in str(caught.value) for kind in (Kind.LOST_VALUE, Kind.WRITE_CYCLE)] == [True, False]
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("spoil", "message"), [("id", "have the id t1"), ("value", "more than once"), ("end", "t2 ends before it begins")]
)
def test_a_record_that_contradicts_itself_is_no_history(spoil: str, message: str) -> None:
    x = Item("a", None, "x")
    one = Transaction("t1", "c", 0, 0, 1, Outcome.COMMITTED, (Append(x, 1),))
    other = Transaction("t2", "c", 1, 2, 3, Outcome.UNKNOWN, (Append(x, 2),))
    changes: dict[str, dict[str, Any]] = {
        "id": {"id": "t1"},
        "value": {"operations": one.operations},
        "end": {"end": 1},
    }
    other = replace(other, **changes[spoil])
    with pytest.raises(ValueError, match=message):
        check(History((one, other), {x: (1,)}))


def _is_serial(history: History, order: tuple[Transaction, ...] | list[Transaction]) -> bool:
    lists: dict[Item, Values] = dict.fromkeys(history.final, ())
    for transaction in order:
        for operation in transaction.operations:
            if isinstance(operation, Append):
                lists[operation.item] += (operation.value,)
                continue
            assert isinstance(operation, Read)
            if lists[operation.item] != operation.values:
                return False
    return lists == history.final


def _by_id(history: History) -> dict[str, Transaction]:
    return {transaction.id: transaction for transaction in history.transactions}


def _committed(history: History) -> list[Transaction]:
    return [transaction for transaction in history.transactions if transaction.outcome is Outcome.COMMITTED]


def _timestamp_ms(transaction: Transaction) -> int:
    assert transaction.commit_timestamp_ms is not None
    return transaction.commit_timestamp_ms


def _batch(transaction: Transaction) -> Batch:
    assert transaction.batch is not None
    return transaction.batch


def _landed_batches(history: History) -> list[Transaction]:
    return [transaction for transaction in _committed(history) if transaction.batch is not None]


def _with(history: History, changed: Transaction) -> History:
    return replace(history, transactions=tuple(changed if t.id == changed.id else t for t in history.transactions))


def _with_operation(transaction: Transaction, at: int, operation: Operation) -> Transaction:
    operations = transaction.operations
    return replace(transaction, operations=(*operations[:at], operation, *operations[at + 1 :]))


def _with_read(
    history: History,
    random: Random,
    is_chosen: Callable[[Transaction, Item, Values], bool],
    change: Callable[[Values], Values],
) -> History | None:
    """One read of one item, with something in it, is answered otherwise."""
    choices = [
        (t, at)
        for t in _committed(history)
        for at, op in enumerate(t.operations)
        if isinstance(op, Read) and op.values and is_chosen(t, op.item, op.values)
    ]
    if not choices:
        return None
    reader, at = random.choice(choices)
    read = reader.operations[at]
    assert isinstance(read, Read)
    return _with(history, _with_operation(reader, at, replace(read, values=change(read.values))))
