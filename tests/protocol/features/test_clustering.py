from __future__ import annotations

import json

import pytest

from slackwater.errors import CorruptTable, InvalidArgument
from slackwater.protocol.actions.actions import DomainMetadata as Domain
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.features.clustering import (
    DOMAIN,
    ColumnName,
    domain_metadata,
    has_extremes,
    physical_columns,
    resolve,
    validate_clustering_columns,
)
from slackwater.protocol.features.column_mapping import FIELD_ID, NAME, NONE, PHYSICAL_NAME
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    schema_to_json,
)


def _column(name: str, number: int, data_type: DataType = LONG) -> StructField:
    return StructField(name, data_type, True, {FIELD_ID: number, PHYSICAL_NAME: f"col-{number}"})


SCHEMA = StructType(
    (
        _column("a", 1),
        _column("b", 2, STRING),
        _column("s", 3, StructType((_column("x.y", 4), _column("flag", 5, BOOLEAN)))),
        _column("c", 6, DATE),
        _column("d", 7, DOUBLE),
        _column("e", 8, DecimalType(10, 2)),
        _column("list", 9, ArrayType(StructType((_column("x", 10),)))),
    )
)


def _metadata(*partitions: str) -> Metadata:
    return Metadata("id", schema_to_json(SCHEMA), partitions)


@pytest.mark.parametrize(
    ("mode", "stored"),
    [(NONE, [["a"], ["s", "x.y"]]), (NAME, [["col-1"], ["col-3", "col-4"]]), ("id", [["col-1"], ["col-3", "col-4"]])],
)
def test_columns_are_stored_as_lists_of_physical_name_parts(mode: str, stored: list[list[str]]) -> None:
    domain = domain_metadata(SCHEMA, [("a",), ("s", "x.y")], mode)
    assert (domain.domain, domain.removed) == ("delta.clustering", False)
    assert json.loads(domain.configuration) == {"clusteringColumns": stored, "domainName": "delta.clustering"}
    assert physical_columns(domain, "t") == [tuple(parts) for parts in stored]


def test_no_columns_are_stored_as_such() -> None:
    assert physical_columns(domain_metadata(SCHEMA, [], NAME), "t") == []


def test_the_form_of_the_protocols_example_is_understood() -> None:
    domain = Domain(DOMAIN, '{"clusteringColumns":["col-daadafd7-7c20","col-5abe0e80-cf57"]}')
    assert physical_columns(domain, "t") == [("col-daadafd7-7c20",), ("col-5abe0e80-cf57",)]


def test_a_table_without_the_domain_has_no_columns() -> None:
    assert physical_columns(None, "t") == []
    assert physical_columns(Domain(DOMAIN, '{"clusteringColumns":[["a"]]}', removed=True), "t") == []


@pytest.mark.parametrize(
    "configuration",
    [
        "",
        "[]",
        "{}",
        '{"clusteringColumns":null}',
        '{"clusteringColumns":[[]]}',
        '{"clusteringColumns":[7]}',
        '{"clusteringColumns":[[7]]}',
    ],
)
def test_a_domain_that_lists_no_columns_is_named(configuration: str) -> None:
    with pytest.raises(CorruptTable, match=r"file:///t: domain delta\.clustering must list its clusteringColumns"):
        physical_columns(Domain(DOMAIN, configuration), "file:///t")


def test_columns_are_spelled_as_the_schema_does() -> None:
    assert resolve(SCHEMA, [("A",), ("S", "X.Y")]) == [("a",), ("s", "x.y")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("a",), ("b",), ("c",), ("d",), ("e",)], "at most 4 clustering columns are possible, found 5"),
        ([("a",), ("A",)], "clustering column a occurs twice"),
        ([("no",)], "clustering column no is not in the schema"),
        ([("s", "no")], r"clustering column s\.no is not in the schema"),
        ([("a", "x")], r"clustering column a\.x is not in the schema"),
        ([("list", "x")], r"clustering column list\.x is not in the schema"),
        ([()], "must have a name"),
        ([("s",)], "clustering column s: a table cannot be clustered by the type struct"),
        ([("list",)], "clustering column list: a table cannot be clustered by the type array"),
        ([("s", "flag")], r"clustering column s\.flag: a table cannot be clustered by the type boolean"),
    ],
)
def test_columns_that_a_table_cannot_be_clustered_by_are_refused(columns: list[ColumnName], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        validate_clustering_columns(_metadata(), SCHEMA, columns)


def test_a_partitioned_table_is_not_clustered() -> None:
    with pytest.raises(InvalidArgument, match=r"partitioned \(by b\) cannot be clustered"):
        validate_clustering_columns(_metadata("b"), SCHEMA, [("a",)])
    assert validate_clustering_columns(_metadata("b"), SCHEMA, []) is None  # type: ignore[func-returns-value]


def test_clustering_columns_need_statistics() -> None:
    columns = [("a",), ("s", "X.y")]
    with pytest.raises(
        InvalidArgument, match=r"s\.x\.y: no statistics are collected for it\. .*dataSkippingNumIndexed"
    ):
        validate_clustering_columns(_metadata(), SCHEMA, columns, {("a",)})
    accepted = validate_clustering_columns(_metadata(), SCHEMA, columns, {("a",), ("s", "x.y")})  # type: ignore[func-returns-value]
    assert accepted is None


@pytest.mark.parametrize(
    ("data_type", "possible"),
    [
        *((t, True) for t in (BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING)),
        (DecimalType(38, 0), True),
        *((t, False) for t in (BOOLEAN, BINARY, VOID, ArrayType(LONG), MapType(LONG, LONG), StructType())),
    ],
    ids=str,
)
def test_types_with_smallest_and_largest_values_can_be_clustered_by(data_type: DataType, possible: bool) -> None:
    assert has_extremes(data_type) is possible
