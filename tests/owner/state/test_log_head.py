"""What follows the newest version of a table that was given out, and whose turn it is to be given the next."""

from __future__ import annotations

import pytest

from slackwater.owner.state.commit_content import ContentFacts
from slackwater.owner.state.log_head import TURN_MS, AllocationClaim, Head, PriorityReservation

NOW = 1_700_000_000_000
FILE_ID = "8c2c4f0e-31f5-4d2c-9a53-0f3f0f8a7b11"
APPEND = ContentFacts(is_change=False, may_move=True, mark=None, first_row_id=None)
WITH_IDS = ContentFacts(is_change=False, may_move=True, mark=109, first_row_id=100)
CHANGE = ContentFacts(is_change=True, may_move=False, mark=None, first_row_id=None)
CLAIM = AllocationClaim("commit", FILE_ID, "holder", NOW + 1, "txn")


def _head(version: int = 7, mark: int | None = 199, change: int = 3) -> Head:
    return Head(version, NOW, mark, change)


# Versions.


def test_a_commit_is_given_the_version_after_the_newest() -> None:
    given = _head().give(8, APPEND, FILE_ID, NOW + 5)
    assert (given.version, given.timestamp_ms, given.file_name) == (8, NOW + 5, f"{8:020d}.{FILE_ID}.json")
    assert given.shift is None


def test_row_ids_of_a_commit_that_moves_begin_behind_those_of_the_table() -> None:
    head = _head()
    given = head.give(6, WITH_IDS, FILE_ID, NOW)
    assert (given.version, given.shift) == (8, 100)
    row = head.advance("table", CLAIM, WITH_IDS, given)
    assert (head.version, head.mark, row["mark"]) == (8, 209, 209)


def test_row_ids_of_a_commit_in_its_place_stay_as_they_are() -> None:
    head = _head(mark=99)
    given = head.give(8, WITH_IDS, FILE_ID, NOW)
    assert given.shift is None
    head.advance("table", CLAIM, WITH_IDS, given)
    assert head.mark == 109


@pytest.mark.parametrize("facts", [APPEND, ContentFacts(False, True, mark=150, first_row_id=None)])
def test_a_commit_without_row_ids_moves_none(facts: ContentFacts) -> None:
    assert _head().give(6, facts, FILE_ID, NOW).shift is None


def test_a_commit_that_moves_where_nothing_is_known_of_row_ids_moves_none() -> None:
    assert _head(mark=None).give(6, WITH_IDS, FILE_ID, NOW).shift is None


def test_what_a_commit_does_not_speak_of_stays_in_the_head() -> None:
    head = _head()
    row = head.advance("table", CLAIM, APPEND, head.give(8, APPEND, FILE_ID, NOW + 5))
    assert head == Head(8, NOW + 5, 199, 3)
    assert row == {
        "table_id": "table", "version": 8, "commit_id": "commit", "file_name": f"{8:020d}.{FILE_ID}.json",
        "state": "allocated", "timestamp_ms": NOW + 5, "size_bytes": 0, "mark": 199, "is_change": False,
        "holder": "holder", "until_ms": NOW + 1, "txn_id": "txn",
    }  # fmt: skip


def test_a_change_of_metadata_is_remembered_with_its_version() -> None:
    head = _head()
    row = head.advance("table", CLAIM, CHANGE, head.give(8, CHANGE, FILE_ID, NOW))
    assert (head.change, row["is_change"]) == (8, True)


@pytest.mark.parametrize(
    ("head", "facts", "may_move", "expected"),
    [
        (_head(change=3), APPEND, True, True),
        (_head(change=3), APPEND, False, False),
        (_head(change=3), CHANGE, True, False),
        (_head(change=4), APPEND, True, False),
        (_head(change=5), APPEND, True, False),
        (_head(), WITH_IDS, True, True),
        (_head(mark=None), WITH_IDS, True, False),
        (_head(mark=None), APPEND, True, True),
    ],
)
def test_commits_that_its_author_did_not_see_are_followed_where_they_change_nothing_for_it(
    head: Head, facts: ContentFacts, may_move: bool, expected: bool
) -> None:
    assert head.may_be_followed(4, facts, may_move) is expected


# Turns.


def _lost(*commit_ids: str, turn: PriorityReservation | None = None) -> PriorityReservation:
    turn = turn or PriorityReservation(None, 0)
    for commit_id in commit_ids:
        turn.record_loss(commit_id, NOW)
    return turn


def test_who_loses_its_version_twice_goes_next_for_a_while() -> None:
    once, twice = _lost("a"), _lost("a", "a")
    assert not once.is_of_another("b", NOW)
    assert not once.is_now_of("a", NOW)
    for now_ms, waited_for in ((NOW, True), (NOW + TURN_MS - 1, True), (NOW + TURN_MS, False)):
        assert twice.is_of_another("b", now_ms) is waited_for
        assert twice.is_now_of("a", now_ms) is waited_for
    assert not twice.is_of_another("a", NOW)
    assert not twice.is_now_of("b", NOW)


def test_a_turn_is_not_lost_to_others_that_lose_their_version() -> None:
    assert _lost("a", "a", "b", "b").is_now_of("a", NOW)
    # Where nobody is waited for, it begins anew with whoever lost last.
    assert not _lost("a", "b", "a").is_now_of("a", NOW)


def test_a_turn_of_before_the_clock_stepped_back_is_none() -> None:
    turn = PriorityReservation("a", NOW + TURN_MS + 1)
    assert not turn.is_of_another("b", NOW)
    assert not turn.is_now_of("a", NOW)
    assert turn.is_of_another("b", NOW + 1)


def test_a_turn_ends_with_the_version_that_it_was_for_and_with_no_other() -> None:
    turn = _lost("a", "a")
    turn.record_win("b")
    assert turn.is_now_of("a", NOW)
    turn.record_win("a")
    assert not turn.is_of_another("b", NOW)
    # The next loss is the first again.
    assert not _lost("a", turn=turn).is_now_of("a", NOW)
