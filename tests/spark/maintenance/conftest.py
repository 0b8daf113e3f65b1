"""Tables of small files, rewritten by each of the two ways in which rows can go."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture(
    params=["auto", "spark", pytest.param("arrow", marks=pytest.mark.long)], ids=["by python", "by spark", "by arrow"]
)
def way(request: pytest.FixtureRequest, conf: Callable[[str, str], None]) -> str:
    """How rows get into other files: executors do it in Python, Spark does, or no row goes by Spark at all."""
    conf("spark.slackwater.rows", request.param)
    found: str = request.param
    return found
