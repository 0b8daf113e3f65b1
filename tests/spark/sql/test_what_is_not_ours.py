"""SQL without a Delta table gives in an enabled session what it gives in one that opts out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.spark.sql.calls import CALLS
from tests.spark.sql.corpus import examples, functions, sequences, setup, standing_alone
from tests.spark.sql.outcomes import outcome

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

Outcomes = list[tuple[object, tuple[Any, ...]]]
Chosen = Callable[[list[Any], int], list[Any]]


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> SparkSession:
    """A session of the same process that Slackwater leaves alone."""
    session = spark.newSession()
    session.conf.set("spark.slackwater.enabled", "false")
    return _prepared(session)


@pytest.fixture(scope="module")
def ours(spark: SparkSession) -> SparkSession:
    """A session that is enabled, and otherwise like `plain`."""
    return _prepared(slackwater.enable(spark.newSession()))


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> Chosen:
    """Chooses one of so many; in long runs all, through Connect, where each takes five times as long, fewer."""
    is_long, by = request.config.getoption("--long"), 5 if request.config.getoption("--connect") else 1
    return lambda everything, one_in: everything[:: by * (1 if is_long else one_in)]


@pytest.fixture
def is_run(request: pytest.FixtureRequest) -> bool:
    """Whether queries are run: of classic sessions their plans are compared, which takes a third of the time."""
    return bool(request.config.getoption("--connect"))


def _prepared(session: SparkSession) -> SparkSession:
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    for statement in setup:
        session.sql(statement)
    return session


def _given(session: SparkSession, statements: Sequence[str], is_run: bool) -> Outcomes:
    def one(statement: str) -> tuple[Any, ...]:
        return outcome(lambda: session.sql(statement), "ORDER BY" in statement, is_run)

    return [(statement, one(statement)) for statement in statements]


def _given_in_databases(session: SparkSession, blocks: Sequence[list[str]], room: Path) -> Outcomes:
    """What each sequence gives in a database of its own, which is the current one, and in `room`."""
    found = []
    for number, statements in enumerate(blocks):
        here = room / str(number)
        session.sql(f"CREATE DATABASE corpus LOCATION '{here}'")
        session.sql("USE corpus")
        found += _given(session, [statement.replace("$room", str(here)) for statement in statements], is_run=True)
        session.sql("USE default")
        session.sql("DROP DATABASE corpus CASCADE")
        shutil.rmtree(here, ignore_errors=True)
    return found


def _assert_equal(found: Outcomes, expected: Outcomes) -> None:
    for (statement, given), (_, without) in zip(found, expected, strict=True):
        assert given == without, statement


def test_statements_that_stand_alone(plain: SparkSession, ours: SparkSession, chosen: Chosen, is_run: bool) -> None:
    statements = chosen(standing_alone(), 11)
    _assert_equal(_given(ours, statements, is_run), _given(plain, statements, is_run))


def test_examples_of_functions(plain: SparkSession, ours: SparkSession, chosen: Chosen, is_run: bool) -> None:
    statements = examples(plain, chosen(functions(plain), 40))
    _assert_equal(_given(ours, statements, is_run), _given(plain, statements, is_run))


def test_statements_that_follow_each_other(
    plain: SparkSession, ours: SparkSession, chosen: Chosen, tmp_path: Path
) -> None:
    blocks = chosen(sequences(), 12)
    _assert_equal(_given_in_databases(ours, blocks, tmp_path), _given_in_databases(plain, blocks, tmp_path))


def test_calls_with_arguments(plain: SparkSession, ours: SparkSession, chosen: Chosen, is_run: bool) -> None:
    names = chosen(list(CALLS), 4)

    def given(session: SparkSession) -> Outcomes:
        return [(name, outcome(partial(CALLS[name], session), True, is_run)) for name in names]

    _assert_equal(given(ours), given(plain))


def test_the_corpus_is_large(plain: SparkSession) -> None:
    without_functions = len(standing_alone()) + sum(map(len, sequences())) + len(CALLS)
    assert without_functions > 1_300
    # Each is described, and has an example.
    assert without_functions + 2 * len(functions(plain)) > 2_000
