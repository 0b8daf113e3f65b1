"""Cached columns of checkpoints: the least recently read ones are released."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scale.tables import many_files
from slackwater.log import live_files
from slackwater.log.table import Table
from slackwater.scan.snapshot import Snapshot


def test_the_least_recently_read_checkpoint_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many_files(tmp_path / "t", 200)
    first, second, third = (Snapshot.open(Table.at(tmp_path / "t")) for _ in range(3))
    expected = first.live_files(["path", "size"])
    size = first._base.cached_bytes
    assert size > 0
    monkeypatch.setattr(live_files, "_CACHED_BYTES", 2 * size)
    assert second.live_files(["path", "size"]) == expected
    assert first.live_files(["path"]) == expected.select(["path"])
    assert third.live_files(["path", "size"]) == expected
    assert [snapshot._base.cached_bytes > 0 for snapshot in (first, second, third)] == [True, False, True]
    assert second.live_files(["path", "size"]) == expected


def test_one_checkpoint_keeps_its_columns_at_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_files, "_CACHED_BYTES", 1)
    many_files(tmp_path / "t", 20)
    snapshot = Snapshot.open(Table.at(tmp_path / "t"))
    snapshot.live_files(["path"])
    assert snapshot._base.cached_bytes > 0
