"""delta-spark for the whole run, and our Spark with Slackwater enabled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from .delta_spark import DeltaSpark, running
from .install_delta_spark import HOW_TO_INSTALL, find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaSpark]:
    """delta-spark in a process of its own; its tests are skipped, with the command to install it, where it is not."""
    installation = find()
    if installation is None:
        pytest.skip(HOW_TO_INSTALL)
    with running(installation, tmp_path_factory.mktemp("delta-spark")) as engine:
        yield engine


@pytest.fixture(scope="session")
def ours(spark: SparkSession) -> SparkSession:
    """Our session: `format("delta")` is Slackwater's."""
    import slackwater

    slackwater.enable(spark)
    return spark
