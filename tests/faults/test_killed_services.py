"""Table services that are killed: every version that counts stays readable, and done again they come to their end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.scan.snapshot import Snapshot
from tests.faults.dying_service import CLONE, CONVERT, GENERATE, POINTS, RESTORE, TRUNCATE, VACUUM, serve, serve_until
from tests.faults.killed import killed
from tests.maintenance.aged import AgedTable
from tests.transaction.tables import add, append, delete, live, table

EXPIRED = ["f1", "f2"]
LEFT = {
    "before the vacuum is told": EXPIRED,
    "the vacuum told, nothing deleted": EXPIRED,
    "before the first file goes": EXPIRED,
    "after the first file": EXPIRED[1:],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Files f1 and f2 went long ago, in version 2, and g, which is live, came with it; version 3 added h just now."""
    table = AgedTable(tmp_path / "t")
    table.at(1).append("f1", "f2")
    table.at(2).remove("f1", "f2")
    table.at(3).append("h")
    return table.root


def _killed(path: Path, point: str) -> None:
    killed(serve_until, str(path), point)


def _of(service: str) -> list[str]:
    return [point for point, (of, _) in POINTS.items() if of == service]


def _files(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir() if file.is_file())


@pytest.mark.parametrize("point", _of(VACUUM))
def test_a_killed_vacuum_deletes_nothing_that_counts_and_the_next_one_ends_it(path: Path, point: str) -> None:
    _killed(path, point)
    assert live(Snapshot.load(path).store) == ["h"]
    assert _files(path) == [*LEFT.get(point, []), "h"]
    serve(str(path), VACUUM)
    assert _files(path) == ["h"]
    assert live(Snapshot.load(path).store) == ["h"]


@pytest.mark.parametrize("point", _of(RESTORE))
def test_a_killed_restore_is_whole_or_absent(path: Path, point: str) -> None:
    _killed(path, point)
    landed = point == "the restore visible, not answered"
    assert live(Snapshot.load(path).store) == (EXPIRED if landed else ["h"])
    assert _files(path) == [*EXPIRED, "h"]
    serve(str(path), RESTORE)
    assert live(Snapshot.load(path).store) == EXPIRED


@pytest.mark.parametrize("point", _of(CLONE))
def test_a_killed_clone_is_whole_or_absent(path: Path, point: str) -> None:
    _killed(path, point)
    landed = point == "the clone visible, not answered"
    clone = Path(f"{path}_clone")
    assert (clone / "_delta_log" / f"{0:020d}.json").exists() is landed
    serve(str(path), CLONE)
    assert Snapshot.load(clone).version == int(landed)
    assert live(Snapshot.load(path).store) == ["h"]


@pytest.mark.parametrize("point", _of(CONVERT))
def test_a_killed_conversion_is_whole_or_absent(tmp_path: Path, point: str) -> None:
    path = tmp_path / "files"
    path.mkdir()
    for name in "ab":
        pq.write_table(pa.table({"id": [1]}), path / name)
    _killed(path, point)
    landed = point == "the conversion visible, not answered"
    assert (path / "_delta_log" / f"{0:020d}.json").exists() is landed
    assert _files(path) == ["a", "b"]
    serve(str(path), CONVERT)
    assert (Snapshot.load(path).version, live(Snapshot.load(path).store)) == (0, ["a", "b"])


@pytest.mark.parametrize("point", _of(GENERATE))
def test_killed_manifests_are_each_the_old_or_the_new_one(tmp_path: Path, point: str) -> None:
    path = tmp_path / "t"
    root, manifests = f"file:{path}", path / "_symlink_format_manifest"
    snapshot = table({"id": "long", "p": "string"}, ["p"], path=path)
    snapshot = append(snapshot, add("a", partition={"p": "1"}), add("b", partition={"p": "2"})).snapshot
    serve(str(path), GENERATE)
    append(delete(snapshot, "b").snapshot, add("c", partition={"p": "1"}), add("d", partition={"p": "3"}))
    old = {"p=1": [f"{root}/a"], "p=2": [f"{root}/b"]}
    new = {"p=1": [f"{root}/a", f"{root}/c"], "p=3": [f"{root}/d"]}

    def found() -> dict[str, list[str]]:
        return {each.parent.name: each.read_text().splitlines() for each in manifests.rglob("manifest")}

    assert found() == old
    _killed(path, point)
    assert "p=1" in found()
    for partition, files in found().items():
        assert files in (old.get(partition), new.get(partition))
    assert ("p=2" in found()) is (point != "the old one gone")
    assert live(Snapshot.load(path).store) == ["a", "c", "d"]
    serve(str(path), GENERATE)
    assert found() == new


@pytest.mark.parametrize("point", _of(TRUNCATE))
def test_a_killed_end_of_a_history_leaves_the_newest_version(path: Path, point: str) -> None:
    _killed(path, point)
    assert live(Snapshot.load(path).store) == ["h"]
    serve(str(path), TRUNCATE)
    newest = Snapshot.load(path)
    assert live(newest.store) == ["h"]
    assert {commit.version for commit in newest.table.list_log().commits.values()} == {newest.version}
