from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from slackwater.errors import InvalidSchema, UnsupportedFeature
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.identity_columns import IdentityColumn
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.write_expressions import (
    CheckConstraint,
    DefaultColumn,
    GeneratedColumn,
    Invariant,
    WriteExpressions,
    checks,
    row_rules,
)
from slackwater.protocol.schema.schema import (
    LONG,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    schema_to_json,
)

ALL = Protocol(
    1, 7, None, ("generatedColumns", "allowColumnDefaults", "identityColumns", "checkConstraints", "invariants")
)
NOTHING = Protocol(1, 7, None, ())


def _rules(
    schema: StructType, protocol: Protocol = ALL, configuration: dict[str, str] | None = None
) -> WriteExpressions:
    return row_rules(TableConfiguration(protocol, Metadata("id", schema_to_json(schema), (), configuration or {})))


def _one(data_type: DataType = LONG, nullable: bool = True, metadata: Mapping[str, object] | None = None) -> StructType:
    return StructType((StructField("a", data_type, nullable, metadata or {}),))


def _invariant(sql: object) -> str:
    return json.dumps({"expression": {"expression": sql}})


def test_a_table_without_rules_has_none() -> None:
    rules = _rules(StructType((StructField("a", LONG), StructField("b", ArrayType(MapType(STRING, LONG))))))
    assert rules == WriteExpressions()
    assert not rules


def test_not_null_columns_are_found_at_every_depth() -> None:
    inner = StructType((StructField("x", LONG, False), StructField("y", LONG)))
    schema = StructType(
        (
            StructField("id", LONG, False),
            StructField("s", inner),
            StructField("list", ArrayType(inner, False)),
            StructField("map", MapType(inner, ArrayType(LONG, False), False)),
        )
    )
    assert _rules(schema).not_null == (
        ("id",),
        ("s", "x"),
        ("list", "element"),
        ("list", "element", "x"),
        ("map", "value"),
        ("map", "key", "x"),
        ("map", "value", "element"),
    )


def test_constraints_have_the_name_behind_the_prefix() -> None:
    configuration = {
        "delta.constraints.positive": "a > 0",
        "DELTA.CONSTRAINTS.Dotted.Name": "b is not null",
        "delta.constraintsX": "no",
        "other": "no",
    }
    assert checks(configuration) == (
        CheckConstraint("Dotted.Name", "b is not null"),
        CheckConstraint("positive", "a > 0"),
    )
    assert _rules(_one(), configuration=configuration).checks == checks(configuration)


def test_no_constraint_is_lost_where_keys_differ_in_case_alone() -> None:
    configuration = {"delta.constraints.c": "a > 0", "Delta.Constraints.c": "a < 9"}
    assert {check.sql for check in checks(configuration)} == {"a > 0", "a < 9"}


def test_invariants_belong_to_the_path_of_their_column() -> None:
    schema = StructType(
        (
            StructField("x", LONG, True, {"delta.invariants": '{"expression": { "expression": "x > 3"} }'}),
            StructField("s", StructType((StructField("y", LONG, True, {"delta.invariants": _invariant("s.y < 9")}),))),
            StructField("z", LONG, True, {"delta.invariants": {"expression": {"expression": "z = 1"}}}),
        )
    )
    assert _rules(schema).invariants == (
        Invariant(("x",), "x > 3"),
        Invariant(("s", "y"), "s.y < 9"),
        Invariant(("z",), "z = 1"),
    )


@pytest.mark.parametrize(
    "text",
    ["x > 3", "{}", '{"expression":"x > 3"}', '{"expression":{}}', "[]", "null", "", 7, _invariant(3), _invariant(" ")],
)
def test_an_invariant_that_cannot_be_understood_is_named(text: object) -> None:
    with pytest.raises(InvalidSchema, match=r"column a: delta\.invariants must be .*<SQL>"):
        _rules(_one(metadata={"delta.invariants": text}))


