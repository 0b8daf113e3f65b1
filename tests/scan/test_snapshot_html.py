"""Cards of versions: everything that stands in a log is shown as text, and nothing that could be a secret."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import orjson
import pytest

import slackwater
from slackwater.log.snapshot import LogSnapshot
from slackwater.scan.snapshot_html import rows_if_cheap, size_if_cheap, snapshot_card
from slackwater.storage.local_store import LocalObjectStore
from tests.html.well_formed import parsed, words

EVIL = "a'<b>\"&amp;\u202e`.c"


def _field(name: str, kind: object = "long", nullable: bool = True, **metadata: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def _schema(*fields: dict[str, object]) -> str:
    return orjson.dumps({"type": "struct", "fields": list(fields)}).decode()


def _table(path: Path, *fields: dict[str, object], **given: object) -> slackwater.Snapshot:
    slackwater.Transaction.create(path, _schema(*fields), **given).commit("CREATE TABLE")  # type: ignore[arg-type]
    return slackwater.Snapshot.load(path)


def _html(shown: object) -> str:
    return shown._repr_html_()  # type: ignore[attr-defined, no-any-return]


def _append(path: Path, name: str, rows: int | None, **values: str) -> None:
    stats = None if rows is None else orjson.dumps({"numRecords": rows}).decode()
    tx = slackwater.Transaction(path)
    tx.add(slackwater.AddFile(name, values, size=2048, modification_time=0, stats=stats), rows_checked=True)
    tx.commit("WRITE")


def test_a_card_tells_version_rows_files_size_columns_and_what_is_asked(tmp_path: Path) -> None:
    _table(
        tmp_path,
        _field("id", nullable=False, **{"delta.identity.start": 1, "delta.identity.step": 1}),
        _field("day", "date", comment="of the order"),
        _field("amount", "decimal(12,2)"),
        partition_by=["day"],
        properties={"delta.constraints.positive": "amount > 0", "delta.enableDeletionVectors": "true"},
        description="Orders",
    )
    _append(tmp_path, "a.parquet", 1200, day="2026-11-21")
    _append(tmp_path, "b.parquet", 4, day="2026-11-22")
    shown = words(_html(slackwater.Snapshot.load(tmp_path)))
    for part in (
        f"Snapshot {tmp_path}",
        "Orders",
        "version 2",
        "rows 1,204",
        "files 2",
        "size 4.0 KiB",
        "3 columns · partitioned by day",
        "id long not null identity",
        "day date partition of the order",
        "amount decimal(12,2)",
        "positive amount > 0",
        "deletionVectors",
        "reader 3, writer 7",
    ):
        assert part in shown


def test_names_and_texts_that_are_markup_are_words(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name", EVIL: EVIL}
    _table(tmp_path / "<i>x", _field(EVIL, comment=EVIL), properties=mapped, description=EVIL)
    snapshot = slackwater.Snapshot.load(tmp_path / "<i>x")
    made = _html(snapshot)
    assert "<b>" not in made
    assert "\u202e" not in made
    assert words(made).count("a'<b>\"&amp;\\u202e`.c") == 5
    assert "\u202e" not in repr(snapshot)


def test_what_is_called_a_secret_is_not_shown(tmp_path: Path) -> None:
    given = {"my.password": "hunter2", "home": "https://me:hunter2@host/x", "note": "token=hunter2"}
    snapshot = _table(tmp_path, _field("id"), properties=given, description="see https://me:hunter2@host")
    for made in (_html(snapshot), _html(snapshot.properties), repr(snapshot.properties)):
        assert "hunter2" not in made
        assert "my.password" in made


def test_rows_are_told_only_where_all_files_say_how_many(tmp_path: Path) -> None:
    _table(tmp_path, _field("id"))
    _append(tmp_path, "a", 3)
    _append(tmp_path, "b", None)
    shown = words(_html(slackwater.Snapshot.load(tmp_path)))
    assert "version 2 files 2 size 4.0 KiB" in shown


def test_no_checkpoint_is_read_for_a_card(tmp_path: Path) -> None:
    _table(tmp_path, _field("id"), properties={"delta.checkpointInterval": "2"})
    for number in range(4):
        _append(tmp_path, f"f{number}", 3)
    log = tmp_path / "_delta_log"
    for checkpoint in log.glob("*.checkpoint*.parquet"):
        checkpoint.write_bytes(checkpoint.read_bytes())
    snapshot = slackwater.Snapshot.load(tmp_path)
    assert isinstance(snapshot, LogSnapshot)
    assert snapshot.segment.checkpoint is not None
    for checkpoint in log.glob("*.checkpoint*.parquet"):
        checkpoint.unlink()
    assert rows_if_cheap(snapshot) is None
    # By the checksum.
    assert size_if_cheap(snapshot) == (4, 4 * 2048)
    assert "files 4" in words(_html(snapshot))


def test_a_table_that_is_gone_has_a_card_all_the_same(tmp_path: Path) -> None:
    snapshot = _table(tmp_path / "t", _field("id"))
    shutil.rmtree(tmp_path / "t")
    shown = words(_html(snapshot))
    assert "version 0" in shown
    assert "committed" not in shown
    assert repr(snapshot) == f"<Snapshot {tmp_path / 't'}: version 0, 1 column>"


def test_a_schema_that_cannot_be_read_gives_a_card_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = _table(tmp_path, _field("id"))
    broken = property(lambda self: (_ for _ in ()).throw(slackwater.errors.InvalidSchema("token=hunter2 <no>")))
    monkeypatch.setattr(LogSnapshot, "schema", broken)
    assert words(_html(snapshot)) == f"Snapshot {tmp_path} InvalidSchema token=*** <no>"
    assert repr(snapshot) == f"<Snapshot {tmp_path}: version 0, 0 files, 0 B>"


def test_many_columns_and_long_types_are_cut(tmp_path: Path) -> None:
    wide = {"type": "struct", "fields": [_field(f"part_{n}") for n in range(40)]}
    snapshot = _table(tmp_path, _field("wide", wide), *(_field(f"c{n}") for n in range(49)))
    made = _html(snapshot)
    assert "50 columns" in words(made)
    assert "and 20 columns more" in words(made)
    assert max(len(cell.text or "") for cell in parsed(made).iter("code")) <= 120


def test_the_last_commits_stand_below(tmp_path: Path) -> None:
    _table(tmp_path, _field("id"))
    for number in range(6):
        tx = slackwater.Transaction(tmp_path)
        tx.add(slackwater.AddFile(f"f{number}", {}, size=1, modification_time=0, stats='{"numRecords":1204}'))
        if number == 5:
            tx.remove("f4")
        tx.commit(f"WRITE<{number}>", user_metadata="nightly & token=hunter2")
    snapshot = slackwater.Snapshot.load(tmp_path)
    assert isinstance(snapshot, LogSnapshot)
    rows = [[words(cell) for cell in row.iter("td")] for row in _rows_after(snapshot_card(snapshot, commits=3))]
    assert [row[0] for row in rows] == ["6", "5", "4"]
    assert rows[0][2] == "WRITE<5> nightly & token=***"
    assert dt.datetime.fromisoformat(rows[0][1])
    assert rows[0][3:5] == ["+1,204 −1,204", "+1 −1"]
    assert rows[1][3:5] == ["+1,204", "+1"]
    assert all(row[5] for row in rows)


def _rows_after(made: object) -> list[ElementTree.Element]:
    last = next(d for d in parsed(made).iter("details") if (d.findtext("summary") or "") == "last commits")
    return list(last.iter("tr"))[1:]


class Reads:
    """What is read of local stores from now on."""

    METHODS = ("list_from", "read", "read_many", "read_range", "read_ranges", "open_file", "head")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        for name in self.METHODS:
            monkeypatch.setattr(LocalObjectStore, name, self._noted(getattr(LocalObjectStore, name)))

    def _noted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(store: LocalObjectStore, *given: Any, **more: Any) -> Any:
            self.paths.append(str(given[0]))
            return method(store, *given, **more)

        return noted


def test_what_a_card_reads_is_what_the_guide_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "4"}
    _table(tmp_path, _field("id"), properties=times)
    found = Reads(monkeypatch)
    for number in range(1, 6):
        _append(tmp_path, f"f{number}", 3)
        snapshot = slackwater.Snapshot.load(tmp_path)
        assert any("_delta_log" in path for path in found.paths)
        found.paths.clear()
        shown = words(_html(snapshot))
        assert f"files {number}" in shown
        assert "committed" in shown
        wanted = {
            # The checksum of the version.
            **dict.fromkeys((1, 2, 3, 5), 1),
            # A checkpoint stands for all commits: the newest is listed, and read for its time (by one call in another).
            4: 4,
        }
        assert len(found.paths) <= wanted[number], found.paths
        assert not [path for path in found.paths if path.endswith(".parquet")]
