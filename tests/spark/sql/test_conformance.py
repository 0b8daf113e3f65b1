"""The list of docs/delta-spark-compatibility.md: statements do what it says, and names of Python are there."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import UnsupportedFeature
from slackwater.spark.dml.merge.builder import DeltaMergeBuilder
from slackwater.spark.maintenance.builder import DeltaOptimizeBuilder
from slackwater.spark.table.builder import DeltaTableBuilder
from tests.spark.sql.conformance import FORMS, REFUSED, SETUP, table

DOCUMENT = Path(__file__).parents[3] / "docs" / "delta-spark-compatibility.md"


@pytest.mark.spark
@pytest.mark.shared
def test_each_statement_does_what_the_list_says(spark: SparkSession, db: str, tmp_path: Path) -> None:
    for statement in SETUP:
        spark.sql(statement)
    found = slackwater.DeltaTable.forName(spark, "t")
    moment = found.history().where("version = 1").collect()[0].timestamp.astimezone(dt.timezone.utc)
    spark.range(2).write.parquet(str(tmp_path / "parquet"))
    spark.range(2).selectExpr("id", "1 AS p").write.partitionBy("p").parquet(str(tmp_path / "parts"))
    places = {
        "path": found.detail().collect()[0].location.removeprefix("file:").replace("///", "/"),
        "parquet": str(tmp_path / "parquet"),
        "parts": str(tmp_path / "parts"),
        "moment": moment.replace(tzinfo=None).isoformat(" ", "milliseconds") + "Z",
    }
    other = {}
    for form in FORMS:
        refused = None
        try:
            spark.sql(form.example.format(**places)).collect()
        except UnsupportedFeature as error:
            refused = str(error)
        except Exception as error:  # noqa: BLE001  (it is shown)
            other[form.example] = repr(error)[:300]
            continue
        if (refused is not None) != (form.state == REFUSED):
            other[form.example] = refused or "not refused"
    assert other == {}
    spark.catalog.dropTempView("s")


def test_the_document_has_the_list() -> None:
    assert table() in DOCUMENT.read_text()


def test_the_names_of_python_are_there() -> None:
    """Source: delta-spark's delta.tables."""
    methods = (
        "toDF alias generate delete update merge vacuum history detail convertToDelta forPath forName create "
        "createIfNotExists replace createOrReplace isDeltaTable upgradeTableProtocol addFeatureSupport "
        "dropFeatureSupport restoreToVersion restoreToTimestamp optimize clone cloneAtVersion cloneAtTimestamp"
    )
    kinds: dict[type, str] = {
        slackwater.DeltaTable: methods,
        DeltaTableBuilder: "tableName location comment addColumn addColumns partitionedBy clusterBy property execute",
        DeltaMergeBuilder: "whenMatchedUpdate whenMatchedUpdateAll whenMatchedDelete whenNotMatchedInsert "
        "whenNotMatchedInsertAll whenNotMatchedBySourceUpdate whenNotMatchedBySourceDelete withSchemaEvolution execute",
        DeltaOptimizeBuilder: "where executeCompaction executeZOrderBy",
    }
    text = DOCUMENT.read_text()
    for kind, names in kinds.items():
        for name in names.split():
            assert callable(getattr(kind, name, None)), (kind, name)
            assert f"`{name}`" in text, name
