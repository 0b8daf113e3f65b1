"""Small data files, and what the package asks of the footer of one."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.protocol.schema.schema import parse_schema
from slackwater.stats.footers import StatsLeaves, parquet_footer, stats_leaves, stats_of_footer
from slackwater.storage.store import ObjectStore


def _delta(name: str, kind: object, number: int) -> dict[str, object]:
    mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapped}


_STRUCT = {"type": "struct", "fields": [_delta("x", "byte", 9)]}
SCHEMA_STRING = json.dumps(
    {
        "type": "struct",
        "fields": [
            *(_delta(name, name, number) for number, name in enumerate(("long", "string", "double", "boolean"), 1)),
            *(_delta(name, name, number) for number, name in enumerate(("date", "timestamp", "decimal(9,2)"), 5)),
            _delta("s", _STRUCT, 8),
            _delta("l", {"type": "array", "elementType": "integer", "containsNull": True}, 10),
        ],
    }
)


def _arrow(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def data_file() -> bytes:
    """A file of two row groups with a column of each kind that has bounds, and field ids."""
    kinds = (pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"))
    names = ("long", "string", "double", "boolean", "date", "timestamp")
    schema = pa.schema(
        [
            *(_arrow(name, kind, number) for number, (name, kind) in enumerate(zip(names, kinds, strict=True), 1)),
            _arrow("decimal(9,2)", pa.decimal128(9, 2), 7),
            _arrow("s", pa.struct([_arrow("x", pa.int8(), 9)]), 8),
            _arrow("l", pa.list_(pa.int32()), 10),
        ]
    )
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)
    row = (7, "text", 1.5, True, moment.date(), moment, Decimal("1.25"), {"x": 1}, [1, 2])
    rows = [dict(zip(schema.names, row, strict=True)), dict.fromkeys(schema.names)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows * 2, schema), sink, row_group_size=2, write_page_index=True)
    return sink.getvalue()


@cache
def _leaves() -> tuple[StatsLeaves, ...]:
    schema = parse_schema(SCHEMA_STRING)
    return tuple(stats_leaves(schema, mode, (), {}) for mode in ("none", "name", "id"))


def describe_data_file(store: ObjectStore, path: str) -> list[dict[str, object]]:
    """The statistics of the file by names and by field ids, as they would be committed."""
    footer, _ = parquet_footer(store, path)
    return [json.loads(stats_of_footer(footer, leaves)) for leaves in _leaves()]
