"""Migrations of new databases: Alembic carries out the first one of a process, the others repeat its statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

Statements = list[tuple[str, Any]]
_upgrade = command.upgrade


@contextmanager
def repeated_migrations() -> Iterator[dict[str, Statements]]:
    """New databases get by the statements of the first one of their kind what Alembic gave that; yields those by kind.

    What has been migrated before, however far, is Alembic's.
    """
    known = dict[str, Statements]()

    def repeated(config: Config, revision: str) -> None:
        connection = config.attributes["connection"]
        kind = connection.dialect.name
        if sa.inspect(connection).has_table("alembic_version"):
            _upgrade(config, revision)
        elif kind in known:
            for statement, parameters in known[kind]:
                connection.exec_driver_sql(statement, parameters)
        else:
            known[kind] = _changes(connection, lambda: _upgrade(config, revision))

    with patch.object(command, "upgrade", repeated):
        yield known


def _changes(connection: sa.Connection, work: Callable[[], None]) -> Statements:
    """The statements by which `work` changes the database."""
    found: Statements = []

    def note(_: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        if not statement.lstrip().startswith(("SELECT", "PRAGMA")):
            found.append((statement, parameters))

    sa.event.listen(connection, "before_cursor_execute", note)
    try:
        work()
    finally:
        sa.event.remove(connection, "before_cursor_execute", note)
    return found
