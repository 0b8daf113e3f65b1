"""Time axis in UTC: positions of instants and labels of ticks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from slackwater.owner.api.timestamp_range import at_ms

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS_MS = (
    *(digit * power for power in (1, 10, 100) for digit in (1, 2, 5)),
    *(count * _SECOND for count in (1, 2, 5, 10, 15, 30)),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14)),
)
_STEPS_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12_000)
_MONTH_MS = 30 * _DAY
_MONDAY_MS = 4 * _DAY
"""The first Monday after the epoch. Steps of weeks begin on Mondays."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled instant: `label`, and below it the day (or year), empty if the previous tick has the same."""

    at_ms: int
    label: str
    below: str


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """An axis from `first_ms` to `last_ms`, two different instants, on `width` pixels from `left`."""

    first_ms: int
    last_ms: int
    left: float
    width: float

    @staticmethod
    def over(first_ms: int, last_ms: int, left: float, width: float) -> TimeAxis:
        """Return an axis over both instants, with a small margin."""
        room = max(1, round((last_ms - first_ms) * 0.02))
        return TimeAxis(first_ms - room, last_ms + room, left, width)

    def x(self, at: float) -> float:
        """Return the position of an instant in pixels."""
        return self.left + (at - self.first_ms) / (self.last_ms - self.first_ms) * self.width

    def ticks(self, most: int = 9) -> list[Tick]:
        """Return at most `most` ticks of one regular clock or calendar step."""
        span = self.last_ms - self.first_ms
        step = next((s for s in _STEPS_MS if span / s <= most - 1), None)
        if step is not None:
            start = _MONDAY_MS if step >= 7 * _DAY else 0
            first = start - (start - self.first_ms) // step * step
            return _named(list(range(first, self.last_ms + 1, step)), step)
        months = next((m for m in _STEPS_MONTHS if span / (m * _MONTH_MS) <= most - 1), _STEPS_MONTHS[-1])
        return _named(list(self._firsts_of(months)), months * _MONTH_MS)

    def _firsts_of(self, months: int) -> Iterator[int]:
        """Yield the first instant of every `months`-th month."""
        begin = at_ms(self.first_ms)
        number = -(-(begin.year * 12 + begin.month - 1) // months) * months
        while number // 12 <= dt.MAXYEAR:
            first = dt.datetime(number // 12, number % 12 + 1, 1, tzinfo=dt.timezone.utc)
            found = round(first.timestamp() * 1000)
            if found > self.last_ms:
                return
            if found >= self.first_ms:
                yield found
            number += months


def _named(instants: list[int], step_ms: int) -> list[Tick]:
    ticks: list[Tick] = []
    day = ""
    for instant in instants:
        moment = at_ms(instant)
        if step_ms < _SECOND:
            label, below = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}", f"{moment:%Y-%m-%d}"
        elif step_ms < _MINUTE:
            label, below = f"{moment:%H:%M:%S}", f"{moment:%Y-%m-%d}"
        elif step_ms < _DAY:
            label, below = f"{moment:%H:%M}", f"{moment:%Y-%m-%d}"
        elif step_ms < _MONTH_MS:
            label, below = f"{moment:%b} {moment.day}", f"{moment:%Y}"
        elif step_ms < 12 * _MONTH_MS:
            label, below = f"{moment:%b}", f"{moment:%Y}"
        else:
            label, below = f"{moment:%Y}", ""
        ticks.append(Tick(instant, label, below if below != day else ""))
        day = below
    return ticks
