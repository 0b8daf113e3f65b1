"""Intervals of fixed length in table properties: `interval 30 days`, `1 week`.

Source: delta-protocol.md "Metadata Cleanup"; the properties whose names end in `RetentionDuration`.
"""

from __future__ import annotations

import re
from fractions import Fraction

from slackwater.errors import InvalidArgument

_UNIT_US = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_CALENDAR_UNITS = ("month", "year")
_PART = re.compile(r"([+-]?[0-9]+(?:\.[0-9]{1,9})?)\s+([a-z]+)\s*")


def parse_interval_ms(text: str) -> int:
    """Return the length of `text` in ms: an optional `interval`, then numbers with units (`1 week 2 days`).

    Ignores case. Units are weeks to microseconds, singular or plural; only seconds may have a fraction. Fractions of a
    millisecond are cut. Raises InvalidArgument for any other text, for months and years (without a fixed length), and
    for a negative sum.
    """
    parts = text.strip().lower()
    if re.match(r"interval(?:\s|$)", parts):
        parts = parts.removeprefix("interval").lstrip()
    total_us = Fraction(0)
    position = 0
    while match := _PART.match(parts, position):
        total_us += _part_us(match[1], match[2], text)
        position = match.end()
    if not position or position < len(parts):
        raise InvalidArgument(
            f"expected an interval such as 'interval 30 days' or '1 week', found {text!r}",
            error_class="DELTA_INVALID_INTERVAL",
        )
    if total_us < 0:
        raise InvalidArgument(
            f"expected an interval that is not negative, found {text!r}", error_class="DELTA_INVALID_INTERVAL"
        )
    return int(total_us // 1000)


def _part_us(number: str, unit: str, text: str) -> Fraction:
    singular = unit.removesuffix("s")
    if singular in _CALENDAR_UNITS:
        raise InvalidArgument(
            f"{text!r} uses {singular}s, which have no fixed length. Use weeks, days or smaller units ('365 days' for "
            "a year)",
            error_class="DELTA_INVALID_INTERVAL",
        )
    if singular not in _UNIT_US:
        raise InvalidArgument(
            f"{text!r}: {unit!r} is not a unit of time. Use {', '.join(name + 's' for name in _UNIT_US)}",
            error_class="DELTA_INVALID_INTERVAL",
        )
    if "." in number and singular != "second":
        raise InvalidArgument(
            f"{text!r}: only seconds may have a fraction, found {number} {unit}", error_class="DELTA_INVALID_INTERVAL"
        )
    return Fraction(number) * _UNIT_US[singular]
