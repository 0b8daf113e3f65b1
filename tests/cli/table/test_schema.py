from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import MAPPED, STAMPED, document, error, lines
from tests.log.tables import TableLog


def _field(name: str, data_type: object, nullable: bool = True, comment: str | None = None) -> dict[str, object]:
    node = {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}
    return node if comment is None else node | {"metadata": {"comment": comment}}


_POINT = {"type": "struct", "fields": [_field("x", "double", nullable=False), _field("y", "double")]}
NESTED = {
    "type": "struct",
    "fields": [
        _field("id", "long", nullable=False, comment="the key"),
        _field("tags", {"type": "array", "elementType": "string", "containsNull": True}),
        _field("firm", {"type": "array", "elementType": "string", "containsNull": False}),
        _field("track", {"type": "array", "elementType": _POINT, "containsNull": True}),
        _field("by_name", {"type": "map", "keyType": "string", "valueType": _POINT, "valueContainsNull": False}),
    ],
}


@pytest.fixture
def nested(tmp_path: Path) -> str:
    log = TableLog(str(tmp_path))
    node = {"id": "t", "format": {"provider": "parquet"}, "schemaString": json.dumps(NESTED), "partitionColumns": []}
    log.commit(0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": node})
    return str(tmp_path)


def test_columns_are_listed_under_the_table_and_its_version() -> None:
    assert lines("schema", STAMPED) == [
        f"{Path(STAMPED).as_uri()}, version 3",
        "├── name: string",
        "├── birthyear: integer  partition",
        "└── age: integer",
    ]


def test_nested_columns_stand_below_theirs(nested: str) -> None:
    assert lines("schema", nested)[1:] == [
        "├── id: long not null  -- the key",
        "├── tags: array<string>",
        "├── firm: array",
        "│   └── element: string not null",
        "├── track: array",
        "│   └── element: struct",
        "│       ├── x: double not null",
        "│       └── y: double",
        "└── by_name: map",
        "    ├── key: string",
        "    └── value: struct not null",
        "        ├── x: double not null",
        "        └── y: double",
    ]


def test_column_mapping_shows_ids_and_physical_names() -> None:
    assert lines("schema", MAPPED)[1:] == [
        "├── id: integer  id 1 as col-10623d2b-e242-4e70-bda5-826469ad0d2a",
        "├── tsNtz: timestamp_ntz  id 2 as col-3095b00d-efaa-493e-b85d-8db894dffffc",
        "└── tsNtzPartition: timestamp_ntz  partition  id 3 as col-31f31113-4fc7-437c-b8e8-b7bca8a2f698",
    ]


def test_machines_get_the_schema_string_as_it_is(nested: str) -> None:
    assert document("schema", nested) == NESTED
    assert document("schema", MAPPED)["fields"][1]["metadata"]["delta.columnMapping.id"] == 2


def test_a_schema_that_is_none_is_one_plain_line_for_machines_too(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path))
    node = {"id": "t", "schemaString": '{"type":"struct","fields":[{"name":"a","type":"odd"}]}'}
    log.commit(0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": node})
    expected = f"error: {tmp_path.as_uri()}, version 0: column a: unknown type 'odd'"
    assert error("schema", str(tmp_path)) == expected
    assert error("schema", str(tmp_path), "--json") == expected
