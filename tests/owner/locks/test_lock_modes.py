"""The modes of locks: which go together, and what two of them come to."""

from __future__ import annotations

import itertools

import pytest

from slackwater.owner.api.transactions import Item
from slackwater.owner.locks.lock_modes import LockMode, are_compatible, covers, intention, join, joined, modes_for

IS, IX, S, SIX, X = LockMode
TABLE, ONE, TWO = Item("t"), Item("t", "1"), Item("t", "2")

PAIRS = tuple(itertools.product(LockMode, repeat=2))
TRIPLES = tuple(itertools.product(LockMode, repeat=3))

# Gray et al., "Granularity of Locks in a Shared Data Base": rows and columns in the order of the modes.
TOGETHER = {
    IS: (True, True, True, True, False),
    IX: (True, True, False, False, False),
    S: (True, False, True, False, False),
    SIX: (True, False, False, False, False),
    X: (False, False, False, False, False),
}


@pytest.mark.parametrize("mode", LockMode)
def test_modes_go_together_as_the_matrix_says(mode: LockMode) -> None:
    assert tuple(are_compatible(mode, other) for other in LockMode) == TOGETHER[mode]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_what_two_modes_come_to_excludes_what_either_excludes(one: LockMode, other: LockMode) -> None:
    both = join(one, other)
    for third in LockMode:
        assert are_compatible(both, third) == (are_compatible(one, third) and are_compatible(other, third))


@pytest.mark.parametrize(("one", "other", "third"), TRIPLES)
def test_in_which_order_modes_come_together_does_not_matter(one: LockMode, other: LockMode, third: LockMode) -> None:
    assert join(one, other) is join(other, one)
    assert join(join(one, other), third) is join(one, join(other, third))


def test_a_reader_of_the_table_that_writes_a_granule_has_both() -> None:
    assert join(S, IX) is SIX
    assert join(None, IX) is IX


def test_a_granule_means_an_intention_on_its_table() -> None:
    assert intention(S) is IS
    assert intention(X) is IX
    assert modes_for([ONE, TWO], S) == {TABLE: IS, ONE: S, TWO: S}
    assert modes_for([ONE], X) == {TABLE: IX, ONE: X}


def test_the_whole_table_needs_no_intention() -> None:
    assert modes_for([TABLE], S) == {TABLE: S}
    assert modes_for([TABLE, ONE], X) == {TABLE: X, ONE: X}


def test_reads_and_writes_come_together() -> None:
    assert joined(modes_for([TABLE], S), modes_for([ONE], X)) == {TABLE: SIX, ONE: X}


@pytest.mark.parametrize(("table", "granules"), [(IS, ""), (IX, ""), (S, "S"), (SIX, "S"), (X, "S X")])
def test_a_lock_of_a_table_covers_its_granules_as_far_as_it_goes(table: LockMode, granules: str) -> None:
    assert {mode for mode in (S, X) if covers(table, mode)} == {LockMode(name) for name in granules.split()}
