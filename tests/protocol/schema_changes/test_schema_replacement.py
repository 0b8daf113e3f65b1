from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, NAME, NONE, PHYSICAL_NAME
from slackwater.protocol.features.column_mapping_ids import with_mapped_schema
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import COLUMN_MAPPING_MODE, MAX_COLUMN_ID
from slackwater.protocol.schema.schema import (
    BYTE,
    INTEGER,
    LONG,
    STRING,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    schema_to_json,
    walk_fields,
)
from slackwater.protocol.schema_changes.replace_schema import replace_columns, replace_schema


def _struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, data_type) for name, data_type in fields.items()))


SCHEMA = _struct(
    a=BYTE, b=LONG, s=_struct(x=LONG, y=LONG), arr=ArrayType(_struct(x=BYTE)), m=MapType(BYTE, _struct(v=LONG)), p=LONG
)


def _table(mode: str = NAME, schema: StructType = SCHEMA, **configuration: str) -> TableConfiguration:
    configuration = {**configuration, **({} if mode == NONE else {COLUMN_MAPPING_MODE: mode})}
    bare = Metadata("m", schema_to_json(schema), ("p",) if schema.get("p") else (), configuration)
    return with_mapped_schema(TableConfiguration(Protocol(2, 5), bare), schema, mode)


def _without(table: TableConfiguration, key: str) -> TableConfiguration:
    kept = {k: v for k, v in table.metadata.configuration.items() if k != key}
    return table.changed(metadata=replace(table.metadata, configuration=kept))


def _schema(table: TableConfiguration) -> StructType:
    return parse_schema(table.metadata.schema_string)


def _identity(schema: StructType) -> dict[tuple[str, ...], tuple[Any, Any]]:
    return {p: (c.metadata.get(FIELD_ID), c.metadata.get(PHYSICAL_NAME)) for p, c in walk_fields(schema)}


@pytest.mark.parametrize("mode", [NONE, NAME, ID])
def test_the_same_columns_again_change_nothing(mode: str) -> None:
    before = _table(mode)
    after = replace_columns(before, SCHEMA)
    assert after == before


@pytest.mark.parametrize("mode", [NONE, NAME])
def test_columns_are_reordered_widened_and_added_in_their_place(mode: str) -> None:
    before = _table(mode)
    wanted = StructType(
        (
            StructField("P", LONG),
            StructField("new", STRING, True, {"comment": "said"}),
            StructField("s", _struct(y=LONG, z=LONG, x=LONG)),
            StructField("arr", ArrayType(_struct(x=INTEGER))),
            StructField("m", MapType(INTEGER, _struct(w=LONG, V=LONG))),
            StructField("b", LONG, True, {"comment": "added"}),
            StructField("A", INTEGER),
        )
    )
    after = replace_columns(before, wanted)
    assert str(_schema(after)) == (
        "struct<p:long,new:string,s:struct<y:long,z:long,x:long>,arr:array<struct<x:integer>>,"
        "m:map<integer,struct<w:long,v:long>>,b:long,a:integer>"
    )
    assert _schema(after).fields[5].metadata["comment"] == "added"
    assert _schema(after).fields[1].metadata["comment"] == "said"
    old, new = _identity(_schema(before)), _identity(_schema(after))
    assert {path: new[path] for path in old} == old
    if mode == NAME:
        assert min(new[path][0] for path in new if path not in old) > int(before.metadata.configuration[MAX_COLUMN_ID])
        assert int(after.metadata.configuration[MAX_COLUMN_ID]) == int(before.metadata.configuration[MAX_COLUMN_ID]) + 3


def test_a_column_that_is_left_out_is_dropped_under_column_mapping_alone() -> None:
    without = StructType(tuple(c for c in SCHEMA if c.name != "b"))
    assert "b" not in _schema(replace_columns(_table(), without)).names
    with pytest.raises(InvalidArgument, match="column b cannot be dropped without column mapping"):
        replace_columns(_table(NONE), without)
    nested = StructType(tuple(replace(c, type=_struct(x=LONG)) if c.name == "s" else c for c in SCHEMA))
    assert "s:struct<x:long>" in str(_schema(replace_columns(_table(), nested)))
    with pytest.raises(InvalidArgument, match=r"column s\.y cannot be dropped without column mapping"):
        replace_columns(_table(NONE), nested)