@pytest.mark.parametrize(
    "wrapped", [ArrayType, lambda inner: MapType(STRING, inner), lambda inner: MapType(inner, STRING)]
)
def test_an_invariant_inside_an_array_or_a_map_is_refused(wrapped: type[ArrayType]) -> None:
    inner = StructType((StructField("x", LONG, True, {"delta.invariants": _invariant("x > 3")}),))
    with pytest.raises(UnsupportedFeature, match=r"column a\.\w+\.x: an invariant .* inside an array or a map"):
        _rules(_one(wrapped(inner)))


def test_generated_default_and_identity_columns_are_collected() -> None:
    identity = IdentityColumn("i", 1, 2)
    schema = StructType(
        (
            StructField("g", STRING, True, {"delta.generationExpression": "cast(d as string)"}),
            StructField("d", LONG, True, {"CURRENT_DEFAULT": "42"}),
            StructField("i", LONG, True, identity.metadata()),
        )
    )
    rules = _rules(schema)
    assert rules.generated == (GeneratedColumn("g", STRING, "cast(d as string)"),)
    assert rules.defaults == (DefaultColumn("d", "42"),)
    assert rules.identity == (identity,)
    assert rules


@pytest.mark.parametrize(
    ("protocol", "generated", "defaults", "identity"),
    [
        (NOTHING, 0, 0, 0),
        (Protocol(1, 2), 0, 0, 0),
        (Protocol(1, 4), 1, 0, 0),
        (Protocol(2, 6), 1, 0, 1),
        (Protocol(1, 7, None, ("allowColumnDefaults",)), 0, 1, 0),
        (ALL, 1, 1, 1),
    ],
)
def test_columns_that_make_their_values_need_their_feature(
    protocol: Protocol, generated: int, defaults: int, identity: int
) -> None:
    schema = StructType(
        (
            StructField("g", LONG, True, {"delta.generationExpression": "1"}),
            StructField("d", LONG, True, {"CURRENT_DEFAULT": "42"}),
            StructField("i", LONG, True, IdentityColumn("i").metadata()),
        )
    )
    rules = _rules(schema, protocol)
    assert (len(rules.generated), len(rules.defaults), len(rules.identity)) == (generated, defaults, identity)


@pytest.mark.parametrize("protocol", [NOTHING, Protocol(1, 1), ALL])
def test_checks_hold_whether_or_not_the_protocol_supports_them(protocol: Protocol) -> None:
    schema = _one(nullable=False, metadata={"delta.invariants": _invariant("a > 3")})
    assert _rules(schema, protocol, {"delta.constraints.c": "a < 9"}) == WriteExpressions(
        not_null=(("a",),), checks=(CheckConstraint("c", "a < 9"),), invariants=(Invariant(("a",), "a > 3"),)
    )


@pytest.mark.parametrize("key", ["delta.generationExpression", "CURRENT_DEFAULT"])
@pytest.mark.parametrize("value", [7, "", "  ", {"a": 1}])
def test_an_expression_that_is_no_sql_is_named(key: str, value: object) -> None:
    with pytest.raises(InvalidSchema, match=f"column a: {key} must be a SQL expression"):
        _rules(_one(metadata={key: value}))


@pytest.mark.parametrize(
    ("key", "what"), [("delta.generationExpression", "a generation expression"), ("CURRENT_DEFAULT", "a default value")]
)
def test_nested_columns_do_not_make_their_values(key: str, what: str) -> None:
    schema = _one(StructType((StructField("x", LONG, True, {key: "1"}),)))
    with pytest.raises(UnsupportedFeature, match=rf"column a\.x: {what} of a nested column"):
        _rules(schema)


def test_a_broken_identity_column_is_no_rule() -> None:
    with pytest.raises(InvalidSchema, match=r"identity column a: delta\.identity\.start must be a long"):
        _rules(_one(metadata={"delta.identity.step": 1}))
