from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.schema import (
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    schema_to_json,
    walk_fields,
)
from slackwater.protocol.schema.type_widening import can_widen
from slackwater.protocol.schema_changes.alter_column import change_type, set_comment, set_default, set_nullability


def _struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, data_type) for name, data_type in fields.items()))


SCHEMA = StructType(
    (
        StructField("a", BYTE),
        StructField("strict", LONG, False, {"comment": "old", "mine": 1}),
        StructField("s", StructType((StructField("x", SHORT), StructField("y", LONG, False)))),
        StructField("arr", ArrayType(_struct(x=BYTE))),
        StructField("m", MapType(BYTE, ArrayType(BYTE))),
        StructField("v", VOID),
        StructField("gen", BYTE, True, {"delta.generationExpression": "p + 1"}),
        StructField("ident", LONG, True, {"delta.identity.start": 1}),
        StructField("p", BYTE),
        StructField("q", BYTE),
    )
)
TABLE = TableConfiguration(
    Protocol(1, 2), Metadata("m", schema_to_json(SCHEMA), ("q",), {"delta.constraints.c": "s.x > 0"})
)


def _column(table: TableConfiguration, *path: str) -> StructField:
    schema = parse_schema(table.metadata.schema_string)
    return next(column for found, column in walk_fields(schema) if found == path)


def test_a_comment_comes_and_goes() -> None:
    said = set_comment(TABLE, ("STRICT",), "new")
    assert _column(said, "strict").metadata == {"comment": "new", "mine": 1}
    assert _column(set_comment(said, ("strict",), None), "strict").metadata == {"mine": 1}
    assert _column(set_comment(TABLE, ("arr", "element", "x"), ""), "arr", "element", "x").metadata == {"comment": ""}
    assert set_comment(TABLE, ("a",), None) == TABLE
    with pytest.raises(InvalidArgument, match="no column nobody"):
        set_comment(TABLE, ("nobody",), "x")
    with pytest.raises(InvalidArgument, match="not a column: "):
        set_comment(TABLE, ("arr", "element"), "x")


@pytest.mark.parametrize("path", [("strict",), ("s", "y"), ("a",)])
def test_not_null_always_may_go(path: tuple[str, ...]) -> None:
    assert _column(set_nullability(TABLE, path, nullable=True), *path).nullable


@pytest.mark.parametrize("path", [("a",), ("s", "x"), ("q",)])
def test_not_null_comes_after_a_look_at_the_rows(path: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument, match="only after a check that no row contains a null"):
        set_nullability(TABLE, path, nullable=False)
    changed = set_nullability(TABLE, path, nullable=False, holds_no_null=True)
    assert not _column(changed, *path).nullable
    assert set_nullability(changed, path, nullable=False) == changed


def test_not_null_does_not_come_where_it_is_not_enforced() -> None:
    with pytest.raises(InvalidArgument, match=r"column arr\.element\.x is inside an array or a map"):
        set_nullability(TABLE, ("arr", "element", "x"), nullable=False, holds_no_null=True)


@pytest.mark.parametrize("sql", ["1", "current_date", "NULL", "concat('a', 'b')", "cast('2020-01-01' AS DATE)", "-1.5"])
def test_a_default_value_comes_and_goes(sql: str) -> None:
    changed = set_default(TABLE, ("A",), sql)
    assert _column(changed, "a").metadata == {"CURRENT_DEFAULT": sql}
    assert set_default(changed, ("a",), None) == TABLE


def test_a_default_value_goes_with_all_it_left() -> None:
    schema = StructType(
        (StructField("a", LONG, True, {"CURRENT_DEFAULT": "1", "EXISTS_DEFAULT": "1", "comment": "c"}),)
    )
    changed = set_default(TableConfiguration(Protocol(1, 2), Metadata("m", schema_to_json(schema))), ("a",), None)
    assert _column(changed, "a").metadata == {"comment": "c"}


