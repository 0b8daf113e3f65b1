"""What most Spark tests start from: a session with Slackwater enabled, the path of a table, settings that go again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def enabled(spark: SparkSession) -> None:
    """The session answers `format("delta")`; a module asks for it with `usefixtures`."""
    import slackwater

    slackwater.enable(spark)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the table of a test shall be; nothing is there yet."""
    return str(tmp_path / "t")


@pytest.fixture(params=["false", "true"], ids=["rewritten", "vectors"])
def vectors(request: pytest.FixtureRequest) -> str:
    """The value of `delta.enableDeletionVectors`: changed files are written anew, or rows of them are marked."""
    value: str = request.param
    return value


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets settings of the session, which has after the test again what it had."""
    before: dict[str, str | None] = {}

    def setting(key: str, value: str) -> None:
        before.setdefault(key, spark.conf.get(key, None))
        spark.conf.set(key, value)

    yield setting
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)
