"""The servers that the contract suites share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.contract.owners import COMBINATIONS, SHORT_COMBINATIONS, OwnedLake, new_lake
from tests.contract.postgres import PostgresServer, shared_server
from tests.contract.s3_server import s3_server
from tests.stores.servers import PLACES, Place


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    pytest.importorskip("moto", reason='the S3 half of the suite needs a server: pip install "moto[server]"')
    pytest.importorskip("flask", reason='the S3 half of the suite needs a server: pip install "moto[server]"')
    with s3_server() as options:
        yield options


@pytest.fixture(scope="session")
def place_of() -> Iterator[Callable[[str], Place]]:
    """The bucket on a server of PLACES, which starts with the first test that asks for it."""
    with contextlib.ExitStack() as running:
        yield cache(lambda name: running.enter_context(PLACES[name]()))


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    """A real server: every test may stop and start it, and leaves it running."""
    return shared_server()


@pytest.fixture(
    scope="module",
    params=[pytest.param(c, marks=() if c in SHORT_COMBINATIONS else pytest.mark.long) for c in COMBINATIONS],
)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedLake]:
    """A lake whose owner the tests of a module share, each with tables of its own."""
    found = new_lake(tmp_path_factory.mktemp("owner"), request.param)
    yield found
    found.close()


@pytest.fixture
def fresh_lake(lake: OwnedLake, tmp_path: Path) -> Iterator[OwnedLake]:
    """A lake like `lake`, of one test alone."""
    found = lake.another(tmp_path)
    yield found
    found.close()
