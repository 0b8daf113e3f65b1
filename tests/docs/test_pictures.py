"""The pictures of the documents: what they show is what the package answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from tools.pictures import log_pictures, owner_pictures, time_pictures
from tools.pictures.draw_pictures import GALLERIES
from tools.pictures.gallery import Gallery
from tools.pictures.time_drawing import Schedule

BY_PAGE = {gallery.page: gallery for gallery in GALLERIES}
EACH = [(gallery, name) for gallery in GALLERIES for name in gallery.drawn]


@pytest.mark.parametrize(("gallery", "name"), EACH, ids=[f"{gallery.directory}/{name}" for gallery, name in EACH])
def test_a_picture_is_as_it_would_be_drawn_now(gallery: Gallery, name: str) -> None:
    """Where this fails: `python -m tools.pictures.draw_pictures`, and look whether the text beside it still holds."""
    assert not gallery.is_stale(name)


@pytest.mark.parametrize("page", BY_PAGE)
def test_a_page_shows_all_its_pictures_and_each_of_them_is_drawn(page: str) -> None:
    assert (BY_PAGE[page].unshown(), BY_PAGE[page].unknown()) == ([], [])


def answers(schedule: Schedule) -> Sequence[str]:
    return [answer for _, answer in schedule.slices]


def test_early_choice_changes_what_a_time_slice_says() -> None:
    assert answers(time_pictures.early_choice()) == ["y = y₀, z = z₀", "y = y₀, z = z₁"]


@pytest.mark.parametrize(
    ("schedule", "stamps", "seen"),
    [
        (time_pictures.late_choice, {"T2": 5, "T1": 9}, ["y = y₀, z = z₀"] * 2),
        (time_pictures.asked_early, {"T2": 3}, ["y = y₀, z = z₀"]),
        (time_pictures.of_the_beginning, {"T2": 3, "T1": 1}, ["y = y₀, z = z₁"]),
        (time_pictures.asked_coarsely, {"T2": 3, "T1": 9}, ["y = y₀, z = z₀"] * 2),
    ],
)
def test_what_the_text_says_of_a_picture_holds(
    schedule: Callable[[], Schedule], stamps: dict[str, float], seen: Sequence[str]
) -> None:
    found = schedule()
    assert found.stamps == stamps
    assert answers(found) == seen
    assert ("refused" in found.steps[-1].words) == ("T1" not in stamps)


def test_each_question_leaves_less_of_the_range() -> None:
    bars = time_pictures.ranges()
    highs = [float("inf") if bar.high is None else bar.high for bar in bars]
    assert highs == sorted(highs, reverse=True)
    assert [bar.low for bar in bars] == sorted(bar.low for bar in bars)
    assert (bars[-1].is_stamp, bars[-1].high) == (True, bars[-2].high)


def test_items_of_one_slot_share_what_a_writer_must_exceed() -> None:
    slots, _ = time_pictures.read_timestamps()
    by_item = {slot.item: slot for slot in slots}
    assert by_item["orders"].slot == by_item["suppliers"].slot
    assert (by_item["orders"].bound, by_item["suppliers"].bound, by_item["customers"].bound) == (5, 5, None)


def test_what_a_commit_removed_is_not_in_the_table_and_still_lies_there() -> None:
    commits, present = log_pictures.commits()
    for before, commit in itertools.pairwise(commits):
        assert commit.files == sorted({*before.files, *commit.added} - set(commit.removed))
    assert {letter for commit in commits for letter in commit.removed} == {"a", "b"} <= set(present)


def test_a_reader_reads_the_newest_checkpoint_that_is_no_newer_and_the_commits_after_it() -> None:
    rows, readers = log_pictures.segments()
    assert [[version for _, version in reader.read] for reader in readers] == [[0, 1, 2], [4, 5], [4, 5, 6, 7]]
    assert [[name for name, _ in reader.read].count(rows[0].name) for reader in readers] == [0, 1, 1]


@pytest.mark.parametrize(("own", "landed"), [("", ["2.json", "3.json"]), ("a", ["2.json"])])
def test_who_comes_second_goes_behind_or_is_told(own: str, landed: Sequence[str]) -> None:
    steps = log_pictures.race("a", own)
    assert [step.file for step in steps if step.lands] == landed
    last = steps[-1].words
    assert last[-1] == "lands" if own == "" else "".join(last[1:]) == "ConcurrentDeleteDeleteException"


def test_rows_that_are_marked_stay_in_the_file_until_it_is_purged() -> None:
    written, once, twice, purged = log_pictures.marked_rows()
    read = [
        [id_ for rows in shown.rows.values() for id_, is_live in rows if is_live] for shown in (once, twice, purged)
    ]
    assert read == [[1, 3, 4, 6], [1, 4, 6], [1, 4, 6]]
    assert [len(shown.rows["a"]) for shown in (written, once, twice)] == [6, 6, 6]
    assert dict(purged.present) == {"a": False, "b": True, "vector 1": False, "vector 2": False}


def test_vacuum_keeps_what_a_retained_version_needs_and_what_is_new() -> None:
    files, versions, retention_days = log_pictures.vacuumed()
    assert [file.letter for file in files if file.is_deleted] == ["a", "w"]
    assert [version.version for version in versions if not version.is_readable] == [1]
    assert retention_days == 7


def test_a_commit_counts_once_it_is_ratified_and_is_in_the_log_later() -> None:
    seen = {moment: tables["orders"] for moment, tables in owner_pictures.moments("orders")}
    assert list(seen) == ["before", "staged", "ratified", "backfilled"]
    assert [table.ratified for table in seen.values()] == [table.by_owner for table in seen.values()] == [1, 1, 2, 2]
    assert [table.by_log for table in seen.values()] == [1, 1, 1, 2]
    assert [2 in table.staged for table in seen.values()] == [False, True, True, True]


def test_who_asks_the_owner_sees_two_tables_change_at_once_and_the_logs_do_not() -> None:
    moments = [tables for _, tables in owner_pictures.moments("orders", "stock")]
    by_owner = [{table.by_owner for table in tables.values()} for tables in moments]
    by_log = [{table.by_log for table in tables.values()} for tables in moments]
    assert {1, 2} not in by_owner
    assert {1, 2} in by_log


def test_who_asks_the_owner_reads_what_is_ratified_and_nothing_else() -> None:
    _, (asks, alone) = owner_pictures.readers()
    assert [version for _, version in asks.read] == [0, 1, 2, 3, 4]
    assert [version for _, version in alone.read] == [0, 1, 2]


def test_a_killed_transaction_counts_in_both_tables_or_in_none() -> None:
    cases = list(owner_pictures.killed().values())
    assert [{table.by_owner for table in case.left.values()} for case in cases] == [{1}, {1}, {2}, {2}]
    assert [{table.by_log for table in case.mended.values()} for case in cases] == [{1}, {1}, {2}, {2}]
    assert [case.next_version for case in cases] == [2, 2, 3, 3]


def test_who_does_not_ask_the_owner_is_refused_or_found_out() -> None:
    cases = owner_pictures.refused()
    assert [case.told for case in cases[:2]] == ["version 2", "CommitOwnerRequired"]
    assert [case.read for case in cases] == ["version 2", "version 1", "UnratifiedCommit"]
