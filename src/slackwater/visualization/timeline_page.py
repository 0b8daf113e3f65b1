"""Timeline as an HTML page: the picture, a slider for `as_of` and a table of the newest commits.

The page is one self-contained file. Without scripts it shows the newest state.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from slackwater.html.components import code, muted, table
from slackwater.html.element import Markup, element, fragment
from slackwater.html.number_format import number
from slackwater.html.page import page
from slackwater.visualization.axis import TimeAxis
from slackwater.visualization.commit_columns import NEAREST, bytes_of, files_of, rows_of, vectors_of
from slackwater.visualization.commit_text import byte_change, change, instant, iso_ms
from slackwater.visualization.svg import RULES, line, rect
from slackwater.visualization.timeline import CommitMark, Timeline, newest
from slackwater.visualization.timeline_picture import WIDTH, RenderedTimeline, draw_timeline, summary, title_of

MOST_STEPS = 1500
"""The maximum number of slider steps. With more instants, the slider uses evenly spaced ones."""

_MOST_ROWS = 200
_RULES = (
    *RULES,
    (".sw-timeline svg", f"width:100%;min-width:{WIDTH * 0.72:.0f}px;height:auto;max-width:none;display:block;"),
    (".sw-cursor", "stroke:var(--sw-text);stroke-width:1.5;stroke-dasharray:4 3;"),
    (".sw-future", "fill:var(--sw-ground);opacity:.62;pointer-events:none;"),
    (".sw-asof", "background:var(--sw-surface);border-radius:10px;padding:12px 16px;margin:12px 0 20px;"),
    (".sw-asof label", "display:flex;flex-wrap:wrap;align-items:center;gap:4px 12px;font-weight:600;"),
    (".sw-asof input", "flex:1 1 320px;min-width:160px;"),
    (".sw-asof output", "font-variant-numeric:tabular-nums;min-width:15em;"),
    (".sw-lines", "display:grid;gap:4px;margin:8px 0 0;"),
    (
        ".sw-lines code",
        "display:block;background:var(--sw-ground);border:1px solid var(--sw-line);border-radius:6px;padding:4px 10px;"
        "user-select:all;",
    ),
    ("#as-of-tables td", "overflow-wrap:anywhere;"),
)
_SCRIPT = """\
"use strict";
const box = document.getElementById("as-of");
if (box) {
  const told = JSON.parse(box.dataset.told);
  const slider = box.querySelector("input");
  const line = document.getElementById("as-of-line");
  const future = document.getElementById("as-of-future");
  const show = () => {
    const step = Number(slider.value);
    const at = told.instants[step];
    const text = new Date(at).toISOString();
    box.querySelector("output").textContent = text.replace("T", " ").replace("Z", " UTC");
    const x = told.left + (at - told.first) / (told.last - told.first) * told.width;
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    // What was done at this very instant is not hidden.
    const begin = x + told.mark;
    future.setAttribute("x", begin);
    future.setAttribute("width", Math.max(0, told.left + told.width - begin));
    told.lanes.forEach((lane, number) => {
      let low = 0, high = lane.steps.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (lane.steps[middle] <= step) low = middle + 1; else high = middle;
      }
      const version = low ? lane.versions[low - 1] : null;
      const cell = document.getElementById("as-of-" + number);
      cell.textContent = version === null ? lane.before : version;
    });
    const version = document.getElementById("as-of-0").textContent;
    for (const shown of box.querySelectorAll("code[data-template]"))
      shown.textContent = shown.dataset.template.split("{at}").join(text).split("{version}").join(version);
  };
  slider.addEventListener("input", show);
  document.querySelector(".sw-timeline").addEventListener("click", (event) => {
    const svg = document.querySelector(".sw-timeline svg");
    const frame = svg.getBoundingClientRect();
    const x = (event.clientX - frame.left) / frame.width * svg.viewBox.baseVal.width;
    const at = told.first + (x - told.left) / told.width * (told.last - told.first);
    let best = 0;
    told.instants.forEach((instant, step) => {
      if (Math.abs(instant - at) < Math.abs(told.instants[best] - at)) best = step;
    });
    slider.value = best;
    show();
  });
  show();
}
"""


def timeline_page(timeline: Timeline) -> str:
    """Return the document. Its size grows with tables and steps, not with the number of commits."""
    drawn = draw_timeline(timeline, with_head=False, overlay=_overlay if timeline.deeds else None)
    more = "; others are left out" if timeline.has_more else ""
    return page(
        f"{title_of(timeline)}: timeline",
        element("h1", timeline.title),
        element("p", muted(f"{summary(timeline)}{more} · "), code(timeline.place), class_="sw-small"),
        element("div", drawn.picture, class_="sw-timeline sw-scroll"),
        _as_of(timeline, drawn) if timeline.deeds else None,
        _commits(timeline),
        rules=_RULES,
        script=_SCRIPT if timeline.deeds else "",
    )


def _overlay(axis: TimeAxis, top: float, bottom: float) -> Markup:
    x = axis.left + axis.width
    return fragment(
        rect(x, top, 0, bottom - top, "sw-future", id="as-of-future"),
        line(x, top - 6, x, bottom, "sw-cursor", id="as-of-line"),
    )


def _as_of(timeline: Timeline, drawn: RenderedTimeline) -> Markup:
    instants = _steps(timeline)
    last = len(instants) - 1
    lanes = _versions_by_step(timeline, instants)
    told = {
        "instants": instants,
        "first": drawn.axis.first_ms,
        "last": drawn.axis.last_ms,
        "left": drawn.axis.left,
        "width": drawn.axis.width,
        "mark": NEAREST / 2,
        "lanes": lanes,
    }
    current = [lane["versions"][-1] if lane["versions"] else lane["before"] for lane in lanes]
    rows = [(name, element("span", str(current[lane]), id=f"as-of-{lane}")) for lane, name in enumerate(timeline.lanes)]
    slider = element(
        "input", type="range", min="0", max=str(last), step="1", value=str(last), aria_label="as of", id="as-of-slider"
    )
    return element(
        "div",
        element("label", "as of", slider, element("output", instant(instants[last])), for_="as-of-slider"),
        element("div", table(("table", "version"), rows, right=("version",)), id="as-of-tables")
        if timeline.is_lake
        else element("p", muted("version: "), rows[0][1]),
        element("div", [_line(text, instants[last], current[0]) for text in _templates(timeline)], class_="sw-lines"),
        element("p", _skipped(timeline, instants), class_="sw-note"),
        id="as-of",
        class_="sw-asof",
        data_told=orjson.dumps(told).decode(),
    )


def _skipped(timeline: Timeline, instants: Sequence[int]) -> str | None:
    found = len({deed.at_ms for deed in timeline.deeds})
    if found == len(instants):
        return None
    return f"The slider stops at {number(len(instants))} of {number(found)} instants; as_of accepts every instant."


def _steps(timeline: Timeline) -> list[int]:
    """Return the slider's instants in ascending order, including the newest."""
    instants = sorted({deed.at_ms for deed in timeline.deeds})
    if len(instants) <= MOST_STEPS:
        return instants
    return [instants[round(step * (len(instants) - 1) / (MOST_STEPS - 1))] for step in range(MOST_STEPS)]


