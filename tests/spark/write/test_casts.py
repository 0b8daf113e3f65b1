"""Values of other types than their columns', by every way of writing: as delta-spark takes, refuses and stores them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater import DeltaTable
from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.protocol.schema_changes.merge_schema import merge_schemas
from slackwater.spark.session.types import from_spark_schema, to_spark_schema
from slackwater.spark.write.store_assignment import StoreAssignment, stored, stored_columns
from tests.spark.written import struct_of

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

Cell: TypeAlias = tuple[str, str]
Conf: TypeAlias = Callable[[str, str], None]

# By way of writing and session settings: a SQL value, the type of a column, and what delta-spark answers.
_DATA = Path(__file__).parents[2] / "data"
_RECORD: dict[str, Any] = json.loads((_DATA / "casts.json").read_text())["results"]
_PLAIN = json.loads((_DATA / "store_assignment.json").read_text())["results"]
REFUSED, FAILS = "refused", "fails"
DOES_NOT_FIT = "OVERFLOW|OUT_OF_RANGE|INVALID_INPUT|DUPLICATED_MAP_KEY|NULL_MAP_KEY|does not fit"

BROKEN_THERE = {
    ("DATE'2026-02-02'", "timestamp"),
    ("TIMESTAMP'2026-02-02 10:11:12'", "string"),
    ("TIMESTAMP'2026-02-02 10:11:12'", "timestamp_ntz"),
    ("TIMESTAMP_NTZ'2026-02-02 10:11:12'", "timestamp"),
}
"""What STRICT allows and delta-spark 4.4 breaks off with an internal error: its cast lacks the session's time zone."""

UPCAST_HERE = {
    *((value, of) for value in ("1Y", "300S") for of in ("bigint", "float", "double", "decimal(10,2)")),
    ("7", "bigint"),
    ("7", "double"),
    ("CAST(1.5 AS FLOAT)", "double"),
    ("12.34BD", "decimal(10,2)"),
    ("123456.78BD", "decimal(10,2)"),
    ("DATE'2026-02-02'", "timestamp_ntz"),
    ("array(NULL)", "array<int>"),
}
"""What delta-spark's `save` refuses and ours stores, since nothing is lost; its `saveAsTable` stores the same."""


def cells_of(rows: dict[str, dict[str, Any]]) -> dict[Cell, Any]:
    return {(value, of): answer for value, row in rows.items() for of, answer in row.items()}


def recorded(name: str) -> dict[Cell, Any]:
    rows = _RECORD[name]
    return recorded(rows) if isinstance(rows, str) else cells_of(rows)


def answers(way: str, policy: str, ansi: str) -> dict[Cell, Any]:
    """What delta-spark answers in a session of those settings; of UPDATE under ANSI, with the plain types."""
    found = recorded(f"{way}, {policy}, ansi {ansi}")
    return cells_of(_PLAIN) | found if (way, policy) == ("update", "ANSI") else found


def with_answer(found: dict[Cell, Any], answer: str) -> set[Cell]:
    return {cell for cell, one in found.items() if one == answer}


def values_of(found: dict[Cell, Any]) -> dict[Cell, str | None]:
    return {cell: one["value"] for cell, one in found.items() if isinstance(one, dict)}


@cache
def type_of(name: str) -> spark_types.DataType:
    return struct_of(f"c {name}").fields[0].dataType


def types_of(spark: SparkSession, cells: Iterable[Cell]) -> dict[str, spark_types.DataType]:
    """The types of the values, by their texts."""
    texts = list(dict.fromkeys(value for value, _ in cells))
    given = spark.range(1).select(*(F.expr(text).alias(f"v{at}") for at, text in enumerate(texts))).schema
    return {text: field.dataType for text, field in zip(texts, given.fields, strict=True)}


def shown(value: Column, of: str) -> Column:
    return F.hex(value) if of == "binary" else value.cast("string")


