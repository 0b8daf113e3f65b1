"""A row that breaks a rule is told by the rule, also where something that the table makes of it cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from tests.spark.written import data_files, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


@pytest.mark.modes
def test_a_rule_is_told_before_what_a_generated_column_cannot_be_made_of(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaTable.create(spark).location(path).addColumn("year", "INT").addColumn("month", "INT")
    builder.addColumn("day", "DATE", generatedAlwaysAs="make_date(year, month, 1)").execute()
    DeltaTable.forPath(spark, path).addConstraint("whole_months", "month BETWEEN 1 AND 12")
    # Rows of a plan: of values that a client sends along, Spark makes all columns before it looks at any.
    rows = spark.range(2).selectExpr("2013 AS year", "CAST(12 * id + 1 AS INT) AS month")
    with pytest.raises(errors.InvariantViolationException, match="whole_months"):
        save(rows, path)
    # What no rule speaks of is Spark's to say.
    with pytest.raises(PySparkException, match="Year"):
        save(spark.range(1).selectExpr("CAST(id AS INT) + 2000000000 AS year", "1 AS month"), path)
    assert (Snapshot.load(path).version, data_files(path)) == (1, [])
