"""The lakes that the fault tests of commit owners share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slackwater.owner.state.notifications import ChangeNotifier
from tests.contract.owners import DATABASES
from tests.contract.postgres import shared_server
from tests.faults.shared_lake import Place


@pytest.fixture(scope="module", params=DATABASES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An empty lake, whose owner's state is in a SQLite file or in a real PostgreSQL server."""
    root = tmp_path_factory.mktemp("lake")
    if request.param == "sqlite":
        return Place(root, f"sqlite:///{root}/owner.db")
    return Place(root, shared_server().new_database())


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How often, and how long, commits of this process waited for others."""
    found: list[float] = []
    wait = ChangeNotifier.wait

    def counted(changes: ChangeNotifier, seconds: float, until: Callable[[], bool] | None = None) -> None:
        found.append(seconds)
        wait(changes, seconds, until)

    monkeypatch.setattr(ChangeNotifier, "wait", counted)
    return found