class Assigned:
    """What ours makes of values that are assigned to columns, in one session."""

    def __init__(self, spark: SparkSession, cells: Iterable[Cell]) -> None:
        self._spark = spark
        cells = list(cells)
        self.types = types_of(spark, cells)
        assignment = StoreAssignment(spark)
        self.columns: dict[Cell, Column] = {}
        for value, of in cells:
            try:
                self.columns[value, of] = stored(F.expr(value), self.types[value], type_of(of), "c", assignment)
            except InvalidArgument:
                continue

    def held(self, cells: Iterable[Cell]) -> dict[Cell, str | None]:
        """What is stored of `cells`, by one job."""
        columns = {cell: shown(self.columns[cell], cell[1]) for cell in cells}
        row = self._spark.range(1).select(*(c.alias(f"c{at}") for at, c in enumerate(columns.values()))).collect()[0]
        return dict(zip(columns, row, strict=True))

    def fail(self, cells: Iterable[Cell]) -> None:
        """One of each kind of value and column fails its job."""
        for cell in {(self.types[value].simpleString(), of): (value, of) for value, of in cells}.values():
            with pytest.raises(PySparkException, match=DOES_NOT_FIT):
                self._spark.range(1).select(self.columns[cell]).collect()


def settings(conf: Conf, policy: str, ansi: str) -> None:
    conf("spark.sql.storeAssignmentPolicy", policy)
    conf("spark.sql.ansi.enabled", ansi)


