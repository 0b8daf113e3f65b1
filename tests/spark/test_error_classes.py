"""What is refused has delta-spark's error class, and is caught as what delta-spark raises."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
from pyspark import errors as of_pyspark
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable, errors
from slackwater.error_classes import SQLSTATES
from slackwater.spark import exception_bases
from tests.spark import error_cases, error_cases_of_tables
from tests.spark.dml.test_concurrent_dml import meanwhile
from tests.spark.error_cases import Refusal

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]

GUIDE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
REFUSALS = [*error_cases.REFUSALS, *error_cases_of_tables.REFUSALS]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_what_is_refused_has_delta_sparks_error_class_and_is_of_its_class(
    spark: SparkSession, path: str, refusal: Refusal
) -> None:
    refusal.arrange(spark, path)
    with pytest.raises(getattr(of_pyspark, refusal.caught_as)) as caught:
        refusal.refused(spark, path)
    error = caught.value
    assert type(error) is refusal.kind
    assert (error.getCondition(), error.error_class) == (refusal.error_class, refusal.error_class)
    assert error.getSqlState() == SQLSTATES.get(refusal.error_class, "42703")
    assert error.getMessage() == f"[{refusal.error_class}] {error} SQLSTATE: {error.sqlstate}"


def test_the_guide_says_as_what_each_error_is_caught() -> None:
    section = GUIDE.partition("\n## Which classes are caught\n")[2].partition("\n## ")[0]
    said = {row[0]: row[1:] for row in (re.findall(r"`(\w+)`", line) for line in section.splitlines()) if len(row) > 1}
    said = {name: bases for name, bases in said.items() if hasattr(errors, name)}
    assert len(said) == len(exception_bases._OF_PYSPARK)
    for kind in (kind for kind in vars(errors).values() if isinstance(kind, type)):
        if issubclass(kind, errors.SlackwaterError):
            own = {base.__name__ for base in kind.__mro__ if base.__module__.startswith("pyspark")}
            of_parents = {name for parent in kind.__mro__ for name in said.get(parent.__name__, [])}
            assert own - {"PySparkException"} == of_parents - {"PySparkException"} | (
                {"AnalysisException"} if "ParseException" in of_parents else set()
            )


def test_a_statement_that_is_not_understood_has_a_query_context_of_pysparks_kind(spark: SparkSession) -> None:
    text = "OPTIMIZE delta.`/t` BY x"
    with pytest.raises(of_pyspark.ParseException) as caught:
        spark.sql(text)
    (context,) = caught.value.getQueryContext()
    assert isinstance(context, of_pyspark.QueryContext)
    assert context.contextType() == of_pyspark.QueryContextType.SQL
    assert (context.startIndex(), context.stopIndex(), context.fragment()) == (20, 21, "BY")


def test_a_commit_that_lost_is_caught_by_delta_sparks_names(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.range(4).coalesce(1).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    meanwhile(monkeypatch, lambda: table.update("id = 1", {"id": "7"}))
    with pytest.raises(of_pyspark.PySparkException) as caught:
        table.delete("id = 1")
    error = caught.value
    assert isinstance(error, errors.DeltaConcurrentModificationException)
    assert error.error_class in {"DELTA_CONCURRENT_DELETE_DELETE", "DELTA_CONCURRENT_DELETE_READ"}
    assert (error.getSqlState(), error.retryable) == ("2D521", True)
    assert not isinstance(caught.value, of_pyspark.AnalysisException)


def test_where_delta_spark_is_installed_its_names_catch_our_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [getattr(errors, name) for name in importlib.import_module("slackwater.spark.delta.exceptions").__all__]
    before = {kind: kind.__bases__ for kind in kinds}
    for name in [name for name in sys.modules if name.partition(".")[0] == "delta"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "delta").mkdir()
    (tmp_path / "delta" / "__init__.py").touch()
    lines = ["from pyspark.errors import PySparkException"]
    lines += [f"class {kind.__name__}(PySparkException): ..." for kind in kinds]
    (tmp_path / "delta" / "exceptions.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        theirs = importlib.import_module("delta.exceptions")
        for kind in kinds:
            with pytest.raises(getattr(theirs, kind.__name__)) as caught:
                raise kind("another writer won")
            assert str(caught.value) == "another writer won"
            assert caught.value.error_class == kind.error_class
    finally:
        for kind, bases in before.items():
            kind.__bases__ = bases
        for name in ("delta", "delta.exceptions"):
            sys.modules.pop(name, None)


def test_spark_programs_that_never_enable_slackwater_catch_its_errors_too(path: str) -> None:
    with pytest.raises(of_pyspark.AnalysisException):
        slackwater.Snapshot.load(path)
