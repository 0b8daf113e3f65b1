"""The checker finds each anomaly that is planted, by its name, and names who is in it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.histories.checker import check, require_clean
from tests.histories.history import (
    Append,
    AsOf,
    Batch,
    History,
    Item,
    Lists,
    Operation,
    Outcome,
    PartitionRead,
    Read,
    Stream,
    TableRead,
    Transaction,
)
from tests.histories.violations import Kind, Violation

X = Item("a", "p", "x")
Y = Item("b", "p", "y")
Z = Item("a", "q", "z")


def ran(name: str, at_ms: int | None, *operations: Operation, **recorded: object) -> Transaction:
    """A committed transaction that was open all the while, if nothing else is `recorded`."""
    told: dict[str, Any] = {
        "client": name,
        "order": 0,
        "begin": 0,
        "end": 1000,
        "outcome": Outcome.COMMITTED,
    } | recorded
    return Transaction(id=name, operations=operations, commit_timestamp_ms=at_ms, **told)


def history(*transactions: Transaction, final: Lists, **recorded: Any) -> History:
    return History(transactions, final, **recorded)


def found(planted: History, kind: Kind, *, opaque: bool = False) -> Violation:
    """The one violation of that kind."""
    violations = check(planted, opaque=opaque)
    of_kind = [violation for violation in violations if violation.kind is kind]
    assert len(of_kind) == 1, [str(violation) for violation in violations]
    return of_kind[0]


def kinds(planted: History) -> set[Kind]:
    return {violation.kind for violation in check(planted)}


def test_write_skew() -> None:
    planted = history(
        ran("one", 10, Read(X, ()), Append(Y, 1)),
        ran("two", 11, Read(Y, ()), Append(X, 2)),
        final={X: (2,), Y: (1,)},
    )
    skew = found(planted, Kind.WRITE_SKEW)
    assert set(skew.transactions) == {"one", "two"}
    assert "one (t=10) read a/p/x without what two (t=11) appended" in skew.message
    assert kinds(planted) == {Kind.WRITE_SKEW, Kind.WRITE_UNDER_READ_STAMP}


def test_read_skew() -> None:
    planted = history(
        ran("first", 10, Append(X, 1)),
        ran("second", 11, Read(X, (1,)), Append(Y, 2)),
        ran("reader", None, Read(X, ()), Read(Y, (2,))),
        final={X: (1,), Y: (2,)},
    )
    assert set(found(planted, Kind.READ_SKEW).transactions) == {"first", "second", "reader"}
    assert Kind.PARTIAL_VISIBILITY not in kinds(planted)


def test_lost_update_of_which_both_appends_are_there() -> None:
    planted = history(
        ran("one", 10, Read(X, ()), Append(X, 1)), ran("two", 11, Read(X, ()), Append(X, 2)), final={X: (1, 2)}
    )
    assert set(found(planted, Kind.LOST_UPDATE).transactions) == {"one", "two"}


def test_lost_update_of_which_one_append_is_gone() -> None:
    planted = history(
        ran("one", 10, Read(X, ()), Append(X, 1)), ran("two", 11, Read(X, ()), Append(X, 2)), final={X: (2,)}
    )
    lost = found(planted, Kind.LOST_VALUE)
    assert lost.transactions == ("one",)
    assert lost.message == "1, which one (t=10) appended to a/p/x, is not in its final list."


def test_dirty_read_of_an_aborted_value() -> None:
    planted = history(
        ran("undone", None, Append(X, 1), outcome=Outcome.ABORTED), ran("reader", 11, Read(X, (1,))), final={}
    )
    assert set(found(planted, Kind.ABORTED_READ).transactions) == {"undone", "reader"}


def test_an_aborted_value_that_stays() -> None:
    planted = history(ran("undone", None, Append(X, 1), outcome=Outcome.ABORTED), final={X: (1,)})
    assert found(planted, Kind.ABORTED_READ).transactions == ("undone",)


def test_an_aborted_value_in_a_time_slice() -> None:
    planted = history(
        ran("undone", None, Append(X, 1), outcome=Outcome.ABORTED),
        final={},
        slices=(AsOf("slice", 10, 1, 2, {X: (1,)}),),
    )
    dirty = found(planted, Kind.ABORTED_READ)
    assert (dirty.transactions, dirty.slices) == (("undone",), ("slice",))


def test_lost_value_that_had_been_read() -> None:
    planted = history(ran("writer", 10, Append(X, 1)), ran("reader", 11, Read(X, (1,))), final={})
    assert {"writer"} in [set(v.transactions) for v in check(planted) if v.kind is Kind.LOST_VALUE]


def test_doubled_value() -> None:
    planted = history(ran("writer", 10, Append(X, 1)), final={X: (1, 1)})
    assert found(planted, Kind.DOUBLED_VALUE).transactions == ("writer",)


def test_doubled_value_in_one_read() -> None:
    planted = history(ran("writer", 10, Append(X, 1)), ran("reader", 11, Read(X, (1, 1))), final={X: (1,)})
    assert set(found(planted, Kind.DOUBLED_VALUE).transactions) == {"writer", "reader"}


@pytest.mark.parametrize("final", [(7,), ()])
def test_value_that_nobody_appended(final: tuple[int, ...]) -> None:
    planted = history(ran("reader", 11, *([] if final else [Read(X, (7,))])), final={X: final})
    assert Kind.PHANTOM_VALUE in kinds(planted)


def test_figure_1_of_the_paper() -> None:
    """T1 fixed its time at 1 and read at 7 what T2 wrote at 3: its writes slip under T2, and under a slice as of 2."""
    planted = history(
        ran("T1", 1, Append(X, 10), Read(Y, (31,)), Append(Z, 14), begin=1, end=9),
        ran("T2", 3, Append(Y, 31), begin=3, end=5),
        final={X: (10,), Y: (31,), Z: (14,)},
        slices=(
            AsOf("at 6", 2, 6, 6, {Y: (), Z: ()}),
            AsOf("at 10", 2, 10, 10, {X: (10,), Y: (), Z: (14,)}),
        ),
    )
    backward = found(planted, Kind.READ_OF_LATER_WRITE)
    assert backward.transactions == ("T2", "T1")
    assert backward.message == "T2 (t=3) appended to b/p/y what T1 (t=1) read."
    changed = found(planted, Kind.SLICE_CHANGED)
    assert (changed.transactions, changed.slices) == (("T1",), ("at 6", "at 10"))
    wrong = [violation for violation in check(planted) if violation.kind is Kind.SLICE_WRONG]
    assert {violation.slices for violation in wrong} == {("at 6",)}


def test_a_leftover_read_stamp() -> None:
    planted = history(
        ran("reader", 10, Read(X, ()), Append(Y, 1)), ran("writer", 5, Append(X, 2)), final={X: (2,), Y: (1,)}
    )
    under = found(planted, Kind.WRITE_UNDER_READ_STAMP)
    assert under.transactions == ("reader", "writer")
    assert kinds(planted) == {Kind.WRITE_UNDER_READ_STAMP}


def test_a_read_stamp_equal_to_the_writers_timestamp() -> None:
    planted = history(ran("reader", 5, Read(X, ())), ran("writer", 5, Append(X, 2)), final={X: (2,)})
    assert kinds(planted) == {Kind.WRITE_UNDER_READ_STAMP}


def test_writes_out_of_timestamp_order() -> None:
    planted = history(ran("one", 11, Append(X, 1)), ran("two", 10, Append(X, 2)), final={X: (1, 2)})
    assert found(planted, Kind.WRITE_BEFORE_WRITE).transactions == ("one", "two")


def test_real_time_inversion_after_a_clock_step_back() -> None:
    planted = history(
        ran("before", 100, Append(X, 1), begin=1, end=2), ran("after", 40, Append(Y, 2), begin=3, end=4),
        final={X: (1,), Y: (2,)},
    )  # fmt: skip
    assert found(planted, Kind.REAL_TIME_INVERSION).transactions == ("before", "after")
    assert kinds(planted) == {Kind.REAL_TIME_INVERSION}


def test_real_time_inversion_after_one_that_wrote_nothing() -> None:
    idle = ran("idle", 100, begin=1, end=2)
    reader = ran("reader", 100, Read(X, ()), begin=1, end=2)
    for before in (idle, reader):
        writer = history(before, ran("after", 99, Append(Y, 1), begin=3, end=4), final={X: (), Y: (1,)})
        assert found(writer, Kind.REAL_TIME_INVERSION).transactions == (before.id, "after")
        nothing = history(before, ran("after", 99, begin=3, end=4), final={X: ()})
        assert kinds(nothing) == {Kind.REAL_TIME_INVERSION}
        require_clean(history(before, ran("after", 100, begin=3, end=4), final={X: ()}))


def test_real_time_inversion_of_one_that_did_not_commit() -> None:
    aborted = ran("after", None, begin=3, end=4, owner_time_ms=99, outcome=Outcome.ABORTED)
    planted = history(ran("before", 100, Append(X, 1), begin=1, end=2), aborted, final={X: (1,)})
    assert found(planted, Kind.REAL_TIME_INVERSION).transactions == ("before", "after")
    assert kinds(planted) == {Kind.REAL_TIME_INVERSION}


def test_inversion_within_one_client_whose_instants_say_nothing() -> None:
    planted = history(
        ran("before", 100, Append(X, 1), client="c", order=1), ran("after", 40, Append(Y, 2), client="c", order=2),
        final={X: (1,), Y: (2,)},
    )  # fmt: skip
    assert kinds(planted) == {Kind.REAL_TIME_INVERSION}


def test_an_unacknowledged_transaction_orders_nobody_in_real_time() -> None:
    require_clean(
        history(
            ran("unknown", 100, Append(X, 1), begin=1, end=2, outcome=Outcome.UNKNOWN),
            ran("after", 40, Append(Y, 2), begin=3, end=4),
            final={X: (1,), Y: (2,)},
        )
    )


def test_a_timestamp_before_the_begin() -> None:
    planted = history(ran("early", 40, Append(X, 1), owner_time_ms=41), final={X: (1,)})
    assert kinds(planted) == {Kind.BEFORE_ITS_BEGIN}


def test_stale_read_of_a_reader_without_a_timestamp() -> None:
    planted = history(
        ran("writer", 10, Append(X, 1), begin=1, end=2), ran("reader", None, Read(X, ()), begin=3, end=4),
        final={X: (1,)},
    )  # fmt: skip
    assert set(found(planted, Kind.STALE_READ).transactions) == {"writer", "reader"}


@pytest.mark.parametrize("read", [TableRead("a", {}), PartitionRead("a", "p", {})])
def test_phantom(read: Operation) -> None:
    planted = history(
        ran("one", 10, read, Append(Y, 1)), ran("two", 11, Read(Y, ()), Append(X, 2)), final={X: (2,), Y: (1,)}
    )
    assert set(found(planted, Kind.PHANTOM).transactions) == {"one", "two"}


def test_a_row_of_another_partition() -> None:
    planted = history(ran("one", 10, Append(Z, 1)), ran("two", 11, PartitionRead("a", "p", {Z: (1,)})), final={Z: (1,)})
    assert found(planted, Kind.OUTSIDE_OF_READ).transactions == ("two",)


def test_partial_visibility_of_a_transaction_over_two_tables() -> None:
    planted = history(
        ran("writer", 10, Append(X, 1), Append(Y, 2)),
        ran("reader", None, TableRead("a", {X: (1,)}), TableRead("b", {})),
        final={X: (1,), Y: (2,)},
    )
    partial = found(planted, Kind.PARTIAL_VISIBILITY)
    assert set(partial.transactions) == {"writer", "reader"}
    assert partial.message == "reader saw what writer (t=10) appended to a/p/x, and not what it appended to b/p/y."


def test_an_unknown_transaction_that_is_there_in_part() -> None:
    planted = history(ran("unknown", None, Append(X, 1), Append(Y, 2), outcome=Outcome.UNKNOWN), final={X: (1,)})
    assert found(planted, Kind.PARTIAL_VISIBILITY).transactions == ("unknown",)


def test_an_unknown_transaction_that_was_seen_and_is_gone() -> None:
    planted = history(
        ran("unknown", None, Append(X, 1), outcome=Outcome.UNKNOWN), ran("reader", 9, Read(X, (1,))), final={}
    )
    assert set(found(planted, Kind.LOST_VALUE).transactions) == {"unknown", "reader"}


def test_an_unknown_transaction_may_be_there_or_not() -> None:
    unknown = ran("unknown", None, Append(X, 1), Append(Y, 2), outcome=Outcome.UNKNOWN)
    require_clean(history(unknown, final={X: (1,), Y: (2,)}))
    require_clean(history(unknown, final={}))


def test_an_unknown_transaction_is_held_to_the_timestamp_of_its_versions() -> None:
    planted = history(
        ran("reader", 20, Read(X, ())),
        ran("unknown", None, Append(X, 1), outcome=Outcome.UNKNOWN, versions={"a": 4}),
        final={X: (1,)},
        logs={"a": {3: 5, 4: 12}},
    )
    assert found(planted, Kind.WRITE_UNDER_READ_STAMP).transactions == ("reader", "unknown")


def test_order_through_a_transaction_without_a_timestamp() -> None:
    planted = history(
        ran("late", 20, Append(X, 1)),
        ran("reader", None, Read(X, (1,)), Read(Y, ())),
        ran("early", 10, Append(Y, 2)),
        final={X: (1,), Y: (2,)},
    )
    assert found(planted, Kind.WRITE_UNDER_READ_STAMP).transactions == ("late", "reader", "early")


def test_intermediate_read() -> None:
    planted = history(
        ran("writer", 10, Append(X, 1), Append(X, 2)), ran("reader", 11, Read(X, (1,))), final={X: (1, 2)}
    )
    assert set(found(planted, Kind.INTERMEDIATE_READ).transactions) == {"writer", "reader"}


def test_unrepeatable_read() -> None:
    planted = history(ran("writer", 10, Append(X, 1)), ran("reader", None, Read(X, ()), Read(X, (1,))), final={X: (1,)})
    assert set(found(planted, Kind.UNREPEATABLE_READ).transactions) == {"writer", "reader"}


def test_own_appends_are_seen_and_are_no_unrepeatable_read() -> None:
    require_clean(
        history(
            ran("one", 10, Append(X, 1)),
            ran("two", 11, Read(X, (1,)), Append(X, 2), Read(X, (1, 2)), Append(X, 3), TableRead("a", {X: (1, 2, 3)})),
            final={X: (1, 2, 3)},
        )
    )


def test_own_append_unseen() -> None:
    planted = history(ran("writer", 10, Append(X, 1), Read(X, ())), final={X: (1,)})
    assert kinds(planted) == {Kind.OWN_APPEND_UNSEEN}


def test_own_append_seen_before_it_was_made() -> None:
    planted = history(ran("writer", 10, Read(X, (1,)), Append(X, 1)), final={X: (1,)})
    assert kinds(planted) == {Kind.OWN_FUTURE_SEEN}


def test_own_appends_out_of_order() -> None:
    planted = history(ran("writer", 10, Append(X, 1), Append(X, 2)), final={X: (2, 1)})
    assert kinds(planted) == {Kind.OWN_APPENDS_OUT_OF_ORDER}


def test_a_list_that_never_was() -> None:
    planted = history(
        ran("one", 10, Append(X, 1)), ran("two", 11, Append(X, 2)), ran("reader", 12, Read(X, (2,))), final={X: (1, 2)}
    )
    assert set(found(planted, Kind.NOT_A_PREFIX).transactions) == {"one", "two", "reader"}


def test_write_cycle() -> None:
    planted = history(
        ran("one", None, Append(X, 1), Append(Y, 2)),
        ran("two", None, Append(X, 3), Append(Y, 4)),
        final={X: (1, 3), Y: (4, 2)},
    )
    assert kinds(planted) == {Kind.WRITE_CYCLE}


def test_circular_information_flow() -> None:
    planted = history(
        ran("one", None, Append(X, 1), Read(Y, (2,))),
        ran("two", None, Append(Y, 2), Read(X, (1,))),
        final={X: (1,), Y: (2,)},
    )
    assert kinds(planted) == {Kind.CIRCULAR_INFORMATION}


def test_a_minimal_cycle_out_of_a_longer_one() -> None:
    ring = [Item("a", None, number) for number in range(5)]
    transactions = [
        ran(f"t{at}", None, Append(ring[at], at), Read(ring[at - 1], ((at - 1) % 5,)), *extra)
        for at, extra in zip(range(5), [[Read(ring[1], (1,))], [], [], [], []], strict=True)
    ]
    planted = history(*transactions, final={item: (at,) for at, item in enumerate(ring)})
    assert set(found(planted, Kind.CIRCULAR_INFORMATION).transactions) == {"t0", "t1"}


def test_two_separate_anomalies_are_both_found() -> None:
    others = [Item("c", None, name) for name in "uv"]
    planted = history(
        ran("one", None, Read(X, ()), Append(Y, 1)),
        ran("two", None, Read(Y, ()), Append(X, 2)),
        ran("three", None, Append(others[0], 1), Append(others[1], 2)),
        ran("four", None, Append(others[0], 3), Append(others[1], 4)),
        final={X: (2,), Y: (1,), others[0]: (1, 3), others[1]: (4, 2)},
    )
    assert kinds(planted) == {Kind.WRITE_SKEW, Kind.WRITE_CYCLE}


def test_row_stamp_that_differs_from_the_commit_timestamp() -> None:
    planted = history(ran("writer", 10, Append(X, 1), row_timestamps_ms=(10, 9)), final={X: (1,)})
    stamp = found(planted, Kind.ROW_STAMP)
    assert stamp.transactions == ("writer",)
    assert stamp.message == "The rows of writer (t=10) carry 9."


@pytest.mark.parametrize(("at_ms", "is_inside"), [(99, False), (100, True), (199, True), (200, False)])
def test_the_range_asked_for(at_ms: int, is_inside: bool) -> None:
    asked = history(ran("writer", at_ms, Append(X, 1), asked=((0, 1000), (100, 200))), final={X: (1,)})
    assert kinds(asked) == (set() if is_inside else {Kind.OUTSIDE_ASKED_RANGE})


def test_tables_of_a_transaction_that_carry_different_timestamps() -> None:
    planted = history(
        ran("writer", 10, Append(X, 1), versions={"a": 1, "b": 7}), final={X: (1,)}, logs={"a": {1: 10}, "b": {7: 11}}
    )
    assert found(planted, Kind.TABLES_DISAGREE).transactions == ("writer",)


BOTH = {"a": 1, "b": 7}


@pytest.mark.parametrize(
    ("groups", "number"),
    [
        ({"a": {1: BOTH}, "b": {7: BOTH}}, 0),
        ({"a": {1: BOTH}}, 0),  # the other table does not have the feature
        ({"a": {1: BOTH}, "b": {}}, 1),
        ({"a": {1: BOTH}, "b": {7: {"a": 2, "b": 7}}}, 1),
        ({"a": {1: BOTH}, "b": {7: {**BOTH, "c": 1}}}, 1),
        ({"a": {1: BOTH, 2: BOTH}, "b": {7: BOTH}}, 1),
        ({"a": {1: BOTH, 3: BOTH}, "b": {7: BOTH}}, 1),
    ],
)
def test_a_group_in_a_log_that_is_not_its_transaction(groups: Any, number: int) -> None:
    planted = history(
        ran("both", 10, Append(X, 1), versions=BOTH),
        ran("alone", 11, Append(X, 2), versions={"a": 2}),
        final={X: (1, 2)},
        logs={"a": {1: 10, 2: 11}, "b": {7: 10}},
        groups=groups,
    )
    assert [violation.kind for violation in check(planted)] == [Kind.GROUP_DIFFERS] * number


def test_timestamps_that_do_not_rise_with_versions() -> None:
    planted = history(
        ran("one", 10, versions={"a": 2}), ran("two", 9, versions={"a": 3}), final={}, logs={"a": {1: 1, 2: 10, 3: 9}}
    )
    assert found(planted, Kind.VERSIONS_NOT_RISING).transactions == ("one", "two")


def test_a_version_taken_twice() -> None:
    planted = history(ran("one", 10, versions={"a": 2}), ran("two", 10, versions={"a": 2}), final={})
    assert found(planted, Kind.VERSION_TAKEN_TWICE).transactions == ("one", "two")


def test_a_version_that_is_not_in_the_log() -> None:
    planted = history(ran("one", 10, versions={"a": 2}), final={}, logs={"a": {1: 4}})
    assert found(planted, Kind.VERSION_LOST).transactions == ("one",)


@pytest.mark.parametrize(("lists", "is_right"), [({X: (1,)}, True), ({X: (1, 2)}, False), ({}, False)])
def test_a_time_slice_is_what_had_committed_by_its_instant(lists: Lists, is_right: bool) -> None:
    sliced = history(
        ran("one", 10, Append(X, 1)),
        ran("two", 20, Append(X, 2)),
        final={X: (1, 2)},
        slices=(AsOf("slice", 19, 1, 2, lists),),
    )
    assert kinds(sliced) == (set() if is_right else {Kind.SLICE_WRONG})


def test_a_time_slice_of_some_tables_says_nothing_of_others() -> None:
    writer = ran("one", 10, Append(X, 1), Append(Y, 2))
    final = {X: (1,), Y: (2,)}
    answers = [AsOf("a", 10, 1, 2, {X: (1,)}, frozenset("a")), AsOf("b", 10, 1, 2, {Y: (2,)}, frozenset("b"))]
    for order in itertools.permutations(answers):
        require_clean(history(writer, final=final, slices=order))


def test_readers_that_aborted_are_held_to_one_state_only_where_they_should_be() -> None:
    planted = history(
        ran("writer", 10, Append(X, 1), Append(Y, 2)),
        ran("reader", None, Read(X, (1,)), Read(Y, ()), outcome=Outcome.ABORTED),
        final={X: (1,), Y: (2,)},
    )
    require_clean(planted)
    assert set(found(planted, Kind.PARTIAL_VISIBILITY, opaque=True).transactions) == {"writer", "reader"}


def test_equal_times_are_no_inversion() -> None:
    require_clean(
        history(
            ran("before", 40, Append(X, 1), begin=1, end=2),
            ran("after", 40, Append(Y, 2), begin=3, end=4, owner_time_ms=40),
            final={X: (1,), Y: (2,)},
        )
    )


def test_versions_of_equal_timestamps() -> None:
    planted = history(ran("one", 10, versions={"a": 2}), ran("two", 10, versions={"a": 3}), final={})
    assert kinds(planted) == {Kind.VERSIONS_NOT_RISING}


def test_what_an_aborted_transaction_was_told_is_nobodys_business() -> None:
    told: dict[str, Any] = {"row_timestamps_ms": (3, 4), "asked": ((0, 1),), "versions": {"a": 9}, "owner_time_ms": 99}
    undone = ran("undone", 10, Append(X, 1), Read(X, (1,)), outcome=Outcome.ABORTED, **told)
    require_clean(history(undone, final={}, logs={"a": {1: 4}}), opaque=True)


def test_rows_of_an_unknown_transaction_carry_one_stamp_and_it_is_taken_for_its_timestamp() -> None:
    reader = ran("reader", 20, Read(X, ()))
    unknown = ran("unknown", None, Append(X, 1), outcome=Outcome.UNKNOWN, row_timestamps_ms=(19,))
    assert kinds(history(reader, unknown, final={X: (1,)})) == {Kind.WRITE_UNDER_READ_STAMP}
    both = ran("unknown", None, Append(X, 1), outcome=Outcome.UNKNOWN, row_timestamps_ms=(19, 21))
    assert kinds(history(reader, both, final={X: (1,)})) == {Kind.ROW_STAMP}


def test_each_kind_of_edge_is_said_in_words() -> None:
    planted = history(
        ran("one", 12, Append(X, 1)),
        ran("two", 11, Append(X, 2)),
        ran("three", 10, Read(X, (1, 2)), TableRead("b", {})),
        ran("four", 9, Append(Y, 3)),
        final={X: (1, 2), Y: (3,)},
    )
    assert [violation.message for violation in check(planted)] == [
        "one (t=12) appended to a/p/x before two (t=11) did.",
        "two (t=11) appended to a/p/x what three (t=10) read.",
        "three (t=10) found no b/p/y, which four (t=9) wrote.",
    ]


QUERY = Stream("feed", frozenset("ab"), frozenset({0, 1}))


def landed(number: int, at_ms: int, **recorded: object) -> Transaction:
    """A micro-batch of QUERY in both of its tables, and in one list of each."""
    told = {"versions": {"a": number + 1, "b": number + 1}, "batch": Batch(QUERY.query, number)} | recorded
    return ran(f"batch{number}", at_ms, Append(X, number), Append(Y, number), **told)


def test_batches_that_were_tried_more_than_once_and_are_there_once() -> None:
    tried = ran("try", None, Append(X, "try"), outcome=Outcome.ABORTED, batch=Batch("feed", 1))
    unknown = ran("unknown", None, Append(X, "lost"), outcome=Outcome.UNKNOWN, batch=Batch("feed", 2))
    batches = landed(0, 10), tried, landed(1, 11, outcome=Outcome.UNKNOWN), unknown
    require_clean(history(*batches, final={X: (0, 1), Y: (0, 1)}, streams=(QUERY,)))


def test_a_batch_that_is_done_and_not_there() -> None:
    undone = landed(1, 11, outcome=Outcome.ABORTED)
    lost = found(history(landed(0, 10), undone, final={X: (0,), Y: (0,)}, streams=(QUERY,)), Kind.BATCH_LOST)
    assert lost.message == "Batch 1 of feed is done, and no transaction that committed has it."


def test_a_batch_that_was_sent_again_and_is_there_twice() -> None:
    again = ran("again", 12, Append(X, "again"), Append(Y, "again"), versions={"a": 3, "b": 3}, batch=Batch("feed", 1))
    final = {X: (0, 1, "again"), Y: (0, 1, "again")}
    planted = history(landed(0, 10), landed(1, 11), again, final=final, streams=(QUERY,))
    assert found(planted, Kind.BATCH_TWICE).transactions == ("batch1", "again")
    assert kinds(planted) == {Kind.BATCH_TWICE}


def test_a_batch_that_is_in_one_of_two_tables() -> None:
    planted = history(landed(0, 10), landed(1, 11, versions={"a": 2}), final={X: (0, 1), Y: (0, 1)}, streams=(QUERY,))
    part = found(planted, Kind.BATCH_IN_PART)
    assert part.message == "Batch 1 of feed is committed as batch1 (t=11), and not in b."
    assert kinds(planted) == {Kind.BATCH_IN_PART}


def test_batches_that_come_in_another_order() -> None:
    first, second = landed(0, 11, versions={"a": 2, "b": 2}), landed(1, 10, versions={"a": 1, "b": 1})
    planted = history(first, second, final={X: (1, 0), Y: (1, 0)}, streams=(QUERY,))
    assert kinds(planted) == {Kind.BATCHES_OUT_OF_ORDER}


def test_a_batch_of_a_stream_that_nobody_knows_is_no_history() -> None:
    with pytest.raises(ValueError, match="stream that is not known"):
        check(history(landed(0, 10), final={X: (0,), Y: (0,)}))
