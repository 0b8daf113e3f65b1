"""Which Python the workers of a Spark on this machine are: another one than this process's is asked what it has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater.spark.session import row_way
from slackwater.spark.session.modes import workers_have_this_python
from slackwater.spark.session.row_way import has_python_workers
from slackwater.storage import open_store

pytestmark = [pytest.mark.spark, pytest.mark.classic]


@pytest.fixture
def other_python(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One that has no packages, as that of a shell in which no environment is activated."""
    bare = tmp_path / "bin" / "python"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    spark.__dict__.pop(row_way._WORKERS, None)
    return str(bare)


def test_the_same_python_has_what_this_process_has(spark: SparkSession) -> None:
    assert workers_have_this_python(spark)


@pytest.mark.usefixtures("other_python")
def test_another_python_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    assert not workers_have_this_python(spark)
    assert not has_python_workers(spark, open_store(str(tmp_path)))


def test_a_python_that_is_not_there_is_no_error_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "no-such-python")
    assert not workers_have_this_python(spark)
