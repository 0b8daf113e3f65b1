"""How the pictures of time are drawn: schedules that play as they are looked at, ranges, and slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slackwater.html.element import Markup, element
from slackwater.visualization.svg import RULES, circle, line, path, picture, rect, standalone, text, width_of

WIDTH = 860.0
_LEFT, _UNIT = 92.0, 68.0
_PLAYS_S = 14
_AHEAD = 0.32
"""How much is seen of what is still to come."""
_TIMES = range(11)
_LANE, _LANES = 74.0, ("T1", "T2")
_TOP = 62.0


@dataclass(frozen=True)
class Step:
    """What a transaction does at a time; `kind` is a colour of the theme."""

    time: float
    lane: str
    words: str
    kind: str = "mark"


@dataclass(frozen=True)
class Schedule:
    """Steps of T1 and T2, the timestamps of those that committed, and answers to the time slice of 2."""

    title: str
    steps: Sequence[Step]
    stamps: Mapping[str, float]
    slices: Sequence[tuple[float, str]]
    note: str = ""


@dataclass(frozen=True)
class RangeBar:
    """The timestamps that were left after `what`: above `low`, and not after `high`, None where there is no bound.

    `until` is `high` in words.
    """

    time: float
    what: str
    low: float
    high: float | None
    until: str = ""
    is_stamp: bool = False


@dataclass(frozen=True)
class Slot:
    """The slot of an item, what its writer must exceed, and when the item itself was read."""

    item: str
    slot: int
    bound: float | None
    read: float | None


def schedule_svg(schedule: Schedule) -> str:
    """Two lanes of steps above the axis of time; below it the timestamps, and the time slices that were asked for."""
    bottom = _TOP + _LANE * len(_LANES)
    order = bottom + 48
    height = order + 64 + 24 * len(schedule.slices) + 34
    parts = [text(20, 30, _subscript(schedule.title), "sw-t-title")]
    parts += _axis(bottom)
    for number, name in enumerate(_LANES):
        parts.append(_lane(schedule, name, _TOP + _LANE * (number + 0.5)))
    parts += _order(schedule, order)
    parts += _slices(schedule, order + 58)
    parts.append(line(_x(0), _TOP - 8, _x(0), bottom + 4, "sw-now"))
    parts.append(text(20, height - 16, _subscript(schedule.note), "sw-t"))
    return standalone(picture(WIDTH, height, schedule.title, *parts), (*RULES, *_played()))


def _x(time: float) -> float:
    return _LEFT + time * _UNIT


def _played() -> list[tuple[str, str]]:
    """A line passes over the axis, and each step comes out as it is passed; none is ever hidden.

    Who wants no motion, and paper, have all of them at once, without the line.
    """
    end = _x(10.6) - _x(0)
    begin, last = _share(0), _share(10.6)
    rules = [
        (".sw-now", f"stroke:var(--sw-text);stroke-width:1.5;opacity:0;animation:sw-now {_PLAYS_S}s linear infinite;"),
        (
            "@keyframes sw-now",
            f"0%,{begin:.1f}%{{opacity:1;transform:translateX(0);}}{last:.1f}%{{opacity:1;transform:translateX({end:.0f}px);}}"
            f"{last + 1:.1f}%,100%{{opacity:0;transform:translateX({end:.0f}px);}}",
        ),
    ]
    for half in range(23):
        passed = _share(half / 2)
        name = f"sw-at-{half * 5}"
        rules.append((f".{name}", f"animation:{name} {_PLAYS_S}s linear infinite;"))
        frames = f"0%,{passed:.1f}%{{opacity:{_AHEAD};}}{passed + 1:.1f}%,99%{{opacity:1;}}100%{{opacity:{_AHEAD};}}"
        rules.append((f"@keyframes {name}", frames))
    rules.append(("@media print,(prefers-reduced-motion:reduce)", "*{animation:none !important;}"))
    return rules


def _share(time: float) -> float:
    """When the line passes a time, in percent of the whole play; the rest of it stands still."""
    return 2 + time / 10.6 * 62


def _at(time: float, *shapes: Markup) -> Markup:
    return element("g", *shapes, class_=f"sw-at-{round(time * 10 / 5) * 5}")


def _axis(bottom: float) -> list[Markup]:
    parts = [line(_x(0), bottom, _x(10.6), bottom, "sw-base"), text(20, bottom + 18, "clock", "sw-t-small")]
    for time in _TIMES[1:]:
        parts.append(line(_x(time), _TOP, _x(time), bottom + 4, "sw-grid"))
        parts.append(text(_x(time), bottom + 18, str(time), "sw-t-small", "middle"))
    return parts


def _lane(schedule: Schedule, name: str, y: float) -> Markup:
    steps = [step for step in schedule.steps if step.lane == name]
    first, last = steps[0].time, steps[-1].time
    parts = [text(20, y + 5, _subscript(name), "sw-t-name"), line(_x(first - 0.4), y, _x(last), y, "sw-line-muted")]
    for number, step in enumerate(steps):
        x, words = _x(step.time), step.words
        # Words of neighbours stand above and below in turn.
        word_y = y - 14 if number % 2 == 0 else y + 26
        parts.append(_at(step.time, _mark(step, x, y), _word(x, word_y, words)))
    return element("g", parts)


def _mark(step: Step, x: float, y: float) -> Markup:
    if step.kind == "bad":
        return element(
            "g",
            line(x - 7, y - 7, x + 7, y + 7, "sw-line-bad"),
            line(x - 7, y + 7, x + 7, y - 7, "sw-line-bad"),
        )
    return circle(x, y, 7 if step.kind == "good" else 5, f"sw-is-{step.kind}")


def _word(x: float, y: float, words: str) -> Markup:
    wide = width_of(words, 12) + 8
    return element("g", rect(x - wide / 2, y - 12, wide, 17, "sw-ground"), text(x, y, words, "sw-t", "middle"))


def _order(schedule: Schedule, y: float) -> list[Markup]:
    """The axis of timestamps: where each transaction that committed has its place."""
    parts = [
        text(20, y + 4, "timestamp", "sw-t-small"),
        line(_x(0), y, _x(10.6), y, "sw-grid"),
    ]
    committed = {step.lane: step.time for step in schedule.steps if step.words == "commits"}
    for name, stamp in schedule.stamps.items():
        x = _x(stamp)
        diamond = path([(x, y - 9), (x + 9, y), (x, y + 9), (x - 9, y)], "sw-is-accent")
        words = text(x, y + 26, f"{_subscript(name)} at {stamp:g}", "sw-t-name", "middle")
        parts.append(_at(committed[name], diamond, words))
    if schedule.slices:
        # The instant that time slices are asked for.
        parts.append(line(_x(2), y - 12, _x(2), y + 12, "sw-line-warn"))
        parts.append(text(_x(2), y + 26, "slice", "sw-t-small", "middle"))
    return parts


def _slices(schedule: Schedule, y: float) -> list[Markup]:
    parts = []
    differ = len({answer for _, answer in schedule.slices}) > 1
    for number, (asked, answer) in enumerate(schedule.slices):
        kind = "bad" if differ and number else "good"
        at = y + 24 * number
        words = f"time slice of 2, asked for at {asked:g}: {answer}"
        shapes = [rect(_LEFT, at - 9, 10, 10, f"sw-is-{kind}", rx=2), text(_LEFT + 18, at, words, "sw-t")]
        if differ and number:
            shapes.append(text(_LEFT + 26 + width_of(words), at, "another answer", "sw-t-name"))
        parts.append(_at(asked, *shapes))
    return parts


def ranges_svg(bars: Sequence[RangeBar]) -> str:
    """One bar below the other: what was left of the range after each step."""
    title = "The range of a transaction's timestamp narrows"
    left, unit, row = 236.0, 46.0, 34.0
    top, last = 70.0, 10.4
    height = top + row * len(bars) + 58
    bottom = top + row * len(bars)
    parts = [text(20, 30, title, "sw-t-title")]

    def x(time: float) -> float:
        return left + max(0.0, min(time, last)) * unit

    for time in range(1, 11):
        parts.append(line(x(time), top - 8, x(time), bottom + 4, "sw-grid"))
        parts.append(text(x(time), bottom + 18, str(time), "sw-t-small", "middle"))
    parts.append(text(left + last * unit + 14, bottom + 18, "later", "sw-t-small"))
    for number, bar in enumerate(bars):
        y = top + row * number + 8
        parts.append(text(20, y + 10, f"{bar.time:g}", "sw-t-small"))
        parts.append(text(44, y + 10, bar.what, "sw-t"))
        is_one = bar.high is not None and bar.high - bar.low < 0.01
        if is_one and bar.high is not None:
            colour = "accent" if bar.is_stamp else "mark"
            parts.append(circle(x(bar.high), y + 6, 7 if bar.is_stamp else 6, f"sw-is-{colour}"))
            parts.append(text(x(bar.high) + 14, y + 10, f"{bar.high:g}", "sw-t-name"))
            continue
        begin, end = x(bar.low), x(last if bar.high is None else bar.high)
        parts.append(rect(begin, y, end - begin, 12, "sw-is-mark", rx=3))
        if bar.high is None or bar.high > last:
            tip = left + last * unit
            parts.append(path([(tip, y - 3), (tip + 12, y + 6), (tip, y + 15)], "sw-is-mark"))
            parts.append(text(tip + 20, y + 10, "no bound" if bar.high is None else bar.until, "sw-t-small"))
    note = "On the left ends what was read, or written by others; on the right what the transaction was told."
    parts.append(text(20, height - 14, note, "sw-t"))
    return standalone(picture(WIDTH, height, title, *parts))


def slots_svg(slots: Sequence[Slot], count: int) -> str:
    """Items on the left, their slots in the middle, on the right what a writer of the item must exceed."""
    title = "The read timestamp table: when was this, or its like, read last?"
    top, box, middle = 64.0, 34.0, 360.0
    height = top + box * count + 60
    stamps = {slot.slot: slot.bound for slot in slots if slot.bound is not None}
    parts = [text(20, 30, title, "sw-t-title")]
    for number in range(count):
        y = top + box * number
        parts.append(rect(middle, y + 3, 130, box - 6, "sw-lane", rx=4))
        parts.append(text(middle + 10, y + 21, f"slot {number}", "sw-t-small"))
        held = stamps.get(number)
        if held is not None:
            parts.append(text(middle + 118, y + 21, f"{held:g}", "sw-t-name", "end"))
    step = box * count / len(slots)
    for number, slot in enumerate(slots):
        y = top + step * (number + 0.5)
        slot_y = top + box * (slot.slot + 0.5)
        read = f"read by a transaction of {slot.read:g}" if slot.read is not None else "read by nobody"
        parts.append(text(20, y, slot.item, "sw-t-name"))
        parts.append(text(20, y + 16, read, "sw-t-small"))
        parts.append(line(200, y, middle - 8, slot_y, "sw-line-mark"))
        must = "may have any timestamp" if slot.bound is None else f"must be after {slot.bound:g}"
        colour = "warn" if slot.read is None and slot.bound is not None else "muted"
        parts.append(line(middle + 138, slot_y, 590, y, f"sw-line-{colour}"))
        parts.append(text(600, y, f"who writes {slot.item}", "sw-t"))
        parts.append(text(600, y + 16, must, "sw-t-name"))
    note = "Items may share a slot: then one counts as read later than it was, never as earlier."
    parts.append(text(20, height - 16, note, "sw-t"))
    return standalone(picture(WIDTH, height, title, *parts))


def _subscript(name: str) -> str:
    return name.replace("T1", "T₁").replace("T2", "T₂")
