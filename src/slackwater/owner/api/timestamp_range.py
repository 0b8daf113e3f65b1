"""The range of timestamps allowed for a transaction. A request for the current time narrows the range.

Source: paper §3.1 (bounds by reads and writes), §3.2 (ranges).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from slackwater.errors import InvalidArgument
from slackwater.owner.api.field_types import EPOCH, GREATEST_TIMESTAMP_MS, whole_number
from slackwater.owner.api.wire_model import RequestModel, WireType, camel
from slackwater.protocol.actions.time_zones import time_zone

UNBOUNDED = 2**62
"""Upper bound of a transaction without a request for the time: no bound."""

PRECISIONS = ("day", "hour", "minute", "second", "decisecond", "centisecond", "millisecond")
"""Precisions for the truncation of a time, from coarse to full precision."""

_UNIT_MS = {
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1000,
    "decisecond": 100,
    "centisecond": 10,
    "millisecond": 1,
}
_DIGITS = ("second", "decisecond", "centisecond", "millisecond")
_ALIASES = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def _here(high_ms: int | None) -> int:
    return UNBOUNDED if high_ms is None else high_ms


def _there(high_ms: int) -> int | None:
    return high_ms if high_ms < UNBOUNDED else None


# A bound before the epoch has no effect, so -1 is the least value.
_Bound = Annotated[int, WireType(before=whole_number, ge=-1, le=GREATEST_TIMESTAMP_MS, description=EPOCH)]


@dataclass(frozen=True, slots=True)
class TimestampRange(RequestModel):
    """Range of a timestamp t: `low_ms < t <= high_ms`, in ms since the epoch.

    On the wire `high_ms` is null if there is no upper bound.
    """

    always_sent = ("high_ms",)

    low_ms: _Bound
    high_ms: Annotated[int, WireType(_Bound | None, after=_here, write=_there)] = UNBOUNDED

    @property
    def is_empty(self) -> bool:
        """True if no timestamp is left."""
        return self.low_ms >= self.high_ms

    @property
    def is_fixed(self) -> bool:
        """True if exactly one timestamp is left."""
        return self.high_ms == self.low_ms + 1

    @property
    def was_asked(self) -> bool:
        """True if there is an upper bound."""
        return self.high_ms < UNBOUNDED

    def above(self, timestamp_ms: int) -> TimestampRange:
        """Return the timestamps of this range after `timestamp_ms`."""
        return self if timestamp_ms <= self.low_ms else TimestampRange(timestamp_ms, self.high_ms)

    def up_to(self, timestamp_ms: int) -> TimestampRange:
        """Return the timestamps of this range up to and including `timestamp_ms`."""
        return self if timestamp_ms >= self.high_ms else TimestampRange(self.low_ms, timestamp_ms)

    def narrowed(self, now_ms: int, precision: str, zone: str = "UTC") -> TimestampRange:
        """Return the timestamps equal to `now_ms` after truncation to `precision` in `zone`.

        A request with a coarser precision after a finer request does not narrow the range. The result may be empty.
        Source: paper §3.2.1.
        """
        here = self.low_ms + 1
        if self.was_asked and not self.is_empty:
            first, last = instants(here, precision, zone)
            if first <= here and self.high_ms <= last:
                return self
        first, last = instants(now_ms, precision, zone)
        return self.above(first - 1).up_to(last)

    def choose(self, want_ms: int) -> int:
        """Return `want_ms` if the range includes it, else the least timestamp. The range is not empty.

        Source: paper §3.2.2; docs/transactions.md.
        """
        return max(want_ms, self.low_ms + 1) if want_ms <= self.high_ms else self.low_ms + 1


def _known(found: Any) -> Any:
    keys = [camel(each.name) for each in fields(TimestampRange)]
    return {key: found[key] for key in keys if key in found} if isinstance(found, Mapping) else found


AnsweredRange = Annotated[TimestampRange, WireType(before=_known)]
"""A range in a response. Fields added by a newer server are ignored."""


def instants(timestamp_ms: int, precision: str, zone: str = "UTC") -> tuple[int, int]:
    """Return the first and the last instant, in ms, equal to `timestamp_ms` after truncation to `precision`.

    Days and hours are in `zone`. Raises InvalidArgument for an unknown precision or zone.
    """
    if precision not in PRECISIONS:
        raise InvalidArgument(f"a precision is one of {', '.join(PRECISIONS)}, found {precision!r}")
    tz = time_zone(zone)
    if precision == "day":
        day = at_ms(timestamp_ms).astimezone(tz).date()
        return _midnight(day, tz), _midnight(day + dt.timedelta(days=1), tz) - 1
    unit = _UNIT_MS[precision]
    offset = at_ms(timestamp_ms).astimezone(tz).utcoffset() or dt.timedelta()
    shift = round(offset.total_seconds() * 1000) % unit
    first = timestamp_ms - (timestamp_ms + shift) % unit
    return first, first + unit - 1


def precision_named(precision: int | str) -> str:
    """Return one of PRECISIONS from its name, or from SQL's number of fractional digits (0 to 3).

    Raises InvalidArgument for an unknown precision, and for a precision finer than a millisecond.
    """
    if isinstance(precision, int) and not isinstance(precision, bool):
        if 0 <= precision < len(_DIGITS):
            return _DIGITS[precision]
        raise InvalidArgument(
            "a time has 0 to 3 fractional digits of a second, because timestamps are whole milliseconds, found "
            f"{precision}"
        )
    name = str(precision).lower()
    name = _ALIASES.get(name, name.removesuffix("s") if len(name) > 2 else name)
    if name in PRECISIONS:
        return name
    raise InvalidArgument(
        f"a precision is one of {', '.join(PRECISIONS)}, or 0 to 3 fractional digits of a second, because "
        f"timestamps are whole milliseconds, found {precision!r}"
    )


def at_ms(timestamp_ms: int) -> dt.datetime:
    """Return the instant in a datetime in UTC."""
    return _EPOCH + dt.timedelta(milliseconds=timestamp_ms)


def cut_off(range_: TimestampRange, unit: str, zone: str = "UTC") -> dt.datetime:
    """Return the common truncated value of a range narrowed to `unit`, in `zone`."""
    first, _ = instants(range_.low_ms + 1, unit, zone)
    found = at_ms(first)
    return found if zone == "UTC" else found.astimezone(time_zone(zone))


def _midnight(day: dt.date, tz: dt.tzinfo) -> int:
    # If the clocks skip midnight, the day starts at the first instant after the gap.
    start = dt.datetime.combine(day, dt.time(), tz)
    return round((start - _EPOCH) / dt.timedelta(milliseconds=1))
