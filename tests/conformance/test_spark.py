"""Every golden table as a DataFrame: rows, schema, versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slackwater import errors
from slackwater.errors import DataFileNotFound, UnsupportedFeature

from .golden import (
    EXPECTATIONS,
    ExpectedContent,
    GoldenTable,
    each,
    expected_contents,
    is_readable,
    table_hash,
    tables,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

_AMBIGUOUS: Mapping[str, Mapping[str, Any]] = EXPECTATIONS["scans_of_ambiguous_tables"]
_OTHER_CONTENT: Mapping[str, str] = EXPECTATIONS["expected_contents_unlike_the_truth"]
_EMPTY = EXPECTATIONS["live_files_unlike_the_index"]

OurAnswer = Callable[[GoldenTable], tuple["StructType", dict[str, Any]]]


def _load(spark: SparkSession, root: Path, **options: Any) -> DataFrame:
    from slackwater.spark.read.load import load

    return load(spark, str(root), options)


@pytest.mark.parametrize("table", each(t for t in tables() if is_readable(t)))
def test_rows_and_schema_are_those_of_the_index(table: GoldenTable, our_answer: OurAnswer) -> None:
    schema, content = our_answer(table)
    table.require_content(content)
    collated = EXPECTATIONS["collated_columns"].get(table.id, {"columns": {}})["columns"]
    # Spark has one algorithm for the edges of geographies, in capitals.
    kinds = [(name, kind.replace("spherical", "SPHERICAL")) for name, kind in table.column_kinds]
    assert _columns(schema) == [(name, collated.get(name, kind)) for name, kind in kinds]


@pytest.mark.classic
@pytest.mark.parametrize("content", each(expected_contents()))
def test_a_version_holds_what_upstream_says(
    content: ExpectedContent, spark: SparkSession, our_answer: OurAnswer
) -> None:
    expected = table_hash()(content.rows())
    if content.version is None:
        ours = our_answer(content.table)[1]
    else:
        ours = table_hash()(_load(spark, content.table.root, versionAsOf=content.version).toArrow())
    if content.table.id in _OTHER_CONTENT:
        assert ours["hash"] != expected["hash"]
        return
    assert ours["rows"] == expected["rows"]
    assert ours["hash"] == expected["hash"]


@pytest.mark.parametrize("table", each(t for t in tables() if t.validity == "needs-fixup"))
def test_a_copy_that_was_fixed_up_holds_the_rows_of_the_index(
    table: GoldenTable, spark: SparkSession, tmp_path: Path
) -> None:
    frame = _load(spark, table.writable_copy(tmp_path))
    assert _columns(frame.schema) == table.column_kinds
    assert table_hash()(frame.toArrow())["hash"] == table.truth["hash"]


@pytest.mark.classic
@pytest.mark.parametrize("table", each(t for t in tables() if t.foreign_features))
def test_features_outside_the_documents_are_refused_before_a_row_is_read(
    table: GoldenTable, spark: SparkSession
) -> None:
    with pytest.raises(UnsupportedFeature):
        _load(spark, table.root)


@pytest.mark.classic
@pytest.mark.parametrize(
    "table",
    each(t for t in tables() if t.validity in ("log-only", "incomplete") and not t.foreign_features),
)
def test_a_scan_of_files_that_are_not_kept_says_so(table: GoldenTable, spark: SparkSession) -> None:
    if table.id in _EMPTY:
        assert _load(spark, table.root).count() == 0
        return
    with pytest.raises(DataFileNotFound) as caught:
        _load(spark, table.root).toArrow()
    assert str(table.root) in str(caught.value)


@pytest.mark.classic
@pytest.mark.parametrize("table", each(t for t in tables() if t.id in _AMBIGUOUS))
def test_a_scan_of_an_ambiguous_table_has_one_outcome(table: GoldenTable, spark: SparkSession) -> None:
    outcome = _AMBIGUOUS[table.id]
    if "error" in outcome:
        assert outcome["message"] in _fault(spark, table, outcome["error"])
    else:
        assert _load(spark, table.root).count() == outcome["rows"]


@pytest.mark.classic
def test_every_ambiguous_table_has_its_outcome_and_every_expectation_its_table() -> None:
    by_id = {table.id: table for table in tables()}
    ambiguous = {t.id for t in tables() if t.validity == "ambiguous" and not t.foreign_features}
    assert ambiguous == {name for name in (*_AMBIGUOUS, *EXPECTATIONS["refused"]) if name in ambiguous}
    assert {*_AMBIGUOUS, *EXPECTATIONS["collated_columns"]} <= set(by_id)
    assert set(_OTHER_CONTENT) <= {content.table.id for content in expected_contents()}


def _fault(spark: SparkSession, table: GoldenTable, name: str) -> str:
    with pytest.raises(getattr(errors, name)) as caught:
        _load(spark, table.root).toArrow()
    assert type(caught.value).__name__ == name
    return str(caught.value)


def _columns(schema: StructType) -> list[tuple[str, str]]:
    kinds = [(field.name, field.dataType.jsonValue()) for field in schema]
    return [(name, kind["type"] if isinstance(kind, dict) else kind) for name, kind in kinds]
