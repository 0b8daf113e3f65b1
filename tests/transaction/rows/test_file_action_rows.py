"""Files that are committed again keep what the log knew of them, in whatever form a checkpoint holds it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pyroaring import BitMap64

from slackwater.log.checkpoints.write_checkpoint import CheckpointLayout, write_checkpoint
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import ObjectStore
from slackwater.transaction.table.alteration import cluster_by
from tests.transaction.tables import START_MS, VECTORS, add, append, begin, only, schema, set_props, table

STRUCT_ONLY = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
STATS = {
    "numRecords": 10,
    "minValues": {"id": 1, "name": 'a "b"', "at": "2024-01-02T03:04:05.006Z"},
    "maxValues": {"id": 9, "name": "z", "at": "2024-02-02T03:04:05.006Z"},
    "nullCount": {"id": 0, "name": 2, "at": 0},
    "tightBounds": True,
}
LAYOUTS = [CheckpointLayout.V1, CheckpointLayout.V2]


def _file(path: str, stats: Any = STATS, p: str = "x") -> AddFile:
    text = None if stats is None else orjson.dumps(stats).decode()
    return AddFile(path, {"p": p}, 100, START_MS, True, text)


def _checkpointed(*files: AddFile, layout: CheckpointLayout = CheckpointLayout.V1, **more: str) -> Snapshot:
    """A table whose files stand in a checkpoint that holds their statistics as columns only."""
    v2 = {"delta.checkpointPolicy": "v2"} if layout is CheckpointLayout.V2 else {}
    text = schema({"id": "long", "name": "string", "at": "timestamp", "p": "string"})
    snapshot = append(table(text, ["p"], {**STRUCT_ONLY, **VECTORS, **v2, **more}), *files).snapshot
    write_checkpoint(snapshot, START_MS, layout)
    return Snapshot.open(snapshot.store)


def _stats(store: ObjectStore, columns: tuple[str, ...] = ("path", "stats")) -> dict[str, Any]:
    rows = Snapshot.open(store).live_files(columns).to_pylist()
    return {row["path"]: None if row["stats"] is None else orjson.loads(row["stats"]) for row in rows}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mapped", ["none", "name"])
def test_statistics_that_a_checkpoint_holds_as_columns_only_are_told_as_json(
    layout: CheckpointLayout, mapped: str
) -> None:
    snapshot = _checkpointed(layout=layout, **{"delta.columnMapping.mode": mapped})
    names = {path[0]: physical[0] for path, physical in snapshot.physical_paths.items()}
    physical = {
        key: {names.get(name, name): each for name, each in value.items()} if isinstance(value, dict) else value
        for key, value in STATS.items()
    }
    partition = {names.get("p", "p"): "x"}
    text = orjson.dumps(physical).decode()
    files = [AddFile(path, partition, 100, START_MS, True, told) for path, told in (("a", text), ("silent", None))]
    snapshot = append(snapshot, *files).snapshot
    write_checkpoint(snapshot, START_MS, layout)
    append(Snapshot.open(snapshot.store), AddFile("later", partition, 100, START_MS, True, '{"numRecords":3}'))
    found = _stats(snapshot.store)
    assert found == {"a": physical, "silent": None, "later": {"numRecords": 3}}
    newest = Snapshot.open(snapshot.store)
    assert newest.live_files(["stats"]).column_names == ["stats"]
    assert newest.live_files(["path", "stats", "stats_parsed.numRecords"])["stats"].null_count == 2
    by_condition = newest.files("id = 5", ["path", "stats"]).to_pylist()
    assert {row["path"]: row["stats"] and orjson.loads(row["stats"]) for row in by_condition} == found
    assert newest.files("id = 100", ["path", "stats"])["path"].to_pylist() == ["silent", "later"]


def test_row_tracking_is_enabled_over_files_whose_statistics_are_columns() -> None:
    snapshot = _checkpointed(_file("a"), _file("b", p="y"))
    set_props(snapshot, delta__enableRowTracking="true")
    assert _stats(snapshot.store) == {"a": STATS, "b": STATS}
    ids = Snapshot.open(snapshot.store).live_files(["baseRowId"])["baseRowId"].to_pylist()
    assert sorted(ids) == [0, 10]


def test_a_table_is_clustered_by_columns_whose_statistics_are_columns() -> None:
    before = append(table(properties=STRUCT_ONLY), add("a")).snapshot
    write_checkpoint(before, START_MS)
    snapshot = Snapshot.open(before.store)
    assert cluster_by(snapshot, [("id",)]).commit(begin(snapshot)).version == 2


@pytest.mark.parametrize("condition", [None, "id = 5", "p = 'x'"])
def test_a_file_that_gets_a_deletion_vector_keeps_statistics_that_are_columns(condition: str | None) -> None:
    snapshot = _checkpointed(_file("a"), _file("b", p="y"))
    transaction = begin(snapshot)
    transaction.delete_rows(snapshot.files(condition), {"a": BitMap64([0, 3])})
    version = transaction.commit("DELETE").version
    assert orjson.loads(only(snapshot.store, version, "add")["stats"]) == {**STATS, "tightBounds": False}
    assert orjson.loads(only(snapshot.store, version, "remove")["stats"]) == STATS
