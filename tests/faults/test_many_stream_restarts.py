"""Queries that die at every step, very often, while others rearrange, delete and merge: no row is lost or doubled.

Without Spark a restart takes so little that there can be thousands of them. Those of Spark's own queries are in
test_killed_streams, test_killed_lake_streams and test_killed_batch_workers.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slackwater.scan.file_changes import CHANGE_TYPE, COMMIT_VERSION
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import open_store
from slackwater.streams.backlog import SinkState, sink_state
from slackwater.streams.checkpoint import read_checkpoint
from tests.faults.model_query import (
    APPENDED,
    FEED,
    LAKE,
    LANDED,
    POINTS,
    ROWS,
    TABLE,
    TOTALS,
    UNPLANNED,
    kill_at,
    lake_at,
    let_run,
)
from tests.faults.restless_tables import Others, Source, create_sinks, pairs


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Others]:
    """Those who change the tables meanwhile."""
    others = Others(tmp_path)
    try:
        yield others
    finally:
        others.kill()


# What is read and where it goes, and the seed of what is by chance. The short run has forty restarts, the long one two
# thousand of each of these two, in four tables: one restart takes longer the more there were before it.
@pytest.mark.parametrize(
    ("kind", "into", "restarts", "seed"),
    [
        (APPENDED, TABLE, 20, 50),
        (FEED, LAKE, 20, 50),
        *(pytest.param(APPENDED, TABLE, 500, seed, marks=pytest.mark.long) for seed in range(4)),
        *(pytest.param(FEED, LAKE, 500, seed, marks=pytest.mark.long) for seed in range(4)),
        pytest.param(FEED, TABLE, 500, 4, marks=pytest.mark.long),
        pytest.param(APPENDED, LAKE, 500, 4, marks=pytest.mark.long),
    ],
)
def test_no_number_of_deaths_loses_or_doubles_a_row(
    tmp_path: Path, others: Others, kind: str, into: str, restarts: int, seed: int
) -> None:
    source = Source(tmp_path)
    # What a stream begins with is more than one batch: how it goes on amid that is seen too.
    source.append(8)
    create_sinks(tmp_path, kind, into)
    chance = random.Random(seed)  # noqa: S311  (no secret)
    for number, point in enumerate(itertools.islice(_in_any_order(list(POINTS[into]), chance), restarts)):
        source.append(3)
        others.begin(1)
        # Of at least two batches one at most is survived.
        held = _held(tmp_path, into)
        kill_at(tmp_path, kind, into, point, chance.randrange(2))
        _require_as_it_was_left(tmp_path, into, point, held)
        if number % 10 == 9:
            others.kill()
            let_run(tmp_path, kind, into)
        else:
            others.await_end()
        if number % 100 == 99:
            _require_all(tmp_path, kind, into, source)
    let_run(tmp_path, kind, into)
    _require_all(tmp_path, kind, into, source)


def _in_any_order(points: list[str], chance: random.Random) -> Iterator[str]:
    """Each of the points, again and again."""
    while True:
        chance.shuffle(points)
        yield from points


def _require_as_it_was_left(root: Path, into: str, point: str, before: int | None) -> None:
    """The checkpoint and what is written to have what they must have behind a death; before, they had a batch less."""
    state = read_checkpoint(open_store(str(root / "check")))
    assert (state.repeats is None) is (point in UNPLANNED), point
    found = sink_state(state, _held(root, into))
    # Where the batch had landed already, it was done again, and found there.
    has_next = point in LANDED or (before is not None and before == state.repeats)
    assert found in ({SinkState.HAS_NEXT} if has_next else {SinkState.IN_STEP, SinkState.NOTHING}), point


def _held(root: Path, into: str) -> int | None:
    """The last batch of the query that is written, in all tables."""
    query_id = read_checkpoint(open_store(str(root / "check"))).query_id if (root / "check").exists() else ""
    progress = [snapshot.transactions.get(query_id) for snapshot in _sinks(root, into).values()]
    (held,) = {None if each is None else each.version for each in progress}
    return held


def _require_all(root: Path, kind: str, into: str, source: Source) -> None:
    """Each row, or each change, of the source is there once, and in several tables all of each batch."""
    sinks = {name: snapshot.to_arrow() for name, snapshot in _sinks(root, into).items()}
    rows = sinks[ROWS]
    first = _began_with(root)
    if kind == APPENDED:
        appended = Counter((i, 0) for version, ids in source.appended.items() if version > first for i in ids)
        assert pairs(rows) == source.rows(first) + appended
    else:
        _require_feed(rows, first, source)
    if into == LAKE:
        _require_whole_batches(root, rows, sinks[TOTALS])


def _require_feed(changes: pa.Table, first: int, source: Source) -> None:
    """The changes up to a version are what that version is: of some versions, and the newest."""
    newest = Snapshot.load(source.path).version
    at = changes[COMMIT_VERSION].to_pylist()
    assert not at or (min(at) >= first and max(at) <= newest)
    for version in {first, first + 1, (first + newest) // 2, newest - 1, newest}:
        seen = changes.filter(pc.less_equal(changes[COMMIT_VERSION], version))
        goes = pc.is_in(seen[CHANGE_TYPE], pa.array(["delete", "update_preimage"]))
        found = pairs(seen.filter(pc.invert(goes)))
        found.subtract(pairs(seen.filter(goes)))
        assert {pair: count for pair, count in found.items() if count} == dict(source.rows(version))


def _require_whole_batches(root: Path, rows: pa.Table, totals: pa.Table) -> None:
    """Each batch is there once, with as many rows as it says, at the time that it says."""
    number = read_checkpoint(open_store(str(root / "check"))).next_batch
    assert sorted(totals["batch"].to_pylist()) == list(range(number))
    told = dict(zip(totals["batch"].to_pylist(), totals["n"].to_pylist(), strict=True))
    assert Counter(rows["batch"].to_pylist()) == Counter({batch: count for batch, count in told.items() if count})
    with lake_at(root) as lake:
        # What others did to them was in one table each.
        times = [each.timestamp for each in lake.history() if len(each.tables) == 2]
    assert sorted(totals["at"].to_pylist()) == sorted(times)


def _sinks(root: Path, into: str) -> dict[str, Snapshot]:
    if into == TABLE:
        return {ROWS: Snapshot.load(root / "sink")}
    with lake_at(root) as lake:
        return {name: lake.snapshot(name) for name in (ROWS, TOTALS)}


def _began_with(root: Path) -> int:
    """The version that was the first batch's, which was too large for one batch."""
    node = orjson.loads((root / "check/offsets/0").read_text(encoding="utf-8").splitlines()[-1])
    assert node["isStartingVersion"]
    return int(node["reservoirVersion"])
