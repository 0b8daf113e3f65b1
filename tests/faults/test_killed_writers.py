"""Writers that are killed: the table stays whole, the commit is there or not at all, a second run lands once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slackwater.log.checksum_totals import checksum_of
from slackwater.log.files.version_checksum import read_version_checksum
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.post_commit import PostCommitHook
from tests.faults import dying_writer
from tests.faults.killed import killed
from tests.transaction.tables import add, begin, table

DAY_S = 86_400
LANDED = {
    "before the data is put": False,
    "after the data, before the commit": False,
    "commit staged, not yet visible": False,
}
LEAVES_STAGED = {
    "commit staged, not yet visible",
    "commit visible, its staged name not yet gone",
    "checkpoint staged, not yet visible",
    "hint staged, not yet visible",
}


def _grown(path: Path) -> Snapshot:
    """Version 5 of a table with checkpoints at 2 and 4; what is older than version 5 has expired."""
    snapshot = table(properties={"delta.checkpointInterval": "2"}, path=path)
    for number in range(1, 6):
        transaction = begin(snapshot, after=PostCommitHook())
        transaction.add(add(f"f{number}"))
        snapshot = transaction.commit("WRITE").snapshot
    for file in (path / "_delta_log").iterdir():
        if file.name[0] == "0" and int(file.name[:20]) < 5:
            seconds = file.stat().st_mtime - 100 * DAY_S
            os.utime(file, (seconds, seconds))
    return snapshot


def _killed(path: Path, batch: int, point: str) -> None:
    killed(dying_writer.main, str(path), batch, point)


def _staged_files(path: Path) -> list[str]:
    return [name for _, _, names in os.walk(path) for name in names if name.startswith(".slackwater-")]


def _loaded(snapshot: Snapshot) -> list[str]:
    return [p for p in snapshot.live_files(["path"])["path"].to_pylist() if p.startswith("part-")]


@pytest.mark.parametrize("point", dying_writer.POINTS)
def test_a_killed_writer_leaves_a_whole_table_and_its_work_is_done_once(tmp_path: Path, point: str) -> None:
    path = tmp_path / "t"
    before = _grown(path)
    _killed(path, 1, point)
    landed = LANDED.get(point, True)

    found = Snapshot.load(path)
    assert found.version == (6 if landed else 5)
    assert len(_loaded(found)) == int(landed)
    assert found.live_files(["path"]).num_rows == 5 + int(landed)
    assert ("loader" in found.transactions) is landed
    assert bool(_staged_files(path)) is (point in LEAVES_STAGED)
    assert not [m.path for m in found.store.list_from("", recursive=True) if ".slackwater-" in m.path]
    assert before.update().version == found.version

    dying_writer.main(str(path), 1)
    dying_writer.main(str(path), 2)
    after = Snapshot.load(path)
    assert after.version == 7
    assert len(_loaded(after)) == 2
    assert after.transactions["loader"].version == 2
    assert after.live_files(["path"]).num_rows == 7
    assert all((path / name).stat().st_size == dying_writer.SIZE for name in _loaded(after))
    checksum = read_version_checksum(after.store, 7)
    assert checksum is not None
    assert (checksum.num_files, checksum.table_size_bytes) == (7, checksum_of(after).table_size_bytes)


def test_writers_killed_one_after_another_never_double_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _grown(path)
    for point in (
        "after the data, before the commit",
        "commit staged, not yet visible",
        "between the commit and its answer",
    ):
        _killed(path, 1, point)
    dying_writer.main(str(path), 1)
    after = Snapshot.load(path)
    assert (after.version, len(_loaded(after))) == (6, 1)
    # What the first two wrote is no part of the table, and is left for vacuum.
    assert len(list(path.glob("part-*"))) == 3
