"""Time, number of rows and text form of a snapshot."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater
from slackwater.storage.local_store import LocalObjectStore
from tests.cli.commands import WITH_DELETED_ROWS
from tests.transaction.tables import ID, START_MS, table


def test_the_time_of_a_version_is_a_moment_in_utc(tmp_path: Path) -> None:
    slackwater.write(tmp_path / "t", pa.table({"id": [1]}))
    snapshot = slackwater.Snapshot.load(tmp_path / "t")
    assert snapshot.timestamp.tzinfo is dt.timezone.utc
    assert round(snapshot.timestamp.timestamp() * 1000) == snapshot.timestamp_ms
    assert slackwater.Snapshot.load(tmp_path / "t", timestamp=snapshot.timestamp).version == 0


def test_statistics_and_vectors_give_the_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = slackwater.Snapshot.load(WITH_DELETED_ROWS)
    rows = snapshot.to_arrow().num_rows
    assert 0 < rows < sum(pq.read_metadata(path).num_rows for path in Path(WITH_DELETED_ROWS).glob("*.parquet"))
    opened: list[str] = []
    monkeypatch.setattr(LocalObjectStore, "open_input", lambda _, path: opened.append(path), raising=False)
    assert (snapshot.count(), opened) == (rows, [])


def test_footers_give_the_number_of_rows_without_statistics(tmp_path: Path) -> None:
    table(ID, path=str(tmp_path / "t"))
    pq.write_table(pa.table({"id": pa.array([1, 2, 3], pa.int32())}), tmp_path / "t" / "a.parquet")
    size = (tmp_path / "t" / "a.parquet").stat().st_size
    transaction = slackwater.Transaction(tmp_path / "t")
    transaction.add(slackwater.AddFile("a.parquet", {}, size, START_MS))
    transaction.commit("WRITE")
    snapshot = slackwater.Snapshot.load(tmp_path / "t")
    assert (snapshot.count(), snapshot.count("id > 1")) == (3, 2)


def test_a_snapshot_says_its_version_and_files_without_reading_more_than_the_checksum(tmp_path: Path) -> None:
    slackwater.write(tmp_path / "t", pa.table({"id": [1]}))
    place, size = tmp_path / "t", sum(path.stat().st_size for path in (tmp_path / "t").glob("*.parquet"))
    assert repr(slackwater.Snapshot.load(place)) == f"<Snapshot {place}: version 0, 1 column, 1 file, {size} B>"
    (place / "_delta_log" / "00000000000000000000.crc").write_text("{")
    assert repr(slackwater.Snapshot.load(place)) == f"<Snapshot {place}: version 0, 1 column>"
