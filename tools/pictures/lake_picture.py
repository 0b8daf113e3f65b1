"""The pictures of docs/guides/look.md: a small lake on a clock that the script moves, and versions of rows."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace

from tools.pictures.gallery import Gallery

from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.clock import OwnerClock
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.schema.schema import PrimitiveType, StructField, StructType
from slackwater.transaction.table.public_transaction import Transaction
from slackwater.visualization.row_history import RowHistory, RowVersion, picture_of
from slackwater.visualization.svg import standalone
from slackwater.visualization.timeline import Timeline, timeline_of_lake
from slackwater.visualization.timeline_picture import draw_timeline

START_MS = 1_795_420_800_000
"""2026-11-23 08:00:00 UTC."""

_SCHEMA = StructType((StructField("sku", PrimitiveType("string")),))
_MINUTE_MS = 60_000
_TABLES = ("customers", "orders", "stock")
# Minutes since the start, the tables that are written together, the operation, and thousands of rows of each.
_DAY: tuple[tuple[int, tuple[str, ...], str, int], ...] = (
    (20, ("customers",), "WRITE", 9),
    (45, ("stock",), "WRITE", 14),
    (75, ("orders", "stock"), "WRITE", 4),
    (110, ("orders", "stock"), "MERGE", 5),
    (150, ("orders", "stock"), "WRITE", 6),
    (200, ("customers", "orders"), "WRITE", 3),
    (240, ("orders", "stock"), "MERGE", 7),
    (275, ("customers",), "DELETE", -9),
    (310, ("orders", "stock"), "WRITE", 5),
    (360, ("stock",), "OPTIMIZE", 0),
    (395, ("orders",), "WRITE", 8),
    (430, ("customers", "orders", "stock"), "WRITE", 4),
)


def lake_svg() -> str:
    """The picture of the day."""
    return standalone(draw_timeline(day_of_a_lake()).picture)


def rows_svg() -> str:
    """The picture of some rows' versions, as `system_time().draw("sku")` draws them."""
    day: tuple[tuple[str, int, int | None, int, str, str | None], ...] = (
        ("A1", 0, 120, 10, "north", "update"),
        ("A1", 120, 300, 7, "north", "update"),
        ("A1", 300, None, 7, "south", None),
        ("B2", 60, 240, 3, "east", "delete"),
        ("B2", 360, None, 5, "east", None),
        ("C3", 90, 420, 4, "east", "update"),
        ("C3", 420, None, 2, "east", None),
    )
    versions = [
        RowVersion((sku,), _at(start), None if end is None else _at(end), {"qty": qty, "shelf": shelf}, ended_by)
        for sku, start, end, qty, shelf, ended_by in day
    ]
    return standalone(picture_of(RowHistory("stock", versions)))


def _at(minute: int) -> int:
    return START_MS + minute * _MINUTE_MS


def day_of_a_lake() -> Timeline:
    """A day of a lake, as its history tells it; what is another each time, the names of transactions, is left out."""
    clock = [START_MS]
    with tempfile.TemporaryDirectory() as directory:
        owner = EmbeddedOwner.open(directory, backfill_delay_s=None, clock=OwnerClock(now_ms=lambda: clock[0]))
        with LogLake(owner, owner.root_url) as lake:
            for name in _TABLES:
                clock[0] += _MINUTE_MS
                lake._create_log(name, _SCHEMA)
            for minute, names, operation, thousands in _DAY:
                clock[0] = START_MS + minute * _MINUTE_MS
                with lake.transaction() as transaction:
                    for name in names:
                        _commit(lake, transaction, name, operation, thousands * 1000)
            found = timeline_of_lake(lake, "work/lake")
    return replace(found, deeds=[replace(deed, transaction_id=None) for deed in found.deeds])


def _commit(lake: LogLake, transaction: LogTransaction, name: str, operation: str, rows: int) -> None:
    of_table: Transaction = transaction.log(name)
    live = lake.snapshot(name).files().to_pylist()
    if rows > 0:
        of_table.add(_file(f"{name}-{lake.snapshot(name).version}.parquet", rows))
    elif rows < 0:
        of_table.remove(live[0]["path"])
    else:
        of_table.remove(*[file["path"] for file in live], data_change=False)
        total = sum(json.loads(file["stats"])["numRecords"] for file in live)
        of_table.add(replace(_file(f"{name}-one.parquet", total), data_change=False))
    of_table.commit(operation)


def _file(path: str, rows: int) -> AddFile:
    return AddFile(path, {}, rows * 120, 0, True, json.dumps({"numRecords": rows}))


GALLERY = Gallery("guides/look.md", "images", {"lake.svg": lake_svg, "rows.svg": rows_svg})
