"""Maintenance of all tables of a lake, without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.errors import ConcurrentDeleteDeleteException, InvalidArgument, TableNotFound
from slackwater.lake.lake import LogLake
from slackwater.lake.maintenance.maintain import TableMaintenance
from slackwater.lake.maintenance.tasks import MaintenanceThresholds, TableTasks
from slackwater.log.table import Table
from slackwater.maintenance.layout.bin_packing import BinPackingOptions, packing_of_table
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.properties.properties import TableProperties
from slackwater.rows.delete import delete
from slackwater.rows.write import write
from slackwater.transaction.clock import Clock
from tests.transaction.tables import schema

DAY_MS = 86_400_000
COMMITS, FILES = 4, 3


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    """A lake of the table `busy` with three small files and four commits, and of the new table `new`."""
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    with LogLake(owner, owner.root_url) as found:
        found._create_log("busy", schema({"id": "long"}))
        found._create_log("new", schema({"id": "long"}))
        for number in range(FILES):
            write(found._table("busy").location, pa.table({"id": [number]}), mode="append")
        found.backfill("busy")
        yield found


def in_days(lake: LogLake, days: int) -> None:
    """Let the lake's clock go forward."""
    lake.clock = Clock(now_ms=lambda: time.time_ns() // 1_000_000 + days * DAY_MS)


def states(rows: list[TableMaintenance]) -> dict[str, str]:
    return {f"{row.table} {row.task}": row.state for row in rows}


def only(rows: list[TableMaintenance], task: str, table: str = "busy") -> TableMaintenance:
    (row,) = [row for row in rows if (row.table, row.task) == (table, task)]
    return row


def log_files(lake: LogLake, table: str = "busy") -> list[str]:
    log = Path(lake._table(table).store.local_root or "") / "_delta_log"
    return sorted(path.name for path in log.iterdir() if path.suffix in (".json", ".parquet"))


def test_a_young_lake_has_nothing_due(lake: LogLake) -> None:
    found = lake.maintain()
    assert states(found) == {
        f"{table} {task}": "not due"
        for table in ("busy", "new")
        for task in ("optimize", "vacuum", "checkpoint", "cleanup")
    }
    assert only(found, "checkpoint").files == COMMITS


def test_the_plan_follows_the_thresholds_and_changes_nothing(lake: LogLake) -> None:
    before = log_files(lake)
    found = lake.maintain(small_files=FILES, commits=COMMITS)
    assert (only(found, "optimize").state, only(found, "optimize").files) == ("needs Spark", FILES)
    assert only(found, "optimize").detail == "3 of 3 files become 1"
    assert (only(found, "checkpoint").state, only(found, "checkpoint").files) == ("due", COMMITS)
    found = lake.maintain(small_files=FILES + 1, commits=COMMITS + 1)
    assert {row.state for row in found} == {"not due"}
    assert log_files(lake) == before


def test_due_work_is_done_once(lake: LogLake) -> None:
    done = lake.maintain(["busy"], dry_run=False, tasks=["checkpoint"], commits=COMMITS)
    assert done == [TableMaintenance("busy", "checkpoint", "done", COMMITS, None, "checkpoint of version 3")]
    assert "00000000000000000003.checkpoint.parquet" in log_files(lake)
    again = lake.maintain(["busy"], dry_run=False, tasks=["checkpoint"], commits=COMMITS)
    assert (again[0].state, again[0].detail) == ("not due", "last checkpoint: version 3, due after 4 commits")


def test_the_plan_names_the_files_that_the_work_deletes(lake: LogLake) -> None:
    delete(lake._table("busy").location, "id = 1")
    lake.backfill("busy")
    in_days(lake, 40)
    planned = lake.maintain(["busy"], tasks=["vacuum", "cleanup"])
    vacuum, cleanup = planned
    assert (vacuum.state, vacuum.files, vacuum.detail) == ("due", 1, "not needed by the versions of the last 168 hours")
    # Without a checkpoint no version can go.
    assert (cleanup.state, cleanup.files) == ("not due", 0)
    assert lake.maintain(["busy"], dry_run=False, tasks=["vacuum"]) == [
        TableMaintenance("busy", "vacuum", "done", 1, vacuum.size_bytes, vacuum.detail)
    ]
    assert lake.maintain(["busy"], tasks=["vacuum"])[0].state == "not due"
    assert lake.snapshot("busy").to_arrow()["id"].to_pylist() == [0, 2]


def test_a_cleanup_counts_on_the_checkpoint_before_it(lake: LogLake) -> None:
    in_days(lake, 40)
    before = log_files(lake)
    planned = lake.maintain(["busy"], tasks=["checkpoint", "cleanup"], commits=COMMITS)
    assert [row.state for row in planned] == ["due", "due"]
    assert log_files(lake) == before
    done = lake.maintain(["busy"], dry_run=False, tasks=["checkpoint", "cleanup"], commits=COMMITS)
    assert [row.state for row in done] == ["done", "done"]
    assert only(done, "cleanup").files == only(planned, "cleanup").files > 0
    assert log_files(lake) == ["00000000000000000003.checkpoint.parquet", "00000000000000000003.json"]
    assert sorted(lake.snapshot("busy").to_arrow()["id"].to_pylist()) == [0, 1, 2]


def test_an_error_is_a_row_and_the_other_tables_are_done(lake: LogLake) -> None:
    log = Path(lake._table("busy").store.local_root or "") / "_delta_log"
    (log / "00000000000000000001.json").write_text("{")
    found = lake.maintain(dry_run=False, tasks=["checkpoint"], commits=1)
    assert [(row.table, row.task, row.state) for row in found] == [
        ("busy", "open", "failed"),
        ("new", "checkpoint", "done"),
    ]
    assert "00000000000000000001.json" in found[0].detail


class LosingOptimizer:
    """An OPTIMIZE that always loses to another writer."""

    def packing(self, properties: TableProperties) -> BinPackingOptions:
        return packing_of_table(properties)

    def optimize(self, table: Table, least_files: int) -> tuple[int, int, int]:
        raise ConcurrentDeleteDeleteException(f"{table.location}: another writer won")


def test_a_conflict_is_a_row_and_the_other_tasks_are_done(lake: LogLake) -> None:
    work = TableTasks(MaintenanceThresholds(FILES, COMMITS), lake.clock, optimizer=LosingOptimizer())
    found = list(lake._maintain(work, ["busy"], None, dry_run=False))
    assert [row.state for row in found] == ["failed", "not due", "done", "not due"]
    assert found[0].detail == f"ConcurrentDeleteDeleteException: {lake.location('busy')}: another writer won"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": ["sweep"]}, "optimize, vacuum, checkpoint, cleanup, found"),
        ({"tasks": []}, "the tasks of maintenance are"),
        ({"small_files": 0}, "small_files must be a whole number from 1, found 0"),
        ({"commits": True}, "commits must be a whole number from 1, found True"),
    ],
)
def test_wrong_arguments_are_rejected_before_any_work(lake: LogLake, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        lake.maintain(**arguments)


def test_an_unknown_table_is_rejected(lake: LogLake) -> None:
    with pytest.raises(TableNotFound, match=r"the lake has no table 'b'\. Existing tables: busy, new"):
        lake.maintain(["b"])
