"""The forms in which checkpoints hold statistics and partition values, and the columns they have."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from slackwater.errors import InvalidSchema
from slackwater.log.checkpoints.write_checkpoint import CheckpointLayout
from slackwater.log.files.file_actions import ADD_SCHEMA
from tests.log.checkpoints.test_write_checkpoint import rows_of, schema_of, v2_log, write
from tests.log.tables import (
    CHECKPOINT_SCHEMA,
    Action,
    TableLog,
    add,
    domain,
    metadata,
    parquet,
    protocol,
)

AS_STRUCT = {"delta.checkpoint.writeStatsAsStruct": "true"}
ONLY_STRUCT = {**AS_STRUCT, "delta.checkpoint.writeStatsAsJson": "false"}
STATS = {"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}, "tightBounds": False}


def _fields(log: TableLog, path: str) -> set[str]:
    return {field.name for field in schema_of(log, path).field("add").type}


def _field(name: str, kind: Any, physical: str | None = None) -> dict[str, Any]:
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapped if physical else {}}


def _table(
    columns: Sequence[dict[str, Any]], configuration: dict[str, str], *actions: Action, **fields: Any
) -> TableLog:
    log = TableLog()
    schema = json.dumps({"type": "struct", "fields": list(columns)})
    log.commit(0, protocol(2, 5), metadata(configuration, schemaString=schema, **fields), *actions)
    return log


@pytest.mark.parametrize(
    ("configuration", "present"),
    [
        ({}, {"stats"}),
        (AS_STRUCT, {"stats", "stats_parsed"}),
        (ONLY_STRUCT, {"stats_parsed"}),
        ({"delta.checkpoint.writeStatsAsJson": "FALSE"}, set()),
    ],
)
@pytest.mark.parametrize("layout", [CheckpointLayout.V1, CheckpointLayout.V2])
def test_statistics_stand_in_the_forms_that_the_table_asks_for(
    configuration: dict[str, str], present: set[str], layout: CheckpointLayout
) -> None:
    log = v2_log(add("a", stats=json.dumps(STATS)), add("b"), configuration=configuration)
    info = write(log, layout)
    path = info.sidecars[0] if info.sidecars else info.path
    assert _fields(log, path) - {*ADD_SCHEMA.names} | _fields(log, path) & {"stats"} == present
    by_path = {row["path"]: row for row in rows_of(log, path, "add")}
    if "stats" in present:
        assert (json.loads(by_path["a"]["stats"]), by_path["b"]["stats"]) == (STATS, None)
    if "stats_parsed" in present:
        assert (by_path["a"]["stats_parsed"], by_path["b"]["stats_parsed"]) == (STATS, None)


def test_statistics_survive_every_change_of_form() -> None:
    log = v2_log(add("a", stats=json.dumps(STATS)), add("b"))
    forms: tuple[dict[str, str], ...] = (AS_STRUCT, ONLY_STRUCT, {}, ONLY_STRUCT, AS_STRUCT, {})
    for version, configuration in enumerate(forms, 1):
        log.commit(version, metadata(configuration), add(f"f{version}", stats=json.dumps(STATS)))
        write(log, CheckpointLayout.V2 if version % 2 else CheckpointLayout.V1)
    live = {row["path"]: row["stats"] for row in log.load().live_files(["path", "stats"]).to_pylist()}
    assert live.pop("b") is None
    assert {path: json.loads(text) for path, text in live.items()} == dict.fromkeys(live, STATS)
    assert len(live) == 1 + len(forms)


def _with_parsed(log: TableLog, kind: pa.StructType, **options: Any) -> bytes:
    """A classic checkpoint of `log` with one file, whose statistics stand in `stats_parsed` alone."""
    add_type = pa.struct([*CHECKPOINT_SCHEMA.field("add").type, ("stats_parsed", kind)])
    schema = pa.schema([("add", add_type), *(CHECKPOINT_SCHEMA.field(n) for n in ("metaData", "protocol"))])
    at = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    parsed = {"numRecords": 3, "maxValues": {"id": 9, "at": at}}
    actions = [protocol(), log.load().metadata.to_json(), add("a", stats_parsed=parsed)]
    return parquet(actions, schema, **options)


@pytest.mark.parametrize("options", [{}, {"use_deprecated_int96_timestamps": True}])
def test_statistics_that_another_writer_left_as_columns_alone_become_json(options: dict[str, Any]) -> None:
    bounds = pa.struct([("id", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
    kind = pa.struct([("numRecords", pa.int64()), ("maxValues", bounds)])
    log = _table([_field("id", "long"), _field("at", "timestamp")], {})
    log.put("00000000000000000000.checkpoint.parquet", _with_parsed(log, kind, **options))
    info = write(log)
    (row,) = rows_of(log, info.path, "add")
    bound = {"id": 9, "at": "9999-12-31T23:59:59.999999Z"}
    assert json.loads(row["stats"]) == {"numRecords": 3, "maxValues": bound}


def test_a_form_that_is_not_needed_is_not_read() -> None:
    log = v2_log(add("a", stats=json.dumps(STATS)), configuration=AS_STRUCT)
    write(log)
    snapshot = log.load()
    checkpoint = snapshot.state.checkpoint
    assert checkpoint is not None
    spares = {"stats_parsed": "stats"}
    (piece,) = checkpoint.batches(log.store, "add", ["path", "stats", "stats_parsed"], spares)
    assert "stats_parsed" not in piece.column_names
    log.commit(1, add("b"))
    write(log)
    checkpoint = log.load().state.checkpoint
    assert checkpoint is not None
    (piece,) = checkpoint.batches(log.store, "add", ["path", "stats", "stats_parsed"], spares)
    assert piece["stats_parsed"].to_pylist() == [STATS, None]


def test_a_struct_of_nulls_is_not_taken_for_statistics() -> None:
    log = TableLog().create(configuration=AS_STRUCT)
    kind = pa.struct([("numRecords", pa.int64())])
    schema = pa.schema(
        [
            ("add", pa.struct([*CHECKPOINT_SCHEMA.field("add").type, ("stats_parsed", kind)])),
            *(CHECKPOINT_SCHEMA.field(n) for n in ("metaData", "protocol")),
        ]
    )
    actions = [protocol(), metadata(AS_STRUCT), add("a", stats='{"numRecords":3}', stats_parsed={"numRecords": None})]
    log.put("00000000000000000000.checkpoint.parquet", parquet(actions, schema))
    (row,) = rows_of(log, write(log).path, "add")
    assert row["stats_parsed"]["numRecords"] == 3


def test_partition_values_stand_typed_beside_the_statistics_of_the_other_columns() -> None:
    columns = [_field("day", "date"), _field("n", "integer"), _field("s", "string"), _field("id", "long")]
    values = {"day": "2026-01-02", "n": "7", "s": "x"}
    nothing = {"day": None, "n": "", "s": None}
    log = _table(
        columns,
        AS_STRUCT,
        add("a", partitionValues=values, stats=json.dumps(STATS)),
        add("b", partitionValues=nothing),
        add("c", partitionValues={}),
        partitionColumns=["day", "n", "s"],
    )
    path = write(log).path
    by_path = {row["path"]: row for row in rows_of(log, path, "add")}
    empty = {"day": None, "n": None, "s": None}
    assert by_path["a"]["partitionValues_parsed"] == {"day": dt.date(2026, 1, 2), "n": 7, "s": "x"}
    assert by_path["b"]["partitionValues_parsed"] == by_path["c"]["partitionValues_parsed"] == empty
    assert dict(by_path["a"]["partitionValues"]) == values
    kind = schema_of(log, path).field("add").type.field("stats_parsed").type
    assert [f.name for f in kind.field("minValues").type] == ["id"]


def test_partition_values_stay_texts_alone_where_statistics_do() -> None:
    log = _table([_field("p", "long")], {}, add("a", partitionValues={"p": "1"}), partitionColumns=["p"])
    assert "partitionValues_parsed" not in _fields(log, write(log).path)


def test_under_column_mapping_the_physical_names_stand() -> None:
    inner = {"type": "struct", "fields": [_field("x", "string", "col-x")]}
    columns = [_field("id", "long", "col-id"), _field("s", inner, "col-s"), _field("p", "integer", "col-p")]
    stats = {"numRecords": 1, "minValues": {"col-id": 1, "col-s": {"col-x": "a"}}, "nullCount": {"col-s": {"col-x": 0}}}
    log = _table(
        columns,
        {**ONLY_STRUCT, "delta.columnMapping.mode": "name"},
        add("a", partitionValues={"col-p": "5"}, stats=json.dumps(stats)),
        partitionColumns=["p"],
    )
    (row,) = rows_of(log, write(log).path, "add")
    assert row["partitionValues_parsed"] == {"col-p": 5}
    assert row["stats_parsed"]["minValues"] == {"col-id": 1, "col-s": {"col-x": "a"}}
    assert row["stats_parsed"]["nullCount"] == {"col-id": None, "col-s": {"col-x": 0}}


@pytest.mark.parametrize(
    ("configuration", "actions", "num_columns"),
    [
        (AS_STRUCT, [], 32),
        ({**AS_STRUCT, "delta.dataSkippingNumIndexedCols": "3"}, [], 3),
        ({**AS_STRUCT, "delta.dataSkippingNumIndexedCols": "-1"}, [], 40),
        ({**AS_STRUCT, "delta.dataSkippingStatsColumns": "c39"}, [], 40),
        (AS_STRUCT, [domain("delta.clustering", '{"clusteringColumns":[["c39"]]}')], 40),
        (ONLY_STRUCT, [], 40),
    ],
)
def test_beside_json_the_columns_are_those_that_writers_collect_statistics_of_else_all(
    configuration: dict[str, str], actions: list[Action], num_columns: int
) -> None:
    log = _table([_field(f"c{n}", "long") for n in range(40)], configuration, add("a"), *actions)
    kind = schema_of(log, write(log).path).field("add").type.field("stats_parsed").type
    assert len(list(kind.field("nullCount").type)) == num_columns


def test_a_schema_that_is_not_understood_matters_only_where_a_form_needs_it() -> None:
    log = _table([_field("v", "time(6)")], {}, add("a", stats=json.dumps(STATS)))
    (row,) = rows_of(log, write(log).path, "add")
    assert json.loads(row["stats"]) == STATS
    log.commit(1, metadata(AS_STRUCT, schemaString=log.load().metadata.schema_string))
    with pytest.raises(InvalidSchema, match="unknown type"):
        write(log)