def _versions_by_step(timeline: Timeline, instants: Sequence[int]) -> list[dict[str, list[int] | str]]:
    """Return for each lane the steps with a new version, these versions, and the text before the first."""
    lanes: list[list[CommitMark]] = [[] for _ in timeline.lanes]
    for mark in timeline.marks:
        lanes[mark.lane].append(mark)
    return [_lane(marks, instants) for marks in lanes]


def _lane(marks: Sequence[CommitMark], instants: Sequence[int]) -> dict[str, list[int] | str]:
    steps: list[int] = []
    versions: list[int] = []
    at = 0
    for step, instant_ms in enumerate(instants):
        before = at
        while at < len(marks) and marks[at].at_ms <= instant_ms:
            at += 1
        if at > before:
            steps.append(step)
            versions.append(marks[at - 1].version)
    is_whole = bool(marks) and marks[0].version == 0
    return {
        "steps": steps,
        "versions": versions,
        "before": "does not exist yet" if is_whole else "outside of the period",
    }


def _templates(timeline: Timeline) -> list[str]:
    """Return lines of code with placeholders for the instant {at} and the table's version {version}."""
    if timeline.is_lake:
        name = timeline.lanes[0] if timeline.lanes else "name"
        return ['past = lake.as_of("{at}")', f"past.table({_quoted(name)})"]
    place = _quoted(timeline.place)
    return [
        f'spark.read.format("delta").option("versionAsOf", {{version}}).load({place})',
        f'spark.read.format("delta").option("timestampAsOf", "{{at}}").load({place})',
        f"slackwater.Snapshot.load({place}, version={{version}})",
    ]


def _quoted(text: str) -> str:
    """Return the text as a Python string literal. Braces in the text are not placeholders."""
    return orjson.dumps(text).decode()


def _line(template: str, at_ms: int, version: object) -> Markup:
    shown = template.replace("{at}", iso_ms(at_ms)).replace("{version}", str(version))
    return element("code", shown, data_template=template)


def _commits(timeline: Timeline) -> Markup:
    marks = newest(timeline.marks, _MOST_ROWS)
    if not marks:
        return fragment()
    headers = ["time (UTC)", "table", "version", "operation", "by", "rows", "bytes", "files", "vector rows", "note"]
    rows = [
        [
            element("span", instant(mark.at_ms)[:-4], class_="sw-nowrap"),
            timeline.lanes[mark.lane],
            mark.version,
            mark.operation,
            mark.user,
            change(rows_of([mark])),
            byte_change(bytes_of([mark])),
            change(files_of([mark])),
            change(vectors_of([mark])),
            mark.note,
        ]
        for mark in marks
    ]
    if not timeline.is_lake:
        headers.pop(1)
        rows = [row[:1] + row[2:] for row in rows]
    kept = [at for at in range(len(headers)) if any(row[at] not in (None, "") for row in rows)]
    headers = [headers[at] for at in kept]
    rows = [[row[at] for at in kept] for row in rows]
    left = sum(len(deed.marks) for deed in timeline.deeds) - len(marks)
    return fragment(
        element("h2", "Newest commits" if left else "Commits"),
        table(headers, rows, right=("version", "rows", "bytes", "files", "vector rows")),
        element("p", f"and {number(left)} before them", class_="sw-note") if left else None,
    )