def _having(**changed: StructField) -> StructType:
    return StructType(tuple(changed.get(c.name, c) for c in SCHEMA))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (StructType(tuple(c for c in SCHEMA if c.name != "p")), "column p cannot be dropped: the table is partitioned"),
        (StructType(tuple(c for c in SCHEMA if c.name != "a")), "column a cannot be dropped: the table is clustered"),
        (StructType(tuple(c for c in SCHEMA if c.name != "b")), "column b cannot be dropped: CHECK constraint c reads"),
        (
            _having(b=StructField("b", STRING)),
            "column b is of type long, and its data files cannot be read as string",
        ),
        (
            _having(b=StructField("b", LONG, False)),
            "column b may contain nulls. Set it NOT NULL in a separate step",
        ),
        (_having(b=StructField("b", LONG, True, {"CURRENT_DEFAULT": "1"})), "does not change CURRENT_DEFAULT"),
        (_having(m=StructField("m", MapType(BYTE, _struct()))), r"m\.value is a struct without fields"),
        (StructType((*SCHEMA, StructField("n", LONG, False))), "column n is NOT NULL"),
        (StructType((*SCHEMA, StructField("A", BYTE))), "column a occurs twice"),
        (
            StructType((*SCHEMA, StructField("n", LONG), StructField("N", LONG))),
            r"columns \['n', 'N'\] differ only in case",
        ),
        (StructType((*SCHEMA, StructField("n", _struct(v=VOID)))), r"n\.v is of type void"),
    ],
)
def test_columns_that_do_not_fit_the_files_are_refused(columns: StructType, message: str) -> None:
    table = _table(NAME, SCHEMA, **{"delta.constraints.c": "b > 0"})
    with pytest.raises(InvalidArgument, match=message):
        replace_columns(table, columns, clustering=[("a",)])


def test_not_null_may_go_and_rules_stay() -> None:
    schema = StructType((StructField("a", LONG, False, {"delta.identity.start": 1, "mine": 2}), StructField("b", LONG)))
    after = replace_columns(_table(NONE, schema), _struct(a=LONG, b=LONG))
    assert _schema(after).fields[0] == StructField("a", LONG, True, {"delta.identity.start": 1, "mine": 2})


@pytest.mark.parametrize("mode", [NAME, ID])
def test_a_new_schema_shares_no_identity_with_the_old_one(mode: str) -> None:
    before = _table(mode, SCHEMA, k="v")
    after = replace_schema(before, _schema(before), ["B"])
    assert after.metadata.partition_columns == ("b",)
    assert str(_schema(after)) == str(SCHEMA)
    old, new = _identity(_schema(before)), _identity(_schema(after))
    assert not {i for i, _ in old.values()} & {i for i, _ in new.values()}
    assert not {n for _, n in old.values()} & {n for _, n in new.values()}
    assert int(after.metadata.configuration[MAX_COLUMN_ID]) == 2 * int(before.metadata.configuration[MAX_COLUMN_ID])
    assert after.metadata.configuration["k"] == "v"


def test_ids_start_above_the_old_schema_even_where_the_property_was_lost() -> None:
    before = _table(NAME, _struct(a=LONG, b=LONG))
    after = replace_schema(_without(before, MAX_COLUMN_ID), _struct(a=LONG), [])
    assert _identity(_schema(after))[("a",)][0] == 3


def test_without_column_mapping_no_ids_remain() -> None:
    before = _table(NAME)
    after = replace_schema(_without(before, COLUMN_MAPPING_MODE), _schema(before), [])
    assert after.metadata.schema_string == schema_to_json(SCHEMA)
    assert after.metadata.partition_columns == ()


@pytest.mark.parametrize(
    ("schema", "partitions", "message"),
    [
        (_struct(a=LONG, A=LONG), [], "must differ in more than case"),
        (_struct(**{"a b": LONG}), [], "must not contain ' '"),
        (_struct(a=VOID), [], "all of type void"),
        (_struct(a=LONG, s=_struct(v=VOID)), [], r"s\.v is of type void"),
        (_struct(a=LONG), ["a"], "at least one column"),
        (_struct(a=LONG), ["z"], "'z' is not among"),
        (
            _struct(a=LONG),
            [],
            r"CHECK constraint c reads \['b'\], which the new schema lacks \(b > 0\)\. .*Drop CHECK constraint c first",
        ),
        (_struct(b=LONG, _change_type=LONG), [], "reserved while the change data feed"),
        (
            StructType((StructField("b", LONG), StructField("g", LONG, True, {"delta.generationExpression": "q + 1"}))),
            [],
            r"generated column g reads \['q'\]",
        ),
    ],
)
def test_a_schema_that_a_table_cannot_have_is_refused(schema: StructType, partitions: list[str], message: str) -> None:
    before = _table(NONE, SCHEMA, **{"delta.constraints.c": "b > 0", "delta.enableChangeDataFeed": "true"})
    with pytest.raises(InvalidArgument, match=message):
        replace_schema(before, schema, partitions)


def test_columns_that_are_gone_have_no_statistics() -> None:
    before = _table(NONE, SCHEMA, **{"delta.dataSkippingStatsColumns": "a,s.x,s.y"})
    after = replace_schema(before, _struct(A=LONG, s=_struct(y=LONG)), [])
    assert after.metadata.configuration["delta.dataSkippingStatsColumns"] == "a,s.y"
