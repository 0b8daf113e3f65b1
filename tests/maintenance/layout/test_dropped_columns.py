"""Which files hold more columns than their table has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import InvalidArgument, ObjectNotFound
from slackwater.maintenance.layout import dropped_columns
from slackwater.maintenance.layout.dropped_columns import to_purge, with_dropped_columns
from slackwater.protocol.features.column_mapping import physical_schema
from slackwater.protocol.schema_changes.alter_columns import drop_columns
from slackwater.scan.snapshot import Snapshot
from tests.transaction.tables import VECTORS, add, append, begin, delete_rows_of, schema, table

MAPPED = {"delta.columnMapping.mode": "name", **VECTORS}
_STRUCT = {
    "type": "struct",
    "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in "xy"],
}
_MAP = {"type": "map", "keyType": "string", "valueType": _STRUCT, "valueContainsNull": True}
_ARRAY = {"type": "array", "elementType": _STRUCT, "containsNull": True}
COLUMNS = {"id": "long", "gone": "string", "st": _STRUCT, "m": _MAP, "a": _ARRAY}


def _table(path: Path, mode: str = "name") -> Snapshot:
    properties = {**MAPPED, "delta.columnMapping.mode": mode}
    return append(table(schema(COLUMNS), properties=properties, path=str(path)), add("old"), add("new")).snapshot


def _arrow(snapshot: Snapshot) -> pa.Schema:
    """The columns of a file that has all those of the table."""

    def of(data_type: Any) -> pa.DataType:
        text = str(data_type)
        if hasattr(data_type, "fields"):
            return pa.struct([pa.field(f.name, of(f.type), metadata=_id(f)) for f in data_type.fields])
        if hasattr(data_type, "value_type"):
            return pa.map_(of(data_type.key_type), of(data_type.value_type))
        if hasattr(data_type, "element_type"):
            return pa.list_(of(data_type.element_type))
        return pa.int64() if text == "long" else pa.string()

    known = physical_schema(snapshot.schema, snapshot.column_mapping_mode)
    return pa.schema([pa.field(f.name, of(f.type), metadata=_id(f)) for f in known])


def _id(field: object) -> dict[str, str]:
    return {"PARQUET:field_id": str(field.metadata["delta.columnMapping.id"])}  # type: ignore[attr-defined]


def _dropped(snapshot: Snapshot, *path: str) -> Snapshot:
    transaction = begin(snapshot)
    transaction.set_table(drop_columns(snapshot.configuration, [path]))
    return transaction.commit("DROP COLUMNS").snapshot


def _write(path: Path, columns: pa.Schema) -> None:
    pq.write_table(columns.empty_table(), path)


def _found(snapshot: Snapshot) -> list[str]:
    files = snapshot.live_files()
    paths: list[str] = with_dropped_columns(snapshot.table, snapshot.configuration, files)["path"].to_pylist()
    return paths


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("column", [("gone",), ("st", "y"), ("m", "value", "y"), ("a", "element", "y")])
def test_files_from_before_a_drop_are_found(tmp_path: Path, column: tuple[str, ...], mode: str) -> None:
    before = _table(tmp_path / "t", mode)
    _write(tmp_path / "t/old", _arrow(before))
    after = _dropped(before, *column)
    _write(tmp_path / "t/new", _arrow(after))
    assert _found(after) == ["old"]


def test_columns_go_by_their_ids_where_the_table_does(tmp_path: Path) -> None:
    before = _table(tmp_path / "t", "id")
    after = _dropped(before, "gone")
    renamed = [field.with_name(f"other {n}") for n, field in enumerate(_arrow(after))]
    _write(tmp_path / "t/new", pa.schema(renamed))
    _write(tmp_path / "t/old", pa.schema([*renamed, _arrow(before)[1].with_name(renamed[0].name + " too")]))
    assert _found(after) == ["old"]


def test_without_a_drop_no_file_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped_columns, "parquet_footer", None)
    assert _found(_table(tmp_path / "t")) == []
    plain = append(table(path=str(tmp_path / "plain")), add("a")).snapshot
    assert _found(plain) == []


def test_a_file_that_is_gone_or_no_parquet_is_named(tmp_path: Path) -> None:
    after = _dropped(_table(tmp_path / "t"), "gone")
    with pytest.raises(ObjectNotFound, match=r"old|new"):
        _found(after)
    for name in ("old", "new"):
        (tmp_path / "t" / name).write_bytes(b"x")
    with pytest.raises(InvalidArgument, match="not a Parquet file"):
        _found(after)


def test_of_files_with_vectors_no_footer_is_needed(tmp_path: Path) -> None:
    before = delete_rows_of(_table(tmp_path / "t"), {"old": [1]}).snapshot
    after = _dropped(before, "gone")
    _write(tmp_path / "t/new", _arrow(after))
    assert to_purge(after.table, after.configuration, after.live_files())["path"].to_pylist() == ["old"]
