"""Formats of numbers, sizes, times and durations for people, and sanitized text from other sources."""

from __future__ import annotations

import datetime as dt

_KIB = 1024
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S
_DAY_S = 24 * _HOUR_S
# From this value on, tenths are not significant to a reader.
_WHOLE = 100


def number(value: int) -> str:
    """Format as `1,204`."""
    return f"{value:,}"


def signed(value: int) -> str:
    """Format as `+1,204`, `−3` with a minus sign, `0`."""
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{abs(value):,}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Format as `1 file`, `2 files`, `1,204 files`. `plural` replaces the plural with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def short(value: float) -> str:
    """Format as `0.5`, `12`, `3.14`: with at most two decimal places."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def short_bytes(size_bytes: int) -> str:
    """Format as `312 B`, `4.4 KiB`, `128 MiB`."""
    amount, unit = _scaled(size_bytes)
    digits = 0 if unit == "B" or abs(amount) >= _WHOLE else 1
    return f"{amount:.{digits}f} {unit}"


def format_bytes(size_bytes: int) -> str:
    """Format as `4504 (4.4 KiB)`: the exact number of bytes, and from 1 KiB on the rounded size."""
    amount, unit = _scaled(size_bytes)
    return str(size_bytes) if unit == "B" else f"{size_bytes} ({amount:.1f} {unit})"


def iso(moment: dt.datetime) -> str:
    """Format as `2026-11-21T10:00:00.000Z`: ISO 8601 in UTC. `moment` has a time zone."""
    return f"{_utc(moment).isoformat(timespec='milliseconds')}Z"


def utc_text(moment: dt.datetime) -> str:
    """Format as `2026-11-21 10:00:00.000`, in UTC, for columns labelled UTC. `moment` has a time zone."""
    return _utc(moment).isoformat(" ", "milliseconds")


def span(seconds: float) -> str:
    """Format as `0.4 s`, `1:05` minutes, `2:03:04` hours."""
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def ago(moment: dt.datetime, now: dt.datetime) -> str:
    """Format as `just now`, `5 minutes ago`, `3 days ago`; `in 2 hours` for the future. Both times have a time zone."""
    seconds = (now - moment).total_seconds()
    distance = abs(seconds)
    if distance < _MINUTE_S:
        return "just now"
    unit_s, noun = next(
        (unit_s, noun)
        for unit_s, noun in ((_DAY_S, "day"), (_HOUR_S, "hour"), (_MINUTE_S, "minute"))
        if distance >= unit_s
    )
    words = counted(int(distance // unit_s), noun)
    return f"{words} ago" if seconds > 0 else f"in {words}"


def visible(text: str) -> str:
    """Escape control characters in `text`, so that text from a log cannot control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """Replace line breaks in `text` by spaces."""
    return " ".join(text.splitlines())


def shortened(text: str, most: int) -> str:
    """Shorten `text` to at most `most` characters. A longer text ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _scaled(size_bytes: int) -> tuple[float, str]:
    amount, unit = float(size_bytes), "B"
    for larger in _UNITS:
        if abs(amount) < _KIB:
            break
        amount, unit = amount / _KIB, larger
    return amount, unit


def _utc(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(dt.timezone.utc).replace(tzinfo=None)
