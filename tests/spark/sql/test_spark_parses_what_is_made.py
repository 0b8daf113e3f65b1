"""Spark's own parser understands statements whose tables became views, and finds the views in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.sql.lexer import tokens_of
from slackwater.sql.relations import relations_of
from slackwater.sql.text_edits import apply_edits, as_view
from tests.examples import examples
from tests.spark.sql.corpus import standing_alone
from tests.sql.queries import Made, queries

# Spark's parser is asked by the JVM of this process.
pytestmark = [pytest.mark.spark, pytest.mark.classic]

Parser = Callable[[str], str | None]


@pytest.fixture(scope="module")
def plan_of(spark: SparkSession) -> Parser:
    """The plan of a statement as Spark writes it; None where Spark refuses it."""
    parser: Any = spark._jsparkSession.sessionState().sqlParser()

    def parsed(text: str) -> str | None:
        try:
            return str(parser.parsePlan(text).toString())
        except (PySparkException, Py4JError):
            return None

    return parsed


def _with_views(text: str) -> tuple[str, int]:
    """The statement with a view for each of its tables, and how many these are."""
    found = [each for each in relations_of(text, tokens_of(text) or []) if each.arguments is None]
    return apply_edits(text, [change for each in found for change in as_view(each, "view_of_it")]), len(found)


@settings(max_examples=examples(200))
@given(query=queries(2))
def test_queries_made_by_rules_are_understood_with_views(plan_of: Parser, query: Made) -> None:
    if plan_of(query.text) is not None:
        assert plan_of(_with_views(query.text)[0]) is not None


def test_queries_of_the_corpus_are_understood_with_views(plan_of: Parser) -> None:
    compared = 0
    for text in standing_alone():
        plan = plan_of(text)
        if plan is None or "UnresolvedRelation" not in plan or text.lstrip()[:6].upper() not in ("SELECT", "WITH A"):
            continue
        changed, tables = _with_views(text)
        if tables:
            with_views = plan_of(changed)
            assert with_views is not None, changed
            assert with_views.count("UnresolvedRelation [view_of_it]") >= tables, changed
            compared += 1
    assert compared > 200