@pytest.mark.parametrize(
    ("policy", "ansi"),
    [
        ("LEGACY", "false"),
        ("STRICT", "false"),
        ("ANSI", "true"),
        pytest.param("STRICT", "true", marks=pytest.mark.long),
        pytest.param("ANSI", "false", marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_values_are_assigned_as_by_update_of_delta_spark(
    spark: SparkSession, conf: Conf, policy: str, ansi: str
) -> None:
    settings(conf, policy, ansi)
    # What UPDATE does with plain types under ANSI is a table of its own: see test_store_types.py.
    expected = recorded(f"update, {policy}, ansi {ansi}")
    ours = Assigned(spark, expected)
    broken = BROKEN_THERE if policy == "STRICT" else set()
    assert set(ours.columns) - broken == set(expected) - with_answer(expected, REFUSED)
    values = values_of(expected)
    assert ours.held(values) == values
    ours.fail(with_answer(expected, FAILS))
    kept = values_of(answers("saveAsTable append", "ANSI", "true"))
    assert ours.held(broken) == {cell: kept[cell] for cell in broken}


@pytest.mark.parametrize("way", ["merge update", "merge insert"])
def test_delta_spark_merges_by_the_rules_of_its_update(way: str) -> None:
    names = [name for name in _RECORD if name.startswith(way)]
    assert names
    for name in names:
        _, policy, ansi = name.replace("ansi ", "").split(", ")
        merged, updated = answers(way, policy, ansi), answers("update", policy, ansi)
        assert {cell: updated[cell] for cell in merged} == merged


@pytest.mark.long
def test_under_legacy_ansi_casts_refuse_what_would_be_null_or_another_number(spark: SparkSession, conf: Conf) -> None:
    settings(conf, "LEGACY", "true")
    expected = answers("update", "LEGACY", "true")
    assert expected == answers("update", "LEGACY", "false")
    ours = Assigned(spark, expected)
    assert set(ours.columns) <= set(expected) - with_answer(expected, REFUSED)
    under_ansi = answers("update", "ANSI", "true")
    fitting = {cell: value for cell, value in values_of(expected).items() if cell in values_of(under_ansi)}
    assert ours.held(fitting) == fitting
    assert len(fitting) > 200
    ours.fail(set(ours.columns) - set(fitting))


def fits(given: spark_types.StructType, table: spark_types.StructType) -> bool:
    """Whether rows of the type `given` are appended to a table without a cast."""
    try:
        data = from_spark_schema(given)
        merge_schemas(from_spark_schema(table), data, allow_new_columns=False, widen=False)
    except SlackwaterError:
        return False
    return True


def takes(rows: DataFrame, table: spark_types.StructType) -> bool:
    """Whether `rows` are appended by the session's store assignment."""
    try:
        return fits(stored_columns(rows, table).schema, table)
    except InvalidArgument:
        return False


def one_column(of: spark_types.DataType) -> spark_types.StructType:
    return spark_types.StructType([spark_types.StructField("c0", of)])


def appended(spark: SparkSession, path: Path, cells: Iterable[Cell], save: Callable[[Any], None]) -> dict[Cell, Any]:
    """What a table holds after one write of one row with a column for each of `cells`."""
    names = {cell: f"c{at}" for at, cell in enumerate(cells)}
    table = [spark_types.StructField(name, type_of(of)) for (_, of), name in names.items()]
    DeltaTable.create(spark).location(str(path)).addColumns(spark_types.StructType(table)).execute()
    values = [F.expr(value).alias(name) for (value, _), name in names.items()]
    save(spark.range(1).select(*values).write.format("delta").mode("append"))
    held = [shown(F.col(name), of) for (_, of), name in names.items()]
    row = spark.read.format("delta").load(str(path)).select(*held).collect()[0]
    return dict(zip(names, row, strict=True))


def test_save_takes_what_that_of_delta_spark_takes_and_what_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    expected = answers("save append", "ANSI", "true")
    values = values_of(expected)
    assert set(expected) == with_answer(expected, REFUSED) | set(values)
    types = types_of(spark, expected)
    accepted = {(v, of) for v, of in expected if fits(one_column(types[v]), one_column(type_of(of)))}
    assert accepted == set(values) | UPCAST_HERE
    assert not UPCAST_HERE & set(values)
    by_name = values_of(answers("saveAsTable append", "ANSI", "true"))
    wanted = values | {cell: by_name[cell] for cell in UPCAST_HERE}
    assert appended(spark, tmp_path, wanted, lambda writer: writer.save(str(tmp_path))) == wanted


@pytest.mark.parametrize("name", [name for name in _RECORD if name.startswith("save ")])
def test_save_goes_by_one_rule_in_all_modes_settings_and_partitions(spark: SparkSession, name: str) -> None:
    found, appended_there = recorded(name), answers("save append", "ANSI", "true")
    grown = {cell: one["type"] for cell, one in found.items() if "type" in one}
    untyped = {cell for cell in found if cell[0] == "NULL" and "partitioned" in name}
    same = set(found) - set(grown) - untyped
    assert {cell: found[cell] for cell in same} == {cell: appended_there[cell] for cell in same}
    # Where mergeSchema lets a struct grow, it is the same one.
    types = types_of(spark, found)
    for (value, of), wanted in grown.items():
        table, data = (from_spark_schema(one_column(one)) for one in (type_of(of), types[value]))
        merged = to_spark_schema(merge_schemas(table, data, allow_new_columns=True, widen=True))
        assert merged["c0"].dataType.simpleString() == wanted


def test_a_null_without_a_type_goes_into_a_partition_column(spark: SparkSession, tmp_path: Path) -> None:
    """delta-spark refuses it there, and takes it for any other column."""
    path = str(tmp_path / "t")
    spark.sql("SELECT 1 AS id, 2 AS part").write.format("delta").partitionBy("part").save(path)
    spark.sql("SELECT 2 AS id, NULL AS part").write.format("delta").mode("append").save(path)
    assert [row.part for row in spark.read.format("delta").load(path).sort("id").collect()] == [2, None]


@pytest.mark.parametrize(
    ("policy", "ansi"),
    [
        ("ANSI", "true"),
        ("LEGACY", "false"),
        pytest.param("STRICT", "true", marks=pytest.mark.long),
    ],
)
def test_a_table_named_by_its_path_takes_values_by_store_assignment(
    spark: SparkSession, tmp_path: Path, conf: Conf, policy: str, ansi: str
) -> None:
    settings(conf, policy, ansi)
    expected = answers("saveAsTable append", policy, ansi)
    values = values_of(expected)
    assert appended(spark, tmp_path, values, lambda writer: writer.saveAsTable(f"delta.`{tmp_path}`")) == values
    for value, of in set(expected) - set(values):
        rows = spark.range(1).select(F.expr(value).alias("c0"))
        if expected[value, of] == FAILS:
            with pytest.raises(PySparkException, match=DOES_NOT_FIT):
                stored_columns(rows, one_column(type_of(of))).collect()
        else:
            assert not takes(rows, one_column(type_of(of)))


# The short run has the same casts in UPDATE.
@pytest.mark.long
def test_under_legacy_ansi_casts_refuse_in_a_table_named_by_its_path_too(
    spark: SparkSession, tmp_path: Path, conf: Conf
) -> None:
    settings(conf, "LEGACY", "true")
    expected = answers("saveAsTable append", "LEGACY", "true")
    under_ansi = values_of(answers("saveAsTable append", "ANSI", "true"))
    fitting = {cell: value for cell, value in values_of(expected).items() if cell in under_ansi}
    assert len(fitting) > 100
    assert appended(spark, tmp_path, fitting, lambda writer: writer.saveAsTable(f"delta.`{tmp_path}`")) == fitting
    ours = Assigned(spark, expected)
    assert set(ours.columns) <= set(expected) - with_answer(expected, REFUSED)
    ours.fail(set(ours.columns) - set(fitting))
