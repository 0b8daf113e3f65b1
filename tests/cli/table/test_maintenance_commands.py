"""`slackwater vacuum` and `restore`."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.log.history import format_ms
from slackwater.scan.snapshot import Snapshot
from tests.cli.commands import document, error, lines, run, usage_error
from tests.maintenance.aged import AgedTable
from tests.transaction.tables import live


@pytest.fixture
def aged(tmp_path: Path) -> AgedTable:
    """A table whose file `a` went long ago."""
    table = AgedTable(tmp_path / "t")
    table.at(1).append("a", "b")
    table.at(2).remove("a")
    return table


def test_a_dry_run_names_the_files_on_stdout(aged: AgedTable) -> None:
    result = run("vacuum", str(aged.root), "--dry-run")
    assert (result.exit_code, result.stdout) == (0, "a\n")
    assert "1 file would be deleted, 100 B" in result.stderr
    assert document("vacuum", str(aged.root), "--dry-run") == {"paths": ["a"], "sizeInBytes": 100, "dryRun": True}
    assert aged.files() == ["a", "b"]


@pytest.mark.parametrize("option", [(), ("--lite",)])
def test_files_that_nobody_needs_go(aged: AgedTable, option: tuple[str, ...]) -> None:
    result = run("vacuum", str(aged.root), *option)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "1 file deleted, 100 B" in result.stderr
    assert aged.files() == ["b"]


def test_a_short_retention_is_refused_until_it_is_meant(tmp_path: Path) -> None:
    from tests.transaction.tables import add, append, delete, table

    snapshot = append(table(path=tmp_path / "t"), add("a"), add("b")).snapshot
    (tmp_path / "t" / "a").write_bytes(b"x")
    delete(snapshot, "a")
    assert "--no-retention-check" in error("vacuum", str(tmp_path / "t"), "--retention-hours", "0")
    assert (tmp_path / "t" / "a").exists()
    run("vacuum", str(tmp_path / "t"), "--retention-hours", "0", "--no-retention-check")
    assert not (tmp_path / "t" / "a").exists()


def test_what_the_log_never_named_stays_a_day_unless_it_is_meant(tmp_path: Path) -> None:
    from tests.transaction.tables import table

    table(path=tmp_path / "t")
    (tmp_path / "t" / "x").write_bytes(b"x")
    short = ("--retention-hours", "0", "--no-retention-check")
    assert document("vacuum", str(tmp_path / "t"), *short)["paths"] == []
    assert document("vacuum", str(tmp_path / "t"), *short, "--untracked-hours", "0")["paths"] == ["x"]


def test_a_version_comes_back(aged: AgedTable) -> None:
    told = document("restore", str(aged.root), "--version", "1")
    assert (told["num_restored_files"], told["num_of_files_after_restore"]) == (1, 2)
    assert live(aged.snapshot.store) == ["a", "b"]
    result = run("restore", str(aged.root), "--version", "0")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 files came back, 2 files went; now 0 files, 0 B" in result.stderr


def test_a_moment_comes_back(aged: AgedTable) -> None:
    moment = format_ms(aged.snapshot.history().timestamp_ms(1)).removesuffix(" UTC")
    assert document("restore", str(aged.root), "--timestamp", moment)["num_restored_files"] == 1
    assert any(moment in line for line in lines("history", str(aged.root)))


def test_files_that_are_gone_are_named(aged: AgedTable) -> None:
    (aged.root / "a").unlink()
    assert "needs 1 files that do not exist (a)" in error("restore", str(aged.root), "--version", "1")
    assert run("restore", str(aged.root), "--version", "1", "--ignore-missing-files").exit_code == 0
    assert Snapshot.load(str(aged.root)).version == 3


def test_a_clone_is_made_without_copying(aged: AgedTable, tmp_path: Path) -> None:
    told = document("clone", str(aged.root), str(tmp_path / "clone"), "--version", "1")
    assert told["source_num_of_files"] == 2
    assert Snapshot.load(str(tmp_path / "clone")).live_files(["path"]).num_rows == 2
    assert "is a Delta table already" in error("clone", str(aged.root), str(tmp_path / "clone"))
    result = run("clone", str(aged.root), str(tmp_path / "clone"), "--replace")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "has the 1 file of version 2, 100 B, where they are" in " ".join(result.stderr.split())
    again = ("clone", str(tmp_path / "clone"), str(tmp_path / "again"))
    assert "allowPathsOutsideRoot" in error(*again, "--no-paths-outside-root")
    assert document(*again)["source_num_of_files"] == 1
    both = ("--version", "1", "--timestamp", "2026-01-01")
    assert "not both" in usage_error("clone", str(aged.root), str(tmp_path / "other"), *both)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "use a version or a timestamp"),
        (("--version", "1", "--timestamp", "2026-01-01"), "use a version or a timestamp"),
        (("--timestamp", "yesterday"), "cannot be converted to a valid timestamp"),
    ],
)
def test_wrong_usage(aged: AgedTable, arguments: tuple[str, ...], message: str) -> None:
    assert message in usage_error("restore", str(aged.root), *arguments)
