"""`slackwater convert` and `generate`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.scan.snapshot import Snapshot
from tests.cli.commands import document, error, run, usage_error


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two files of one partition."""
    root = tmp_path / "t"
    (root / "day=2026-11-22").mkdir(parents=True)
    for name in "ab":
        pq.write_table(pa.table({"id": [1]}), root / "day=2026-11-22" / name)
    return root


def test_a_directory_becomes_a_table(files: Path) -> None:
    result = run("convert", str(files), "--partition-schema", "day DATE")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "is a Delta table now: 2 files, " in result.stderr
    assert str(Snapshot.load(files).schema) == "struct<id:long,day:date>"
    again = run("convert", str(files))
    assert (again.exit_code, again.stdout) == (0, "")
    assert "is a Delta table already: nothing was done" in again.stderr
    assert document("convert", str(files)) == {"converted": False, "numFiles": 0, "sizeInBytes": 0}


def test_statistics_are_left_out_where_that_is_asked(files: Path) -> None:
    size = sum(file.stat().st_size for file in files.rglob("?"))
    told = document("convert", str(files), "--partition-schema", "day DATE", "--no-stats")
    assert told == {"converted": True, "numFiles": 2, "sizeInBytes": size}
    assert Snapshot.load(files).live_files(["stats"])["stats"].null_count == 2


def test_what_is_wrong_is_one_line(files: Path) -> None:
    assert "names partition columns ['day']" in error("convert", str(files))
    assert "expected columns such as" in usage_error("convert", str(files), "--partition-schema", "day")
    assert not (files / "_delta_log").exists()


def test_manifests_are_written(files: Path) -> None:
    run("convert", str(files), "--partition-schema", "day DATE")
    result = run("generate", str(files))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "1 manifest of version 0 written" in result.stderr
    manifest = "_symlink_format_manifest/day=2026-11-22/manifest"
    assert (files / manifest).read_text() == "".join(f"file:{files}/day=2026-11-22/{name}\n" for name in "ab")
    assert document("generate", str(files), "SYMLINK_FORMAT_MANIFEST") == {"version": 0, "manifests": [manifest]}
    assert "Use the mode symlink_format_manifest" in error("generate", str(files), "other")
