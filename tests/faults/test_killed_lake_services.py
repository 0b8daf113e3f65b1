"""Services over a lake that are killed: all tables are restored or none, each clone is whole or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.lake.lake import LogLake
from slackwater.scan.snapshot import Snapshot
from tests.faults.dying_owner import CLONE, RESTORE, SCHEMA
from tests.faults.shared_lake import MOST_WAITS, Place
from tests.lake.test_transaction import add, remove

RESTORED = {"ratified, not yet answered", "answered, its backfill not asked for"}
UNPROMISED = {
    "the commit written, not yet visible",
    "the commit staged",
    "promised, its database transaction open",
}


def _files(lake: LogLake, names: list[str]) -> list[list[str]]:
    return [sorted(lake.snapshot(name).files()["path"].to_pylist()) for name in names]


def _changed(place: Place) -> tuple[list[str], int]:
    """Two tables of a file `old` each, whose place a file `new` took after the instant."""
    names = [place.new_name(), place.new_name()]
    with place.opened() as lake:
        for name in names:
            lake._create_log(name, SCHEMA)
            for file in ("old", "new"):
                (place.path(name) / file).write_bytes(b"x")
        with lake.transaction() as tx:
            for name in names:
                add(tx, name, "old")
        then = lake.snapshot(names[0]).timestamp_ms
        with lake.transaction() as tx:
            for name in names:
                remove(tx, name, "old")
                add(tx, name, "new")
    return names, then


@pytest.mark.parametrize("point", RESTORE)
def test_a_killed_restore_of_a_lake_is_that_of_all_tables_or_of_none(
    place: Place, waits: list[float], point: str
) -> None:
    names, then = _changed(place)
    place.kill_while("restore", point, f"{then} {' '.join(names)}")
    landed = point in RESTORED
    with place.opened() as lake:
        assert _files(lake, names) == [["old" if landed else "new"]] * 2
        lake.restore(then, names)
        assert _files(lake, names) == [["old"]] * 2
        assert len({lake.snapshot(name).timestamp_ms for name in names}) == 1
    assert len(waits) <= MOST_WAITS


@pytest.mark.parametrize("point", CLONE)
def test_a_killed_clone_of_a_lake_leaves_whole_tables_and_the_next_one_makes_the_others(
    place: Place, tmp_path: Path, point: str
) -> None:
    names, then = _changed(place)
    place.kill_while("clone", point, f"{then} {tmp_path / 'clone'} {' '.join(names)}")
    with place.opened() as lake, LogLake.open(tmp_path / "clone") as clone:
        made = [table.name for table in clone.tables()]
        # What was promised is done by whoever comes next.
        assert made == names[: 1 if point in UNPROMISED else 2]
        missing = [name for name in names if name not in made]
        lake.clone(then, clone, missing)
        expected = [[f"file:{place.path(name)}/old"] for name in names]
        assert _files(clone, names) == expected
        assert _files(lake, names) == [["new"]] * 2
        assert [Snapshot.load(tmp_path / "clone" / name).version for name in names] == [0, 0]
