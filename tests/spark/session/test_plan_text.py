"""Plans that people look at have no name that only this package has given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from slackwater import DeltaTable
from slackwater.spark.session.plan_text import plan_in_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]


@pytest.fixture
def place(spark: SparkSession, path: str) -> str:
    """A table of which a row is deleted by a vector."""
    written = spark.range(0, 9, 1, 1).write.format("delta").option("delta.enableDeletionVectors", "true")
    written.option("delta.enableRowTracking", "true").save(path)
    DeltaTable.forPath(spark, path).delete("id = 1")
    return path


@pytest.mark.parametrize("mode", ["simple", "extended", "formatted"])
def test_explain_tells_columns_of_ours_by_words(
    spark: SparkSession, place: str, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    frame = spark.read.format("delta").option("rowTracking", "true").load(place)
    frame.where("id > 0").explain(mode=mode)
    shown = capsys.readouterr().out
    assert "dv_array" in shown
    assert "__slackwater" not in shown
    assert shown.endswith("\n")


def test_explain_by_sql_tells_them_so_too(spark: SparkSession, place: str) -> None:
    found = spark.sql(f"EXPLAIN EXTENDED SELECT id FROM delta.`{place}` WHERE id > 0")
    assert found.columns == ["plan"]
    (row,) = found.collect()
    assert "dv_array" in row.plan
    assert "__slackwater" not in row.plan


def test_a_frame_by_arrow_has_no_name_of_ours(
    spark: SparkSession, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.read.format("delta").option("rows", "arrow").load(place).explain(True)
    assert "__slackwater" not in capsys.readouterr().out


def test_views_of_ours_are_told_as_views() -> None:
    assert plan_in_words("SubqueryAlias __slackwater_12, __slackwater_row#7L") == "SubqueryAlias view_12, row#7L"
