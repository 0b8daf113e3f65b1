"""Options of the whole suite, and the one Spark session of a run: classic, or Connect with `--connect`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# What names no zone is of the session's, which is UTC here, never of the machine's: a machine in another zone tells
# them apart. The JVM and the workers inherit it.
os.environ["TZ"] = "Asia/Kathmandu"
time.tzset()

# No test asserts a time by the clock: the first example of a run pays for every import.
settings.register_profile("slackwater", deadline=None)
settings.load_profile("slackwater")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="run the Spark tests in a Connect session")
    parser.addoption("--long", action="store_true", help="run the long tests too")
    parser.addoption("--seed", type=int, help="run one schedule of tests/simulation, again")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what this run is not for: variations without `--long`, what the modes share with `--connect`."""
    is_long, is_connect = config.getoption("--long"), config.getoption("--connect")
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        is_left = (not is_long and item.get_closest_marker("long")) or (
            is_connect and item.get_closest_marker("classic")
        )
        (left_out if is_left else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session in UTC with two shuffle partitions; it ends with the run."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Tests run each plan once: compiling it well costs more than it saves.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = sql.SparkSession.builder
    if request.config.getoption("--connect"):
        builder = builder.remote("local[2]")
    else:
        builder = builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
