from __future__ import annotations

import datetime as dt

import pytest

from slackwater.html.number_format import ago, counted, format_bytes, iso, short_bytes, shortened, signed, span, visible

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("size_bytes", "short", "exact"),
    [
        (0, "0 B", "0"),
        (1023, "1023 B", "1023"),
        (1024, "1.0 KiB", "1024 (1.0 KiB)"),
        (4504, "4.4 KiB", "4504 (4.4 KiB)"),
        (128 << 20, "128 MiB", "134217728 (128.0 MiB)"),
        (1 << 60, "1024 PiB", "1152921504606846976 (1024.0 PiB)"),
    ],
)
def test_sizes_have_units_of_1024(size_bytes: int, short: str, exact: str) -> None:
    assert (short_bytes(size_bytes), format_bytes(size_bytes)) == (short, exact)


def test_counts_have_separators_and_plurals() -> None:
    assert [counted(n, "file") for n in (0, 1, 1204)] == ["0 files", "1 file", "1,204 files"]
    assert [signed(n) for n in (1204, 0, -3)] == ["+1,204", "0", "−3"]


@pytest.mark.parametrize(("seconds", "words"), [(0.44, "0.4 s"), (65, "1:05"), (7384, "2:03:04")])
def test_spans_grow_to_hours(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0.5, "just now"), (5, "5 minutes ago"), (60, "1 hour ago"), (2900, "2 days ago"), (-130, "in 2 hours")],
)
def test_moments_are_told_by_their_distance(minutes: float, words: str) -> None:
    assert ago(NOON - dt.timedelta(minutes=minutes), NOON) == words


def test_moments_are_utc_wherever_they_were_taken() -> None:
    berlin = dt.datetime(2026, 11, 21, 13, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert iso(berlin) == "2026-11-21T12:00:00.000Z"


def test_long_text_is_cut_and_controls_are_seen() -> None:
    assert (shortened("abcdef", 4), shortened("abcd", 4)) == ("abc…", "abcd")
    assert visible("a\x1b[1mb\n") == "a\\x1b[1mb\n"
