"""The lake that simulated worlds begin with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.world import Template

_MEMORY = Path("/dev/shm")  # noqa: S108  (a directory of our own is made in it)


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    """In memory where there is such a place: nothing in it must outlive the power."""
    with tempfile.TemporaryDirectory(prefix="slackwater-", dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        made = Template(Path(directory))
        yield made
        made.close()
