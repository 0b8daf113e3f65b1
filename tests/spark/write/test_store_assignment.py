"""Which values go into which columns by assignment, and what becomes of them: as delta-spark does it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable
from slackwater.errors import InvalidArgument
from slackwater.spark.write.store_assignment import StoreAssignment, stored
from tests.spark.written import struct_of

pytestmark = pytest.mark.spark

_RESULTS = json.loads((Path(__file__).parents[2] / "data" / "store_assignment.json").read_text())["results"]
CASES = [(value, name, result) for value, by_type in _RESULTS.items() for name, result in by_type.items()]
# Without ANSI casts, a number that is none is an error here; Spark's own ANSI cast makes it null.
NOT_A_NUMBER = "CAST('NaN' AS DOUBLE)"


@pytest.fixture(params=["true", "false"], ids=["ansi", "not ansi"])
def both(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """The session with Spark's ANSI mode on, and off."""
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.unset("spark.sql.ansi.enabled")


@pytest.fixture
def policy(spark: SparkSession) -> Iterator[Any]:
    """Sets the store assignment policy of the session."""
    yield lambda name: spark.conf.set("spark.sql.storeAssignmentPolicy", name)
    spark.conf.unset("spark.sql.storeAssignmentPolicy")


def assigned(spark: SparkSession, value: str, name: str) -> Column:
    given = spark.range(1).select(F.expr(value)).schema.fields[0].dataType
    wanted = struct_of(f"c {name}").fields[0].dataType
    result = stored(F.expr(value), given, wanted, "c", StoreAssignment(spark))
    return F.hex(result) if name == "binary" else result.cast("string")


@pytest.mark.classic
def test_values_become_what_delta_spark_makes_of_them(both: SparkSession) -> None:
    cases = [(v, n, r["value"]) for v, n, r in CASES if isinstance(r, dict) and v != NOT_A_NUMBER]
    columns = [assigned(both, value, name).alias(f"c{at}") for at, (value, name, _) in enumerate(cases)]
    found = both.range(1).select(*columns).collect()[0]
    assert len(cases) > 200
    assert {(v, n): found[at] for at, (v, n, _) in enumerate(cases)} == {(v, n): r for v, n, r in cases}


@pytest.mark.classic
def test_what_delta_spark_refuses_is_refused_before_any_job(both: SparkSession) -> None:
    refused = {(value, name) for value, name, result in CASES if result == "refused"}
    assert len(refused) > 100
    for value, name in sorted(refused):
        with pytest.raises(InvalidArgument, match=f"column c is of type {name.partition('(')[0]}.*Cast the value"):
            assigned(both, value, name)


@pytest.mark.classic
def test_values_that_do_not_fit_fail_the_job_as_with_delta_spark(both: SparkSession) -> None:
    failing = [(value, name) for value, name, result in CASES if result == "fails"]
    # One job for each kind of value and column; every value has a column of its own in the table above.
    kinds = {(value.partition("'")[0] or value[:6], name): (value, name) for value, name in failing}
    assert len(kinds) > 30
    for value, name in kinds.values():
        # A literal is folded before the job; a column is not.
        with pytest.raises(PySparkException, match=r"OVERFLOW|OUT_OF_RANGE|INVALID_INPUT|does not fit"):
            both.range(1).select(assigned(both, value, name)).collect()


def test_the_policy_strict_takes_what_loses_nothing(spark: SparkSession, policy: Any) -> None:
    policy("STRICT")
    kept = [
        ("1Y", "bigint"),
        ("1", "double"),
        ("1", "decimal(12,2)"),
        ("DATE'2026-02-02'", "timestamp"),
        ("1", "string"),
    ]
    for value, name in kept:
        assigned(spark, value, name)
    for value, name in [("1L", "int"), ("1", "decimal(10,2)"), ("'1'", "int"), ("1.5D", "float"), ("true", "int")]:
        with pytest.raises(InvalidArgument, match="storeAssignmentPolicy=STRICT"):
            assigned(spark, value, name)


def test_the_policy_legacy_takes_every_cast_of_the_session(spark: SparkSession, policy: Any) -> None:
    policy("LEGACY")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        cases = [
            ("'abc'", "int", None),
            ("300", "tinyint", "44"),
            ("'2026-02-30'", "date", None),
            ("true", "timestamp", "1"),
        ]
        for value, name, held in cases:
            found = spark.range(1).select(assigned(spark, value, name)).collect()[0][0]
            assert (found or "")[:4] == ("1970" if name == "timestamp" else held or ""), (value, name)
        with pytest.raises(InvalidArgument, match="storeAssignmentPolicy=LEGACY"):
            assigned(spark, "array(1)", "int")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_dates_are_updated_and_merged_from_text(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = DeltaTable.create(spark).location(path).addColumn("id", "INT").addColumn("day", "DATE").execute()
    table.merge(spark.sql("SELECT '1' AS id, '2026-01-01' AS day"), "false").whenNotMatchedInsertAll().execute()
    table.update("id = 1", {"day": "'2026-02-02'"})
    assert [tuple(map(str, row)) for row in table.toDF().collect()] == [("1", "2026-02-02")]
    source = spark.sql("SELECT '1' AS id, '2026-03-03' AS day").alias("s")
    table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().execute()
    assert [str(row.day) for row in table.toDF().collect()] == ["2026-03-03"]
    with pytest.raises(Exception, match=r"INVALID_INPUT|does not fit"):
        table.update(set={"day": "'soon'"})
    assert [str(row.day) for row in table.toDF().collect()] == ["2026-03-03"]
