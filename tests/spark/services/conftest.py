"""Tables of small files, rewritten by each of the two ways in which rows can go."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture(params=["auto", "spark"], ids=["by python", "by spark"])
def way(request: pytest.FixtureRequest, conf: Callable[[str, str], None]) -> str:
    """How rows get into other files: executors do it in Python, or Spark does."""
    conf("spark.slackwater.rows", request.param)
    found: str = request.param
    return found
