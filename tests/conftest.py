"""Options of the whole suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="run the Spark tests in a Connect session")
    parser.addoption("--long", action="store_true", help="run the long tests too")
