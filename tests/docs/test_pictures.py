"""The pictures of the documents: what they show is what the package answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tools import time_pictures
from tools.draw_pictures import GALLERIES
from tools.gallery import Gallery
from tools.time_drawing import Schedule

BY_PAGE = {gallery.page: gallery for gallery in GALLERIES}
EACH = [(gallery, name) for gallery in GALLERIES for name in gallery.drawn]


@pytest.mark.parametrize(("gallery", "name"), EACH, ids=[f"{gallery.directory}/{name}" for gallery, name in EACH])
def test_a_picture_is_as_it_would_be_drawn_now(gallery: Gallery, name: str) -> None:
    """Where this fails: `python -m tools.draw_pictures`, and look whether the text beside it still holds."""
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