@pytest.mark.parametrize(
    ("path", "sql", "message"),
    [
        (("s", "x"), "1", r"column s\.x cannot have a default value: only top-level columns"),
        (("gen",), "1", "column gen cannot have a default value: the table computes"),
        (("ident",), "1", "column ident cannot have a default value: the table computes"),
        (("a",), "p + s.x", r"cannot read columns, found \['p', 's\.x'\]"),
        (("a",), "1 +", "not an SQL expression"),
        (("a",), "", "one SQL expression"),
        (("nobody",), "1", "no column nobody"),
    ],
)
def test_a_default_value_that_makes_no_sense_is_refused(path: tuple[str, ...], sql: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        set_default(TABLE, path, sql)


@pytest.mark.parametrize(
    ("path", "new", "after"),
    [
        (("A",), SHORT, "a:short"),
        (("a",), INTEGER, "a:integer"),
        (("a",), BYTE, "a:byte"),
        (("arr", "element", "x"), INTEGER, "arr:array<struct<x:integer>>"),
        (("m", "key"), SHORT, "m:map<short,array<byte>>"),
        (("m", "value", "element"), SHORT, "m:map<byte,array<short>>"),
        (("v",), STRING, "v:string"),
        (("v",), _struct(i=LONG), "v:struct<i:long>"),
        (("gen",), BYTE, "gen:byte"),
        (("arr",), ArrayType(_struct(x=BYTE), False), "arr:array<struct<x:byte>>"),
    ],
)
def test_a_type_changes_where_files_are_read_as_the_new_one(path: tuple[str, ...], new: DataType, after: str) -> None:
    changed = change_type(TABLE, path, new)
    assert after in str(parse_schema(changed.metadata.schema_string))
    assert changed.metadata.partition_columns == ("q",)


def test_the_same_type_again_changes_nothing() -> None:
    assert change_type(TABLE, ("s",), SCHEMA.fields[2].type) == TABLE
    assert change_type(TABLE, ("arr",), ArrayType(_struct(x=BYTE), False)) == TABLE


def test_a_new_type_is_nullable_inside_and_brings_no_ids() -> None:
    new = StructType((StructField("i", LONG, False, {"delta.columnMapping.id": 1, "comment": "c"}),))
    assert _column(change_type(TABLE, ("v",), new), "v", "i") == StructField("i", LONG, True, {"comment": "c"})


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        (("a",), LONG, "its data files cannot be read as long"),
        (("a",), STRING, "its data files cannot be read as string"),
        (("s", "x"), BYTE, "its data files cannot be read as byte"),
        (("s",), _struct(x=INTEGER), "cannot be read as struct"),
        (("a",), VOID, "cannot be read as void"),
        (("q",), SHORT, "column q must stay byte"),
        (("p",), SHORT, "column p must stay byte"),
        (("gen",), SHORT, "column gen must stay byte"),
        (("s", "x"), INTEGER, r"column s\.x must stay short"),
        (("v",), ArrayType(VOID), r"v\.element is of type void"),
        (("nobody",), LONG, "no column nobody"),
        ((), LONG, "a column needs a name"),
    ],
)
def test_other_types_are_refused(path: tuple[str, ...], new: DataType, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        change_type(TABLE, path, new)


def _widening(**properties: str) -> TableConfiguration:
    metadata = Metadata("m", schema_to_json(SCHEMA), (), {"delta.enableTypeWidening": "true", **properties})
    return TableConfiguration(Protocol(1, 2), metadata)


@pytest.mark.parametrize(
    ("path", "new", "column", "change"),
    [
        (("a",), LONG, ("a",), {"fromType": "byte", "toType": "long"}),
        (("A",), DOUBLE, ("a",), {"fromType": "byte", "toType": "double"}),
        (("a",), SHORT, ("a",), {"fromType": "byte", "toType": "short"}),
        (("a",), DecimalType(10, 0), ("a",), {"fromType": "byte", "toType": "decimal(10,0)"}),
        (("m", "key"), LONG, ("m",), {"fromType": "byte", "toType": "long", "fieldPath": "key"}),
        (("m", "value", "element"), LONG, ("m",), {"fromType": "byte", "toType": "long", "fieldPath": "value.element"}),
        (("arr", "element", "x"), LONG, ("arr", "element", "x"), {"fromType": "byte", "toType": "long"}),
    ],
)
def test_a_wider_type_stands_in_the_history_of_its_column(
    path: tuple[str, ...], new: DataType, column: tuple[str, ...], change: dict[str, str]
) -> None:
    changed = change_type(_widening(), path, new)
    assert _column(changed, *column).metadata["delta.typeChanges"] == [change]
    again = change_type(changed, path, new)
    assert again == changed


def test_each_type_of_a_column_stands_in_its_history() -> None:
    changed = change_type(change_type(_widening(), ("a",), SHORT), ("a",), DOUBLE)
    assert [each["toType"] for each in _column(changed, "a").metadata["delta.typeChanges"]] == ["short", "double"]


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        (("a",), STRING, "cannot be read as string"),
        (("a",), FLOAT, "cannot be read as float"),
        (("a",), DecimalType(9, 0), r"cannot be read as decimal\(9,0\)"),
        (("a",), DecimalType(10, 1), r"cannot be read as decimal\(10,1\)"),
        (("q",), STRING, "cannot be read as string"),
    ],
)
def test_what_the_protocol_does_not_widen_is_refused(path: tuple[str, ...], new: DataType, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        change_type(_widening(), path, new)


def test_a_table_without_the_property_says_which_one_it_is() -> None:
    with pytest.raises(InvalidArgument, match=r"set delta.enableTypeWidening to true"):
        change_type(TABLE, ("a",), LONG)


def test_iceberg_bounds_what_is_widened() -> None:
    iceberg = _widening(**{"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "name"})
    iceberg = replace(iceberg, protocol=Protocol(2, 7, None, ("columnMapping", "icebergCompatV2")))
    assert _column(change_type(iceberg, ("a",), LONG), "a").type == LONG
    with pytest.raises(InvalidArgument, match="compatible with Iceberg, which does not widen"):
        change_type(iceberg, ("a",), DOUBLE)


def test_the_history_is_the_one_that_delta_spark_writes() -> None:
    """Its preview had the version of each change besides."""
    log = Path(__file__).parents[2] / "data" / "tables" / "type-widening" / "_delta_log"
    before, after = (_schema_of(log / f"{version:020d}.json") for version in (1, 2))
    table = TableConfiguration(Protocol(1, 2), replace(_widening().metadata, schema_string=schema_to_json(before)))
    types = {column.name: column.type for column in before}
    seen = 0
    for column in after:
        if not can_widen(types[column.name], column.type):
            # Decimals of few digits, which Spark does not read files of integers as.
            assert isinstance(column.type, DecimalType)
            continue
        changed = _column(change_type(table, (column.name,), column.type), column.name)
        (theirs,) = column.metadata["delta.typeChanges"]
        assert changed.metadata["delta.typeChanges"] == [{k: v for k, v in theirs.items() if k != "tableVersion"}]
        seen += 1
    assert seen == 11


def _schema_of(commit: Path) -> StructType:
    (found,) = (a["metaData"] for a in map(json.loads, commit.read_text().splitlines()) if "metaData" in a)
    return parse_schema(found["schemaString"])
