"""Which files hold values of the types before a type change."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.column_mapping import physical_schema
from slackwater.protocol.schema.column_paths import parse_column_path
from slackwater.protocol.schema.schema import parse_type
from slackwater.protocol.schema_changes.alter_column import change_type
from slackwater.scan.earlier_types import with_earlier_types
from slackwater.scan.snapshot import Snapshot
from tests.transaction.tables import add, append, schema, table

WIDENING = {"delta.enableTypeWidening": "true"}


def _struct(**fields: Any) -> dict[str, Any]:
    columns = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": columns}


COLUMNS = {
    "s": "string",
    "x": _struct(other="binary", n="short"),
    "a": {"type": "array", "elementType": "integer", "containsNull": True},
    "m": {"type": "map", "keyType": "string", "valueType": "float", "valueContainsNull": True},
    "d": "date",
    "n": "decimal(4,1)",
    "b": "byte",
}
ARROW: dict[str, pa.DataType] = {
    "s": pa.string(),
    "x": pa.struct([("other", pa.binary()), ("n", pa.int16())]),
    "a": pa.list_(pa.int32()),
    "m": pa.map_(pa.string(), pa.float32()),
    "d": pa.date32(),
    "n": pa.decimal128(4, 1),
    "b": pa.int8(),
}
_STRUCT = pa.struct([("other", pa.binary()), ("n", pa.int64())])
CHANGES: dict[str, tuple[str, str, pa.DataType]] = {
    "field of a struct": ("x.n", "long", _STRUCT),
    "element": ("a.element", "long", pa.list_(pa.int64())),
    "value": ("m.value", "double", pa.map_(pa.string(), pa.float64())),
    "date": ("d", "timestamp_ntz", pa.timestamp("us")),
    "decimal": ("n", "decimal(10,2)", pa.decimal128(10, 2)),
    "integer in the same physical type": ("b", "short", pa.int16()),
    "decimal of an integer": ("b", "decimal(10,0)", pa.decimal128(10, 0)),
}


def _put(snapshot: Snapshot, root: Path, name: str, types: dict[str, pa.DataType]) -> None:
    fields = physical_schema(snapshot.schema, snapshot.column_mapping_mode)
    named = zip(types.values(), fields, strict=True)
    ids = [{"PARQUET:field_id": str(f.metadata.get("delta.columnMapping.id", 0))} for f in fields]
    columns = [pa.field(f"p-{f.name}", kind, metadata=n) if snapshot.column_mapping_mode == "id"
               else pa.field(f.name, kind, metadata=n) for (kind, f), n in zip(named, ids, strict=True)]  # fmt: skip
    pq.write_table(pa.schema(columns).empty_table(), root / name, store_schema=False)


def _found(snapshot: Snapshot) -> list[str]:
    found = with_earlier_types(snapshot.table, snapshot.configuration, snapshot.live_files(["path"]))
    return sorted(found["path"].to_pylist())


@pytest.mark.parametrize("change", CHANGES)
def test_files_of_an_earlier_type_are_found(tmp_path: Path, change: str) -> None:
    path, new_type, arrow = CHANGES[change]
    before = append(table(schema(COLUMNS), properties=WIDENING, path=str(tmp_path)), add("old"), add("new")).snapshot
    configuration = change_type(before.configuration, parse_column_path(path), parse_type(new_type))
    column = path.split(".", maxsplit=1)[0]
    _put(before, tmp_path, "old", ARROW)
    _put(before, tmp_path, "new", {**ARROW, column: arrow})
    files = before.live_files(["path"])
    assert with_earlier_types(before.table, configuration, files)["path"].to_pylist() == ["old"]


def test_files_are_compared_by_field_id(tmp_path: Path) -> None:
    properties = {**WIDENING, "delta.columnMapping.mode": "id"}
    before = append(table({"v": "integer"}, properties=properties, path=str(tmp_path)), add("old"), add("new")).snapshot
    configuration = change_type(before.configuration, ("v",), parse_type("long"))
    _put(before, tmp_path, "old", {"v": pa.int32()})
    _put(before, tmp_path, "new", {"v": pa.int64()})
    files = before.live_files(["path"])
    assert with_earlier_types(before.table, configuration, files)["path"].to_pylist() == ["old"]


def test_columns_without_a_type_history_are_not_compared(tmp_path: Path) -> None:
    """Other writers store a byte as a plain 32-bit integer."""
    before = append(table({"b": "byte", "v": "integer"}, properties=WIDENING, path=str(tmp_path)), add("f")).snapshot
    configuration = change_type(before.configuration, ("v",), parse_type("long"))
    _put(before, tmp_path, "f", {"b": pa.int32(), "v": pa.int64()})
    assert with_earlier_types(before.table, configuration, before.live_files(["path"])).num_rows == 0


def test_file_without_the_column_has_no_earlier_type(tmp_path: Path) -> None:
    before = append(table({"v": "integer"}, properties=WIDENING, path=str(tmp_path)), add("f")).snapshot
    configuration = change_type(before.configuration, ("v",), parse_type("long"))
    pq.write_table(pa.table({"gone": pa.array([dt.date(2024, 1, 1)])}), tmp_path / "f")
    assert with_earlier_types(before.table, configuration, before.live_files(["path"])).num_rows == 0


def test_no_file_is_read_without_a_type_change(tmp_path: Path) -> None:
    assert _found(append(table({"v": "integer"}, path=str(tmp_path)), add("missing")).snapshot) == []


def test_file_that_is_not_parquet_is_an_error(tmp_path: Path) -> None:
    before = append(table({"v": "integer"}, properties=WIDENING, path=str(tmp_path)), add("f")).snapshot
    configuration = change_type(before.configuration, ("v",), parse_type("long"))
    (tmp_path / "f").write_bytes(b"no Parquet, but long enough for a footer")
    with pytest.raises(InvalidArgument, match="f"):
        with_earlier_types(before.table, configuration, before.live_files(["path"]))
