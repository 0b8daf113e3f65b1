"""`replaceUsing` and `replaceOn`: delta-spark and we replace the same rows, and refuse the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater import errors

from .delta_spark import DeltaSpark, DeltaSparkError
from .rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

OLD = "SELECT * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c'), (NULL, 'n') AS d(id, v)"
NEW = "SELECT * FROM VALUES (2, 'B'), (2, 'BB'), (9, 'z'), (NULL, 'N') AS s(id, v)"
SETTINGS = (
    "spark.databricks.delta.replaceUsing.dataFrameWriter.enabled",
    "spark.databricks.delta.replaceOn.dataFrameWriter.enabled",
)


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize(
    "options",
    [
        {"replaceUsing": "id"},
        {"replaceUsing": "id, v"},
        {"replaceOn": "t.id = s.id", "targetAlias": "t"},
        {"replaceOn": "t.id <=> s.id AND t.v < 'o'", "targetAlias": "t"},
        {"replaceOn": "true"},
        {"replaceOn": "id = id"},
        {"replaceOn": "nowhere = s.id"},
        {"replaceUsing": "nowhere"},
        {"replaceUsing": "id", "replaceWhere": "id = 2"},
        {"replaceUsing": "id", "overwriteSchema": "true"},
        {"replaceUsing": "id", "dataChange": "false"},
    ],
    ids=str,
)
@pytest.mark.long
def test_both_replace_the_same_rows_or_refuse(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, options: dict[str, str], vectors: str
) -> None:
    theirs, mine = str(tmp_path / "theirs"), str(tmp_path / "mine")
    for path in (theirs, mine):
        delta_spark.write(OLD, path, **{"delta.enableDeletionVectors": vectors})
    expected = None
    try:
        delta_spark.write(NEW, theirs, "overwrite", **options)
        expected = rows_of(delta_spark.read(theirs).rows)
    except DeltaSparkError:
        with pytest.raises(errors.InvalidArgument):
            ours.sql(NEW).alias("s").write.format("delta").mode("overwrite").options(**options).save(mine)
    if expected is not None:
        ours.sql(NEW).alias("s").write.format("delta").mode("overwrite").options(**options).save(mine)
        assert rows_of(delta_spark.read(mine).rows) == expected
        said = [delta_spark.history(path)[0] for path in (theirs, mine)]
        assert [each["operation"] for each in said] == ["WRITE", "WRITE"]
        known = [dict(each["operationParameters"]) for each in said]
        assert known[0] == known[1]
