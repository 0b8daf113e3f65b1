"""What was done when, as data and as pictures: held to the history that it is drawn from."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import slackwater
from slackwater.errors import InvalidArgument
from slackwater.lake.lake import LogLake
from slackwater.log.files.commit_changes import CommitChanges
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.visualization import svg
from slackwater.visualization.commit_columns import NEAREST, columns_of
from slackwater.visualization.svg import raster, standalone
from slackwater.visualization.timeline import (
    CommitGroup,
    CommitMark,
    Timeline,
    TimeWindow,
    timeline_of_lake,
    timeline_of_table,
)
from slackwater.visualization.timeline_page import MOST_STEPS, timeline_page
from slackwater.visualization.timeline_picture import draw_timeline
from tests.contract.owners import FakeClock
from tests.transaction.tables import add, schema

ID = schema({"id": "long"})
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def lake(tmp_path: Path, clock: FakeClock) -> Iterator[LogLake]:
    """Two tables; one transaction over both, and one commit to each."""
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None, clock=clock.owner_clock())
    with LogLake(owner, owner.root_url) as found:
        for name in ("orders", "stock"):
            found._create_log(name, ID)
            clock.now_ms += 60_000
        append(found, "orders", "1", 7)
        clock.now_ms += 60_000
        with found.transaction() as tx:
            for name, rows in (("orders", 5), ("stock", 3)):
                of_table = tx.log(name)
                of_table.add(add(f"{name}-both", rows=rows))
                of_table.commit("WRITE", user_metadata=f"to {name}")
        clock.now_ms += 60_000
        append(found, "stock", "2", 2)
        yield found


def append(lake: LogLake, name: str, path: str, rows: int) -> None:
    transaction = slackwater.Transaction(lake.snapshot(name))
    transaction.add(add(path, rows=rows))
    transaction.commit("WRITE")


def shapes(document: str, tag: str) -> list[ElementTree.Element]:
    """All elements of a picture of our own that have this tag."""
    return list(ElementTree.fromstring(document).iter(f"{SVG}{tag}"))  # noqa: S314  (it was made here)


def words_of(document: str) -> list[str]:
    """What the shapes of a picture say where a pointer rests on them."""
    return [title.text or "" for title in shapes(document, "title")]


def many(count: int, lanes: int = 3, step_ms: int = 1000) -> Timeline:
    """A lake of so many commits, one after the other, each to the next table."""
    names = [f"t{lane}" for lane in range(lanes)]
    done = CommitChanges(1, 0, 0, 10, 0, 1, 0)
    deeds = [
        CommitGroup(at * step_ms, None, (CommitMark(at % lanes, at // lanes, at * step_ms, "WRITE", None, None, done),))
        for at in range(count)
    ]
    return Timeline("many", "/lakes/many", True, names, deeds)


def test_a_timeline_is_the_history_oldest_first(lake: LogLake) -> None:
    found = timeline_of_lake(lake, "/lakes/one")
    history = lake.history()
    assert found.lanes == ["orders", "stock"]
    assert [{found.lanes[mark.lane]: mark.version for mark in deed.marks} for deed in reversed(found.deeds)] == [
        dict(commit.tables) for commit in history
    ]
    assert [deed.at_ms for deed in reversed(found.deeds)] == [round(c.timestamp.timestamp() * 1000) for c in history]
    assert not found.has_more


def test_a_table_has_a_timeline_of_its_own(lake: LogLake) -> None:
    found = timeline_of_table(lake.snapshot("orders"))
    assert (found.lanes, found.is_lake) == (["orders"], False)
    assert [(mark.version, mark.operation, mark.changes.rows_added) for mark in found.marks] == [
        (0, "CREATE TABLE", 0),
        (1, "WRITE", 7),
        (2, "WRITE", 5),
    ]


def test_a_window_leaves_out_what_is_older_or_newer_and_says_so(lake: LogLake) -> None:
    whole = timeline_of_lake(lake, "/lakes/one")
    stamps = [deed.at_ms for deed in whole.deeds]
    some = timeline_of_lake(lake, "/lakes/one", TimeWindow(since_ms=stamps[1], until_ms=stamps[3]))
    assert [deed.at_ms for deed in some.deeds] == stamps[1:4]
    assert some.has_more
    newest = timeline_of_lake(lake, "/lakes/one", TimeWindow(limit=2))
    assert [deed.at_ms for deed in newest.deeds] == stamps[-2:]
    assert newest.has_more
    assert not timeline_of_lake(lake, "/lakes/one", TimeWindow(limit=len(stamps))).has_more
    with pytest.raises(InvalidArgument, match="limit must be a whole number from 1"):
        timeline_of_lake(lake, "/lakes/one", TimeWindow(limit=0))


def test_the_record_has_every_commit_newest_first(lake: LogLake) -> None:
    record = timeline_of_lake(lake, "/lakes/one").record()
    both = record["transactions"][1]
    assert [(c["table"], c["version"], c["rowsAdded"], c["userMetadata"]) for c in both["commits"]] == [
        ("orders", 2, 5, "to orders"),
        ("stock", 1, 3, "to stock"),
    ]
    assert both["transactionId"] == lake.history()[1].transaction_id


def test_the_picture_says_each_commit_of_the_history(lake: LogLake) -> None:
    document = standalone(draw_timeline(timeline_of_lake(lake, "/lakes/one")).picture)
    words = words_of(document)
    for commit in lake.history():
        for name, of_table in commit.commits.items():
            told = [w for w in words if w.startswith(f"{name}, version {of_table.version}: {of_table.operation}")]
            assert len(told) == 1, (name, of_table.version)
            assert f"{commit.timestamp:%Y-%m-%d %H:%M:%S}.{commit.timestamp.microsecond // 1000:03} UTC" in told[0]
            if of_table.changes.rows_added:
                assert f"rows +{of_table.changes.rows_added}" in told[0]


def test_a_transaction_over_two_tables_is_one_line_across_their_lanes(lake: LogLake) -> None:
    document = standalone(draw_timeline(timeline_of_lake(lake, "/lakes/one")).picture)
    lines = [
        found for found in shapes(document, "line") if "one transaction over" in (found.findtext(f"{SVG}title") or "")
    ]
    assert len(lines) == 1
    assert lines[0].findtext(f"{SVG}title", "").startswith("one transaction over orders, stock")
    circles = {(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in shapes(document, "circle")}
    ends = {(float(lines[0].attrib["x1"]), float(lines[0].attrib[y])) for y in ("y1", "y2")}
    assert len(ends) == 2
    assert ends <= circles


def test_instants_stand_where_the_axis_has_them() -> None:
    found = draw_timeline(many(3, lanes=1, step_ms=60_000))
    xs = [float(c.attrib["cx"]) for c in shapes(str(found.picture), "circle")][:3]
    assert xs == pytest.approx([found.axis.x(at) for at in (0, 60_000, 120_000)], abs=0.01)
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.02)


def test_columns_are_apart_and_lose_no_commit() -> None:
    timeline = many(5000)
    columns = columns_of(timeline, draw_timeline(timeline).axis)
    xs = [column.x for column in columns]
    assert min(b - a for a, b in pairwise(xs)) >= NEAREST
    assert sum(len(column.marks()) for column in columns) == 5000


@pytest.mark.long
def test_a_hundred_thousand_commits_are_a_small_picture_and_page() -> None:
    timeline = many(100_000, lanes=20)
    page = timeline_page(timeline)
    assert len(page) < 1_500_000
    assert len(standalone(draw_timeline(timeline).picture)) < 1_000_000
    told = json.loads(_told(page))
    assert len(told["instants"]) == MOST_STEPS
    assert (told["instants"][0], told["instants"][-1]) == (0, 99_999_000)
    assert [lane["versions"][-1] for lane in told["lanes"]] == [4999] * 20


def _told(page: str) -> str:
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(value or "" for name, value in attrs if name == "data-told")

    Reader().feed(page)
    assert len(found) == 1
    return found[0]


def test_the_slider_knows_the_version_of_every_table_at_every_instant(lake: LogLake) -> None:
    told = json.loads(_told(timeline_page(timeline_of_lake(lake, "/lakes/one"))))
    for step, instant in enumerate(told["instants"]):
        slice_ = lake.as_of(instant)
        for name, lane in zip(["orders", "stock"], told["lanes"], strict=True):
            versions = [v for s, v in zip(lane["steps"], lane["versions"], strict=True) if s <= step]
            if versions:
                assert versions[-1] == slice_.version(name)
            else:
                assert name not in slice_.tables()
                assert lane["before"] == "does not exist yet"


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_the_slider_of_a_page_shows_the_state_of_its_instant(lake: LogLake, tmp_path: Path) -> None:
    page = timeline_page(timeline_of_lake(lake, "/lakes/one"))
    told = json.loads(_told(page))
    newest = f'value="{len(told["instants"]) - 1}"'
    assert page.count(newest) == 1
    # It begins at another instant; script and policy are those of the page.
    (tmp_path / "page.html").write_text(page.replace(newest, 'value="2"'), encoding="utf-8")
    headless = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run(
        [*headless, "--dump-dom", f"file://{tmp_path}/page.html"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    then = lake.as_of(told["instants"][2])
    for number, name in enumerate(["orders", "stock"]):
        assert f'<span id="as-of-{number}">{then.version(name)}</span>' in done.stdout
    moment = f"{then.timestamp:%Y-%m-%dT%H:%M:%S}.{then.timestamp.microsecond // 1000:03}Z"
    assert f'past = lake.as_of("{moment}")</code>' in done.stdout.replace("&quot;", '"')


def test_what_stands_in_a_log_is_text_in_a_picture_and_a_page() -> None:
    bad = "</script><script>alert(1)</script>\"'&{at}"
    mark = CommitMark(0, 0, 0, bad, bad, bad, CommitChanges())
    timeline = Timeline(bad, bad, True, [bad], [CommitGroup(0, bad, (mark,))])
    page = timeline_page(timeline)
    assert page.count("<script>") == 1
    assert "alert(1)</script>" not in page
    json.loads(_told(page))
    document = standalone(draw_timeline(timeline).picture)
    assert any(bad in words for words in words_of(document))


def test_a_page_that_is_sent_to_others_has_no_password(lake: LogLake) -> None:
    page = timeline_page(timeline_of_lake(lake, "https://ann:s3cret@lakes.example/one"))
    assert "lakes.example/one" in page
    assert "s3cret" not in page


def test_a_page_loads_nothing(lake: LogLake) -> None:
    page = timeline_page(timeline_of_lake(lake, "/lakes/one"))
    without = page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?://|src=|@import|url\(", without)


def test_a_period_without_commits_is_a_picture_that_says_so() -> None:
    timeline = replace(many(1), deeds=[])
    assert "no commits in this period" in standalone(draw_timeline(timeline).picture)
    page = timeline_page(timeline)
    assert "no commits" in page
    assert 'id="as-of"' not in page


def test_a_picture_is_the_same_however_often_it_is_drawn(lake: LogLake) -> None:
    timeline = timeline_of_lake(lake, "/lakes/one")
    assert standalone(draw_timeline(timeline).picture) == standalone(draw_timeline(timeline).picture)


def test_a_png_is_drawn_by_a_package_that_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    with pytest.raises(InvalidArgument, match="pip install resvg-py"):
        raster(draw_timeline(many(3)).picture)


def test_a_png_has_the_pixels_of_its_picture() -> None:
    pytest.importorskip("resvg_py", reason="pip install resvg-py")
    drawn = draw_timeline(many(3)).picture
    data = raster(drawn)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width = int.from_bytes(data[16:20], "big")
    assert width == svg.PIXELS_A_UNIT * float(shapes(str(drawn), "svg")[0].attrib["width"])
